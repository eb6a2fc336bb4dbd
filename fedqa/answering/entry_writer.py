# SPDX-License-Identifier: Apache-2.0
"""Changes to an index on disk, each whole or not at all whenever the process is killed.

Vectors are written beyond the rows that count and synced; then one SQLite transaction counts them and takes in the
texts. A removed document leaves dead rows behind, until a third of its segment is dead: then what lives is copied into
a new file, which a transaction puts in the place of the old one. No change touches more than a segment or two, however
large the index.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from blake3 import blake3

from fedqa.answering.entry_store import Entry, EntryStore, Segment, Vectors, digest, transaction
from fedqa.errors import DataError

SEGMENT_ROWS = 16_384  # bounds what copying a segment costs: 25 MB at a width of 384
_NOWHERE = -1  # the segment of a document without entries
_DRAFT = "draft-"


@dataclass(frozen=True)
class IndexedDocument:
    """A document's entries with one vector each."""

    id: str
    entries: Sequence[Entry]
    vectors: Vectors  # [entries, width]

    def digests(self) -> tuple[str, str]:
        return digest(self.entries), blake3(_bytes(self.vectors)).hexdigest()


class EntryWriter:
    """The one writer of an index, from its making until `close` or the end of the process, however it ends."""

    def __init__(self, store: EntryStore, segment_rows: int = SEGMENT_ROWS) -> None:
        store.check_process()
        self._store, self._db, self._segment_rows = store, store.db, segment_rows
        self._lock = _locked(store.folder)
        self._sweep(drafts=True)

    def close(self) -> None:
        os.close(self._lock)

    def add(self, documents: Sequence[IndexedDocument]) -> int:
        """Add or replace documents, all or none; how many were not there in this form before."""
        with self._store.turn:
            digests = {document.id: document.digests() for document in documents}
            new = [document for document in documents if self._store.digests(document.id) != digests[document.id]]
            if new:
                with self._change() as version:
                    for document in new:
                        self._bury(document.id, version)
                    self._append(new, digests, version)
                self._compact()
            return len(new)

    def remove(self, document: str) -> bool:
        """False if there is none of that id."""
        with self._store.turn:
            if self._store.digests(document) is None:
                return False
            with self._change() as version:
                self._bury(document, version)
            self._compact()
            return True

    def draft(self, name: str) -> Path:
        """Where to write a derived file; it counts once `adopt` is called."""
        return self._store.folder / (_DRAFT + name)

    def adopt(self, kind: str, draft: Path, *, last: int, rows: int, about: dict[str, float]) -> None:
        """Put a derived file in the place of the one of its kind before."""
        for path in (*draft.rglob("*"), draft):
            _sync(path)
        with self._store.turn:
            with self._change() as version:
                final = draft.with_name(f"{kind}-{version:06d}")
                draft.replace(final)
                _sync(final.parent)
                row = (kind, final.name, last, rows, json.dumps(about))
                self._db.execute("INSERT OR REPLACE INTO derived VALUES (?, ?, ?, ?, ?)", row)
            self._sweep()

    @contextmanager
    def _change(self) -> Iterator[int]:
        """A transaction, with the version that it makes."""
        self._store.check_process()
        with transaction(self._db):
            version = self._store.version() + 1
            self._db.execute("UPDATE facts SET value = ? WHERE name = 'version'", (version,))
            yield version

    def _bury(self, document: str, version: int) -> None:
        found = self._db.execute("SELECT first, count, segment FROM documents WHERE id = ?", (document,)).fetchone()
        if not found:
            return
        first, count, segment = found
        self._db.execute("DELETE FROM entries WHERE number >= ? AND number < ?", (first, first + count))
        if segment == _NOWHERE:
            self._db.execute("DELETE FROM documents WHERE first = ?", (first,))
        self._db.execute("UPDATE documents SET id = NULL, digest = '', vectors = '' WHERE first = ?", (first,))
        self._db.execute("UPDATE segments SET dead = dead + ?, version = ? WHERE name = ?", (count, version, segment))

    def _append(self, new: Sequence[IndexedDocument], digests: dict[str, tuple[str, str]], version: int) -> None:
        rest = [document for document in new if document.entries]
        for document in new:
            if not document.entries:
                self._insert(document, digests[document.id], _NOWHERE)
        while rest:
            name, rows = self._segment_with_room()
            fit = _fitting(rest, self._segment_rows - rows)
            _write(self._store.vector_path(name), rows * self._store.width * 4, [one.vectors for one in rest[:fit]])
            for document in rest[:fit]:
                self._insert(document, digests[document.id], name)
            query = (
                "INSERT INTO segments VALUES (?, ?, 0, ?)"
                " ON CONFLICT (name) DO UPDATE SET rows = rows + excluded.rows, version = excluded.version"
            )
            self._db.execute(query, (name, sum(len(one.entries) for one in rest[:fit]), version))
            rest = rest[fit:]

    def _insert(self, document: IndexedDocument, digests: tuple[str, str], segment: int) -> None:
        first, count = int(self._store.fact("next number")), len(document.entries)
        # A document without entries takes a number too, as `first` is its key.
        self._db.execute("UPDATE facts SET value = ? WHERE name = 'next number'", (first + max(count, 1),))
        row = (first, count, segment, document.id, *digests)
        self._db.execute("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?)", row)
        entries = ((first + i, first, e.id, e.start, e.end, e.text) for i, e in enumerate(document.entries))
        self._db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", entries)

    def _segment_with_room(self) -> tuple[int, int]:
        """A segment and the rows that it has."""
        query = "SELECT name, rows FROM segments WHERE rows < ? ORDER BY rows DESC LIMIT 1"
        found: tuple[int, int] | None = self._db.execute(query, (self._segment_rows,)).fetchone()
        return found or (self._new_name(), 0)

    def _new_name(self) -> int:
        # Names are not used again: a reader may know another file by that name.
        name = int(self._store.fact("next segment"))
        self._db.execute("UPDATE facts SET value = ? WHERE name = 'next segment'", (name + 1,))
        return name

    def _compact(self) -> None:
        """Copy what lives of each segment of which a third is dead, together with a small one if both fit into one."""
        query = "SELECT name, rows - dead FROM segments WHERE dead * 3 >= rows LIMIT 1"
        small = "SELECT name FROM segments WHERE name != ? AND rows - dead + ? <= ? ORDER BY rows - dead LIMIT 1"
        while found := self._db.execute(query).fetchone():
            other = self._db.execute(small, (*found, self._segment_rows)).fetchone()
            with self._change() as version:
                self._copy([found[0], *(other or ())], version)
            self._sweep()

    def _copy(self, names: Sequence[int], version: int) -> None:
        sources = [self._segment(name) for name in names]
        numbers = np.concatenate([source.numbers[source.alive] for source in sources])
        vectors = np.concatenate([source.vectors[source.alive] for source in sources])
        new = self._new_name()
        for name in names:
            self._db.execute("DELETE FROM segments WHERE name = ?", (name,))
            self._db.execute("DELETE FROM documents WHERE segment = ? AND id IS NULL", (name,))
            self._db.execute("UPDATE documents SET segment = ? WHERE segment = ?", (new, name))
        if len(numbers):
            _write(self._store.vector_path(new), 0, [vectors[np.argsort(numbers)]])
            self._db.execute("INSERT INTO segments VALUES (?, ?, 0, ?)", (new, len(numbers), version))

    def _segment(self, name: int) -> Segment:
        rows, version = self._db.execute("SELECT rows, version FROM segments WHERE name = ?", (name,)).fetchone()
        return self._store.segment(name, rows, version)

    def _sweep(self, *, drafts: bool = False) -> None:
        """Delete files that do not count; drafts only when nobody can be writing one."""
        counted = {self._store.vector_path(name).name for (name,) in self._db.execute("SELECT name FROM segments")}
        counted |= {file for (file,) in self._db.execute("SELECT file FROM derived")}
        ours = ("vectors-", "keywords-", "approximate-", *((_DRAFT,) if drafts else ()))
        for path in self._store.folder.iterdir():
            if path.name.startswith(ours) and path.name not in counted:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _fitting(documents: Sequence[IndexedDocument], room: int) -> int:
    """How many of the documents go into the room; the last may jut out, as a document's rows stay together."""
    for i, document in enumerate(documents):
        room -= len(document.entries)
        if room <= 0:
            return i + 1
    return len(documents)


def _locked(folder: Path) -> int:
    lock = os.open(folder / "writer.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system gives it back when the process ends
    except OSError as problem:
        holder = os.read(lock, 20).decode() or "unknown"
        os.close(lock)
        raise DataError(
            f"the index in {folder} is being written by process {holder}, and only one may write; "
            "wait until it has ended, or close the index there"
        ) from problem
    os.ftruncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    return lock


def _write(path: Path, offset: int, vectors: Sequence[Vectors]) -> None:
    with path.open("r+b" if offset else "wb") as file:
        file.seek(offset)
        for part in vectors:
            file.write(_bytes(part))
        file.flush()
        os.fsync(file.fileno())
    if not offset:
        _sync(path.parent)


def _sync(path: Path) -> None:
    """Have the disk hold a file, or a folder's list of files."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _bytes(vectors: Vectors) -> bytes:
    return np.ascontiguousarray(vectors, dtype="<f4").tobytes()
