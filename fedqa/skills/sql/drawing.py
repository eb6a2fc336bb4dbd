# SPDX-License-Identifier: Apache-2.0
"""What questions are invented of: tables, columns, values and joins of a schema, drawn at random, and their words."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fedqa.databases.contents import Contents
from fedqa.databases.schema import Column, Relation, Schema
from fedqa.skills.sql.words import stem

Pair = tuple[str, str]  # question, SQL
T = TypeVar("T")

_NAMES = """Arden Amsel Birkby Callan Corvin Dunmore Elswick Ferrow Galloway Harlan Ibsen Jessop Kelmore Lorne Marlow
Norwell Ostrey Penrose Quill Renshaw Selby Tarrant Umber Varley Wendell Yarrow Zeller Ada Bruno Clara Edgar Greta Hugo
Ines Leon Mara Nils Olga Piet Rosa Sven Tilda Vera"""
_WORDS = """amber annual basic blue central closed daily early fixed free full general green heavy home large late light
local long main mixed monthly new north old open paid partial private public ready red regular remote rural senior short
simple single small south special standard summer urban west winter yearly young"""
_LABELS = ("name", "full_name", "title", "label", "description")
_DATES = ("_on", "_at", "date", "time", "year")  # how names of columns that hold one end


@dataclass(frozen=True)
class Join:
    """`one` has many of `many`; both keys as columns."""

    one: Relation
    many: Relation
    key: str
    foreign: str

    def on(self, first: Relation) -> str:
        """What joins both, the table that stands first on the left."""
        one, many = f"{self.one.name}.{self.key}", f"{self.many.name}.{self.foreign}"
        return f"{one} = {many}" if first is self.one else f"{many} = {one}"

    def joined(self, first: Relation) -> str:
        """Both tables, as they stand behind FROM."""
        other = self.many if first is self.one else self.one
        return f"{first.name} JOIN {other.name} ON {self.on(first)}"


def _any(one: object) -> bool:
    return True


class Drawing:
    """Draws from a schema and, where they are known, from the contents of its database."""

    def __init__(self, schema: Schema, rng: np.random.Generator, contents: Contents | None = None) -> None:
        self._rng, self._contents = rng, contents
        self.tables = [relation for relation in schema.relations if relation.columns]
        self.joins = list(_joins(self.tables))

    @property
    def knows_values(self) -> bool:
        return self._contents is not None

    def chance(self, share: float) -> bool:
        return bool(self._rng.random() < share)

    def one_of(self, *options: T) -> T:
        return options[self._rng.integers(len(options))]

    def number(self, low: int, high: int) -> int:
        return int(self._rng.integers(low, high))

    # -- of the schema

    def table(self, fits: Callable[[Relation], object] = _any) -> Relation | None:
        """A table that fits, if there is one."""
        fitting = [table for table in self.tables if fits(table)]
        return self.one_of(*fitting) if fitting else None

    def join(self, fits: Callable[[Join], object] = _any) -> Join | None:
        fitting = [join for join in self.joins if fits(join)]
        return self.one_of(*fitting) if fitting else None

    def plain(self, table: Relation) -> Sequence[Column]:
        """Rather the columns that say something than keys."""
        return [column for column in table.columns if not is_key(column)] or table.columns

    def numbers(self, table: Relation) -> list[Column]:
        """Columns of what can be added up: known from the database, else as far as names can tell."""
        found = [column for column in table.columns if not is_key(column) and not is_date(column)]
        if self._contents is None:
            return [column for column in found if column.name != label(table)]
        return [column for column in found if _place(table, column) in self._contents.numbers]

    def dates(self, table: Relation) -> list[Column]:
        return [column for column in table.columns if is_date(column) and not column.name.endswith("time")]

    def groups(self, table: Relation) -> list[Column]:
        """Columns of which several rows may have the same."""
        found = [one for one in table.columns if not is_key(one) and not is_date(one) and one.name != label(table)]
        return found if self._contents is None else [one for one in found if self._texts(table, one)]

    # -- of the contents

    def value(self, table: Relation, column: Column) -> str:
        """A value for a column of texts: one that stands in it where that is known, else one that is made up."""
        known = self._texts(table, column)
        if known:
            return self.one_of(*known)
        return self.name() if column.name == label(table) else self._made_up()

    def name(self) -> str:
        return " ".join(self.one_of(*_NAMES.split()) for _ in range(self.number(1, 3)))

    def _made_up(self) -> str:
        words = _WORDS.split()
        return self.one_of(self.one_of(*words), f"{self.one_of(*words)} {self.one_of(*words)}", self.name())

    def _texts(self, table: Relation, column: Column) -> tuple[str, ...]:
        texts = self._contents.texts.get(_place(table, column), ()) if self._contents else ()
        return tuple(text for text in texts if "'" not in text)  # which is written in more than one way


def _place(table: Relation, column: Column) -> tuple[str, str]:
    return table.name.lower(), column.name.lower()


def _joins(tables: list[Relation]) -> Iterator[Join]:
    by_name = {table.name.lower(): table for table in tables}
    for table in tables:
        for column in table.columns:
            other, _, key = column.references.partition(".")
            if key and other.lower() in by_name:
                yield Join(by_name[other.lower()], table, key, column.name)


# -- words -------------------------------------------------------------------------------------------------------


def label(table: Relation) -> str:
    """The column by which people know a row."""
    names = [column.name for column in table.columns]
    known = next((name for name in _LABELS if name in names), None)
    return known or next((name for name in names if name.endswith("name")), names[0])


def is_key(column: Column) -> bool:
    return bool(column.primary_key or column.references or column.name == "id" or column.name.endswith("_id"))


def is_date(column: Column) -> bool:
    return column.name.lower().endswith(_DATES)


def is_named(table: Relation) -> bool:
    """Whether rows are known by a name rather than by a number."""
    return label(table) in _LABELS or label(table).endswith("name")


def is_person(table: Relation) -> bool:
    return label(table).endswith(("full_name", "last_name", "surname"))


def words(name: str) -> str:
    return name.replace("_", " ").lower()


def many(table: Relation) -> str:
    return words(table.name)


def single(table: Relation) -> str:
    return stem(words(table.name))


def participle(column: Column) -> str:
    """What happened at a date, as in `opened` for `opened_on`; empty if the name does not say."""
    first, _, rest = column.name.lower().partition("_")
    return first if first.endswith("ed") and f"_{rest}" in ("_on", "_at", "_date", "_year") else ""
