# SPDX-License-Identifier: Apache-2.0
"""The ledger: a silo's own record of every message that left it. Rows can be added, never changed or removed.

A row is written before its message leaves. Each row's `chain` is a digest over the row and the one before, so
a row that was altered or taken out with another program shows.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

from blake3 import blake3

from fedqa.federation import wire
from fedqa.federation.messages import Reply

_SCHEMA = """
CREATE TABLE IF NOT EXISTS ledger (
    time TEXT NOT NULL, course TEXT NOT NULL, round INTEGER NOT NULL, kind TEXT NOT NULL, tensors TEXT NOT NULL,
    bytes INTEGER NOT NULL, digest TEXT NOT NULL, privacy_budget REAL, chain TEXT NOT NULL);
CREATE TRIGGER IF NOT EXISTS no_update BEFORE UPDATE ON ledger
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER IF NOT EXISTS no_delete BEFORE DELETE ON ledger
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""


@dataclass(frozen=True)
class Row:
    """One message that left the silo."""

    time: str
    course: str
    round: int
    kind: str
    tensors: str  # JSON: name -> shape
    bytes: int
    digest: str  # BLAKE3 of the message
    privacy_budget: float | None  # spent by it, where the course adds noise

    def chained(self, before: str) -> str:
        return hashlib.sha256(json.dumps([before, *astuple(self)]).encode()).hexdigest()


_COLUMNS = ", ".join(field.name for field in fields(Row))


class Ledger:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: tuple[int, sqlite3.Connection] | None = None

    def open(self) -> None:
        """Create the table now, so that the first round need not."""
        self._connection.execute("SELECT 1")

    @property
    def _connection(self) -> sqlite3.Connection:
        # SQLite's connections do not survive a fork, and engines fork: each process opens its own.
        if self._open is None or self._open[0] != os.getpid():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self._path, isolation_level=None, timeout=30)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")  # survives kill -9; a power cut may take the last rows
            connection.executescript(_SCHEMA)
            self._open = (os.getpid(), connection)
        return self._open[1]

    def record(self, reply: Reply, course: str, round_number: int) -> int:
        """Add the row of a message about to leave, and return the message's size in bytes."""
        parts = wire.encode(reply)
        digest = blake3()
        for part in parts:
            digest.update(part)
        n_bytes = sum(len(part) for part in parts)
        kind = getattr(reply, "channel", type(reply).__name__.lower())
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        shapes = json.dumps(wire.shapes(reply))
        self._append(Row(now, course, round_number, kind, shapes, n_bytes, digest.hexdigest(), None))
        return n_bytes

    def _append(self, row: Row) -> None:
        marks = ",".join("?" * 9)
        self._connection.execute("BEGIN IMMEDIATE")
        last = self._connection.execute("SELECT chain FROM ledger ORDER BY rowid DESC LIMIT 1").fetchone()
        chain = row.chained(last[0] if last else "")
        self._connection.execute(f"INSERT INTO ledger VALUES ({marks})", (*astuple(row), chain))
        self._connection.execute("COMMIT")

    def rows(self) -> Iterator[Row]:
        for values in self._connection.execute(f"SELECT {_COLUMNS} FROM ledger ORDER BY rowid"):
            yield Row(*values)

    def first_broken(self) -> int | None:
        """The number of the first row, from 1, that does not fit the chain; None if all do."""
        query = f"SELECT {_COLUMNS}, chain FROM ledger ORDER BY rowid"  # at once: rows may be added meanwhile
        before = ""
        for number, (*values, chain) in enumerate(self._connection.execute(query), start=1):
            if Row(*values).chained(before) != chain:
                return number
            before = chain
        return None

    def close(self) -> None:
        if self._open is not None and self._open[0] == os.getpid():
            self._open[1].close()
        self._open = None
