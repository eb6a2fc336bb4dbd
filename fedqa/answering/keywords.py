# SPDX-License-Identifier: Apache-2.0
"""Answers by keywords alone, from the index that a desk has left on disk: what there is before the models are loaded.

It is read as it was left: what has been added to the store since is not found, what has been removed is not shown.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from fedqa.answering.answers import Answer, Found, answer_of, passage_at, stored_document
from fedqa.answering.keyword_store import words
from fedqa.answering.vector_index import VectorIndex
from fedqa.data.passages import Passage
from fedqa.data.sentences import sentences
from fedqa.errors import DataError
from fedqa.store import Store

_FOUND = 20  # pieces that are looked at, at least: several may stand in one passage
# What an index that is deleted, replaced or closed while it is read may raise.
UNREADABLE = (DataError, sqlite3.Error, OSError)


class Keywords:
    """An index on disk and the store its documents stand in. Safe to use from several threads."""

    def __init__(self, index: VectorIndex, store: Store) -> None:
        self._index, self._store = index, store

    @classmethod
    def open(cls, indexes: Path, store: Store) -> "Keywords | None":
        """Over the newest of the indexes in a folder; None if there is none that can be read."""
        try:
            folders = [path for path in indexes.iterdir() if path.is_dir()]
            index = VectorIndex.existing(max(folders, key=lambda path: path.stat().st_mtime_ns))
        except (ValueError, *UNREADABLE):  # a ValueError: there are none
            return None
        try:
            # All that it needs is read and imported now: later, another index may be about to take its place.
            index.search_words([""], 1)
        except Exception:  # whatever is wrong with it, the desk will mend it or say so
            index.close()
            return None
        return cls(index, store)

    def close(self) -> None:
        self._index.close()

    def answers(self, question: str, k: int) -> tuple[Answer, ...]:
        """The best `k` passages, each by the sentence that shares the most with the question; one of `UNREADABLE` is
        raised if the index is gone."""
        return tuple(islice(self._answers(question, max(k, _FOUND)), k))

    def _answers(self, question: str, pieces: int) -> Iterator[Answer]:
        (hits,), rarities = self._index.search_words([question], pieces), self._index.rarities(question)
        seen: set[tuple[str, int]] = set()
        for hit in hits:
            document = stored_document(self._store, hit.document)
            passage = passage_at(document, hit.start) if document else None
            if document and passage and (document.id, passage.start) not in seen:
                seen.add((document.id, passage.start))
                yield answer_of(Found(passage, hit.score, 0.0, *_sentence(passage, rarities)), document)


def _sentence(passage: Passage, rarities: Mapping[str, float]) -> tuple[int, int]:
    """Of a passage, the sentence whose words say the most; the first of several. Offsets are the document's."""

    def shared(extent: tuple[int, int]) -> float:
        return sum(rarities.get(word, 0.0) for word in set(words(passage.text[slice(*extent)])))

    start, end = max(sentences(passage.text), key=shared)
    return passage.start + start, passage.start + end
