# SPDX-License-Identifier: Apache-2.0
"""The InsuranceQA reader."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fedqa.data import insuranceqa
from fedqa.errors import DataError


def test_rows_are_put_together_by_question_over_both_files(tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_text("question,answer,label\nwhat be cover,fire,1\nwhat be cover,rust,0\n")
    (tmp_path / "validation.csv").write_text("question,answer,label\nwhat be cover,flood,1\n")
    found = insuranceqa.read(tmp_path)
    (example,) = found.examples
    assert (example.id, example.answers, example.split) == ("test-2", ("fire", "flood"), None)
    assert [document.text for document in found.documents] == ["fire", "rust", "flood"]


def test_a_label_that_is_no_label_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_text("question,answer,label\nwhat be cover,fire,1\nwho pay,you,2\n")
    (left_out,) = insuranceqa.read(tmp_path / "test.csv").quarantine
    assert (left_out.place, left_out.reason) == ("test.csv:3", "the label is '2'")


def test_the_columns_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_text("question,text\nwhat be cover,fire\n")
    with pytest.raises(DataError, match="no column 'answer'"):
        insuranceqa.read(tmp_path)


@pytest.mark.parametrize(
    ("name", "questions", "answers", "right_rows", "answered"),
    # README counts: questions of each file; the others were counted from the files with a CSV reader.
    [("validation", 4_061, 4_688, 2_520, 2_371), ("test", 4_037, 4_679, 2_521, 2_399)],
)
def test_insuranceqa_is_read_whole(
    public_data: Callable[[str], Path], name: str, questions: int, answers: int, right_rows: int, answered: int
) -> None:
    found = insuranceqa.read(public_data(f"insuranceqa/{name}.csv"))
    (left_out,) = found.quarantine
    assert left_out.reason == f"questions with wrong answers only: {questions - answered}"
    assert (len(found.documents), len(found.examples)) == (answers, answered)
    assert sum(len(example.evidence) for example in found.examples) == right_rows
