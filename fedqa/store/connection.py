# SPDX-License-Identifier: Apache-2.0
"""Opening a store's database, and the two ways to use it: reading one moment of it, and writing in turn.

Writers take turns: in SQLite by BEGIN IMMEDIATE, in PostgreSQL by a lock on one row, which is the first thing a writing
transaction asks for. So what a writer finds stays true until it commits, and history rows are numbered without gaps in
the order in which others get to see them. Readers never wait.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, select, text
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, TimeoutError

from fedqa.store import tables
from fedqa.store.records import StoreError

PATIENCE_S = 60  # how long a writer waits for its turn
_ACCEPTED = "a path, which is an SQLite file, or a URL like postgresql+psycopg://name@host/database"
_CREATING = 0x66656471  # the PostgreSQL advisory lock of those who find no tables
Clock = Callable[[], datetime]


class _Raw(Protocol):
    """A driver's own connection, as far as it is used here."""

    def execute(self, statement: str, /) -> object: ...

    def commit(self) -> None: ...


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Writing:
    """A transaction whose turn it is, and its time."""

    connection: Connection
    at: datetime


class Database:
    """Any number of threads may use it, but not a process forked from the one that opened it."""

    def __init__(self, where: str | Path, clock: Clock = utc_now) -> None:
        url = _url(where)
        self.name = url.render_as_string(hide_password=True)
        self.clock = clock
        self._process = os.getpid()
        self._turn = threading.Lock()  # threads of one process queue here: it is fair, and SQLite's waiting is not
        self._remains = True  # there may be removed text in the write-ahead log: left by who was killed
        with self._understood("opened"):
            self._engine = _sqlite(url) if url.get_backend_name() == "sqlite" else _postgresql(url)
        try:
            with self._understood("opened"):
                self._prepare()
        except BaseException:
            self._engine.dispose()
            raise

    @property
    def _is_sqlite(self) -> bool:
        return self._engine.dialect.name == "sqlite"

    def close(self) -> None:
        if os.getpid() == self._process:
            self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """All that is read inside is of one moment."""
        self._check_process()
        options = {} if self._is_sqlite else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with self._understood("read"), self._engine.connect().execution_options(**options) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """All or nothing; on the disk when the block is left. Never inside another `writing`."""
        self._check_process()
        with self._understood("written"), self._turn:
            with self._engine.connect().execution_options(fedqa_writing=True) as connection, connection.begin():
                self._lock(connection)
                yield Writing(connection, self.clock())
            if self._remains and self._is_sqlite:
                self._scrub(patience_ms=0)

    def forget(self) -> None:
        """After texts were removed: overwrite what the write-ahead log of SQLite still holds of them.

        While somebody reads, the log cannot be emptied; then it is tried again after each later change, and at closing.
        """
        if self._is_sqlite:
            with self._turn:
                self._scrub(patience_ms=1000)

    def _lock(self, connection: Connection) -> None:
        # READ COMMITTED, because each statement after the lock must see what those before us have committed.
        query = select(tables.facts.c.value).where(tables.facts.c.name == "format")
        connection.execute(query.with_for_update())  # SQLite leaves FOR UPDATE out: it has the lock already

    def _scrub(self, patience_ms: int) -> None:
        with closing(self._engine.raw_connection()) as raw:
            cursor = raw.cursor()
            cursor.execute(f"PRAGMA busy_timeout = {patience_ms}")
            try:
                cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                (hindered, *_), *_ = cursor.fetchall()
                self._remains = bool(hindered)
            except sqlite3.OperationalError:
                self._remains = True
            cursor.execute(f"PRAGMA busy_timeout = {PATIENCE_S * 1000}")

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise StoreError(
                f"the store {self.name} was opened in process {self._process} and is used in {os.getpid()}; "
                "open it anew after a fork"
            )

    @contextmanager
    def _understood(self, done: str) -> Iterator[None]:
        """What the database or its driver cannot do, in words. Statements and their values are never told."""
        try:
            yield
        except (DBAPIError, TimeoutError, sqlite3.DatabaseError) as problem:
            if isinstance(problem, IntegrityError) or (isinstance(problem, DataError) and done != "opened"):
                raise  # a mistake of ours
            cause = problem.orig if isinstance(problem, DBAPIError) else problem
            raise StoreError(
                f"the store {self.name} cannot be {done}: {' '.join(str(cause).split())}; "
                "check that it is there, that you may use it, that it is a store and that the disk is not full"
            ) from None

    def _prepare(self) -> None:
        with self._engine.connect() as connection:
            ready = inspect(connection).has_table("facts")
        if not ready:
            self._create()
        with self._engine.connect() as connection:
            self._check_format(connection)

    def _create(self) -> None:
        with self._engine.connect().execution_options(fedqa_writing=True) as connection, connection.begin():
            if not self._is_sqlite:
                _check_encoding(connection, self.name)
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _CREATING})
            found = set(inspect(connection).get_table_names())
            if not found:
                tables.create(connection)
            elif "facts" not in found:  # else another process was faster
                raise StoreError(f"{self.name} is a database of something else; name a new one for the store")

    def _check_format(self, connection: Connection) -> None:
        query = select(tables.facts.c.value).where(tables.facts.c.name == "format")
        form = connection.execute(query).scalar_one_or_none()
        if form != str(tables.FORMAT):
            raise StoreError(
                f"the store {self.name} has format {form}, and this fedqa reads {tables.FORMAT}; "
                "use the fedqa that wrote it to export it, and import that into a new store"
            )


