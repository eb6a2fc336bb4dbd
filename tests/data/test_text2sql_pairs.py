# SPDX-License-Identifier: Apache-2.0
"""The reader of questions with SQL."""

import json
from pathlib import Path

import pytest

from fedqa.data import text2sql_pairs
from fedqa.data.records import Collection, Example

GOOD = {"question": "How many wards?", "sql": "SELECT COUNT(*) FROM wards"}


def read(folder: Path, *rows: object) -> Collection:
    path = folder / "pairs.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return text2sql_pairs.read(path)


def test_a_line_becomes_an_example_with_sql_and_no_document(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        GOOD,
        GOOD | {"id": "w", "split": "test", "key": "wards", "sql": " with a as (select 1) select * from a"},
    )
    assert found.documents == ()
    assert found.examples == (
        Example("pairs-1", "How many wards?", sql="SELECT COUNT(*) FROM wards"),
        Example("w", "How many wards?", sql="with a as (select 1) select * from a", split="test", key="wards"),
    )
    assert all(example.answerable for example in found.examples)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("DROP TABLE wards", "the SQL is 'DROP TABLE wards'"),
        ("", "the SQL is ''"),
        ("selection", "the SQL is 'selection'"),
        ("SELECT" + " 1" * 10_000, "the SQL is 'SELECT 1 1 1"),
        (7, "the field 'sql' is 7, not a text"),
    ],
)
def test_what_is_no_query_is_left_out(tmp_path: Path, sql: object, reason: str) -> None:
    (left_out,) = read(tmp_path, GOOD, GOOD | {"sql": sql}).quarantine
    assert left_out.place == "pairs.jsonl:2"
    assert left_out.reason.startswith(reason)
