# SPDX-License-Identifier: Apache-2.0
"""What is taken from a database to understand questions: texts of bounded number and length, and which are numbers."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from databases.targets import SECRET, Target

from fedqa.databases.contents import LONGEST_VALUE, MOST_VALUES, contents_of
from fedqa.errors import ConfigError


def test_texts_are_read_in_the_order_of_the_alphabet_and_numbers_are_known_by_their_types(target: Target) -> None:
    found = contents_of(target.where)
    assert found.texts["appointments", "status"] == ("attended", "booked", "cancelled", "missed")
    assert found.texts["wards", "name"][:2] == ("Alder", "Beech")
    assert ("wards", "beds") in found.numbers and ("wards", "beds") not in found.texts
    assert ("medicines", "unit_cost") in found.numbers
    assert ("wards", "name") not in found.numbers
    assert SECRET not in repr(dict(found.texts))


def test_values_do_not_stand_in_what_is_printed_of_them(target: Target) -> None:
    assert "Alder" not in repr(contents_of(target.where))


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A table of an odd name with a column of many values, one of just not too many, and one of long ones."""
    path = tmp_path / "odd.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute('CREATE TABLE "Odd ""one" ("Order" TEXT, many TEXT, long TEXT, mixed)')
        rows = [(f"{i % MOST_VALUES:05}", f"{i}", "x" * (LONGEST_VALUE + i), 7) for i in range(MOST_VALUES + 1)]
        connection.executemany('INSERT INTO "Odd ""one" VALUES (?, ?, ?, ?)', rows)
        connection.execute("INSERT INTO \"Odd \"\"one\" VALUES (NULL, NULL, '', 'word')")
    return path


def test_columns_of_too_many_values_and_long_texts_are_left_out(odd: Path) -> None:
    table, found = 'odd "one', contents_of(odd)
    assert set(found.texts) == {(table, "order"), (table, "long"), (table, "mixed")}
    assert len(found.texts[table, "order"]) == MOST_VALUES
    assert found.texts[table, "long"] == ("x" * LONGEST_VALUE,)
    assert found.texts[table, "mixed"] == ("word",)


def test_a_database_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no database .*gone.sqlite"):
        contents_of(tmp_path / "gone.sqlite")
