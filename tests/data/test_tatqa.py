# SPDX-License-Identifier: Apache-2.0
"""The TAT-QA reader."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedqa.data import tatqa
from fedqa.data.records import Collection
from fedqa.errors import DataError

PARAGRAPHS = [{"order": 2, "text": "Costs\n\nrose."}, {"order": 1, "text": "Sales fell. "}, {"order": 3, "text": " "}]


def question(uid: str, **more: object) -> dict[str, Any]:
    asked = {"uid": uid, "question": "What rose?", "answer": ["Costs"], "answer_from": "text", "rel_paragraphs": ["2"]}
    return asked | more


def read(folder: Path, *questions: object) -> Collection:
    path = folder / "tatqa_dataset_dev.json"
    path.write_text(json.dumps([{"table": {"uid": "r1"}, "paragraphs": PARAGRAPHS, "questions": list(questions)}]))
    return tatqa.read(path)


def test_paragraphs_are_put_in_order_and_the_named_ones_are_the_evidence(tmp_path: Path) -> None:
    found = read(tmp_path, question("a"), question("b", rel_paragraphs=["1", "2"], answer=20.5))
    (document,) = found.documents
    assert (document.id, document.text) == ("r1", "Sales fell.\n\nCosts rose.")
    a, b = found.examples
    assert [document.text[span.start : span.end] for span in b.evidence] == ["Sales fell.", "Costs rose."]
    assert (a.evidence, a.answers, a.split) == (b.evidence[1:], ("Costs",), "dev")
    assert b.answers == ("20.5",)


def test_questions_on_tables_are_passed_over(tmp_path: Path) -> None:
    found = read(tmp_path, question("a"), question("b", answer_from="table"), question("c", answer_from="table-text"))
    assert [example.id for example in found.examples] == ["a"]
    assert found.quarantine == ()


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (question("b", rel_paragraphs=["9"]), "rel_paragraphs is ['9'], the report has paragraphs ['1', '2']"),
        (question("b", rel_paragraphs=[]), "rel_paragraphs is [], the report has paragraphs ['1', '2']"),
        (question("b", answer=None), "the answer is None"),
        (question("b", answer=[""]), "an answer is empty"),
        (question("b", answer=[]), "the answer is []"),
        (question("a"), "the example id 'a' is already taken at tatqa_dataset_dev.json: [0].questions[0]"),
    ],
)
def test_one_bad_question_is_left_out_alone(tmp_path: Path, bad: object, reason: str) -> None:
    found = read(tmp_path, question("a"), bad)
    (left_out,) = found.quarantine
    assert (left_out.place, left_out.reason) == ("tatqa_dataset_dev.json: [0].questions[1]", reason)


def test_another_structure_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"data": 1}')
    with pytest.raises(DataError, match="not in TAT-QA's format: a list of reports was expected"):
        tatqa.read(tmp_path)


@pytest.mark.parametrize(("name", "reports", "questions"), [("dev", 278, 389), ("test_gold", 277, 381)])
def test_tatqa_is_read_whole(public_data: Callable[[str], Path], name: str, reports: int, questions: int) -> None:
    found = tatqa.read(public_data(f"tatqa/tatqa_dataset_{name}.json"))
    assert (len(found.documents), len(found.examples), found.quarantine) == (reports, questions, ())
