# SPDX-License-Identifier: Apache-2.0
"""A small schema, a vocabulary of word pieces, and steps as words, for the tests of the skill `parse`."""

from collections.abc import Sequence

from fedqa.data.schema_text import read_schema
from fedqa.models.search import ITEM, PIECE, SPAN, SYMBOL, Step
from fedqa.skills.sql.notation import Notation
from fedqa.skills.sql.question import Question
from fedqa.skills.sql.schema import SchemaItems
from fedqa.skills.sql.spelling import Spelling
from fedqa.skills.sql.symbols import SYMBOLS

TEXT = " | city : city_name , population , state_name | state : state_name , area | city.state_name = state.state_name"
ITEMS = SchemaItems(read_schema(TEXT))

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789-_.'"
PIECES = ["[UNK]", *_LETTERS, *(f"##{letter}" for letter in _LETTERS), "tex", "##as", "north", "dakota"]
SPELLING = Spelling({piece: i for i, piece in enumerate(PIECES)})


def notation(items: SchemaItems = ITEMS) -> Notation:
    return Notation(items, SPELLING)


def words(steps: Sequence[Step], question: str, items: SchemaItems = ITEMS) -> str:
    """Steps as a line: symbols as they are, `table.column`, «copied words», `pieces."""
    return " ".join(_word(step, Question(question), items) for step in steps)


def _word(step: Step, question: Question, items: SchemaItems) -> str:
    if step.kind == SYMBOL:
        return SYMBOLS[step.index]
    if step.kind == ITEM:
        return f"{items[step.index].table}.{items[step.index].column}".rstrip(".")
    return f"«{question.said(step.index)}»" if step.kind == SPAN else f"`{PIECES[step.index]}"


def item(table: str, column: str = "") -> Step:
    found = ITEMS.find(table, column)
    assert found is not None
    return Step(ITEM, found)


def piece(text: str) -> Step:
    return Step(PIECE, PIECES.index(text))
