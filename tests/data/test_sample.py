# SPDX-License-Identifier: Apache-2.0
"""The sample alliance."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fedqa.data.doctor import examine
from fedqa.data.passages import passage_of, passages
from fedqa.data.sample import SAMPLE_SILOS, sample_database, sample_pairs, sample_silo
from fedqa.data.splits import check_disjoint, split
from fedqa.errors import ConfigError

WITH_DATABASE = ("hospital", "bank")


@pytest.mark.parametrize("name", SAMPLE_SILOS)
def test_every_sample_silo_is_read_without_a_record_left_out(name: str) -> None:
    found = sample_silo(name)
    assert found.quarantine == ()
    assert found.examples and found.documents


@pytest.mark.parametrize("name", SAMPLE_SILOS)
def test_the_evidence_for_each_sample_answer_lies_in_one_passage(name: str) -> None:
    found = sample_silo(name)
    cut = {document.id: passages(document) for document in found.documents}
    for example in found.examples:
        for span, answer in zip(example.evidence, example.answers, strict=True):
            (passage,) = passage_of(span, cut[span.document])
            assert answer in passage.text


@pytest.mark.parametrize("name", SAMPLE_SILOS)
def test_sample_questions_have_no_duplicates_and_some_are_unanswerable(name: str) -> None:
    found = split(sample_silo(name), seed=1)
    check_disjoint(found)
    findings = examine(found)
    assert findings.duplicate_questions == findings.duplicate_documents == ()
    assert 0.05 < findings.share_unanswerable < 0.2
    assert all(findings.splits[part] > 0 for part in ("train", "dev", "test"))


@pytest.mark.parametrize("name", WITH_DATABASE)
def test_every_sample_query_runs_and_most_find_something(name: str, tmp_path: Path) -> None:
    pairs = sample_pairs(name)
    with closing(sqlite3.connect(f"file:{sample_database(name, tmp_path)}?mode=ro", uri=True)) as connection:
        found = [bool(connection.execute(example.sql).fetchall()) for example in pairs]
    assert len(pairs) >= 20
    assert sum(found) >= 0.9 * len(pairs)


def test_the_database_is_built_once_and_nothing_else_is_left_behind(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    path = sample_database("hospital", folder)
    before = path.stat().st_mtime_ns
    assert sample_database("hospital", folder) == path
    assert path.stat().st_mtime_ns == before
    assert list(folder.iterdir()) == [path]


def test_unknown_silos_and_those_without_a_database_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown sample silo 'hopsital'; did you mean 'hospital'"):
        sample_silo("hopsital")
    with pytest.raises(ConfigError, match=r"sample silo 'law' has no database \(those with one: hospital, bank\)"):
        sample_database("law", tmp_path)
    with pytest.raises(ConfigError, match="sample silo 'law' has no database"):
        sample_pairs("law")
