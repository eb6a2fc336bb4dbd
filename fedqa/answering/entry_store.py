# SPDX-License-Identifier: Apache-2.0
"""The entries of an index (sentences or passages) and their vectors on disk, as readers see them.

SQLite holds the truth: which documents there are, their entries, and how many rows of which vector file count. The
vectors lie beside it in flat float32 files of some ten thousand rows, *segments*, and are mapped into memory. What is
in a file beyond the rows that count, and a file that nothing counts, was left by a killed process and means nothing.

Entries are numbered in the order of their coming, and a number is never used again. A document's numbers are
consecutive, a segment's ascend. `fedqa.answering.entry_writer` makes the changes.
"""

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from fedqa.errors import DataError

Vectors = npt.NDArray[np.float32]  # [rows, width]
Numbers = npt.NDArray[np.int64]
T = TypeVar("T")

_LOOKS = 5  # at an index whose files go while we look
_FORMAT = 1
_FILE = "entries.sqlite"
_SCHEMA = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID",
    "CREATE TABLE segments (name INTEGER PRIMARY KEY, rows INTEGER NOT NULL, dead INTEGER NOT NULL,"
    " version INTEGER NOT NULL)",
    # A removed document keeps its row, without an id, as long as its vectors are in the segment's file.
    "CREATE TABLE documents (first INTEGER PRIMARY KEY, count INTEGER NOT NULL, segment INTEGER NOT NULL,"
    " id TEXT UNIQUE, digest TEXT NOT NULL, vectors TEXT NOT NULL)",
    "CREATE INDEX documents_of_segment ON documents (segment, first)",
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, document INTEGER NOT NULL, id TEXT NOT NULL,"
    " start INTEGER NOT NULL, end INTEGER NOT NULL, text TEXT NOT NULL)",
    "CREATE TABLE derived (kind TEXT PRIMARY KEY, file TEXT NOT NULL, last INTEGER NOT NULL, rows INTEGER NOT NULL,"
    " about TEXT NOT NULL)",
)


@dataclass(frozen=True)
class Entry:
    """A sentence or passage: characters `start` to `end` of its document."""

    id: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Place:
    """Where an entry stands."""

    entry: str
    document: str
    start: int
    end: int


@dataclass(frozen=True)
class Segment:
    """The rows of one vector file."""

    version: int  # of the index when the segment last changed
    numbers: Numbers  # [rows], ascending: whose vector a row is
    alive: npt.NDArray[np.bool_]  # [rows]
    vectors: Vectors  # [rows, width]

    def rows_of(self, numbers: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """The row of each number, and which of the numbers are here and alive."""
        rows = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
        return rows, (self.numbers[rows] == numbers) & self.alive[rows]


@dataclass(frozen=True)
class Moment:
    """The index at one moment; its memory stays valid whatever happens to the files."""

    version: int
    width: int
    segments: tuple[Segment, ...]

    def live(self) -> Numbers:
        """The numbers of all entries, ascending."""
        parts = [segment.numbers[segment.alive] for segment in self.segments]
        return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *parts]))

    def vectors_of(self, numbers: Numbers) -> tuple[Numbers, Vectors]:
        """Those of the numbers that are alive, in any order, and their vectors."""
        found, vectors = [numbers[:0]], [np.empty((0, self.width), dtype=np.float32)]
        for segment in self.segments:
            rows, here = segment.rows_of(numbers)
            found.append(numbers[here])
            vectors.append(segment.vectors[rows[here]])
        return np.concatenate(found), np.concatenate(vectors)


@dataclass(frozen=True)
class Derived:
    """A file or folder made of the entries up to a number, to search them faster; it can always be made again."""

    path: Path
    last: int  # the highest number it was made of
    rows: int
    about: dict[str, float]


class Lost(DataError):
    """A file is gone that counted when the moment was read."""


