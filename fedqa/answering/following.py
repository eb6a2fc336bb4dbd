# SPDX-License-Identifier: Apache-2.0
"""An index that follows a store: documents that were removed leave it at once, those that came are taken in."""

import json
import time
from collections.abc import Iterator

from fedqa.answering.answers import stored_document
from fedqa.answering.document_index import DocumentIndex
from fedqa.data.records import Document
from fedqa.files import write_json
from fedqa.store import Change, Store

_CHANGES = 1000  # read from the history at a time
_CHARACTERS = 20_000  # of documents that are taken in at a time


class Following:
    """Which documents an index still lacks. One thread at a time; `index` may be asked meanwhile."""

    def __init__(self, index: DocumentIndex, store: Store) -> None:
        self.index, self._store, self._note = index, store, index.folder / "followed.json"
        self._seen: int | None = None  # version of the store up to which changes are made or in `_missing`
        self._missing: dict[str, None] = {}  # ids, in the order of their coming

    @property
    def complete(self) -> bool:
        """Is all there that was in the store when `look` was last called?"""
        return not self._missing

    @property
    def behind(self) -> bool:
        """Has the store changed since?"""
        return self._store.version != self._seen

    def look(self) -> None:
        """Note what has changed; documents that were removed leave the index."""
        version = self._store.version
        since = self._noted() if self._seen is None else self._seen
        if since is not None and since <= version:
            for change in self._changes(since):
                self._follow(change)
        if self._seen is None and not self._tallies():
            self._look_at_all()
        self._seen = version

    def _tallies(self) -> bool:
        """Are there as many documents as in the store? Else the note is of another store, or of another index."""
        here = self.index.ids().union(self._missing)
        return len(here) == self._store.documents(limit=1).total

    def _look_at_all(self) -> None:
        ids = [document.id for document in self._store.all_documents()]
        self.index.remove(self.index.ids().difference(ids))
        self._missing = dict.fromkeys(ids)  # what is there in the same form will not be encoded again

    def take_in(self, until: float) -> int:
        """Take documents in, some at a time, until all are there or the clock (monotonic) says `until`; how many."""
        taken = 0
        while self._missing and (not taken or time.monotonic() < until):
            some = list(self._some())
            taken += self.index.add([document for _, document in some if document])
            for id, _ in some:
                self._missing.pop(id)
        if not self._missing:
            write_json(self._note, {"version": self._seen})
        return taken

    def _some(self) -> Iterator[tuple[str, Document | None]]:
        characters = 0
        for id in self._missing:
            document = stored_document(self._store, id)
            yield id, document
            characters += len(document.text) if document else 0
            if characters > _CHARACTERS:
                return

    def _changes(self, since: int) -> Iterator[Change]:
        while changes := self._store.history(since=since, limit=_CHANGES, newest_first=False):
            yield from changes
            since = changes[-1].number

    def _follow(self, change: Change) -> None:
        if change.what == "document removed":
            self._missing.pop(change.which, None)
            self.index.remove([change.which])
        elif change.what == "document added":
            self._missing[change.which] = None

    def _noted(self) -> int | None:
        """The version that the index was at when it was last closed; None if that is not known."""
        try:
            return int(json.loads(self._note.read_text(encoding="utf-8"))["version"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