def _url(where: str | Path) -> URL:
    if isinstance(where, Path) or "://" not in where:
        return URL.create("sqlite", database=str(Path(where).absolute()))
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):
        raise StoreError(f"the store's URL cannot be understood; write {_ACCEPTED}") from None
    if url.drivername in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if url.drivername == "sqlite" and url.database and url.database != ":memory:":
        return _url(Path(url.database))
    if url.drivername != "postgresql+psycopg":
        raise StoreError(f"a store cannot be in {url.render_as_string(hide_password=True)!r}; write {_ACCEPTED}")
    return url


def _sqlite(url: URL) -> Engine:
    assert url.database
    _make_file(Path(url.database))
    engine = create_engine(
        url,
        connect_args={"timeout": PATIENCE_S, "isolation_level": None, "check_same_thread": False},
        max_overflow=-1,  # writers queue before they ask for a connection; readers need not
        hide_parameters=True,
    )
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _make_file(path: Path) -> None:
    """The file holds what is nobody else's business: others may not read it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as problem:
        raise StoreError(
            f"the store {str(path)!r} cannot be opened: {problem.strerror}; name a file that you may write"
        ) from None


def _set_up_sqlite(raw: sqlite3.Connection, _: object) -> None:
    _use_wal(raw)
    raw.execute("PRAGMA synchronous = FULL")  # a commit is on the disk, not only out of this process
    raw.execute("PRAGMA secure_delete = ON")  # a removed text is overwritten
    raw.execute("PRAGMA foreign_keys = ON")


def _use_wal(raw: sqlite3.Connection) -> None:
    # Changing the mode does not wait for others, unlike all else: those who open a new file together must try again.
    deadline = time.monotonic() + PATIENCE_S
    while raw.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            raw.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _begin_sqlite(connection: Connection) -> None:
    writing = connection.get_execution_options().get("fedqa_writing")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _postgresql(url: URL) -> Engine:
    try:
        engine = create_engine(
            url, isolation_level="READ COMMITTED", pool_pre_ping=True, max_overflow=15, hide_parameters=True
        )
    except ImportError:
        raise StoreError("a store in PostgreSQL needs the package psycopg; pip install 'psycopg[binary]'") from None
    event.listen(engine, "connect", _set_up_postgresql)
    return engine


def _set_up_postgresql(raw: _Raw, _: object) -> None:
    raw.execute("SET synchronous_commit = on")
    raw.execute(f"SET lock_timeout = '{PATIENCE_S}s'")
    raw.commit()


def _check_encoding(connection: Connection, name: str) -> None:
    encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if encoding != "UTF8":
        raise StoreError(f"the database {name} is in {encoding}; a store needs one created with ENCODING 'UTF8'")
