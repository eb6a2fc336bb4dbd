# SPDX-License-Identifier: Apache-2.0
"""The process in which queries run. It speaks with its parent through two pipes and can do little else.

A message is a length in four bytes and JSON. The first one opens the database and is answered by its schema; each
further one is a query. Of errors only a code goes back: their text may hold data.
"""

import json
import math
import resource
import struct
import sys
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, BinaryIO, Protocol

LENGTH = struct.Struct(">I")
_BASE_MEMORY = 512_000_000  # address space for Python and its libraries, before any query
_MAX_FILE = 4_000_000  # bytes: SQLite shares memory with others who read a database through a file beside it
_GRACE_S = 2  # of processor time, after which the system ends a process whose parent did not

Row = tuple[object, ...]
Rows = Generator[Row, None, None]


class Failed(Exception):
    """A query, or the opening of a database, that failed; `code` is all that is told."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Session(Protocol):
    """An open database."""

    def schema(self) -> dict[str, Any]:
        """A table of `fedqa.databases.schema.Schema`."""

    def rows(self, sql: str, seconds: float) -> Rows:
        """The names of the columns, then row after row. Raises Failed; to be closed."""


def main(kind: str) -> None:
    """Serve one database until the pipe is closed."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    session: Session | None = None
    while (request := _receive(source)) is not None:
        try:
            if session is None:
                session = _opened(kind, request)
                answer = session.schema()
            else:
                answer = _answer(session, **request)
        except (Failed, MemoryError) as failure:
            answer = {"failed": failure.code if isinstance(failure, Failed) else "memory"}
        target.write(framed(answer))
        target.flush()


def framed(message: object) -> bytes:
    data = json.dumps(message).encode()
    return LENGTH.pack(len(data)) + data


def _receive(source: BinaryIO) -> Any:
    head = source.read(LENGTH.size)
    return json.loads(source.read(*LENGTH.unpack(head))) if head else None


def _opened(kind: str, request: dict[str, Any]) -> Session:
    open_session = _opener(kind)  # before memory is limited: libraries take much of it once
    _limit(resource.RLIMIT_AS, _BASE_MEMORY + request["memory"])
    _limit(resource.RLIMIT_FSIZE, _MAX_FILE)
    _limit(resource.RLIMIT_CORE, 0)
    return open_session(**request)


def _opener(kind: str) -> Callable[..., Session]:
    """Imported only here, so that each process loads the library of its own database alone."""
    if kind == "sqlite":
        from fedqa.databases.sqlite_session import SQLiteSession

        return SQLiteSession
    from fedqa.databases.postgres_session import PostgresSession

    return PostgresSession


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (bound, bound))


def _answer(session: Session, *, sql: str, seconds: float, rows: int, bytes: int) -> dict[str, Any]:
    """What the query gives, up to so many rows and bytes."""
    _limit_processor(seconds)
    with closing(session.rows(sql, seconds)) as found:
        columns = next(found)
        taken: list[list[object]] = []
        size = len(json.dumps(columns))
        for row in found:
            cells = [_cell(value) for value in row]
            size += len(json.dumps(cells))
            if len(taken) == rows or size > bytes:
                return {"columns": columns, "rows": taken, "truncated": True}
            taken.append(cells)
    return {"columns": columns, "rows": taken, "truncated": False}


def _limit_processor(seconds: float) -> None:
    """In case the parent is gone and a single step of the database does not end."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used.ru_utime + used.ru_stime + seconds) + _GRACE_S, hard))


def _cell(value: object) -> object:
    """As JSON can hold it: bytes in hexadecimal, and no number that is none."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
