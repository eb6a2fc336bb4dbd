# SPDX-License-Identifier: Apache-2.0
"""SQL as steps and back: forms of aliases, values and queries, whatever a decoder may write, and all public data."""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sql_examples import ITEMS, PIECES, notation, words

from fedqa.data.formats import read_format
from fedqa.data.records import Collection
from fedqa.data.sample_queries import sample_queries
from fedqa.data.schema_text import read_schema
from fedqa.evaluation.sql import normalised
from fedqa.models.backbones import load_backbone
from fedqa.models.search import ITEM, PIECE, SPAN, SYMBOL, Step
from fedqa.skills.sql.grammar import Grammar
from fedqa.skills.sql.notation import Notation
from fedqa.skills.sql.question import Question
from fedqa.skills.sql.schema import SchemaItems
from fedqa.skills.sql.spelling import Spelling
from fedqa.skills.sql.symbols import RAW, SYMBOLS, symbol

SETS = ("geography", "restaurants", "scholar", "academic", "imdb", "yelp", "advising", "atis")
ASKED = "how big is Texas or north dakota with 4.5 people"


def steps_of(sql: str, question: str = ASKED) -> str:
    """The steps as words, once they are known to give the statement back."""
    asked = Question(question)
    steps = notation().steps(sql, asked)
    assert normalised(notation().sql(steps, asked)) == normalised(sql)
    return words(steps, question)


@pytest.mark.parametrize(
    ("sql", "steps"),
    [
        # by alias: a FROM of the tables whose columns are used is not said, in whichever query
        ("SELECT c.x", "<bare> SELECT name `c . name `x <end>"),
        (
            'SELECT CITYalias0.CITY_NAME FROM CITY AS CITYalias0 WHERE CITYalias0.STATE_NAME = "Texas" ;',
            "<aliased> SELECT city.city_name FROM* WHERE city.state_name = «Texas» <end>",
        ),
        (
            "SELECT CITYalias0.POPULATION FROM CITY AS CITYalias0 WHERE CITYalias0.POPULATION = ( SELECT MAX( "
            "CITYalias1.POPULATION ) FROM CITY AS CITYalias1 )",
            "<aliased> SELECT city.population FROM* WHERE city.population = (SELECT MAX( city.population ) FROM* ) "
            "<end>",
        ),
        (  # the second of two
            "SELECT CITYalias1.CITY_NAME FROM CITY AS CITYalias0 , CITY AS CITYalias1 WHERE CITYalias0.POPULATION < "
            "CITYalias1.POPULATION",
            "<aliased> SELECT city.city_name @2 FROM* WHERE city.population < city.population @2 <end>",
        ),
        (  # a FROM whose tables are not just those, or in another order, is said
            "SELECT STATEalias0.AREA FROM STATE AS STATEalias0 , CITY AS CITYalias0",
            "<aliased> SELECT state.area FROM state , city <end>",
        ),
        (  # numbers that counting does not give
            "SELECT CITYalias3.CITY_NAME FROM CITY AS CITYalias3",
            "<aliased> SELECT city.city_name FROM city #3 <end>",
        ),
        (  # the query around it
            "SELECT STATEalias0.AREA FROM STATE AS STATEalias0 WHERE EXISTS ( SELECT CITYalias0.CITY_NAME FROM CITY AS "
            "CITYalias0 , STATE AS STATEalias1 WHERE STATEalias1.AREA = STATEalias0.AREA )",
            "<aliased> SELECT state.area FROM* WHERE EXISTS (SELECT city.city_name FROM* WHERE state.area = state.area "
            "@out ) <end>",
        ),
        (  # what a query makes
            "SELECT DERIVED_TABLEalias0.STATE_NAME FROM ( SELECT CITYalias0.STATE_NAME , COUNT( 1 ) AS "
            "DERIVED_FIELDalias1 FROM CITY AS CITYalias0 ) AS DERIVED_TABLEalias0",
            "<aliased> SELECT DERIVED_TABLE . city.state_name FROM (SELECT city.state_name , COUNT( 1 ) AS "
            "DERIVED_FIELD #1 FROM* ) AS DERIVED_TABLE <end>",
        ),
        # aliases of people's own, with and without the word
        ("SELECT c.city_name FROM city AS c", "<aliased> SELECT city.city_name FROM city @bare AS name `c <end>"),
        (
            "SELECT t1.area FROM state t1 JOIN city AS t2 ON t1.state_name = t2.state_name",
            "<aliased> SELECT state.area FROM state @bare ~AS name `t `##1 JOIN city @bare AS name `t `##2 ON "
            "state.state_name = city.state_name <end>",
        ),
        # by table, and bare
        (
            "SELECT city.city_name, area FROM city JOIN state ON city.state_name = state.state_name",
            "<qualified> SELECT city.city_name , state.area @bare FROM city JOIN state ON city.state_name = "
            "state.state_name <end>",
        ),
        ("SELECT area FROM state ORDER BY area DESC LIMIT 1", "<bare> SELECT state.area FROM state ORDER BY state.area "
         "DESC LIMIT 1 <end>"),
        ("SELECT city.* FROM city", "<qualified> SELECT city .* FROM city <end>"),
        ("SELECT COUNT(*) FROM city UNION SELECT 2 FROM state", "<bare> SELECT COUNT(*) FROM city UNION SELECT 2 FROM "
         "state <end>"),
        # columns that the schema does not have, functions that the grammar does not
        ("SELECT city.mayor FROM city", "<qualified> SELECT city . name `m `##a `##y `##o `##r FROM city <end>"),
        ("SELECT foo(area) FROM state", "<bare> SELECT name( `f `##o `##o ( state.area ) FROM state <end>"),
    ],
)  # fmt: skip
def test_what_can_be_told_is_not_said(sql: str, steps: str) -> None:
    assert steps_of(sql) == steps


