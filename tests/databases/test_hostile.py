# SPDX-License-Identifier: Apache-2.0
"""What means harm is refused or bounded: nothing is written, no file or network is reached, nothing comes late."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from databases.hostile import BOUNDED, BOUNDED_BY, CARELESS, QUESTIONS, REFUSED, REFUSED_BY
from databases.targets import QUICK, SECRET, Target

from fedqa.databases.database import GRACE_S
from fedqa.databases.enclosure import Enclosure, Gone, Late
from fedqa.databases.records import QueryError, QueryRefused, Table

SLACK_S = 30.0  # for a busy machine, and for the start of a new process; a query without limit takes hours
Fill = Callable[[str], str]


@pytest.fixture(scope="session")
def fill(secret_file: Path, open_port: int) -> Fill:
    return lambda text: text.replace("{file}", str(secret_file)).replace("{port}", str(open_port))


def attempt(target: Target, sql: str) -> Table | QueryError:
    """What comes of a statement, which must be in time, of bounded size, and without the secret."""
    start = time.monotonic()
    try:
        outcome: Table | QueryError = target.database.run(sql)
    except QueryError as error:
        outcome = error
    assert time.monotonic() - start < QUICK.seconds + GRACE_S + SLACK_S
    assert SECRET not in str(outcome)
    if isinstance(outcome, Table):
        assert len(outcome.rows) <= QUICK.rows and len(str(outcome.rows)) < 2 * QUICK.bytes
    return outcome


def test_there_are_enough_of_them_and_no_two_are_the_same() -> None:
    for dialect in ("sqlite", "postgres"):
        statements = REFUSED + REFUSED_BY[dialect] + BOUNDED + BOUNDED_BY[dialect] + QUESTIONS
        assert len(statements) == len(set(statements)) > 500


@pytest.mark.parametrize("n", range(len(REFUSED)))
def test_a_hostile_statement_is_refused(target: Target, fill: Fill, n: int) -> None:
    assert isinstance(attempt(target, fill(REFUSED[n])), QueryRefused), REFUSED[n][:200]


def test_what_only_one_database_understands_is_refused_by_it(target: Target, fill: Fill) -> None:
    for sql in REFUSED_BY[target.database.dialect]:
        assert isinstance(attempt(target, fill(sql)), QueryRefused), sql


def test_a_query_that_costs_without_measure_is_bounded(target: Target) -> None:
    for sql in BOUNDED + BOUNDED_BY[target.database.dialect]:
        assert not isinstance(attempt(target, sql), QueryRefused), sql[:200]


def test_a_question_is_no_statement(target: Target, fill: Fill) -> None:
    for question in QUESTIONS:
        assert isinstance(attempt(target, fill(question)), QueryRefused), question


def test_a_question_put_into_a_statement_as_it_is_does_no_harm(target: Target, fill: Fill) -> None:
    before = target.state()
    for template in CARELESS:
        for question in QUESTIONS:
            attempt(target, template.replace("{question}", fill(question)))
    assert target.state() == before


def test_a_question_put_into_a_statement_with_care_is_a_text_like_any_other(target: Target, fill: Fill) -> None:
    for question in QUESTIONS:
        text = fill(question).replace("'", "''")
        assert attempt(target, f"SELECT name FROM wards WHERE name = '{text}'").rows == ()  # type: ignore[union-attr]


def test_quotation_marks_and_escapes_are_read_as_the_database_reads_them(target: Target) -> None:
    table = attempt(target, r"SELECT 'a\''; DROP TABLE wards; --', '''', 'it''s', '/* -- */', '%s %(x)s $1 ? :a'")
    assert isinstance(table, Table)
    assert table.rows == ((r"a\'; DROP TABLE wards; --", "'", "it's", "/* -- */", "%s %(x)s $1 ? :a"),)


@pytest.fixture
def unguarded(target: Target) -> Iterator[Callable[[str], object]]:
    """Ask the inner process directly, as if all checks of the statement had failed."""
    database = target.database
    opening: dict[str, object] = {"memory": QUICK.memory}
    opening |= {"path": target.where, "length": QUICK.bytes} if database.dialect == "sqlite" else {"url": target.where}
    enclosures: list[Enclosure] = []

    def ask(sql: str) -> object:
        if not enclosures or not enclosures[-1].alive:
            enclosures.append(Enclosure(database.dialect))
            enclosures[-1].ask(opening, 60)
        try:
            return enclosures[-1].ask({"sql": sql, "seconds": 0.2, "rows": 10, "bytes": 10_000}, 0.2 + GRACE_S)
        except (Late, Gone):
            return None

    yield ask
    for enclosure in enclosures:
        enclosure.end()


def test_behind_a_guard_that_fails_stands_another(
    target: Target, fill: Fill, unguarded: Callable[[str], object]
) -> None:
    before = target.state()
    # Nothing but the first guard bounds the memory of a PostgreSQL server: what fills it is left out.
    for sql in (sql for sql in REFUSED if target.database.dialect == "sqlite" or "0000000" not in sql):
        start = time.monotonic()
        assert SECRET not in str(unguarded(fill(sql))), sql
        assert time.monotonic() - start < 0.2 + GRACE_S + SLACK_S, sql
    assert target.state() == before
