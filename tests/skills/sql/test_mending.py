# SPDX-License-Identifier: Apache-2.0
"""Values that a question writes otherwise than the database: copied, and written as the database does."""

import pytest
from sql_examples import ITEMS, SPELLING, item, words

from fedqa.databases.contents import Contents
from fedqa.models.search import SPAN, Step
from fedqa.skills.sql.linking import Linker
from fedqa.skills.sql.notation import Notation
from fedqa.skills.sql.question import Question
from fedqa.skills.sql.symbols import BARE, symbol

CONTENTS = Contents(
    {
        ("city", "city_name"): ("Boston", "North Dakota", "TEXAS", "boston", "dakota", "dakotas"),
        ("state", "state_name"): ("Texas", "42"),
    }
)
ASKED = "how big is texas or north dakotas or 42"


def notation() -> Notation:
    return Notation(ITEMS, SPELLING, Linker(ITEMS, CONTENTS))


@pytest.mark.parametrize(
    ("where", "steps"),
    [
        ("city_name = 'North Dakota'", "city.city_name = «north dakotas»"),
        ("city_name = 'TEXAS'", "city.city_name = «texas»"),  # without a mark for its case
        ("city_name <> 'TEXAS'", "city.city_name <> «texas»"),
        ("city_name IN ('TEXAS', 'North Dakota')", "city.city_name IN ( «texas» , «north dakotas» )"),
        ("city_name = 'dakotas'", "city.city_name = «dakotas»"),  # exactly this one, although there is another
        ("city_name LIKE '%TEXAS%'", "city.city_name LIKE '%' ^^ «texas» '%'"),  # not compared as a whole
        ("state_name = '42'", "city.state_name = ' «42»"),  # of this column nothing is known
    ],
)
def test_words_that_mean_one_value_of_the_compared_column_are_copied(where: str, steps: str) -> None:
    sql = f"SELECT population FROM city WHERE {where}"
    found = notation().steps(sql, Question(ASKED))
    assert words(found, ASKED) == f"<bare> SELECT city.population FROM city WHERE {steps} <end>"
    assert notation().sql(found, Question(ASKED)) == sql


def test_a_number_that_a_column_holds_as_a_text_is_written_as_one() -> None:
    sql = "SELECT area FROM state WHERE state_name = '42'"
    found = notation().steps(sql, Question(ASKED))
    assert words(found, ASKED) == "<bare> SELECT state.area FROM state WHERE state.state_name = «42» <end>"
    assert notation().sql(found, Question(ASKED)) == sql


@pytest.mark.parametrize(("said", "written"), [("DAKOTA", "dakota"), ("BOSTON", "BOSTON"), ("big", "big")])
def test_what_is_not_certain_is_left_as_the_question_says_it(said: str, written: str) -> None:
    """Two cities could be meant by `BOSTON`, and none by `big`."""
    steps = [symbol(BARE), item("city", "city_name"), symbol("="), Step(SPAN, 0)]
    assert notation().sql(steps, Question(said)) == f"city_name = '{written}'"
    assert Notation(ITEMS, SPELLING).sql(steps, Question(said)) == f"city_name = '{said}'"


@pytest.mark.parametrize(
    ("said", "number"), [("six", "6"), ("Twelve", "12"), ("200,000", "200000"), ("1,500.5", "1500.5")]
)
def test_a_number_in_words_or_groups_of_digits_is_copied_too(said: str, number: str) -> None:
    sql, asked = f"SELECT area FROM state WHERE area > {number}", f"which have more than {said} people"
    found = notation().steps(sql, Question(asked))
    assert words(found, asked) == f"<bare> SELECT state.area FROM state WHERE state.area > «{said}» <end>"
    assert notation().sql(found, Question(asked)) == sql


def test_digits_are_copied_as_they_are_and_small_numbers_need_no_word() -> None:
    for limit in ("42", "7"):
        sql = f"SELECT area FROM state ORDER BY area LIMIT {limit}"
        found = notation().steps(sql, Question(ASKED))
        assert words(found, ASKED).endswith({"42": "LIMIT «42» <end>", "7": "LIMIT 7 <end>"}[limit])
        assert notation().sql(found, Question(ASKED)) == sql
