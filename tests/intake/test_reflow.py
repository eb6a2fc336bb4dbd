# SPDX-License-Identifier: Apache-2.0
"""Lines on paper become paragraphs. In points, the column here is 300 wide and letters are 10 high."""

from fedqa.intake.blocks import Block
from fedqa.intake.reflow import Line, reflow


def full(text: str, **place: bool) -> Line:
    return Line(text, left=0, right=300, em=10, **place)


def short(text: str, right: float, *, left: float = 0, **place: bool) -> Line:
    return Line(text, left=left, right=right, em=10, **place)


def texts(*lines: Line) -> list[str]:
    return [block.text for block in reflow([*lines], width=300)]


def test_a_paragraph_goes_on_after_a_full_line_and_ends_where_the_next_word_would_have_fitted() -> None:
    first, last, other = (
        "A line of text that fills the column from end to end",
        "ends here.",
        "Another one, as long as it",
    )
    # "Another" has 7 of the 26 characters that fill 300 points: 81 points, which still fit after 100 but not after 220.
    assert texts(full(first), short(last, 100), full(other)) == [f"{first} {last}", other]
    assert texts(full(first), short(last, 220), full(other)) == [f"{first} {last} {other}"]


def test_a_short_line_that_ends_no_sentence_stands_above_the_next() -> None:
    assert texts(short("Larkmoor Hospital", 150), short("12 Mill Lane", 100)) == ["Larkmoor Hospital\n12 Mill Lane"]


def test_a_sentence_goes_on_beside_a_picture() -> None:
    assert texts(short("lines beside a", 100), short("picture are short", 120)) == ["lines beside a picture are short"]


def test_a_paragraph_goes_on_over_the_page_if_its_sentence_does() -> None:
    assert texts(full("the sentence goes"), full("on here.", jump=True)) == ["the sentence goes on here."]
    assert texts(full("It ends here."), full("Another page.", jump=True)) == ["It ends here.", "Another page."]
    assert texts(full("a divided exami-"), full("nation", jump=True)) == ["a divided examination"]


def test_room_above_begins_a_paragraph() -> None:
    assert texts(full("Full line."), full("After a gap.", gap=True)) == ["Full line.", "After a gap."]


def test_an_item_goes_on_under_its_text_and_bullets_become_dashes() -> None:
    blocks = list(
        reflow([full("• an item that is long"), short("and goes on", 200, left=12), full("2) the second")], 300)
    )
    assert blocks == [Block("item", "- an item that is long and goes on"), Block("item", "2) the second")]


def test_two_lines_of_a_heading_are_one_and_two_headings_are_two() -> None:
    blocks = list(
        reflow([full("A long", heading=True), full("heading", heading=True), full("Next", heading=True, gap=True)])
    )
    assert blocks == [Block("heading", "A long heading"), Block("heading", "Next")]


def test_scripts_without_spaces_are_joined_without_one() -> None:
    assert texts(full("日本語の文"), full("が続く。")) == ["日本語の文が続く。"]


def test_lines_of_signs_are_dropped() -> None:
    assert texts(full("Text."), full("-----", gap=True), full("* * *"), full("More.", gap=True)) == ["Text.", "More."]


def test_whether_a_hyphen_belongs_to_the_word_is_looked_up_in_the_document() -> None:
    known = short("Long-term care, term by term, is long. Examination.", 290)
    assert texts(known, full("for long-", gap=True), full("term use")) == [known.text, "for long-term use"]
    assert texts(known, full("the exami-", gap=True), full("nation room")) == [known.text, "the examination room"]
    assert texts(known, full("the labora-", gap=True), full("tory room")) == [known.text, "the laboratory room"]
