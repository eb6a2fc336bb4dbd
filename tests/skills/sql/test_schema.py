# SPDX-License-Identifier: Apache-2.0
from sql_examples import ITEMS

from fedqa.skills.sql.schema import Item


def test_tables_come_first_then_their_columns() -> None:
    assert [item.column for item in ITEMS.items[:2]] == ["", ""]
    assert ITEMS.items[2:5] == (Item("city", "city_name"), Item("city", "population"), Item("city", "state_name"))


def test_an_item_is_found_whatever_its_case() -> None:
    assert ITEMS.find("CITY", "Population") == 3
    assert ITEMS.find("State") == 1
    assert ITEMS.find("city", "area") is None
    assert ITEMS.having("STATE_NAME") == [4, 5]
    assert ITEMS.table_of(4) == 0 == ITEMS.table_of(0)


def test_keys_are_pairs_of_columns() -> None:
    assert ITEMS.keys == frozenset({frozenset({4, 5})})


def test_an_item_is_told_in_words() -> None:
    assert ITEMS[4].words == "city : state name"
    assert ITEMS[0].words == "table city"
