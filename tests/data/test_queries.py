# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from toy_database import SECRET, write_database

from fedqa.data.queries import about_database
from fedqa.data.records import Collection, Document, Example
from fedqa.errors import ConfigError

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


def test_a_database_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no database .*none.sqlite; name the path of an SQLite file"):
        about_database(Collection((), (ASKED,)), tmp_path / "none.sqlite")
