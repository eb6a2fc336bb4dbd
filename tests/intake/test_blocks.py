# SPDX-License-Identifier: Apache-2.0
"""How the parts of a document become passages."""

from fedqa.data.passages import passages
from fedqa.data.records import Document
from fedqa.intake.blocks import LONGEST, Block, compose, item, row


def paragraph(text: str) -> Block:
    return Block("paragraph", text)


def heading(text: str) -> Block:
    return Block("heading", text)


def test_each_paragraph_is_one_passage() -> None:
    text = compose([paragraph("One."), paragraph("Two.\nStill two."), paragraph("  "), paragraph("Three.")])
    assert text == "One.\n\nTwo.\nStill two.\n\nThree."
    assert len(passages(Document("d", text))) == 3


def test_headings_stand_above_the_paragraph_that_follows_in_the_same_passage() -> None:
    blocks = [
        heading("Leaflet"),
        heading("Fasting"),
        paragraph("Six hours."),
        paragraph("Water is fine."),
        heading("End"),
    ]
    assert compose(blocks) == "Leaflet\nFasting\nSix hours.\n\nWater is fine.\n\nEnd"


def test_a_list_is_one_passage_with_the_sentence_that_leads_to_it() -> None:
    blocks = [
        paragraph("Bring:"),
        item("glasses", 1),
        item("this letter", 1),
        item("its copy", 1, depth=1),
        paragraph("Bye."),
    ]
    assert compose(blocks) == "Bring:\n- glasses\n- this letter\n  - its copy\n\nBye."


def test_two_lists_or_tables_in_a_row_are_two_passages() -> None:
    assert compose([item("a", 1), item("b", 2)]) == "- a\n\n- b"


def test_a_table_is_one_passage_and_a_bar_inside_a_cell_becomes_a_slash() -> None:
    assert (
        compose([row(["Food", "Hours"], 1, header=True), row(["solid|soft", "6"], 1)]) == "Food | Hours\nsolid/soft | 6"
    )


def test_a_long_table_is_cut_between_rows_and_repeats_its_header() -> None:
    rows = [row([f"drug {k:03}", "x" * 85], 1) for k in range(30)]  # 96 characters each
    parts = compose([row(["Drug", "Remark"], 1, header=True), *rows]).split("\n\n")
    assert all(part.startswith("Drug | Remark\ndrug ") and len(part) <= LONGEST for part in parts)
    assert [part.count("\n") for part in parts] == [12, 12, 6]  # 12 x 97 + 14 = 1178, one more would pass 1200


def test_a_long_list_is_cut_between_items() -> None:
    parts = compose([item("y" * 398, 1) for _ in range(4)]).split("\n\n")  # 400 characters each
    assert [part.count("-") for part in parts] == [2, 2]


def test_a_paragraph_that_is_too_long_is_cut_between_sentences_into_parts_of_about_equal_length() -> None:
    sentence = "Nothing to eat for six hours before the examination. "  # 53 characters
    parts = compose([paragraph((sentence * 40).strip())]).split("\n\n")
    assert all(part.startswith("Nothing") and part.endswith("examination.") for part in parts)
    assert [part.count("Nothing") for part in parts] == [20, 20]


def test_a_sentence_longer_than_a_passage_stays_whole_and_one_without_end_is_cut_between_words() -> None:
    sentence = "word " * 300 + "end."  # 1,504 characters
    assert compose([paragraph(f"{sentence} Next.")]) == f"{sentence}\n\nNext."
    assert [len(part) for part in compose([paragraph(("word " * 600).strip())]).split("\n\n")] == [1204, 1204, 589]
    assert compose([paragraph("a" * 3 * LONGEST)]) == "a" * 3 * LONGEST
