# SPDX-License-Identifier: Apache-2.0
"""From a statement to steps: its tokens become parts, names are resolved, and what can be told is left out."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from fedqa.models.search import ITEM, PIECE, SPAN, Step
from fedqa.skills.sql.linking import Linker
from fedqa.skills.sql.parts import Column, Derived, Name, Part, Table, Value, compared, queries_of
from fedqa.skills.sql.question import Question, squeezed
from fedqa.skills.sql.schema import SchemaItems
from fedqa.skills.sql.spelling import CAPITAL, LOWER, SPACE, UPPER, WILDCARD, Spelling, capitalised
from fedqa.skills.sql.symbols import (
    ALIASED,
    AS,
    AUTO_FROM,
    BARE,
    DERIVED,
    EMPTY,
    FORMS,
    FUNCTION,
    MOST,
    NAME,
    NO_AS,
    NUMBERS,
    OTHER,
    OUT,
    QUALIFIED,
    WORDS,
    symbol,
)
from fedqa.skills.sql.tokens import Token, is_number, tokens

_ALIAS = re.compile(r"(.+)alias(\d+)", re.IGNORECASE)
_POINT = Token("mark", ".")


# -- tokens to parts ---------------------------------------------------------------------------------------------


def parts_of(found: Sequence[Token]) -> Iterator[Part]:
    i = 0
    while i < len(found):
        word = _word_at(found, i)
        if _has_point(found, i):
            yield Name(found[i + 2].text, before=found[i].text)
            i += 3
        elif word is not None:
            yield word
            i += len(_LEXED[word])
        else:
            yield _plain(found[i], calls=found[i + 1 : i + 2] == [Token("mark", "(")])
            i += 1


def _has_point(found: Sequence[Token], i: int) -> bool:
    if found[i].kind != "name" or found[i + 1 : i + 2] != [_POINT] or i + 2 >= len(found):
        return False
    return found[i + 2].kind == "name" or found[i + 2].text == "*"


def _plain(token: Token, *, calls: bool = False) -> Name | Value | Derived:
    if token.kind != "name":
        return Value(token.text, token.kind == "text")
    alias = _ALIAS.fullmatch(token.text)
    if alias and alias[1].upper() in DERIVED:
        return Derived(alias[1].upper(), int(alias[2]))
    return Name(token.text, calls=calls)


_LEXED = {word: [token.text for token in tokens(word)] for word in WORDS}
_LONGEST_FIRST = sorted(WORDS, key=lambda word: -len(_LEXED[word]))
_BY_FIRST = {first: [w for w in _LONGEST_FIRST if _LEXED[w][0] == first] for first, *_ in _LEXED.values()}


def _word_at(found: Sequence[Token], i: int) -> str | None:
    """The longest symbol that stands here."""
    for word in _BY_FIRST.get(found[i].text.upper(), []):
        standing = found[i : i + len(_LEXED[word])]
        if [token.text.upper() for token in standing if token.kind != "text"] == _LEXED[word]:
            return word
    return None


# -- names to what they mean -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Declared:
    """A table in a FROM."""

    table: int
    alias: str  # in small letters; the table's name where it has none
    number: int | None  # of an alias of the form TABLEalias0
    at: int  # which part says it


class Reading:
    """A statement taken apart: its parts, its queries, and the tables that each declares."""

    def __init__(self, sql: str, schema: SchemaItems) -> None:
        self.schema = schema
        self.parts = list(parts_of(tokens(sql)))
        self.queries = queries_of(self.parts)
        self.declared: list[list[Declared]] = [[] for _ in self.queries.outer]
        self.swallowed: set[int] = set()  # parts that another part says
        for i, part in enumerate(self.parts):
            if isinstance(part, Name) and not part.before and self.queries.table_at(self.parts, i):
                self._declare(i, part.text)

    def _declare(self, i: int, name: str) -> None:
        table = self.schema.find(name)
        if table is None:
            return
        has_word = self.part(i + 1) == AS
        alias = self.part(i + 2 if has_word else i + 1)
        own = self.declared[self.queries.places[i].query]
        if not isinstance(alias, Name) or alias.before:
            own.append(Declared(table, name.lower(), None, i))
            return
        number = _number(alias.text, name) if has_word else None
        if number is not None:
            self.swallowed.update((i + 1, i + 2))
        own.append(Declared(table, alias.text.lower(), number, i))

    def part(self, i: int) -> Part:
        return self.parts[i] if i < len(self.parts) else ""

    def find(self, name: str, query: int) -> tuple[int, Declared] | None:
        """The table that a name before a point means, and the query that declares it."""
        for around in self.queries.around(query):
            for declared in self.declared[around]:
                if declared.alias == name.lower():
                    return around, declared
        return None

    def table(self, i: int) -> Table | None:
        """The declared table that stands before the point of a name."""
        part = self.parts[i]
        found = self.find(part.before, self.queries.places[i].query) if isinstance(part, Name) else None
        if found is None:
            return None
        home, declared = found
        alike = [one.alias for one in self.declared[home] if one.table == declared.table]
        named = declared.alias == self.schema[declared.table].table.lower()
        return Table(declared.table, 1 + alike.index(declared.alias), form=QUALIFIED if named else ALIASED)

    def column(self, i: int, name: Name) -> Column | None:
        """The column of the schema that a name stands for; None if it is none."""
        query = self.queries.places[i].query
        if not name.before:
            item = None if name.calls else self._unqualified(name.text, query)
            return None if item is None else Column(item, form=BARE)
        table, found = self.table(i), self.find(name.before, query)
        if table is None or found is None:
            return None
        item = self.schema.find(self.schema[table.item].table, name.text)
        return None if item is None else Column(item, self._out(found[0], table.item, query), table.ordinal, table.form)

    def _unqualified(self, name: str, query: int) -> int | None:
        for around in self.queries.around(query):
            for declared in self.declared[around]:
                item = self.schema.find(self.schema[declared.table].table, name)
                if item is not None:
                    return item
        return next(iter(self.schema.having(name)), None)

    def _out(self, home: int, table: int, query: int) -> int:
        """How many queries to leave so that the next that declares the table is the right one."""
        around = list(self.queries.around(query))
        declaring = [one for one in around if any(declared.table == table for declared in self.declared[one])]
        nearer = declaring[: declaring.index(home)]
        return around.index(nearer[-1]) + 1 if nearer else 0

    @cached_property
    def style(self) -> str:
        """How columns are written."""
        forms = {table.form for i in range(len(self.parts)) if (table := self.table(i))}
        counted = any(one.number is not None for own in self.declared for one in own)
        return ALIASED if counted or ALIASED in forms else QUALIFIED if QUALIFIED in forms else BARE

    def implied(self) -> dict[int, int]:
        """The queries whose columns give their FROM: query -> the part at which that FROM begins."""
        used: dict[int, set[Declared]] = {}
        inside: dict[int, list[int]] = {}
        starts: dict[int, int] = {}
        for i, (part, (query, clause, _)) in enumerate(zip(self.parts, self.queries.places, strict=True)):
            if part == "FROM":
                starts[query] = i
            elif clause == "FROM":
                inside.setdefault(query, []).append(i)
            elif isinstance(part, Name) and (found := self.find(part.before, query)) and found[0] == query:
                used.setdefault(query, set()).add(found[1])
        return {query: at for query, at in starts.items() if self._gives(query, inside.get(query, []), used)}

    def _gives(self, query: int, inside: Sequence[int], used: dict[int, set[Declared]]) -> bool:
        own = self.declared[query]
        said = {one.at for one in own} | self.swallowed
        order = [(self.schema[one.table].table.lower(), one.number) for one in own if one.number is not None]
        plain = len(order) == len(own) and all(i in said or self.parts[i] == "," for i in inside)
        return plain and order == sorted(order) and used.get(query) == set(own)


def _number(alias: str, table: str) -> int | None:
    """The number of an alias of the form TABLEalias0, if it is one that can be told."""
    found = _ALIAS.fullmatch(alias)
    return int(found[2]) if found and found[1].lower() == table.lower() and int(found[2]) < MOST else None


# -- parts to steps ----------------------------------------------------------------------------------------------


class Emitting:
    """The steps of a statement; `implied` says which FROM are left out (see `Reading.implied`).

    With a linker, a value is copied from words that mean it, though they may be written otherwise.
    """

    def __init__(
        self,
        reading: Reading,
        question: Question,
        spelling: Spelling,
        implied: dict[int, int],
        *,
        linker: Linker | None = None,
    ) -> None:
        self._reading, self._question, self._spelling, self._implied = reading, question, spelling, implied
        self._linker = linker
        self._counts: Counter[int] = Counter()  # of aliases so far, by table

    def steps(self) -> Iterator[Step]:
        reading = self._reading
        for i, (part, place) in enumerate(zip(reading.parts, reading.queries.places, strict=True)):
            if self._implied.get(place.query) == i:
                yield symbol(AUTO_FROM)
            elif i not in reading.swallowed and not (place.query in self._implied and place.clause == "FROM"):
                yield from self._part(i, part)

    def _part(self, i: int, part: Part) -> Iterator[Step]:
        if isinstance(part, str):
            yield symbol(part)
        elif isinstance(part, Value):
            meant = self._meant(i, part)
            yield from self._value(part) if meant is None else (Step(SPAN, meant),)
        elif isinstance(part, Derived):
            yield from _derived(part)
        elif isinstance(part, Name):
            declared = [one for own in self._reading.declared for one in own if one.at == i]
            yield from self._table(declared[0]) if declared else self._name(i, part)

    def _table(self, declared: Declared) -> Iterator[Step]:
        yield Step(ITEM, declared.table)
        if declared.number is not None:
            if declared.number != self._counts[declared.table]:
                yield symbol(f"#{declared.number}")
            self._counts[declared.table] = declared.number + 1
        elif self._reading.style == ALIASED:
            yield symbol("@bare")
        if declared.number is None and isinstance(self._reading.part(declared.at + 1), Name):
            yield symbol(NO_AS)

    def _name(self, i: int, part: Name) -> Iterator[Step]:
        column = self._reading.column(i, part)
        if column is not None:
            yield from (Step(ITEM, column.item), *self._marks(column.form, column.out, column.ordinal))
        elif part.before:
            yield from self._pointed(i, part)
        else:
            yield from (symbol(FUNCTION if part.calls else NAME), *spelled(self._spelling, part.text))

    def _marks(self, form: str, out: int, ordinal: int) -> Iterator[Step]:
        yield from (symbol(OUT) for _ in range(out))
        if ordinal > 1:
            yield symbol(f"@{min(ordinal, MOST - 1)}")
        if form != self._reading.style:
            yield symbol(next(mark for mark, meant in FORMS.items() if meant == form))

    def _pointed(self, i: int, part: Name) -> Iterator[Step]:
        """A name with a point that is no column of a declared table: of one the query makes, or not in the schema."""
        table = self._reading.table(i)
        if table is None:
            yield from self._word(part.before)
        else:
            yield from (Step(ITEM, table.item), *self._marks(table.form, 0, table.ordinal))
        yield symbol(".*" if part.text == "*" else ".")
        if part.text != "*":
            items = self._reading.schema.having(part.text)
            yield from [Step(ITEM, items[0])] if items else self._word(part.text)

    def _word(self, name: str) -> Iterator[Step]:
        plain = _plain(Token("name", name))
        yield from _derived(plain) if isinstance(plain, Derived) else (symbol(NAME), *spelled(self._spelling, name))

    def _meant(self, i: int, value: Value) -> int | None:
        """The span that means a value of the column with which it is compared, or a number that it says in words."""
        if self._linker and not value.is_text and self._question.span(value.text) is None:
            return self._linker.number_span(self._question, value.text)
        at = compared(self._reading.parts, i) if self._linker and value.is_text else None
        name = self._reading.parts[at] if at is not None else None
        column = self._reading.column(at, name) if at is not None and isinstance(name, Name) else None
        if column is None or self._linker is None:
            return None
        return self._linker.span(self._question, value.text, column.item)

    def _value(self, value: Value) -> Iterator[Step]:
        if value.is_text and not value.text:
            yield symbol(EMPTY)
            return
        if value.is_text and is_number(value.text):
            yield symbol(OTHER)
        span = self._question.span(value.text.strip("% "))
        if span is not None:
            yield from self._copied(span, re.sub(r"\s+", " ", value.text))
        elif not value.is_text and value.text in NUMBERS:
            yield symbol(value.text)
        else:
            yield from spelled(self._spelling, value.text)

    def _copied(self, span: int, text: str) -> Iterator[Step]:
        """A span, with the wildcards and spaces that stand around it in a value."""
        core = text.strip("% ")
        before, _, after = text.partition(core)
        around = {"%": symbol(WILDCARD), " ": symbol(SPACE)}
        yield from (around[sign] for sign in before)
        yield from (*_case(self._question.said(span), core), Step(SPAN, span))
        yield from (around[sign] for sign in after)


def spelled(spelling: Spelling, text: str) -> list[Step]:
    """A text as pieces and marks."""
    return [Step(PIECE, one) if isinstance(one, int) else symbol(one) for one in spelling.spelled(squeezed(text))]


def _derived(part: Derived) -> Iterator[Step]:
    yield symbol(part.word)
    if part.number:
        yield symbol(f"#{min(part.number, MOST - 1)}")


def _case(said: str, wanted: str) -> list[Step]:
    """The mark that turns what the question says into what the value is, if it differs and there is one."""
    ways = {LOWER: said.lower(), UPPER: said.upper(), CAPITAL: capitalised(said)}
    return [] if said == wanted else [symbol(mark) for mark, text in ways.items() if text == wanted][:1]
