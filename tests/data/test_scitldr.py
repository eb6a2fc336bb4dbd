# SPDX-License-Identifier: Apache-2.0
"""The reader of SciTLDR, on toys and on the public set."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from fedqa.data.formats import read_format
from fedqa.data.records import Span
from fedqa.data.scitldr import read
from fedqa.data.splits import check_disjoint
from fedqa.errors import DataError


def paper(id: str, title: str = "", **fields: object) -> str:
    whole = {
        "paper_id": id,
        "title": title or f"On {id}",
        "source": [f"We do {id}.", " It works.\n"],
        "target": ["Done."],
    }
    return json.dumps(whole | fields) + "\n"


def test_an_abstract_is_a_document_and_its_summaries_are_the_answers(tmp_path: Path) -> None:
    (tmp_path / "dev.jsonl").write_text(paper("p", target=["Short one.", "Other\n one."]), encoding="utf-8")
    found = read(tmp_path)
    (document,), (example,) = found.documents, found.examples
    assert (document.id, document.text, document.title) == ("p", "We do p. It works.", "On p")
    assert (example.question, example.answers) == ("On p", ("Short one.", "Other one."))
    assert (example.about, example.split, example.evidence) == ("p", "dev", (Span("p", 0, 18),))


def test_a_paper_in_two_splits_stays_in_the_one_that_is_tested(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(paper("a", "Same") + paper("b") + paper("c", "Twice"), encoding="utf-8")
    (tmp_path / "dev.jsonl").write_text(paper("d", "Twice!"), encoding="utf-8")
    (tmp_path / "test.jsonl").write_text(paper("e", "same.") + paper("f", "SAME"), encoding="utf-8")
    found = read(tmp_path)
    check_disjoint(found)
    assert [(one.id, one.split) for one in found.examples] == [
        ("e", "test"),
        ("f", "test"),
        ("d", "dev"),
        ("b", "train"),
    ]
    assert [one.id for one in found.documents] == ["e", "f", "d", "b"]
    assert [(one.place, one.reason) for one in found.quarantine] == [
        ("train.jsonl:1", "the paper 'Same' is in test already"),
        ("train.jsonl:3", "the paper 'Twice' is in dev already"),
    ]


def test_papers_without_text_are_left_out_with_a_reason(tmp_path: Path) -> None:
    lines = paper("a", source=[]) + paper("b", target=["", 3]) + paper("c", target="x") + "{}\n" + paper("d")
    (tmp_path / "all.jsonl").write_text(lines, encoding="utf-8")
    found = read(tmp_path / "all.jsonl")
    assert [(one.id, one.split) for one in found.examples] == [("d", None)]
    assert [one.reason for one in found.quarantine] == [
        "the field 'source' holds no text",
        "the field 'target' holds no text",
        "the field 'target' is 'x', not a list",
        "the field 'paper_id' is missing",
    ]
    (tmp_path / "none.jsonl").write_text(paper("a", source=[]), encoding="utf-8")
    with pytest.raises(DataError, match="holds no usable question; one record was left out"):
        read(tmp_path / "none.jsonl")


def test_the_public_set_is_read_whole_but_for_papers_in_two_splits(public_data: Callable[[str], Path]) -> None:
    found = read_format("scitldr", public_data("scitldr"), {})
    check_disjoint(found)
    assert Counter(one.split for one in found.examples) == {"train": 1984, "dev": 618, "test": 618}
    assert len(found.quarantine) == 1992 + 619 + 618 - len(found.examples)
    assert all("already" in one.reason for one in found.quarantine)
    assert max(len(one.answers) for one in found.examples) == 4
