# SPDX-License-Identifier: Apache-2.0
"""Questions and SQL invented from a schema alone, for a silo that has few of its own.

A grammar of plain questions (how many, which, the highest, for each …) is drawn from over the schema's tables, columns
and foreign keys. Values are made up: what they teach is to copy a value from the question. Nothing of a table's content
is looked at. The SQL is written plainly: bare columns in one table, `table.column` where tables are joined.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fedqa.databases.schema import Column, Relation, Schema

Pair = tuple[str, str]  # question, SQL
T = TypeVar("T")

_NAMES = """Arden Amsel Birkby Callan Corvin Dunmore Elswick Ferrow Galloway Harlan Ibsen Jessop Kelmore Lorne Marlow
Norwell Ostrey Penrose Quill Renshaw Selby Tarrant Umber Varley Wendell Yarrow Zeller Ada Bruno Clara Edgar Greta Hugo
Ines Leon Mara Nils Olga Piet Rosa Sven Tilda Vera"""
_WORDS = """amber annual basic blue central closed daily early fixed free full general green heavy home large late light
local long main mixed monthly new north old open paid partial private public ready red regular remote rural senior short
simple single small south special standard summer urban west winter yearly young"""
_LABELS = ("name", "full_name", "title", "label", "description")
_EXTREMES = (("highest", " DESC"), ("most", " DESC"), ("largest", " DESC"), ("lowest", ""), ("smallest", ""))
_DATES = ("_on", "_at", "date", "time", "year")  # how names of columns that hold one end
_TRIES = 20  # drawings for each pair that is wanted, before a small schema is known to have no more


def invented(schema: Schema, count: int, seed: int) -> list[Pair]:
    """At most so many different questions with their SQL; the same seed gives the same ones."""
    grammar = _Grammar(schema, np.random.default_rng(seed))
    found: dict[str, str] = {}
    for _ in range(count * _TRIES):
        if len(found) == count:
            break
        found.setdefault(*grammar.pair())
    return list(found.items())


@dataclass(frozen=True)
class _Join:
    """`one` has many of `many`; both keys as columns."""

    one: Relation
    many: Relation
    key: str
    foreign: str


class _Grammar:
    def __init__(self, schema: Schema, rng: np.random.Generator) -> None:
        self._rng = rng
        self._tables = [relation for relation in schema.relations if relation.columns]
        self._joins = list(_joins(self._tables))
        self._kinds: list[Callable[[], Pair]] = [
            self._all,
            self._listed,
            self._lookup,
            self._filtered,
            self._compared,
            self._aggregate,
            self._grouped,
            self._extreme,
            self._missing,
        ]
        if self._joins:
            self._kinds += [self._per_parent, self._of_parent, self._without, self._with_many]

    def pair(self) -> Pair:
        return self._kinds[self._rng.integers(len(self._kinds))]()

    # -- one table

    def _all(self) -> Pair:
        table = self._table()
        said = self._one_of(
            "How many {} are there?", "How many {} do we have?", "What is the number of {}?", "Count the {}."
        )
        return said.format(_many(table)), f"SELECT COUNT(*) FROM {table.name}"

    def _listed(self) -> Pair:
        table = self._table()
        column, many = self._column(table), _many(table)
        if self._rng.random() < 0.5:
            said = self._one_of("Which different {} do the {} have?", "What {} are there among the {}?")
            return said.format(_words(column.name), many), f"SELECT DISTINCT {column.name} FROM {table.name}"
        said = self._one_of("List the {} of all {}.", "Show the {} of the {}.", "Give me the {} of the {}.")
        return said.format(_words(column.name), many), f"SELECT {column.name} FROM {table.name}"

    def _lookup(self) -> Pair:
        table = self._table()
        label, column, value = _label(table), self._column(table), self._name()
        said = self._one_of("What is the {c} of {v}?", "What {c} does {v} have?", "Tell me the {c} of the {t} {v}.")
        question = said.format(c=_words(column.name), v=value, t=_single(table))
        return question, f"SELECT {column.name} FROM {table.name} WHERE {label} = '{value}'"

    def _filtered(self) -> Pair:
        table = self._table()
        label, column, value = _label(table), self._column(table), self._value()
        words = {"t": _many(table), "c": _words(column.name), "v": value}
        if self._rng.random() < 0.5:
            said = self._one_of("How many {t} have the {c} {v}?", "How many {t} are there with {c} {v}?")
            return said.format(**words), f"SELECT COUNT(*) FROM {table.name} WHERE {column.name} = '{value}'"
        said = self._one_of("Which {t} have the {c} {v}?", "List the {t} whose {c} is {v}.", "Show {t} with {c} {v}.")
        return said.format(**words), f"SELECT {label} FROM {table.name} WHERE {column.name} = '{value}'"

    def _compared(self) -> Pair:
        table = self._table()
        label, column = _label(table), self._column(table, counted=True)
        words, sign = self._comparison()
        number = int(self._rng.integers(13, 3000))
        asked, told = ("How many", "COUNT(*)") if self._rng.random() < 0.3 else ("Which", _listing(label, column.name))
        question = f"{asked} {_many(table)} have {words} {number} {_words(column.name)}?"
        return question, f"SELECT {told} FROM {table.name} WHERE {column.name} {sign} {number}"

    def _aggregate(self) -> Pair:
        table = self._table()
        column, (word, call) = self._column(table, counted=True), self._call()
        many = _many(table)
        if self._rng.random() < 0.5:
            said = self._one_of("What is the {} {} of the {}?", "Give me the {} {} of all {}.")
            return said.format(word, _words(column.name), many), f"SELECT {call}({column.name}) FROM {table.name}"
        by, value = self._column(table), self._value()
        question = f"What is the {word} {_words(column.name)} of the {many} with {_words(by.name)} {value}?"
        return question, f"SELECT {call}({column.name}) FROM {table.name} WHERE {by.name} = '{value}'"

    def _grouped(self) -> Pair:
        table = self._table()
        column, many = self._column(table), _many(table)
        said = self._one_of(
            "How many {} are there for each {}", "How many {} of each {} are there", "Count the {} by {}"
        )
        first, order = self._one_of(("", ""), (", largest group first", " ORDER BY COUNT(*) DESC"))
        question = f"{said.format(many, _words(column.name))}{first}?"
        return question, f"SELECT {column.name}, COUNT(*) FROM {table.name} GROUP BY {column.name}{order}"

    def _extreme(self) -> Pair:
        table = self._table()
        label, column = _label(table), self._column(table)
        words = (("latest", " DESC"), ("earliest", "")) if _is_date(column) else _EXTREMES
        word, order = self._one_of(*words)
        question = f"Which {_single(table)} has the {word} {_words(column.name)}?"
        return question, f"SELECT {label} FROM {table.name} ORDER BY {column.name}{order} LIMIT 1"

    def _missing(self) -> Pair:
        table = self._table()
        column = self._column(table)
        asked, told = self._one_of(("How many", "COUNT(*)"), ("Which", _label(table)))
        question = f"{asked} {_many(table)} have no {_words(column.name)}?"
        return question, f"SELECT {told} FROM {table.name} WHERE {column.name} IS NULL"

    # -- two tables

    def _per_parent(self) -> Pair:
        join = self._join()
        label = f"{join.one.name}.{_label(join.one)}"
        said = self._one_of("How many {m} does each {o} have?", "How many {m} are there for each {o}?")
        question = said.format(m=_many(join.many), o=_single(join.one))
        return question, f"SELECT {label}, COUNT(*) FROM {_joined(join.one, join)} GROUP BY {label}"

    def _of_parent(self) -> Pair:
        join, value = self._join(), self._name()
        asked, told = self._one_of(("How many", "COUNT(*)"), ("Which", f"{join.many.name}.{_label(join.many)}"))
        where = f"WHERE {join.one.name}.{_label(join.one)} = '{value}'"
        said = self._one_of("{a} {m} does the {o} {v} have?", "{a} {m} belong to {v}?", "{a} {m} are there at {v}?")
        question = said.format(a=asked, m=_many(join.many), o=_single(join.one), v=value)
        return question, f"SELECT {told} FROM {_joined(join.many, join)} {where}"

    def _without(self) -> Pair:
        join = self._join()
        said = self._one_of("Which {} have no {}?", "Which {} have never had any {}?")
        inner = f"SELECT {join.foreign} FROM {join.many.name}"
        question = said.format(_many(join.one), _many(join.many))
        return question, f"SELECT {_label(join.one)} FROM {join.one.name} WHERE {join.key} NOT IN ({inner})"

    def _with_many(self) -> Pair:
        join, (words, sign) = self._join(), self._comparison()
        label, number = f"{join.one.name}.{_label(join.one)}", int(self._rng.integers(1, 10))
        question = f"Which {_many(join.one)} have {words} {number} {_many(join.many)}?"
        told = f"SELECT {label}, COUNT(*) FROM {_joined(join.one, join)}"
        return question, f"{told} GROUP BY {label} HAVING COUNT(*) {sign} {number}"

    # -- drawing

    def _one_of(self, *options: T) -> T:
        return options[self._rng.integers(len(options))]

    def _table(self) -> Relation:
        return self._one_of(*self._tables)

    def _join(self) -> _Join:
        return self._one_of(*self._joins)

    def _column(self, table: Relation, *, counted: bool = False) -> Column:
        """Rather one that says something than a key; `counted`: that may be a number, as far as its name can tell."""
        plain = [column for column in table.columns if not _is_key(column)]
        numbers = [column for column in plain if column.name != _label(table) and not _is_date(column)]
        chosen: Sequence[Column] = (numbers if counted else plain) or plain or table.columns
        return self._one_of(*chosen)

    def _comparison(self) -> tuple[str, str]:
        return self._one_of(
            ("more than", ">"), ("over", ">"), ("fewer than", "<"), ("less than", "<"), ("at least", ">=")
        )

    def _call(self) -> tuple[str, str]:
        return self._one_of(("average", "AVG"), ("total", "SUM"), ("highest", "MAX"), ("lowest", "MIN"))

    def _name(self) -> str:
        return " ".join(self._one_of(*_NAMES.split()) for _ in range(self._rng.integers(1, 3)))

    def _value(self) -> str:
        return self._one_of(
            self._one_of(*_WORDS.split()),
            f"{self._one_of(*_WORDS.split())} {self._one_of(*_WORDS.split())}",
            self._name(),
        )


def _joins(tables: list[Relation]) -> Iterator[_Join]:
    by_name = {table.name.lower(): table for table in tables}
    for table in tables:
        for column in table.columns:
            other, _, key = column.references.partition(".")
            if key and other.lower() in by_name:
                yield _Join(by_name[other.lower()], table, key, column.name)


def _joined(first: Relation, join: _Join) -> str:
    one, many = f"{join.one.name}.{join.key}", f"{join.many.name}.{join.foreign}"
    if first is join.one:
        return f"{join.one.name} JOIN {join.many.name} ON {one} = {many}"
    return f"{join.many.name} JOIN {join.one.name} ON {many} = {one}"


def _listing(label: str, column: str) -> str:
    return label if label == column else f"{label}, {column}"


def _label(table: Relation) -> str:
    """The column by which people know a row."""
    names = [column.name for column in table.columns]
    known = next((name for name in _LABELS if name in names), None)
    return known or next((name for name in names if name.endswith("name")), names[0])


def _is_key(column: Column) -> bool:
    return bool(column.primary_key or column.references or column.name == "id" or column.name.endswith("_id"))


def _is_date(column: Column) -> bool:
    return column.name.lower().endswith(_DATES)


def _words(name: str) -> str:
    return name.replace("_", " ").lower()


def _many(table: Relation) -> str:
    return _words(table.name)


def _single(table: Relation) -> str:
    words = _words(table.name)
    for ending, instead in (
        ("ies", "y"),
        ("sses", "ss"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("xes", "x"),
        ("ss", "ss"),
        ("s", ""),
    ):
        if words.endswith(ending):
            return words[: -len(ending)] + instead
    return words
