# SPDX-License-Identifier: Apache-2.0
"""An SQLite database as its process may use it: opened read-only, and every access asked of an authoriser first."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from fedqa.databases.child import Failed, Rows
from fedqa.databases.functions import SQLITE

_STEPS = 5_000  # of SQLite's machine between two looks at the clock: well under a millisecond
_BUSY_S = 0.5  # how long it waits for one who writes
# What an expression calls without being written as a function.
_OPERATORS = frozenset({"like", "current_date", "current_time", "current_timestamp"})
_LIMITS = {
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_CODES = {
    "SQLITE_INTERRUPT": "time",
    "SQLITE_AUTH": "refused",
    "SQLITE_READONLY": "refused",
    "SQLITE_TOOBIG": "length",
    "SQLITE_NOMEM": "memory",
    "SQLITE_BUSY": "busy",
    "SQLITE_LOCKED": "busy",
    "SQLITE_CANTOPEN": "opening",
    "SQLITE_NOTADB": "kind",
    "SQLITE_CORRUPT": "kind",
    "SQLITE_ERROR": "meaning",
}


class SQLiteSession:
    """Opening reads the schema; from then on no other table can be read, whatever is asked."""

    def __init__(self, path: str, memory: int, length: int) -> None:
        try:
            self._connection = sqlite3.connect(
                f"{Path(path).as_uri()}?mode=ro", uri=True, timeout=_BUSY_S, isolation_level=None, cached_statements=0
            )
            self._connection.text_factory = _decoded
            self._relations = _relations(self._connection)
            self._denied = False
            self._harden(memory, length)
        except sqlite3.Error as problem:
            raise Failed(_code(problem)) from None

    def schema(self) -> dict[str, Any]:
        return {"relations": self._relations, "namespace": "main"}

    def rows(self, sql: str, seconds: float) -> Rows:
        self._denied = False
        deadline = time.monotonic() + seconds
        self._connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        try:
            with closing(self._connection.execute(sql)) as cursor:
                yield tuple(column[0] for column in cursor.description)
                yield from cursor
        except sqlite3.Error as problem:
            raise Failed("refused" if self._denied else _code(problem)) from None

    def _harden(self, memory: int, length: int) -> None:
        settings = ("query_only = ON", "trusted_schema = OFF", "temp_store = MEMORY", f"hard_heap_limit = {memory}")
        for setting in (*settings, "mmap_size = 0", "cell_size_check = ON"):
            self._connection.execute(f"PRAGMA {setting}").fetchall()
        for limit, value in {**_LIMITS, sqlite3.SQLITE_LIMIT_LENGTH: length}.items():
            self._connection.setlimit(limit, value)
        tables = {relation["name"].lower() for relation in self._relations}
        self._connection.set_authorizer(lambda *asked: self._authorised(tables, *asked))

    def _authorised(self, tables: set[str], action: int, first: str | None, second: str | None, *_: str | None) -> int:
        """Selecting, listed functions and the tables of the schema; nothing recursive, nothing else at all."""
        if action == sqlite3.SQLITE_READ:
            # Without a column, it is the name of a WITH, or of a table of which only the rows are counted.
            permitted = (first or "").lower() in tables or not second
        elif action == sqlite3.SQLITE_FUNCTION:
            permitted = (second or "").lower() in SQLITE | _OPERATORS
        else:
            permitted = action == sqlite3.SQLITE_SELECT
        self._denied = self._denied or not permitted
        return sqlite3.SQLITE_OK if permitted else sqlite3.SQLITE_DENY


def _code(problem: sqlite3.Error) -> str:
    name = getattr(problem, "sqlite_errorname", "")  # may be extended, as SQLITE_BUSY_SNAPSHOT
    return next((code for start, code in _CODES.items() if name.startswith(start)), "database")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _relations(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """Tables and views in the order they were made. What a module makes up as it is read is neither."""
    names = connection.execute(
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
        "AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY rowid"
    ).fetchall()
    return [{"name": name, "columns": _columns(connection, name)} for (name,) in names]


def _columns(connection: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
    keys = connection.execute('SELECT "from", "table", "to" FROM pragma_foreign_key_list(?)', [table])
    references = {column.lower(): f"{other}.{target or column}" for column, other, target in keys}
    found = connection.execute("SELECT name, type, pk FROM pragma_table_info(?)", [table])
    return [
        {"name": name, "type": type or "", "primary_key": key > 0, "references": references.get(name.lower(), "")}
        for name, type, key in found
    ]
