# SPDX-License-Identifier: Apache-2.0
"""Keyword search over an index that grows: BM25 as in Lucene, with the scores of one index over all entries.

The bulk is an index of bm25s, made once and mapped from disk; bm25s cannot add to one, so entries that came later
are kept as plain lists of words. Both are scored with the same statistics: a word's rarity is counted over both (a
stored score is multiplied by the change in its word's rarity); only the average length is that of the bulk until the
bulk is made anew. Removed entries are not found, but count in the statistics until then.
"""

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedqa.answering.dense_search import Ranked, best
from fedqa.answering.entry_store import Derived, Lost, Moment, Numbers

_K1, _B = 1.5, 0.75
Floats = npt.NDArray[np.float32]


def words(text: str) -> list[str]:
    """Cut as `fedqa.skills.bm25` does."""
    return re.findall(r"\w+", text.lower())


def write_bulk(folder: Path, numbers: Sequence[int], texts: Sequence[str]) -> dict[str, float]:
    """Write the index of these entries, of which one has a word at least; what else is to be known about it."""
    import bm25s  # where it is used: it brings SciPy and a compiler, and small indexes never need it

    cut = [words(text) for text in texts]
    bulk = bm25s.BM25(k1=_K1, b=_B, method="lucene", backend="numpy")
    bulk.index(cut, show_progress=False)
    bulk.save(folder, show_progress=False)
    np.save(folder / "numbers.npy", np.array(numbers, dtype=np.int64), allow_pickle=False)
    return {"average_length": sum(map(len, cut)) / len(cut)}


@dataclass(frozen=True)
class Postings:
    """The entries with a word, by position, and a weight for each."""

    at: Numbers
    weights: Floats


_NONE = Postings(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))


class _Bulk:
    """The index on disk; without one, an index of nothing."""

    def __init__(self, derived: Derived | None) -> None:
        self.path = derived.path if derived else None
        self.numbers = np.empty(0, dtype=np.int64)
        self.average_length: float | None = None
        if derived:
            import bm25s

            try:
                self._index = bm25s.BM25.load(derived.path, mmap=True, load_corpus=False, backend="numpy")
                self.numbers = np.load(derived.path / "numbers.npy", allow_pickle=False)
            except FileNotFoundError as problem:
                raise Lost(str(problem)) from problem
            self.average_length = derived.about["average_length"]

    def postings(self, word: str) -> Postings:
        column = self._index.vocab_dict.get(word) if self.path else None
        if column is None:
            return _NONE
        scores = self._index.scores
        start, end = scores["indptr"][column : column + 2].tolist()
        return Postings(scores["indices"][start:end].view(np.ndarray), scores["data"][start:end].view(np.ndarray))


class _Recent:
    """Entries as lists of words."""

    def __init__(self) -> None:
        self.numbers, self._lengths = array("q"), array("q")
        self._postings: dict[str, tuple[array[int], array[int]]] = {}

    def add(self, number: int, text: str) -> None:
        cut = words(text)
        for word, times in Counter(cut).items():
            at, counts = self._postings.setdefault(word, (array("q"), array("q")))
            at.append(len(self.numbers))
            counts.append(times)
        self.numbers.append(number)
        self._lengths.append(len(cut))

    @property
    def average_length(self) -> float:
        return sum(self._lengths) / max(len(self._lengths), 1)

    def having(self, word: str) -> int:
        """How many entries have a word."""
        return len(self._postings[word][0]) if word in self._postings else 0

    def postings(self, word: str, average_length: float) -> Postings:
        """With the part of BM25 that does not depend on the word's rarity as weights."""
        if word not in self._postings:
            return _NONE
        at, counts = (np.array(values, dtype=np.int64) for values in self._postings[word])
        lengths = np.array(self._lengths, dtype=np.int64)[at]
        weights = counts / (counts + _K1 * (1 - _B + _B * lengths / average_length))
        return Postings(at, weights.astype(np.float32))


class KeywordStore:
    """The keyword index at the moment that `refresh` was last given."""

    def __init__(self) -> None:
        self._version = -1
        self._bulk, self._recent = _Bulk(None), _Recent()
        self._numbers = np.empty(0, dtype=np.int64)
        self._dead = np.empty(0, dtype=np.int64)
        self._last = -1

    @property
    def recent(self) -> int:
        """Entries that are kept as lists of words."""
        return len(self._recent.numbers)

    def refresh(
        self, moment: Moment, derived: Derived | None, texts: Callable[[int], Iterable[tuple[int, str]]]
    ) -> None:
        """Take in what has changed; `texts` gives the entries above a number."""
        if moment.version == self._version:
            return
        if self._bulk.path != (derived.path if derived else None):
            self._bulk, self._recent = _Bulk(derived), _Recent()
            self._last = derived.last if derived else -1
        for number, text in texts(self._last):
            self._recent.add(number, text)
            self._last = number
        self._numbers = np.concatenate([self._bulk.numbers, np.array(self._recent.numbers, dtype=np.int64)])
        self._dead = np.flatnonzero(~np.isin(self._numbers, moment.live()))
        self._version = moment.version

    def top(self, question: str, k: int) -> Ranked:
        """The best `k` of the entries that share a word with the question."""
        scores = self.scores(question)
        scores[self._dead] = 0
        least = np.partition(scores, len(scores) - k)[len(scores) - k] if len(scores) > k else 0
        found = np.flatnonzero((scores >= least) & (scores > 0))
        return best(self._numbers[found], scores[found], k)

    def rarity(self, word: str) -> float:
        """How much it says that an entry has this word: more, the fewer have it."""
        having = len(self._bulk.postings(word).at) + self._recent.having(word)
        return _rarity(len(self._bulk.numbers) + self.recent, having)

    def scores_of(self, question: str, numbers: Numbers) -> Floats:
        """Those of some entries that are here."""
        return self.scores(question)[np.searchsorted(self._numbers, numbers)]

    def scores(self, question: str) -> Floats:
        """One for each entry in the order of their numbers, removed ones included."""
        bulk, recent = len(self._bulk.numbers), len(self._recent.numbers)
        scores = np.zeros(bulk + recent, dtype=np.float32)
        average_length = self._bulk.average_length or self._recent.average_length
        for word in words(question):
            old, new = self._bulk.postings(word), self._recent.postings(word, average_length)
            rarity = _rarity(bulk + recent, len(old.at) + len(new.at))
            # Twice as fast as `scores[at] += ...`, which reads and writes by position.
            np.add.at(scores, old.at, old.weights * np.float32(rarity / _rarity(bulk, len(old.at))))
            np.add.at(scores, bulk + new.at, new.weights * np.float32(rarity))
        return scores


def _rarity(entries: int, having: int) -> float:
    """The inverse document frequency of BM25."""
    return log(1 + (entries - having + 0.5) / (having + 0.5))