class EntryStore:
    """Any number of processes may read. Safe to use from several threads, not across a fork."""

    def __init__(self, folder: Path, width: int, encoder: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.width = folder, width
        self.turn = threading.RLock()  # one thread at a time uses the connection
        self._process = os.getpid()
        self._moment = Moment(-1, width, ())
        self._segments: dict[int, Segment] = {}
        try:
            self.db = _connected(folder / _FILE, width, encoder)
        except sqlite3.DatabaseError as problem:
            raise self._damaged(problem) from problem
        try:
            self._check(encoder)
        except DataError:
            self.db.close()
            raise

    def _check(self, encoder: str) -> None:
        form = self.db.execute("PRAGMA user_version").fetchone()[0]
        if form != _FORMAT:
            raise DataError(f"the index in {self.folder} has format {form}, and this fedqa reads {_FORMAT}; {_ANEW}")
        made = self.fact("width"), self.fact("encoder")
        if made != (self.width, encoder):
            raise DataError(
                f"the index in {self.folder} holds vectors of width {made[0]} by the encoder {made[1]!r}, and was "
                f"opened for width {self.width} and the encoder {encoder!r}; vectors of two encoders cannot be "
                f"compared: {_ANEW}"
            )

    def _damaged(self, problem: Exception) -> DataError:
        return DataError(f"the index in {self.folder} is damaged ({problem}); {_ANEW}")

    def check_process(self) -> None:
        if os.getpid() != self._process:
            raise DataError(
                f"the index in {self.folder} was opened in process {self._process} and is used in {os.getpid()}; "
                "open it anew after a fork"
            )

    def close(self) -> None:
        with self.turn:
            self.db.close()
            self._moment, self._segments = Moment(-1, self.width, ()), {}

    def read(self, work: Callable[[Moment], T]) -> T:
        """Do `work` with one moment of the index; what it asks of the store is of the same moment."""
        with self.turn:
            self.check_process()
            for look in range(_LOOKS):
                self.db.execute("BEGIN")
                try:
                    return work(self._refreshed())
                except Lost as problem:
                    # The writer deletes a file once another has taken its place: the next look finds that one.
                    if look == _LOOKS - 1:
                        raise self._damaged(problem) from problem
                finally:
                    self.db.execute("ROLLBACK")
        raise AssertionError

    def _refreshed(self) -> Moment:
        version = self.version()
        if version != self._moment.version:
            now = {}
            for name, rows, changed in self.db.execute("SELECT name, rows, version FROM segments ORDER BY name"):
                known = self._segments.get(name)
                now[name] = known if known and known.version == changed else self.segment(name, rows, changed)
            self._segments, self._moment = now, Moment(version, self.width, tuple(now.values()))
        return self._moment

    def segment(self, name: int, rows: int, version: int) -> Segment:
        query = "SELECT first, count, id IS NOT NULL FROM documents WHERE segment = ? ORDER BY first"
        runs = np.array(self.db.execute(query, (name,)).fetchall(), dtype=np.int64).reshape(-1, 3)
        first, count, alive = runs.T
        numbers = np.arange(count.sum()) + np.repeat(first - (np.cumsum(count) - count), count)
        try:
            vectors = np.memmap(self.vector_path(name), dtype="<f4", mode="r", shape=(rows, self.width))
        except (FileNotFoundError, ValueError) as problem:  # a ValueError: the file is too short
            raise Lost(f"{self.vector_path(name).name}: {problem}") from problem
        return Segment(version, numbers, np.repeat(alive > 0, count), vectors.view(np.ndarray))

    def vector_path(self, segment: int) -> Path:
        return self.folder / f"vectors-{segment:06d}.f32"

    def version(self) -> int:
        return int(self.fact("version"))

    def fact(self, name: str) -> int | str:
        value: int | str = self.db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()[0]
        return value

    def places(self, numbers: Iterable[int]) -> dict[int, Place]:
        query = (
            "SELECT e.number, e.id, d.id, e.start, e.end FROM entries e JOIN documents d ON d.first = e.document"
            " WHERE e.number IN (SELECT value FROM json_each(?))"
        )
        found = self.db.execute(query, (json.dumps(list(numbers)),))
        return {number: Place(*values) for number, *values in found}

    def texts(self, after: int) -> Iterator[tuple[int, str]]:
        """The entries numbered above `after`, in order."""
        yield from self.db.execute("SELECT number, text FROM entries WHERE number > ? ORDER BY number", (after,))

    def derived(self, kind: str) -> Derived | None:
        query = "SELECT file, last, rows, about FROM derived WHERE kind = ?"
        found = self.db.execute(query, (kind,)).fetchone()
        return Derived(self.folder / found[0], found[1], found[2], json.loads(found[3])) if found else None

    def counts(self) -> tuple[int, int, int]:
        """Documents, rows, and dead rows among them."""
        documents = self.db.execute("SELECT COUNT(id) FROM documents").fetchone()[0]
        rows, dead = self.db.execute("SELECT TOTAL(rows), TOTAL(dead) FROM segments").fetchone()
        return documents, int(rows), int(dead)

    def documents(self) -> set[str]:
        with self.turn:
            self.check_process()
            return {row[0] for row in self.db.execute("SELECT id FROM documents WHERE id IS NOT NULL")}

    def digests(self, document: str) -> tuple[str, str] | None:
        """Of a document's entries and of its vectors."""
        with self.turn:
            self.check_process()
            query = "SELECT digest, vectors FROM documents WHERE id = ?"
            found: tuple[str, str] | None = self.db.execute(query, (document,)).fetchone()
            return found


_ANEW = "open another folder, or delete this one, and add the documents anew"


def made_for(folder: Path) -> tuple[int, str]:
    """The width and the encoder of the index in a folder; raises DataError if there is none that can be read."""
    try:
        db = sqlite3.connect(f"{(folder / _FILE).absolute().as_uri()}?mode=rw", uri=True)
        try:
            facts = dict(db.execute("SELECT name, value FROM facts").fetchall())
        finally:
            db.close()
        return int(facts["width"]), str(facts["encoder"])
    except (sqlite3.Error, KeyError) as problem:
        raise DataError(f"there is no index in {folder} that can be read ({problem}); {_ANEW}") from problem


def digest(entries: Sequence[Entry]) -> str:
    values = [[entry.id, entry.text, entry.start, entry.end] for entry in entries]
    return blake3(json.dumps(values).encode()).hexdigest()


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; on the disk when the block is left."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _connected(path: Path, width: int, encoder: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False)
    try:
        if db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")  # a commit is on the disk, not only out of this process
        db.execute("PRAGMA secure_delete = ON")  # a removed text is overwritten
        if db.execute("PRAGMA user_version").fetchone()[0] == 0:
            with transaction(db):
                _create(db, width, encoder)
    except BaseException:
        db.close()
        raise
    return db


def _create(db: sqlite3.Connection, width: int, encoder: str) -> None:
    if db.execute("PRAGMA user_version").fetchone()[0]:
        return  # another process was faster
    for statement in _SCHEMA:
        db.execute(statement)
    facts = {"width": width, "encoder": encoder, "version": 0, "next number": 0, "next segment": 0}
    db.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
    db.execute(f"PRAGMA user_version = {_FORMAT}")
