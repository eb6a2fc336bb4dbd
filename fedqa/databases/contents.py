# SPDX-License-Identifier: Apache-2.0
"""What stands in the columns of a database, as far as it helps to understand a question about it.

Read once, through the same safe and bounded queries as everything else. It is data: it stays in the silo, in the memory
of the process that asked for it, and is written nowhere.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedqa.databases.database import Database
from fedqa.databases.records import Limits, QueryError
from fedqa.databases.schema import Column, Schema

MOST_VALUES = 5_000  # different ones of a column; of one that has more, none is taken
LONGEST_VALUE = 60  # characters; what is longer is prose, which nobody repeats in a question

_LIMITS = Limits(seconds=5.0, rows=MOST_VALUES, bytes=4_000_000)
_NUMBERS = ("int", "serial", "real", "floa", "doub", "num", "dec", "money")  # as parts of the names of types
_OTHERS = ("bool", "date", "time", "interval", "blob", "bytea", "json", "uuid")

Place = tuple[str, str]  # a table and a column, in small letters


@dataclass(frozen=True)
class Contents:
    """The different texts in each column that holds texts, and the columns that hold numbers."""

    texts: Mapping[Place, tuple[str, ...]] = field(default_factory=dict, repr=False)  # in the order of the alphabet
    numbers: frozenset[Place] = frozenset()


def contents_of(where: str | Path) -> Contents:
    """The contents of a database by path or URL. Columns that cannot be read within the limits are left out."""
    with Database.open(where, _LIMITS) as database:
        schema = database.schema()
        texts = {
            (table.lower(), column.name.lower()): _texts(database, table, column) for table, column in _all(schema)
        }
    numbers = {(table.lower(), column.name.lower()) for table, column in _all(schema) if _has(column, _NUMBERS)}
    return Contents({place: found for place, found in texts.items() if found}, frozenset(numbers))


def _texts(database: Database, table: str, column: Column) -> tuple[str, ...]:
    if _has(column, (*_NUMBERS, *_OTHERS)):
        return ()
    name = _quoted(column.name)
    try:
        found = database.run(
            f"SELECT DISTINCT {name} FROM {_quoted(table)} WHERE LENGTH({name}) BETWEEN 1 AND {LONGEST_VALUE}"
        )
    except QueryError:
        return ()
    return () if found.truncated else tuple(sorted(value for (value,) in found.rows if isinstance(value, str)))


def _all(schema: Schema) -> Iterator[tuple[str, Column]]:
    return ((relation.name, column) for relation in schema.relations for column in relation.columns)


def _has(column: Column, types: tuple[str, ...]) -> bool:
    return any(part in column.type.lower() for part in types)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
