# SPDX-License-Identifier: Apache-2.0
"""The parts of a statement, and the queries in which they stand. Reading and rendering both work on them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fedqa.skills.sql.symbols import AUTO_FROM

_CLAUSES = ("FROM", AUTO_FROM, "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "OFFSET")
_EQUALS = ("=", "==", "<>", "!=")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the schema; in which query it is looked for, and how it is written if not as usual."""

    item: int
    out: int = 0  # queries to leave
    ordinal: int = 1  # which of several of its table
    form: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the schema, where it is declared or before a point."""

    item: int
    ordinal: int = 1
    number: int | None = None  # of its alias
    form: str = ""


@dataclass(frozen=True, slots=True)
class Derived:
    """A table or column that the query itself makes, named as `DERIVED_TABLEalias0`."""

    word: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class Name:
    """A name, with what stands before its point."""

    text: str
    before: str = ""
    calls: bool = False  # whether it is that of a function


@dataclass(frozen=True, slots=True)
class Value:
    """A number or a text."""

    text: str
    is_text: bool = False
    copied: bool = False  # from a question, as a whole


Part = str | Column | Table | Derived | Name | Value  # a plain string is a symbol that is SQL


class Place(NamedTuple):
    """Where a part stands: the number of its query, the clause, and whether it is outside that clause's brackets."""

    query: int
    clause: str
    outside: bool


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries of a statement: which part stands in which, and which is inside which."""

    places: list[Place]
    outer: list[int]  # of each query the one around it, -1 of the first

    def around(self, query: int) -> Iterator[int]:
        """The query and those it stands in."""
        while query >= 0:
            yield query
            query = self.outer[query]

    def table_at(self, parts: Sequence[Part], i: int) -> bool:
        """Whether a table is declared here."""
        place, before = self.places[i], parts[i - 1] if i else ""
        starts = isinstance(before, str) and (before in ("FROM", ",") or before.endswith("JOIN"))
        return place.clause == "FROM" and place.outside and starts


def compared(parts: Sequence[Part], i: int) -> int | None:
    """Where the column stands that is compared with the value at `i`, as its equal or as one of a list."""
    at = i - 1
    if at >= 0 and parts[at] in _EQUALS:
        return at - 1 if at else None
    while at > 1 and (parts[at] == "," or isinstance(parts[at], Value)):
        at -= 1
    return at - 2 if at > 1 and parts[at] == "(" and parts[at - 1] in ("IN", "NOT IN") else None


class _Open(NamedTuple):
    query: int
    depth: int  # of brackets
    clause: str


def queries_of(parts: Sequence[Part]) -> Queries:
    """The queries of any parts, whether they make sense or not."""
    stack: list[_Open] = []
    places: list[Place] = []
    outer: list[int] = []
    depth = 0
    for part in parts:
        if isinstance(part, str):
            depth += part.count("(") - part.count(")")
            if "SELECT" in part:
                if stack and stack[-1].depth == depth:  # the other side of a UNION
                    stack.pop()
                outer.append(stack[-1].query if stack else -1)
                stack.append(_Open(len(outer) - 1, depth, "SELECT"))
            elif part == ")":
                while stack and stack[-1].depth > depth:
                    stack.pop()
            elif part in _CLAUSES and stack and stack[-1].depth == depth:
                stack[-1] = stack[-1]._replace(clause=part)
        top = stack[-1] if stack else _Open(-1, 0, "")
        places.append(Place(top.query, top.clause, depth == top.depth))
    return Queries(places, outer)
