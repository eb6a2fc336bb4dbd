# SPDX-License-Identifier: Apache-2.0
"""Opening a store, and what protects it."""

import os
import re
import sqlite3
import stat
import sys
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import insert, text
from sqlalchemy.exc import DBAPIError

from fedqa.store import Store, StoreError, tables


def test_what_was_written_is_there_when_the_store_is_opened_again(where: str | Path) -> None:
    with Store.open(where) as store:
        document = store.add_document("Six hours.", "Fasting", source="", who="Ada")
    with Store.open(where) as store:
        assert store.all_documents() == [document]
        assert store.version == 1


@pytest.mark.parametrize("history", ["history", "people_history"])
def test_no_history_row_can_be_changed_or_removed(store: Store, history: str) -> None:
    store.add_document("Six hours.", "", source="", who="Ada")
    store.people().invite("owner")
    statements = [
        f"UPDATE {history} SET who = 'Eve'",
        f"DELETE FROM {history}",
        f"INSERT INTO {history} SELECT number, at, 'Eve', what, which, note FROM {history}",
    ]
    if store._database._is_sqlite:
        statements.append(
            f"INSERT OR REPLACE INTO {history} SELECT number, at, 'Eve', what, which, note FROM {history}"
        )
        statements.append(f"INSERT INTO {history} SELECT number + 2, at, 'Eve', what, which, note FROM {history}")
    else:
        statements.append(f"TRUNCATE {history} CASCADE")
    for statement in statements:
        refused = pytest.raises((DBAPIError, StoreError), match=r"the history can only be added to|duplicate key")
        with refused, store._database.writing() as writing:
            writing.connection.execute(text(statement))
    assert [change.who for change in store.history()] == ["Ada"]
    assert [change.number for change in store.people().history()] == [1]


def test_an_error_of_the_database_tells_no_text(store: Store) -> None:
    row = {"number": 1, "id": "d", "title": "", "digest": "", "source": "", "text": "SECRET", "folded": ""}
    with pytest.raises(DBAPIError) as caught, store._database.writing() as writing:
        writing.connection.execute(insert(tables.documents), [row])  # there is no history row 1
    assert "SECRET" not in str(caught.value)


def test_what_fails_inside_a_change_leaves_nothing_of_it(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store._database.writing() as writing:
        writing.connection.execute(insert(tables.facts).values(name="x", value="y"))
        raise ZeroDivisionError
    with store._database.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM facts")).scalar_one() == 1


def test_who_opens_and_reads_does_not_wait_for_who_writes(where: str | Path) -> None:
    with Store.open(where) as store:
        document = store.add_document("Six hours.", "", source="", who="Ada")
        with store._database.writing() as writing:
            writing.connection.execute(text("DELETE FROM documents"))
            with Store.open(where) as other:
                assert other.all_documents() == [document]


def test_a_store_of_another_format_is_not_opened(where: str | Path) -> None:
    with Store.open(where) as store, store._database.writing() as writing:
        writing.connection.execute(text("UPDATE facts SET value = '99'"))
    with pytest.raises(StoreError, match="has format 99, and this fedqa reads 1; use the fedqa that wrote it"):
        Store.open(where)


def test_a_database_of_something_else_is_not_opened(where: str | Path) -> None:
    if isinstance(where, Path):
        sqlite3.connect(where).execute("CREATE TABLE recipes (name TEXT)")
    else:
        with psycopg.connect(where.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute("CREATE TABLE recipes (name TEXT)")
    with pytest.raises(StoreError, match="is a database of something else; name a new one for the store"):
        Store.open(where)


def test_the_file_of_sqlite_is_for_its_owner_alone_and_made_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "silo.sqlite"
    with Store.open(str(path)) as store:
        store.add_document("Six hours.", "", source="", who="Ada")
        modes = {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {0o600}


def test_sqlite_is_set_up_to_keep_what_it_acknowledged_and_to_wait_its_turn(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/silo.sqlite") as store, store._database.reading() as connection:
        names = ("journal_mode", "synchronous", "secure_delete", "foreign_keys", "busy_timeout")
        found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in names]
    assert found == ["wal", 2, 1, 1, 60_000]  # 2: FULL


def test_postgresql_is_set_up_to_keep_what_it_acknowledged(database: str) -> None:
    with Store.open(database.replace("+psycopg", "")) as store, store._database.reading() as connection:
        names = ("synchronous_commit", "transaction_isolation", "transaction_read_only", "lock_timeout")
        found = [connection.execute(text(f"SHOW {name}")).scalar_one() for name in names]
    assert found == ["on", "repeatable read", "on", "1min"]


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("These are notes, and not a database at all.\n" * 20)
    with pytest.raises(
        StoreError, match=r"notes\.txt cannot be opened: file is not a database; check that it is there"
    ):
        Store.open(path)
    with pytest.raises(StoreError, match="cannot be opened: Is a directory; name a file that you may write"):
        Store.open(tmp_path)


@pytest.mark.parametrize(
    "where", ["mysql://me:hunter2@host/db", "sqlite://", "sqlite:///:memory:", "postgresql+asyncpg://me:hunter2@h/db"]
)
def test_a_database_of_another_kind_is_refused_without_telling_its_password(where: str) -> None:
    with pytest.raises(
        StoreError, match=r"a store cannot be in .*; write a path, which is an SQLite file, or a URL"
    ) as it:
        Store.open(where)
    assert "hunter2" not in str(it.value)


def test_a_url_that_is_none_is_refused_without_telling_its_password() -> None:
    with pytest.raises(StoreError, match="the store's URL cannot be understood; write a path") as it:
        Store.open("postgresql://me:hunter2@host:port/db")
    assert "hunter2" not in str(it.value)


def test_a_server_that_does_not_answer_is_told_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"the store postgresql\+psycopg://me:\*\*\*@/db.* cannot be opened: ") as it:
        Store.open(f"postgresql://me:hunter2@/db?host={tmp_path}")
    assert "hunter2" not in str(it.value)


def test_a_postgresql_database_that_is_not_in_utf_8_is_refused(postgresql: Path) -> None:
    with psycopg.connect(host=str(postgresql), user="postgres", dbname="postgres", autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(StoreError, match="is in LATIN1; a store needs one created with ENCODING 'UTF8'"):
        Store.open(f"postgresql+psycopg://postgres@/latin?host={postgresql}")


def test_a_store_whose_file_is_damaged_is_told(tmp_path: Path) -> None:
    path = tmp_path / "silo.sqlite"
    with Store.open(path) as store:
        for k in range(200):
            store.add_document(f"{k} " * 500, "", source="", who="Ada")
    content = bytearray(path.read_bytes())
    content[8192:-4096] = os.urandom(len(content) - 12288)
    path.write_bytes(content)
    with pytest.raises(StoreError, match=re.escape("cannot be")), Store.open(path) as store:
        store.collection()


def test_a_missing_driver_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match="a store in PostgreSQL needs the package psycopg; pip install"):
        Store.open("postgresql://me@host/db")
