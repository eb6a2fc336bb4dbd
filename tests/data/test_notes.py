# SPDX-License-Identifier: Apache-2.0
"""The reader of Markdown notes."""

from pathlib import Path

import pytest

from fedqa.data import notes
from fedqa.data.records import Collection, Document, Example, Span
from fedqa.errors import DataError

NOTE = """# Before your scan

Nothing to eat for six hours.

Water is fine
until two hours before.

Q: How long may I not eat?
A: six hours

Q: Is there parking?
A: none
"""


def read(folder: Path, text: str, name: str = "Patient leaflets.md") -> Collection:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return notes.read(path)


def test_a_note_becomes_a_document_and_its_questions_examples(tmp_path: Path) -> None:
    found = read(tmp_path, NOTE)
    id = "patient-leaflets/before-your-scan"
    text = "Nothing to eat for six hours.\n\nWater is fine until two hours before."
    key = "Patient leaflets"
    assert found.documents == (Document(id, text, "Before your scan"),)
    assert found.examples == (
        Example(f"{id}/1", "How long may I not eat?", (Span(id, 19, 28),), ("six hours",), key=key, about=id),
        Example(f"{id}/2", "Is there parking?", key=key, about=id),
    )
    assert found.quarantine == ()


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_do_not_matter(tmp_path: Path, end: str) -> None:
    assert read(tmp_path, NOTE.replace("\n", end)) == read(tmp_path, NOTE)
    assert read(tmp_path, "\ufeff" + NOTE) == read(tmp_path, NOTE)


def test_a_question_may_have_several_answers(tmp_path: Path) -> None:
    found = read(tmp_path, "# T\n\nSix hours, that is a morning.\n\nQ: How long?\nA: Six hours\nA: a morning\n")
    assert found.examples[0].answers == ("Six hours", "a morning")
    assert [(span.start, span.end) for span in found.examples[0].evidence] == [(0, 9), (19, 28)]


def test_text_may_follow_a_title_directly_and_long_questions_may_be_wrapped(tmp_path: Path) -> None:
    found = read(tmp_path, "# T\nSix hours.\nQ: How\n long?\nA: Six\nhours\n")
    assert found.documents[0].text == "Six hours."
    assert (found.examples[0].question, found.examples[0].answers) == ("How long?", ("Six hours",))


@pytest.mark.parametrize(
    ("lines", "place", "reason"),
    [
        ("Q: How long?\nA: seven", 11, "the answer 'seven' is not in the text"),
        ("Q: What is fine?\nA: hours", 11, "the answer 'hours' stands in 2 places"),
        ("Q: How long?", 11, "the question has no answer"),
        ("Q: How long?\nA: none\nA: six hours", 11, "the question has the answers ['none', 'six hours']"),
        ("Q: How long?\nA:", 11, "an answer is empty"),
        ("Q:\nA: none", 11, "the question is empty"),
        ("# Before your SCAN\n\nOther text.", 11, "the document id 'x/before-your-scan' is already taken at x.md:3"),
        ("# Empty\n\nQ: Why?\nA: none", 11, "the text is empty"),
        ("# !\n\nText.", 11, "the title '!' has no letters"),
        ("# Next\n\nA: six\n\nText.", 13, "the answer 'six' has no question"),
    ],
)
def test_what_is_wrong_is_left_out_with_its_line(tmp_path: Path, lines: str, place: int, reason: str) -> None:
    text = (
        "Stray words.\n\n# Before your scan\n\nNothing for six hours, two hours at most.\n\nQ: Parking?\nA: none\n\n\n"
    )
    found = read(tmp_path, text + lines, "x.md")
    stray, left_out = found.quarantine
    assert stray.reason == "'Stray words.' stands before the first title"
    assert (left_out.place, left_out.reason) == (f"x.md:{place}", reason)
    assert found.examples[0].question == "Parking?"


def test_a_folder_is_read_in_order(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.md").write_text(NOTE)
    assert [document.id[0] for document in notes.read(tmp_path).documents] == ["a", "b"]


def test_a_file_without_titles_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"first at x.md:1: 'Only text.' stands before the first title"):
        read(tmp_path, "Only text.", "x.md")
