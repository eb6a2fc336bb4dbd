# SPDX-License-Identifier: Apache-2.0
import re
from pathlib import Path

import pytest

from fedqa.data.sample import sample_database
from fedqa.data.schema_text import read_schema
from fedqa.databases.contents import Contents, contents_of
from fedqa.databases.database import Database
from fedqa.databases.schema import Column, Relation, Schema
from fedqa.models.backbones import load_backbone
from fedqa.skills.sql.habits import Habits
from fedqa.skills.sql.inventing import invented
from fedqa.skills.sql.linking import Linker
from fedqa.skills.sql.notation import Notation
from fedqa.skills.sql.question import Question
from fedqa.skills.sql.schema import SchemaItems
from fedqa.skills.sql.spelling import Spelling
from fedqa.skills.sql.symbols import RAW, symbol

TOWNS = read_schema(
    " | states : state_id , name | cities : city_id , state_id , name , population , founded_on "
    "| cities.state_id = states.state_id"
)


def test_the_same_seed_invents_the_same_questions_and_each_once() -> None:
    one, again, other = invented(TOWNS, 80, 1), invented(TOWNS, 80, 1), invented(TOWNS, 80, 2)
    assert one == again != other
    assert len({question for question, _ in one}) == len(one) == 80


def test_questions_are_about_what_the_schema_has() -> None:
    found = dict(invented(TOWNS, 4000, 3))
    assert found["How many cities are there?"] == "SELECT COUNT(*) FROM cities"
    assert found["How many cities does each state have?"] == (
        "SELECT states.name, COUNT(*) FROM states JOIN cities ON states.state_id = cities.state_id GROUP BY states.name"
    )
    assert found["Which states have no cities?"] == (
        "SELECT name FROM states WHERE state_id NOT IN (SELECT state_id FROM cities)"
    )
    assert found["Which city was founded last?"] == "SELECT name FROM cities ORDER BY founded_on DESC LIMIT 1"
    assert found["Rank the cities by population, highest first."] == (
        "SELECT name, population FROM cities ORDER BY population DESC"
    )
    assert not [question for question in found if "total founded on" in question]  # dates are not added


def test_without_contents_a_value_is_made_up_and_its_column_named() -> None:
    for question, sql in invented(TOWNS, 400, 3):
        value = re.search(r"(\w+) = '(\D+)'", sql)
        if value and value[1] != "name":
            assert value[1].replace("_", " ") in question.lower() and value[2] in question


def test_with_contents_values_are_real_and_columns_of_numbers_known() -> None:
    contents = Contents(
        {("states", "name"): ("Oz", "Ur"), ("cities", "name"): ("Lund",)}, frozenset({("cities", "population")})
    )
    found = invented(TOWNS, 300, 3, contents=contents)
    values = {value for _, sql in found for value in re.findall(r"name = '(.*?)'", sql)}
    assert values == {"Oz", "Ur", "Lund"}
    added = {column for _, sql in found for column in re.findall(r"SUM\((?:\w+\.)?(\w+)\)", sql)}
    assert added == {"population"}


def test_what_is_shown_beside_the_answer_follows_habits() -> None:
    shown = dict(invented(TOWNS, 4000, 3, habits=Habits(shows_ordered=True, shows_counted=False)))
    assert (
        shown["Which city was founded last?"] == "SELECT name, founded_on FROM cities ORDER BY founded_on DESC LIMIT 1"
    )
    assert shown["Which state has the most cities?"] == (
        "SELECT states.name FROM states JOIN cities ON states.state_id = cities.state_id GROUP BY states.name "
        "ORDER BY COUNT(*) DESC LIMIT 1"
    )


@pytest.mark.parametrize("name", ["hospital", "bank"])
def test_all_that_is_invented_runs_and_takes_few_steps(name: str, tmp_path: Path) -> None:
    tokenizer = load_backbone("tiny").tokenizer
    with Database.open(sample_database(name, tmp_path)) as database:
        schema, contents = database.schema(), contents_of(sample_database(name, tmp_path))
        items = SchemaItems(schema)
        notation = Notation(items, Spelling(tokenizer.get_vocab()), Linker(items, contents))
        for question, sql in (*invented(schema, 150, 5), *invented(schema, 150, 5, contents=contents)):
            database.run(sql)
            steps = notation.steps(sql, Question(question))
            assert steps[0] != symbol(RAW) and len(steps) < 60


@pytest.mark.parametrize("relation", [Relation("t", (Column("id"),)), Relation("boxes", (Column("x"), Column("y_id")))])
def test_a_schema_that_says_little_gives_what_it_can(relation: Relation) -> None:
    found = invented(Schema((relation,)), 20, 1)
    assert found and all(sql.startswith("SELECT") for _, sql in found)


def test_where_nothing_is_wanted_nothing_is_invented() -> None:
    assert invented(TOWNS, 0, 1) == []
