# SPDX-License-Identifier: Apache-2.0
"""From steps to a statement. Whatever a decoder may come up with gives some text."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from fedqa.models.search import PIECE, SPAN, SYMBOL, Step
from fedqa.skills.sql.linking import Linker
from fedqa.skills.sql.numbers import number_said
from fedqa.skills.sql.parts import Column, Derived, Name, Part, Queries, Table, Value, compared, queries_of
from fedqa.skills.sql.question import Question
from fedqa.skills.sql.schema import SchemaItems
from fedqa.skills.sql.spelling import MARKS, Copied, Spelling
from fedqa.skills.sql.symbols import (
    ALIASED,
    AS,
    AUTO_FROM,
    BARE,
    DERIVED,
    EMPTY,
    END,
    FORMS,
    FUNCTION,
    NAME,
    NO_AS,
    OTHER,
    OUT,
    QUALIFIED,
    RAW,
    STYLES,
    SYMBOLS,
)
from fedqa.skills.sql.tokens import is_number, joined, quoted

_HEADS = (OTHER, NAME, FUNCTION, EMPTY)
Word = str | Step  # a symbol by its text, and every other step


def rendered(
    steps: Sequence[Step], question: Question, schema: SchemaItems, spelling: Spelling, *, linker: Linker | None = None
) -> str:
    """The statement that steps say; with a linker, copied values are written as the database writes them."""
    words: list[Word] = [SYMBOLS[step.index] if step.kind == SYMBOL else step for step in steps]
    words = words[: words.index(END)] if END in words else words
    style = next((word for word in words[:1] if isinstance(word, str) and word in STYLES), BARE)
    parts = Assembling(question, schema, spelling)
    if style == RAW:
        return parts.text([word for word in words if _is_literal(word)])
    made = parts.parts(words)
    return Rendering(_mended(made, linker) if linker else made, schema, style).sql()


def _mended(parts: Sequence[Part], linker: Linker) -> list[Part]:
    return [_meant(parts, i, part, linker) if isinstance(part, Value) else part for i, part in enumerate(parts)]


def _meant(parts: Sequence[Part], i: int, value: Value, linker: Linker) -> Value:
    """The value of the compared column, or the number, that a copied one means; itself where that is not certain."""
    if not value.copied:
        return value
    at, number = compared(parts, i), number_said(value.text)
    column = parts[at] if at is not None else None
    meant = linker.spelled(value.text, column.item) if isinstance(column, Column) else None
    if meant is not None:
        return Value(meant, is_text=True)
    return value if number is None else Value(number)


# -- steps to parts ----------------------------------------------------------------------------------------------


class Assembling:
    """Steps put together into parts: a row of spelled or copied ones is one value, a mark belongs to what it marks."""

    def __init__(self, question: Question, schema: SchemaItems, spelling: Spelling) -> None:
        self._question, self._schema, self._spelling = question, schema, spelling

    def parts(self, words: Sequence[Word]) -> list[Part]:
        parts: list[Part] = []
        run: list[Word] = []
        for word in (*words, END):
            if _is_literal(word):
                run.append(word)
                continue
            if run:
                parts.append(self._literal(run))
                run = []
            self._add(parts, word)
        return parts

    def _add(self, parts: list[Part], word: Word) -> None:
        if isinstance(word, Step):
            if word.index < len(self._schema.items):
                parts.append(Column(word.index) if self._schema[word.index].column else Table(word.index))
        elif word in DERIVED:
            parts.append(Derived(word))
        elif word[0] in "@#":
            parts[-1:] = [_marked(part, word) for part in parts[-1:]]
        elif word not in (*STYLES, END):
            parts.append(word)

    def _literal(self, run: Sequence[Word]) -> Name | Value:
        head, text = run[0], self.text(run)
        if head in (NAME, FUNCTION):
            return Name(text.replace(" ", ""), calls=head == FUNCTION)
        copied = len(run) == 1 and isinstance(head, Step) and head.kind == SPAN
        return Value(text, head in (OTHER, EMPTY) or not is_number(text), copied)

    def text(self, run: Sequence[Word]) -> str:
        return self._spelling.text([self._said(word) for word in run if word not in _HEADS])

    def _said(self, word: Word) -> str | int | Copied:
        if isinstance(word, str):
            return word
        return word.index if word.kind == PIECE else Copied(self._question.said(word.index))


def _is_literal(word: Word) -> bool:
    """Whether a step is part of a value or a spelled name."""
    return word.kind in (PIECE, SPAN) if isinstance(word, Step) else word in MARKS or word in _HEADS


def _marked(part: Part, mark: str) -> Part:
    """The part with what a mark says of it; a mark where none belongs says nothing."""
    if mark in FORMS and isinstance(part, Column | Table):
        return replace(part, form=FORMS[mark])
    if mark == OUT and isinstance(part, Column):
        return replace(part, out=part.out + 1)
    if mark[0] == "@" and mark[1:].isdecimal() and isinstance(part, Column | Table):
        return replace(part, ordinal=int(mark[1:]))
    if mark[0] == "#" and isinstance(part, Derived | Table):
        return replace(part, number=int(mark[1:]))
    return part


# -- parts to SQL ------------------------------------------------------------------------------------------------


class _Alias(NamedTuple):
    table: int
    name: str
    at: int  # the part that declares it


class Rendering:
    """Parts as SQL: tables get their aliases, and columns those of their tables."""

    def __init__(self, parts: Sequence[Part], schema: SchemaItems, style: str) -> None:
        self._parts, self._schema, self._style = parts, schema, style
        self._queries: Queries = queries_of(parts)
        self._counts: Counter[int] = Counter()  # of aliases so far, by table
        self._aliases: list[list[_Alias]] = [[] for _ in self._queries.outer]
        for i, place in enumerate(self._queries.places):
            if place.query >= 0:
                self._aliases[place.query] += self._declared(i)

    def sql(self) -> str:
        return joined(self._written(i, part) for i, part in enumerate(self._parts))

    def _declared(self, i: int) -> list[_Alias]:
        part = self._parts[i]
        if part == AUTO_FROM:
            return [self._counted(Table(table), i) for table in self._implied(self._queries.places[i].query)]
        if not isinstance(part, Table) or not self._queries.table_at(self._parts, i):
            return []
        plain = self._schema[part.item].table if self._style != ALIASED or part.form == BARE else ""
        name = self._given(i) or plain
        return [_Alias(part.item, name, i) if name else self._counted(part, i)]

    def _implied(self, query: int) -> list[int]:
        """The tables whose columns a query uses as its own, each as often as it is told apart, by name."""
        most: dict[int, int] = {}
        for part, place in zip(self._parts, self._queries.places, strict=True):
            if place.query == query and isinstance(part, Column | Table) and not getattr(part, "out", 0):
                table = self._schema.table_of(part.item)
                most[table] = max(most.get(table, 0), part.ordinal)
        order = sorted(most, key=lambda table: self._schema[table].table.lower())
        return [table for table in order for _ in range(most[table])]

    def _counted(self, part: Table, at: int) -> _Alias:
        number = self._counts[part.item] if part.number is None else part.number
        self._counts[part.item] = number + 1
        return _Alias(part.item, f"{self._schema[part.item].table}alias{number}", at)

    def _given(self, i: int) -> str:
        """The alias that follows a table, if one does."""
        word, name = (*self._parts[i + 1 : i + 3], "", "")[:2]
        return name.text if word in (AS, NO_AS) and isinstance(name, Name) else ""

    def _written(self, i: int, part: Part) -> str:
        if isinstance(part, Column):
            return self._column(i, part)
        if isinstance(part, Table):
            return self._table(i, part)
        if isinstance(part, Derived):
            return f"{part.word}alias{part.number}"
        if isinstance(part, Value):
            return quoted(part.text) if part.is_text else part.text
        if isinstance(part, Name):
            return "" if part.calls else part.text
        return self._symbol(i, part)

    def _symbol(self, i: int, word: str) -> str:
        before = self._parts[i - 1] if i else ""
        if word == "(" and isinstance(before, Name) and before.calls:
            return f"{before.text}("
        if word == AUTO_FROM:
            own = [one for aliases in self._aliases for one in aliases if one.at == i]
            return "FROM " + " , ".join(f"{self._schema[one.table].table} AS {one.name}" for one in own)
        return "" if word == NO_AS else word

    def _column(self, i: int, part: Column) -> str:
        item = self._schema[part.item]
        form = part.form or self._style
        if form == BARE or self._parts[i - 1 : i] == ["."]:
            return item.column
        return f"{item.table if form == QUALIFIED else self._alias(i, part, part.out)}.{item.column}"

    def _table(self, i: int, part: Table) -> str:
        name = self._schema[part.item].table
        if not self._queries.table_at(self._parts, i):
            return self._alias(i, part, 0) if (part.form or self._style) == ALIASED else name
        counted = self._style == ALIASED and part.form != BARE and not self._given(i)
        own = [one.name for aliases in self._aliases for one in aliases if one.at == i]
        return f"{name} AS {own[0]}" if counted and own else name

    def _alias(self, i: int, part: Column | Table, out: int) -> str:
        table = self._schema.table_of(part.item)
        for query in list(self._queries.around(self._queries.places[i].query))[out:]:
            names = [one.name for one in self._aliases[query] if one.table == table]
            if names:
                return names[min(part.ordinal, len(names)) - 1]
        return f"{self._schema[table].table}alias0"
