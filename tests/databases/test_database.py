# SPDX-License-Identifier: Apache-2.0
"""Databases: what harmless queries find, what happens at the limits, and what is told when something fails."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from databases.targets import Target, address
from postgres import administer

from fedqa.data.sample import sample_database, sample_pairs
from fedqa.databases.database import GRACE_S, Database
from fedqa.databases.records import Limits, QueryFailed, QueryRefused, Table
from fedqa.databases.schema import Column, Relation, Schema
from fedqa.errors import ConfigError
from fedqa.evaluation.sql import same_result

WITH_DATABASE = ("hospital", "bank")
AMPLE = Limits(seconds=20, rows=100_000, bytes=10_000_000)
SQLITE_ONLY = ("JULIANDAY", "STRFTIME", "SUM(STATUS = ")


@pytest.mark.parametrize("name", WITH_DATABASE)
def test_every_query_of_the_sample_alliance_runs_and_finds_what_sqlite_finds(name: str, tmp_path: Path) -> None:
    path = sample_database(name, tmp_path)
    with closing(sqlite3.connect(path)) as plain, Database.open(path) as database:
        for pair in sample_pairs(name):
            assert list(database.run(pair.sql).rows) == plain.execute(pair.sql).fetchall(), pair.sql


@pytest.mark.parametrize("name", WITH_DATABASE)
def test_postgresql_finds_the_same(name: str, tmp_path: Path, server: Path) -> None:
    pairs = [pair for pair in sample_pairs(name) if not any(word in pair.sql.upper() for word in SQLITE_ONLY)]
    assert len(pairs) > 50
    path = sample_database(name, tmp_path)
    with Database.open(path, AMPLE) as one, Database.open(address(server, name), AMPLE) as other:
        for pair in pairs:
            assert same_result(other.run(pair.sql), one.run(pair.sql), ordered=False), pair.sql


def test_the_schema_has_tables_columns_types_and_keys(target: Target) -> None:
    schema = target.database.schema()
    assert [relation.name for relation in schema.relations] == [
        "wards",
        "clinicians",
        "patients",
        "admissions",
        "appointments",
        "medicines",
        "prescriptions",
    ]  # and nothing hidden
    whole, text = ("INTEGER", "TEXT") if target.database.dialect == "sqlite" else ("integer", "text")
    assert schema.relations[1] == Relation(
        "clinicians",
        (
            Column("clinician_id", whole, primary_key=True),
            Column("full_name", text),
            Column("role", text),
            Column("specialty", text),
            Column("ward_id", whole, references="wards.ward_id"),
            Column("joined_on", text),
        ),
    )


def test_a_model_is_told_of_the_schema_in_one_line() -> None:
    schema = Schema((Relation("State", (Column("NAME"), Column("area"))), Relation("city", (Column("Name"),))))
    assert schema.text() == " | state : name , area | city : name"


def test_rows_beyond_the_limit_are_cut_off(people: Path) -> None:
    with Database.open(people, Limits(rows=100)) as database:
        assert not database.run("SELECT id FROM people").truncated
        cut = database.run("SELECT a.id FROM people AS a, people AS b")
        assert (len(cut.rows), cut.truncated) == (100, True)


def test_bytes_beyond_the_limit_are_cut_off(people: Path) -> None:
    # ["note"] has 8 bytes and each row 1004: ["nnn…"].
    with Database.open(people, Limits(bytes=8 + 3 * 1004)) as database:
        cut = database.run("SELECT note FROM people")
        assert (len(cut.rows), cut.truncated) == (3, True)
        assert not database.run("SELECT note FROM people WHERE id < 3").truncated


def test_postgresql_is_cut_off_alike(server: Path) -> None:
    with Database.open(address(server, "hospital"), Limits(rows=30)) as database:
        cut = database.run("SELECT a.name FROM wards AS a, wards AS b")
        assert (len(cut.rows), cut.truncated) == (30, True)
    with Database.open(address(server, "hospital"), Limits(bytes=8 + 4 * 9)) as database:
        assert database.run("SELECT name FROM wards ORDER BY name").rows == (
            ("Alder",),
            ("Beech",),
            ("Cedar",),
            ("Hazel",),
        )


def test_values_of_sqlite_come_as_they_are(people: Path) -> None:
    with Database.open(people) as database:
        table = database.run("SELECT id, name, weight, photo, NULL, 9e999 AS much FROM people WHERE id = 5")
    assert table.columns == ("id", "name", "weight", "photo", "NULL", "much")
    assert table.rows == ((5, "person 5", 2.5, "05", None, "inf"),)
    assert 0 < table.seconds < 2 and not table.truncated


def test_values_of_postgresql_come_as_they_are(server: Path) -> None:
    with Database.open(address(server, "hospital")) as database:
        table = database.run(
            "SELECT 1, 2.50, CAST(3 AS DECIMAL), 1 = 1, NULL, DATE '2025-01-31', 99999999999999999999, "
            "CAST('NaN' AS FLOAT), 'é' FROM wards LIMIT 1"
        )
    assert table.rows == ((1, 2.5, 3, True, None, "2025-01-31", 1e20, "NaN", "é"),)


def test_a_query_that_takes_too_long_fails_and_the_next_one_runs(target: Target) -> None:
    endless = "SELECT COUNT(*) FROM admissions a, admissions b, admissions c, admissions d, admissions e"
    with pytest.raises(QueryFailed, match="it took too long; ask for less, or raise the limit on seconds"):
        target.database.run(endless)
    assert target.database.run("SELECT COUNT(*) FROM wards").rows == ((7,),)


def test_one_step_that_does_not_end_is_ended_from_outside(people: Path) -> None:
    """Each WITH stands for two of the one before it, and SQLite writes all of them out before it looks at a clock."""
    doubled = ", ".join(f"w{i + 1} AS (SELECT a.x FROM w{i} AS a, w{i} AS b)" for i in range(25))
    with Database.open(people, Limits(seconds=0.2)) as database:
        start = time.monotonic()
        with pytest.raises(QueryFailed, match=r"it took too long|it needs too much memory"):
            database.run(f"WITH w0 AS (SELECT 1 AS x), {doubled} SELECT COUNT(*) FROM w25")
        assert time.monotonic() - start < 0.2 + GRACE_S + 30  # for a busy machine; without limit it would take hours
        assert database.run("SELECT 1").rows == ((1,),)


def test_a_query_that_needs_too_much_memory_fails(people: Path) -> None:
    with Database.open(people, Limits(seconds=10, memory=3_000_000)) as database:
        with pytest.raises(QueryFailed, match="it needs too much memory; ask for less, or raise the limit on memory"):
            database.run("SELECT COUNT(DISTINCT a.note || a.id || b.id) FROM people AS a, people AS b")
        assert database.run("SELECT COUNT(*) FROM people").rows == ((100,),)


def test_a_process_that_is_ended_by_the_system_is_told_and_replaced(people: Path) -> None:
    before = _children()
    with Database.open(people, Limits(seconds=10)) as database:
        (process,) = _children() - before
        timer = threading.Timer(0.3, os.kill, (process, signal.SIGKILL))
        timer.start()
        with pytest.raises(QueryFailed, match="the system ended its process; ask for less: memory or processor time"):
            database.run("SELECT COUNT(*) FROM people a, people b, people c, people d, people e")
        timer.join()
        assert database.run("SELECT 1").rows == ((1,),)
    assert _children() == before


def _children() -> set[int]:
    path = Path(f"/proc/{os.getpid()}/task/{threading.get_native_id()}/children")
    if not path.exists():
        pytest.skip("this system does not tell which processes one has started")
    return {int(number) for number in path.read_text().split()}


def test_a_value_that_is_too_long_fails(people: Path) -> None:
    with (
        Database.open(people, Limits(bytes=1_500)) as database,
        pytest.raises(QueryFailed, match="a value in it is too long; leave long columns out, or raise the limit on"),
    ):
        database.run("SELECT note || note FROM people")


def test_a_query_that_does_not_fit_the_schema_fails(target: Target) -> None:
    with pytest.raises(QueryFailed, match="its names or types do not fit the database; compare its columns and"):
        target.database.run("SELECT no_such_column FROM wards")


def test_a_failure_repeats_nothing_of_the_data(server: Path) -> None:
    """PostgreSQL itself would say: invalid input syntax for type integer: "Alder"."""
    with Database.open(address(server, "hospital")) as database, pytest.raises(QueryFailed) as caught:
        database.run("SELECT CAST(name AS INTEGER) FROM wards")
    assert str(caught.value) == (
        "the query failed: a value does not fit where it is used; "
        "compare the types of what is compared, computed and converted"
    )
    assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_a_query_waits_for_one_who_writes_but_not_for_long(people: Path) -> None:
    with Database.open(people) as database, closing(sqlite3.connect(people, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(QueryFailed, match="the database is being written; ask again in a moment"):
            database.run("SELECT COUNT(*) FROM people")
        with pytest.raises(ConfigError, match="cannot be opened: it is being written"):
            Database.open(people)
        writer.execute("ROLLBACK")
        assert database.run("SELECT COUNT(*) FROM people").rows == ((100,),)


def test_what_others_write_meanwhile_is_found(people: Path) -> None:
    with closing(sqlite3.connect(people, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        with Database.open(people) as database:
            writer.execute("DELETE FROM people WHERE id >= 10")
            assert database.run("SELECT COUNT(*) FROM people").rows == ((10,),)


def test_a_database_that_nobody_has_open_is_read_in_write_ahead_mode_too(people: Path) -> None:
    with closing(sqlite3.connect(people, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
    with Database.open(people) as database:
        assert database.run("SELECT COUNT(*) FROM people").rows == ((100,),)


def test_views_are_read_and_what_modules_make_up_is_not(people: Path) -> None:
    with closing(sqlite3.connect(people, isolation_level=None)) as writer:
        writer.execute("CREATE VIEW heavy AS SELECT name, UPPER(name) || '!' FROM people WHERE weight > 49")
        writer.execute("CREATE VIEW random_one AS SELECT hex(randomblob(3)) AS x FROM people")
        writer.execute("CREATE VIRTUAL TABLE found USING fts5(note)")
    with Database.open(people) as database:
        names = [relation.name for relation in database.schema().relations]
        assert names[:3] == ["people", "heavy", "random_one"] and "found" not in names
        assert database.run("SELECT * FROM heavy").rows == (("person 99", "PERSON 99!"),)
        with pytest.raises(QueryRefused, match="it names a table that the schema does not have"):
            database.run("SELECT * FROM found")
        with pytest.raises(QueryRefused, match="it asks for more than reading the tables of the schema; ask for data"):
            database.run("SELECT * FROM random_one")


def test_a_connection_that_was_lost_is_made_anew(server: Path) -> None:
    with Database.open(address(server, "hospital")) as database:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'"
        administer(server, ended)
        with pytest.raises(QueryFailed, match="the database cannot be reached; check that its server runs"):
            for _ in range(100):  # the end is not noticed at once
                database.run("SELECT COUNT(*) FROM wards")
                time.sleep(0.05)
        assert database.run("SELECT COUNT(*) FROM wards").rows == ((7,),)


def test_a_database_that_went_away_cannot_be_reached(people: Path) -> None:
    with Database.open(people) as database:
        database.close()
        people.unlink()
        with pytest.raises(QueryFailed, match="the database cannot be reached"):
            database.run("SELECT 1")


def test_threads_share_a_database(people: Path) -> None:
    found: list[Table] = []
    with Database.open(people) as database:
        work = [
            threading.Thread(target=lambda i=i: found.append(database.run(f"SELECT {i}, COUNT(*) FROM people")))
            for i in range(20)
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
    assert sorted(table.rows[0] for table in found) == [(i, 100) for i in range(20)]


def test_a_forked_process_has_a_process_of_its_own(people: Path) -> None:
    with Database.open(people) as database:
        child = os.fork()
        if child == 0:
            right = database.run("SELECT COUNT(*) FROM people").rows == ((100,),)
            database.close()
            os._exit(0 if right else 1)
        assert database.run("SELECT MAX(id) FROM people").rows == ((99,),)
        assert os.waitpid(child, 0)[1] == 0
        assert database.run("SELECT MIN(id) FROM people").rows == ((0,),)


def test_a_path_may_hold_any_characters(people: Path) -> None:
    odd = people.with_name("odd ?mode=rwc&x=%41#é.sqlite")
    people.rename(odd)
    for where in (odd, str(odd), f"sqlite:///{str(odd).replace('%', '%25').replace('?', '%3F').replace('#', '%23')}"):
        with Database.open(where) as database:
            assert database.run("SELECT COUNT(*) FROM people").rows == ((100,),)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("no/such.sqlite", r"there is no database /.*/no/such\.sqlite; name the path of an SQLite file, or a URL like"),
        (__file__, r"test_database\.py cannot be opened: it is no SQLite database, or damaged; name the path of"),
        ("mysql://name:pw123@host/x", "a database cannot be at mysql://…; write the path of an SQLite file"),
        ("sqlite://", "a database cannot be at sqlite://…; write the path"),
        ("postgresql://name:pw123@[host/x", "the URL of the database cannot be understood; write the path"),
        (
            "postgresql://name:pw123@127.0.0.1:1/x",
            "the database postgresql://127.0.0.1/x cannot be opened: it is not there, or not open to you; name",
        ),
    ],
)
def test_what_cannot_be_opened_is_told_without_secrets(where: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        Database.open(where)
    assert "pw123" not in str(caught.value)


def test_a_damaged_database_cannot_be_opened(people: Path) -> None:
    people.write_bytes(people.read_bytes()[:100] + b"\xff" * 5000)
    with pytest.raises(ConfigError, match="cannot be opened: it is no SQLite database, or damaged"):
        Database.open(people)


def test_a_database_without_tables_cannot_be_opened(tmp_path: Path, server: Path) -> None:
    (tmp_path / "empty.sqlite").touch()
    for where in (tmp_path / "empty.sqlite", address(server, "postgres")):
        with pytest.raises(ConfigError, match="cannot be opened: it has no table that you may read"):
            Database.open(where)


def test_opening_a_database_leaves_the_locks_that_this_process_holds_on_it(people: Path) -> None:
    """Systems drop them as soon as a process closes the file, however many times it has it open."""
    with closing(sqlite3.connect(people, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        Database.open(people).close()
        script = f"import sqlite3; sqlite3.connect({str(people)!r}, timeout=0).execute('BEGIN IMMEDIATE')"
        other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "database is locked" in other.stderr


def test_a_role_that_may_do_anything_is_not_let_in(server: Path) -> None:
    administer(server, "CREATE ROLE curious LOGIN", "GRANT pg_read_server_files TO curious")
    for role in ("postgres", "curious"):
        with pytest.raises(ConfigError, match="may read or write files of its server; name one that may only read"):
            Database.open(address(server, "hospital", role))
    administer(server, "DROP ROLE curious")


@pytest.mark.parametrize("name", ["seconds", "rows", "bytes", "memory"])
def test_a_limit_of_nothing_is_an_error(name: str) -> None:
    with pytest.raises(ConfigError, match=f"the limit '{name}' must be above 0, got 0"):
        Limits(**{name: 0})  # type: ignore[arg-type]
