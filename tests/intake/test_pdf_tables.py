# SPDX-License-Identifier: Apache-2.0
"""Cells that were written one after the other become rows again."""

from fedqa.intake.pdf_pieces import Cell, Printed
from fedqa.intake.pdf_tables import is_row, whole_rows


def line(y: float, *cells: tuple[float, str]) -> Printed:
    """A line of cells whose letters are 10 high and 5 wide."""
    found = tuple(Cell(left, left + 5 * len(text), text) for left, text in cells)
    text = " ".join(cell.text for cell in found)
    return Printed(1, y, found[0].left, found[-1].right, 10, False, text, found, y)


def rows(*lines: Printed) -> list[list[str]]:
    return [[cell.text for cell in row.cells] for row in whole_rows(lines, leading=1.2)]


def test_a_wide_gap_in_a_line_of_text_does_not_mix_it_with_the_next() -> None:
    lines = [
        line(700, (50, "a line with"), (180, "a gap")),
        line(688, (50, "and the next line")),
        line(676, (50, "one")),
    ]
    assert rows(*lines) == [["a line with", "a gap"], ["and the next line"], ["one"]]


HEADER = line(700, (50, "Drug"), (150, "Dose"), (250, "Remark"))


def test_a_cell_of_two_lines_is_one_cell() -> None:
    found = rows(HEADER, line(680, (50, "Warfarin"), (150, "5 mg"), (250, "stop a week")), line(668, (250, "before")))
    assert found[1] == ["Warfarin", "5 mg", "stop a week before"]


def test_a_cell_that_was_written_after_the_second_line_of_another_is_in_its_row() -> None:
    lines = [line(680, (50, "Aspirin"), (150, "75")), line(668, (150, "mg")), line(680, (250, "go on"))]
    assert rows(HEADER, *lines)[1] == ["Aspirin", "75 mg", "go on"]


def test_a_first_cell_of_two_lines_waits_for_the_others() -> None:
    lines = [line(680, (50, "Acetylsalicylic")), line(668, (50, "acid")), line(680, (150, "75 mg"))]
    assert rows(HEADER, *lines)[1] == ["Acetylsalicylic acid", "75 mg"]


def test_cells_may_be_centred_in_their_row() -> None:
    lines = [line(674, (50, "Aspirin")), line(680, (145, "go on until")), line(668, (145, "you are told"))]
    assert rows(HEADER, *lines)[1] == ["Aspirin", "go on until you are told"]


def test_a_paragraph_under_a_table_and_a_second_column_of_text_stay_what_they_are() -> None:
    under = [line(660, (50, "A paragraph")), line(648, (50, "of two lines"))]
    assert rows(HEADER, *under)[1:] == [["A paragraph"], ["of two lines"]]
    columns = [line(700, (50, "left one")), line(688, (50, "left two")), line(700, (200, "right one"))]
    assert rows(*columns) == [["left one"], ["left two"], ["right one"]]


def test_lines_are_rows_if_their_cells_stand_under_one_another() -> None:
    two = line(0, (50, "food"), (150, "12345"))  # to 70, and from 150 to 175
    assert is_row(two, line(0, (50, "no more room at the left side"), (152, "6")))  # the same left
    assert is_row(two, line(0, (50, "a"), (100, "b"), (160, "678")))  # the same right
    assert is_row(two, line(0, (60, "a"), (120, "in the middle of its column")))  # all have room from 70 to 120
    assert not is_row(two, line(0, (50, "a sentence with"), (140, "one wide gap"), (240, "or two")))
    assert not is_row(two, line(0, (50, "a")))
    assert not is_row(two, None)
