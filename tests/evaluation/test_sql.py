# SPDX-License-Identifier: Apache-2.0
"""Whether SQL is right: by its text and by what it finds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fedqa.data.sample import sample_database, sample_pairs
from fedqa.databases.database import Database
from fedqa.databases.records import Cell, Limits, Table
from fedqa.evaluation.sql import exact_match, execution_match, execution_matches, normalised, same_result


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT A FROM B", "select a from b;"),
        ("select a from b ;", "select a from b;"),
        ("SELECT  a ,\n\tb FROM c ;", "select a, b from c;"),
        ("SELECT COUNT( * ) FROM c", "select count(*) from c;"),
        ("SELECT COUNT( DISTINCT a ) , MAX( b )", "select count(distinct a), max(b);"),
        ('SELECT a WHERE b = "New York"', "select a where b = 'new york';"),
        ("SELECT a WHERE b = 'New  York' ", "select a where b = 'new york';"),
        ("SELECT a WHERE b IN ( 1 , 2 )", "select a where b in (1, 2);"),
        ("", ";"),
    ],
)
def test_texts_are_made_alike_in_case_spaces_quotes_and_the_last_semicolon(sql: str, expected: str) -> None:
    assert normalised(sql) == expected


@pytest.mark.parametrize(
    ("predicted", "score"),
    [
        ('select stateALIAS0.capital FROM state as STATEalias0 where x="Texas"', 0.0),  # spaces around = are kept
        ('select stateALIAS0.capital FROM state as STATEalias0 where x = "Texas"', 1.0),
        ("select statealias0.capital from state as statealias0 where x = 'texas' ;", 1.0),
        ("select statealias0.capital from state as statealias0 where x = 'ohio'", 0.0),  # values are scored
        ("select capital from state where x = 'texas'", 0.0),  # the same meaning in other words is not
        ("", 0.0),
    ],
)
def test_an_exact_match_is_one_of_texts_and_not_of_meanings(predicted: str, score: float) -> None:
    gold = 'SELECT STATEalias0.CAPITAL FROM STATE AS STATEalias0 WHERE X = "texas" ;'
    assert exact_match(predicted, gold) == score


def test_other_accepted_texts_count_only_where_they_are_given() -> None:
    assert exact_match("select 2", "select 1") == 0.0
    assert exact_match("select 2", "select 1", ("select 3", "SELECT 2 ;")) == 1.0


def table(*rows: tuple[Cell, ...], columns: int = 2) -> Table:
    return Table(("a", "b", "c")[:columns], rows, truncated=False, seconds=0.0)


@pytest.mark.parametrize(
    ("found", "gold", "ordered", "same"),
    [
        (table(), table(), False, True),
        (table(columns=1), table(), False, False),
        (table((1, "x"), (2, "y")), table((2, "y"), (1, "x")), False, True),
        (table((1, "x"), (2, "y")), table((2, "y"), (1, "x")), True, False),
        (table((1, "x"), (2, "y")), table((1, "x"), (2, "y")), True, True),
        (table((1, "x"), (1, "x"), (2, "y")), table((1, "x"), (2, "y"), (2, "y")), False, False),
        (table((1, "x"), (1, "x")), table((1, "x")), False, False),
        (table((0.1 + 0.2, "x")), table((0.3, "x")), False, True),
        (table((0.1 + 0.2, "x")), table((0.3, "x")), True, True),
        (table((0.3001, "x")), table((0.3, "x")), False, False),
        (table((3.0, True)), table((3, 1)), False, True),
        (table((1_000_000_001, "x")), table((1_000_000_002, "x")), False, False),  # whole numbers are not rounded
        (table((None, "x")), table((None, "x")), False, True),
        (table((None, "x")), table((0, "x")), False, False),
        (table((None, "x")), table(("", "x")), False, False),
        (table(("3", "x")), table((3, "x")), False, False),
        (table(("x", 1)), table((1, "x")), False, False),  # columns in their order
        (table((0.1 + 0.2, 0.3), (0.3, 0.5)), table((0.3, 0.5), (0.3, 0.3)), False, True),
        (table((0.1 + 0.2, 0.3), (0.3, 0.3)), table((0.3, 0.5), (0.3, 0.3)), False, False),
    ],
)
def test_results_are_compared_row_for_row(found: Table, gold: Table, ordered: bool, same: bool) -> None:
    assert same_result(found, gold, ordered=ordered) is same


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    path: Path = sample_database("hospital", tmp_path_factory.mktemp("hospital"))
    with Database.open(path, Limits(rows=50)) as database:
        yield database


@pytest.mark.parametrize(
    ("predicted", "gold", "score"),
    [
        ("SELECT name AS ward FROM wards", "SELECT w.name FROM wards AS w", 1.0),
        ("SELECT name FROM wards ORDER BY beds", "SELECT name FROM wards", 1.0),
        ("SELECT name FROM wards", "SELECT name FROM wards ORDER BY beds DESC", 0.0),
        ("SELECT SUM(beds) FROM wards", "SELECT COUNT(*) FROM wards", 0.0),
        ("SELECT name, beds FROM wards", "SELECT beds, name FROM wards", 0.0),
        ("SELECT AVG(beds) FROM wards", "SELECT SUM(beds) * 1.0 / COUNT(*) FROM wards", 1.0),
        ("SELECT no_such_column FROM wards", "SELECT name FROM wards", 0.0),
        ("DROP TABLE wards", "SELECT name FROM wards", 0.0),
        ("the wards, please", "SELECT name FROM wards", 0.0),
        ("SELECT * FROM wards, wards AS w", "SELECT * FROM wards", 0.0),
        (
            "SELECT a.name FROM wards AS a, wards AS b, wards AS c",
            "SELECT name FROM wards",
            0.0,
        ),  # cut off: not the same
        ("SELECT name FROM wards", "SELECT no_such_column FROM wards", None),
        ("SELECT a.name FROM wards AS a, wards AS b, wards AS c",) * 2 + (None,),  # gold cut off: cannot be known
    ],
)
def test_an_execution_match_is_one_of_what_is_found(
    hospital: Database, predicted: str, gold: str, score: float | None
) -> None:
    assert execution_match(hospital, predicted, gold) == score


def test_matches_of_many_leave_out_those_without_a_gold_result(tmp_path: Path) -> None:
    where = str(sample_database("hospital", tmp_path))
    pairs = [
        ("SELECT 7 FROM wards LIMIT 1", "SELECT COUNT(*) FROM wards"),  # right for another reason
        ("SELECT name FROM wards", "SELECT COUNT(*) FROM wards"),
        ("SELECT nothing", "SELECT COUNT(*) FROM wards"),
        ("SELECT 1 FROM wards", "SELECT gold FROM wards"),
    ]
    assert execution_matches(where, pairs) == [1.0, 0.0, 0.0]
    assert execution_matches(str(tmp_path / "gone.sqlite"), pairs) == []  # a server away for a moment ends no training


@pytest.mark.parametrize("name", ["hospital", "bank"])
def test_all_of_the_samples_own_sql_can_be_scored(name: str, tmp_path: Path) -> None:
    pairs = [(example.sql, example.sql) for example in sample_pairs(name)]
    assert execution_matches(str(sample_database(name, tmp_path)), pairs) == [1.0] * len(pairs)