@pytest.mark.parametrize(
    ("value", "steps"),
    [
        ("'north dakota'", "«north dakota»"),
        ("'texas'", "_ «Texas»"),
        ("'NORTH DAKOTA'", "^^ «north dakota»"),
        ("'North Dakota'", "^ «north dakota»"),
        ("'NorTH dakota'", "«north dakota»"),  # no mark can tell: the case is lost, as in a comparison
        ("4.5", "«4.5»"),
        ("'4.5'", "' «4.5»"),
        ("'%Texas%'", "'%' «Texas» '%'"),
        ("'% Texas'", "'%' ' ' «Texas»"),
        ("7", "7"),
        ("77", "`7 `##7"),
        ("'7'", "' `7"),
        ("''", "''"),
        ("'Maine'", "^ `m `##a `##i `##n `##e"),
        ('"it\'s"', "`i `##t `##' `##s"),
    ],
)
def test_values_are_copied_from_the_question_or_spelled(value: str, steps: str) -> None:
    found = steps_of(f"SELECT area FROM state WHERE area = {value}")
    assert found == f"<bare> SELECT state.area FROM state WHERE state.area = {steps} <end>"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM city WHERE x = 'é'",
        "select avg ( area ) from state",
        "SELECT (area FROM WHERE",
        "WITH x AS (SELECT 1 FROM city) SELECT y FROM x",
        "SELECT\tarea||'x'\nFROM state -- why",
        "SELECT cityalias99.city_name FROM city AS cityalias99",
        "not SQL at all, 'unclosed",
        "",
    ],
)
def test_everything_can_be_said(sql: str) -> None:
    assert steps_of(sql).endswith("<end>")


def test_what_steps_cannot_say_is_spelled() -> None:
    assert steps_of("SELECT COUNT (area)").startswith("<raw> ^ `s ^ `##e")


def decoded() -> st.SearchStrategy[list[Step]]:
    kinds = {SYMBOL: len(SYMBOLS), PIECE: len(PIECES) + 3, ITEM: len(ITEMS.items) + 2, SPAN: 120}
    return st.lists(
        st.one_of(st.builds(Step, st.just(kind), st.integers(0, count - 1)) for kind, count in kinds.items()),
        max_size=30,
    )


@given(decoded())
def test_whatever_a_decoder_writes_is_some_text(steps: Sequence[Step]) -> None:
    assert isinstance(notation().sql(steps, Question(ASKED)), str)


# -- public data -------------------------------------------------------------------------------------------------


@cache
def spelling() -> Spelling:
    return Spelling(load_backbone("tiny").tokenizer.get_vocab())


def check(silo: Collection, every: int = 1) -> None:
    """Each SQL comes back, none is spelled as a whole, and the grammar accepts it; of the last, every so many."""
    items = SchemaItems(read_schema(silo.documents[0].text))
    told, lengths, refused = Notation(items, spelling()), [], 0
    for i, example in enumerate({example.sql: example for example in silo.examples}.values()):
        asked = Question(example.question)
        steps = told.steps(example.sql, asked)
        assert normalised(told.sql(steps, asked)) == normalised(example.sql)
        assert steps[0] != symbol(RAW)
        lengths.append(len(steps))
        refused += i % every == 0 and not accepted(Grammar(items), steps)
    assert refused <= 1  # one statement of all has a column that is not in its schema
    assert 8 <= np.median(lengths) <= 60


def accepted(rule: Grammar, steps: Sequence[Step]) -> bool:
    for step in steps:
        allowed = rule.allowed()
        kinds = {SYMBOL: allowed.symbols, ITEM: allowed.items}
        if not (kinds[step.kind][step.index] if step.kind in kinds else getattr(allowed, _NAMES[step.kind])):
            return False
        rule = rule.after(step)
    return True


_NAMES = {PIECE: "pieces", SPAN: "spans"}


@pytest.mark.parametrize("name", ["hospital", "bank"])
def test_every_sql_of_the_sample_alliance_comes_back(name: str, tmp_path: Path) -> None:
    check(sample_queries(name, tmp_path))


@pytest.mark.parametrize("name", SETS)
def test_every_sql_of_the_public_sets_comes_back(name: str) -> None:
    beside = Path(__file__).parents[4] / "shared" / "data"
    folder = Path(os.environ.get("FEDQA_DATA", beside)) / "text2sql"
    if not folder.exists():
        pytest.skip("public data set 'text2sql' not found; set FEDQA_DATA to the folder that holds it")
    check(read_format("text2sql", folder / f"{name}.json", {}), every=20 if name in ("advising", "atis") else 3)
