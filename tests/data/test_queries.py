# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from pathlib import Path

import pytest
from toy_database import SECRET, write_database

from fedqa.data.queries import about_database, queries_alone
from fedqa.data.records import Collection, Document, Example, Span
from fedqa.errors import ConfigError, DataError

ASKED = Example("1", "how many ?", sql="SELECT COUNT(*) FROM city")


def test_questions_without_a_schema_take_that_of_their_database(tmp_path: Path) -> None:
    where = write_database(tmp_path / "towns.sqlite")
    found = about_database(Collection((), (ASKED,)), where)
    (document,) = found.documents
    assert document.text == " | city : city_name , population , state_name"
    assert [example.about for example in found.examples] == [document.id]
    assert SECRET not in repr(found)


def test_questions_with_a_schema_keep_theirs_if_the_database_has_a_table_of_it(tmp_path: Path) -> None:
    where = write_database(tmp_path / "towns.sqlite")
    fitting = Collection((Document("towns", " | CITY : name | lake : area"),), (ASKED,))
    assert about_database(fitting, where) == fitting
    other = Collection((Document("towns", " | lake : area"),), (ASKED,))
    with pytest.raises(ConfigError, match=r"towns.sqlite has no table that the questions are about \(lake\); name the"):
        about_database(other, where)


def test_of_a_store_only_questions_with_sql_are_taken_whatever_they_were_about(tmp_path: Path) -> None:
    note = Document("note", "The town hall opens at nine.")
    read = Example("2", "When does the town hall open?", (Span("note", 23, 27),), ("nine",), about="note")
    store = Collection((note,), (replace(ASKED, about="note"), read), version="7")
    assert queries_alone(store) == Collection((), (ASKED,), version="7")
    with pytest.raises(DataError, match=r"holds no question with SQL yet; give some on the page's room Database"):
        queries_alone(replace(store, examples=(read,)))


def test_a_database_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no database .*none.sqlite; name the path of an SQLite file"):
        about_database(Collection((), (ASKED,)), tmp_path / "none.sqlite")
