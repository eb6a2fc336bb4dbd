# SPDX-License-Identifier: Apache-2.0
import pytest

from fedqa.answering.saying import heading, said, sentence
from fedqa.databases.records import Cell, Table


def table(*rows: tuple[Cell, ...], columns: tuple[str, ...] = ("name",), truncated: bool = False) -> Table:
    return Table(columns, rows, truncated, seconds=0.0)


@pytest.mark.parametrize(
    ("question", "found", "expected"),
    [
        ("How many wards?", table((42,)), "The answer is 42."),
        ("Which ward?", table(("Rowan",)), "The answer is Rowan."),
        ("Which wards?", table(), "No rows: nothing in the database fits."),
        ("What is the highest cost?", table((None,)), "The database holds no value for that."),
        ("Which wards?", table(("Alder",), ("Beech",), ("Cedar",)), "3 rows: Alder, Beech and Cedar."),
        (
            "How many on each floor?",
            table((1, 48), (2, 60), columns=("floor", "COUNT(*)")),
            "2 rows: 1 (48) and 2 (60).",
        ),
        ("Who?", table(("Rowan", 48), columns=("name", "unit_cost")), "One row: name Rowan and unit cost 48."),
        (
            "Which?",
            table(("Rowan", 48, None), ("Beech", 9, 2), columns=("name", "SUM(beds)", "floor")),
            "2 rows of name, sum of beds and floor; the first is Rowan, 48, nothing.",
        ),
        ("Which?", table(("a",), ("b",), truncated=True), "More than 2 rows: a, b and others."),
        ("Are there any wards?", table((3,)), "Yes: 3."),
        ("Is there a ward?", table((0,)), "No: 0."),
        ("Does it have one?", table((True,)), "Yes."),
        ("Is it Rowan?", table(("Beech",)), "The answer is Beech."),  # a text is neither yes nor no
        ("Which one is it?", table((0,)), "The answer is 0."),
    ],
)
def test_the_sentence_follows_the_shape_of_the_result(question: str, found: Table, expected: str) -> None:
    assert sentence(question, found) == expected


def test_a_long_list_is_cut_and_says_how_much_is_left() -> None:
    found = table(*((f"w{i}",) for i in range(20)))
    assert sentence("Which wards?", found) == "20 rows: w0, w1, w2, w3, w4, w5, w6 and 13 others."


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1234567, "1234567"),  # may be an id
        (8.5, "8.5"),
        (1234.5678, "1234.57"),
        (0.001234, "0.00123"),
        (0.0, "0"),
        (None, "nothing"),
        (False, "no"),
        ("a\x1b[31mb\nc", "a [31mb c"),  # nothing that a terminal would obey
        ("x" * 100, "x" * 79 + "…"),
    ],
)
def test_cells_are_said_for_people(value: Cell, expected: str) -> None:
    assert said(value) == expected


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("COUNT(*)", "number"),
        ("COUNT( DISTINCT wards.floor )", "number of different floor"),
        ("avg(unit_cost)", "average unit cost"),
        ("MAX(beds)", "highest beds"),
        ("full_name", "full name"),
        ("a.b + c", "b + c"),
        ("ROUND(x, 2)", "round(x, 2)"),
    ],
)
def test_headings_are_plain_words(column: str, expected: str) -> None:
    assert heading(column) == expected
