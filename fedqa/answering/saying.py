# SPDX-License-Identifier: Apache-2.0
"""What a query found as a sentence: made of the result's shape and the question's first word, by no model."""

import re
from collections.abc import Sequence

from fedqa.databases.records import Cell, Table
from fedqa.evaluation.words import listed, plural, shortened

_MOST_CELL = 80  # characters
_MOST_ROWS = 8  # that are listed
_FEW_COLUMNS = 2  # that a listed row may have
_WHETHER = re.compile(r"\s*(is|are|was|were|does|do|did|has|have|had|can|could|will)\b", re.IGNORECASE)
_CALL = re.compile(r"(\w+)\s*\(\s*(distinct\s+)?(.*?)\s*\)", re.IGNORECASE | re.DOTALL)
_CALLS = {"count": "number", "sum": "sum", "total": "sum", "avg": "average", "min": "lowest", "max": "highest"}
_JOINING = {"number": "of ", "sum": "of ", "average": "", "lowest": "", "highest": ""}


def sentence(question: str, table: Table) -> str:
    """What the table says, for someone who asked the question."""
    if not table.rows:
        return "No rows: nothing in the database fits."
    if len(table.rows) == 1:
        return _one_row(question, table)
    return _rows(table)


def said(value: Cell) -> str:
    """A cell for reading: fractions short, no character that a terminal would obey. A number may be a year or an id,
    so its digits are not grouped."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) >= 0.01 else f"{value:.3g}"
    return shortened(printable(value), _MOST_CELL)


def printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)


def heading(column: str) -> str:
    """The name of a column in plain words: `COUNT(*)` is a number, `unit_cost` the unit cost."""
    call = _CALL.fullmatch(column.strip())
    if call and call[1].lower() in _CALLS:
        what = _CALLS[call[1].lower()]
        if call[3] in ("*", ""):
            return what
        return f"{what} {_JOINING[what]}{'different ' if call[2] else ''}{_named(call[3])}"
    return _named(column)


def _named(column: str) -> str:
    name = re.sub(r"\w+\.(?=\w)", "", column)  # of a table, whose name says little here
    return shortened(printable(name.replace("_", " ")).strip().lower(), _MOST_CELL)


def _one_row(question: str, table: Table) -> str:
    (row,) = table.rows
    if all(value is None for value in row):
        return "The database holds no value for that."
    if len(row) > 1:
        pairs = [f"{heading(name)} {said(value)}" for name, value in zip(table.columns, row, strict=True)]
        return f"One row: {listed(pairs)}."
    (value,) = row
    if _WHETHER.match(question) and isinstance(value, bool | int):
        return (
            f"{'Yes' if value else 'No'}." if isinstance(value, bool) else f"{'Yes' if value else 'No'}: {said(value)}."
        )
    return f"The answer is {said(value)}."


def _rows(table: Table) -> str:
    many = f"More than {plural(len(table.rows), 'row')}" if table.truncated else plural(len(table.rows), "row")
    if len(table.columns) <= _FEW_COLUMNS:
        return f"{many}: {_listed(list(map(_said_row, table.rows)), table.truncated)}."
    names = listed([heading(name) for name in table.columns])
    first = ", ".join(map(said, table.rows[0]))
    return f"{many} of {names}; the first is {first}."


def _said_row(row: Sequence[Cell]) -> str:
    first, *others = map(said, row)
    return f"{first} ({', '.join(others)})" if others else first


def _listed(rows: Sequence[str], truncated: bool) -> str:
    if truncated:
        return ", ".join(rows[:_MOST_ROWS]) + " and others"
    return listed(rows, _MOST_ROWS)
