# SPDX-License-Identifier: Apache-2.0
"""A database that answers queries nobody has read before, and can be neither changed nor kept busy by them.

What is guaranteed: once it is its turn, a query has an answer or an error within `limits.seconds` and half a second
more, whatever it does, because the process it runs in is then ended from outside. (The next query has to wait until
another has started, which takes a part of a second.) In SQLite, memory and temporary data are that process's and
bounded by `limits.memory`; nothing is written to a disk. A PostgreSQL server is told the same time limit and ends the
query by itself, at its next look at the clock; its own memory is bounded by `work_mem` for each sort or hash, and its
temporary files by `temp_file_limit` if the role was granted that setting.
"""

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from fedqa.databases.enclosure import Enclosure, Gone, Late
from fedqa.databases.records import Limits, QueryFailed, QueryRefused, Table
from fedqa.databases.schema import Schema
from fedqa.databases.statement import checked
from fedqa.databases.tokens import Dialect
from fedqa.errors import ConfigError
from fedqa.tables import from_table

GRACE_S = 0.5  # for the database to notice by itself that its time is over
_START_S = 60.0  # on a busy machine, programs start slowly
_ACCEPTED = "the path of an SQLite file, or a URL like postgresql://name@host/database"
_POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")

_FAILURES = {
    "time": ("it took too long", "ask for less, or raise the limit on seconds"),
    "memory": ("it needs too much memory", "ask for less, or raise the limit on memory"),
    "gone": ("the system ended its process", "ask for less: memory or processor time may be used up"),
    "length": ("a value in it is too long", "leave long columns out, or raise the limit on bytes"),
    "meaning": ("its names or types do not fit the database", "compare its columns and functions with the schema"),
    "value": ("a value does not fit where it is used", "compare the types of what is compared, computed and converted"),
    "busy": ("the database is being written", "ask again in a moment"),
    "connection": ("the database cannot be reached", "check that its server runs"),
    "database": ("the database gave it up", "check that the database is sound"),
}
_UNUSABLE = {
    "busy": "it is being written",
    "kind": "it is no SQLite database, or damaged",
    "opening": "it is not there, or not open to you",
    "empty": "it has no table that you may read",
}
_FATAL = ("connection", "memory")  # after which the process is of no more use
_REFUSAL = ("it asks for more than reading the tables of the schema", "ask for data with one plain SELECT")


class Database:
    """Any number of threads may use it; their queries run one after the other. Open several to run some at once."""

    def __init__(self, url: str, dialect: Dialect, name: str, limits: Limits) -> None:
        self._url = url
        self._lock = threading.Lock()
        self.dialect: Dialect = dialect
        self.name = name  # for messages: without user and password
        self.limits = limits
        self._enclosure, self._schema = self._opened()

    @classmethod
    def open(cls, where: str | Path, limits: Limits | None = None) -> Self:
        """A database by path or URL. Its schema is read now: open it again when tables were added."""
        url, dialect, name = _understood(where)
        return cls(url, dialect, name, limits or Limits())

    def schema(self) -> Schema:
        return self._schema

    def run(self, sql: str) -> Table:
        """The answer to one SELECT. Raises QueryRefused or QueryFailed, which tell nothing of data or query."""
        start = time.monotonic()
        statement = checked(sql, self.dialect, self._schema)
        limits = self.limits
        request = {"sql": statement, "seconds": limits.seconds, "rows": limits.rows, "bytes": limits.bytes}
        with self._lock:
            found = self._asked(request)
        if "failed" in found:
            raise _failure(found["failed"])
        rows = tuple(map(tuple, found["rows"]))
        return Table(tuple(found["columns"]), rows, found["truncated"], time.monotonic() - start)

    def close(self) -> None:
        """End its process. A later query would start another."""
        with self._lock:
            self._enclosure.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _asked(self, request: dict[str, object]) -> Any:
        try:
            if not self._enclosure.alive:
                self._enclosure, self._schema = self._opened()
            found = self._enclosure.ask(request, self.limits.seconds + GRACE_S)
        except ConfigError:
            return {"failed": "connection"}
        except Late:
            return {"failed": "time"}
        except Gone:
            return {"failed": "gone"}
        if found.get("failed") in _FATAL:
            self._enclosure.end()
        return found

    def _opened(self) -> tuple[Enclosure, Schema]:
        """A new process that has opened the database."""
        enclosure = Enclosure(self.dialect)
        try:
            found = enclosure.ask(self._opening(), _START_S)
        except (Late, Gone):
            found = {"failed": "opening"}
        code = found.get("failed") or (None if found["relations"] else "empty")
        if code:
            enclosure.end()
            raise self._unusable(code)
        return enclosure, from_table(Schema, found, f"the schema of {self.name}")

    def _opening(self) -> dict[str, object]:
        if self.dialect == "sqlite":
            return {"path": self._url, "memory": self.limits.memory, "length": self.limits.bytes}
        return {"url": self._url, "memory": self.limits.memory}

    def _unusable(self, code: str) -> ConfigError:
        if code == "mighty":
            return ConfigError(
                f"the role that opens the database {self.name} may read or write files of its server; "
                "name one that may only read the tables: CREATE ROLE reader LOGIN; GRANT pg_read_all_data TO reader"
            )
        reason = _UNUSABLE.get(code, "it does not answer")
        return ConfigError(f"the database {self.name} cannot be opened: {reason}; name {_ACCEPTED}")


def _failure(code: str) -> QueryFailed | QueryRefused:
    return QueryRefused(*_REFUSAL) if code == "refused" else QueryFailed(*_FAILURES.get(code, _FAILURES["database"]))


def _understood(where: str | Path) -> tuple[str, Dialect, str]:
    """The URL or absolute path, its dialect, and its name for messages."""
    text = str(where)
    if isinstance(where, str) and "://" in where:
        try:
            parts = urlsplit(where)
            host = parts.hostname or ""
        except ValueError:
            raise ConfigError(f"the URL of the database cannot be understood; write {_ACCEPTED}") from None
        if parts.scheme in _POSTGRES:
            return f"postgresql{where[len(parts.scheme) :]}", "postgres", f"postgresql://{host}{parts.path}"
        if parts.scheme != "sqlite" or not parts.path.strip("/"):
            raise ConfigError(f"a database cannot be at {parts.scheme}://…; write {_ACCEPTED}")
        text = unquote(parts.path[1:])
    # Not so much as opened here: on closing it, this process would lose the locks it may hold on it elsewhere.
    path = Path(text).absolute()
    if not path.is_file():
        raise ConfigError(f"there is no database {path}; name {_ACCEPTED}")
    return str(path), "sqlite", str(path)
