# SPDX-License-Identifier: Apache-2.0
"""The entries whose vectors have the highest dot product with a question's: exactly, or nearly so and faster.

The approximate structure is an inverted file of faiss with vectors of one byte a number (IVF, SQ8). It only proposes
candidates, four times as many as wanted; their scores are computed from the vectors themselves. Measured on 40,000
vectors of width 384 in 400 clusters that overlap widely, one thread, recall at 10 after rescoring: HNSW (24 links)
takes 8 s to build, and 0.31 ms for 0.85, 0.51 ms for 0.88 (128 visited); IVF of 256 lists takes 1.9 s and
two thirds of the bytes, 0.51 ms for 0.78, 0.94 ms for 0.90 (128 lists). In neat clusters both find everything
in a tenth of a millisecond. IVF it is: it is made in a quarter of the time, and more lists always mean more recall, up
to all of it, so that a recall can be asked for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fedqa.answering.entry_store import Derived, Lost, Moment, Numbers, Vectors

if TYPE_CHECKING:
    import faiss  # elsewhere imported where it is used: most indexes never need it

RECALL = 0.95  # wanted of the approximate search
RECALL_AT = 10
SAMPLE = 64  # questions on which recall is measured
_CANDIDATES = 4  # for each entry wanted
_QUESTIONS = 64  # multiplied with a segment at a time
_PER_LIST = 64  # vectors for each list that its centre is learnt from; faiss asks for 39 at least


@dataclass(frozen=True)
class Ranked:
    """Entries and their scores, best first; among equals the older entry comes first."""

    numbers: Numbers
    scores: npt.NDArray[np.float32]

    def merged(self, other: "Ranked", k: int) -> "Ranked":
        numbers = np.concatenate([self.numbers, other.numbers])
        return best(numbers, np.concatenate([self.scores, other.scores]), k)


NOTHING = Ranked(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))


def best(numbers: Numbers, scores: npt.NDArray[np.float32], k: int) -> Ranked:
    if len(scores) > k:
        kept = np.flatnonzero(scores >= np.partition(scores, len(scores) - k)[len(scores) - k])
        numbers, scores = numbers[kept], scores[kept]
    order = np.lexsort((numbers, -scores))[:k]
    return Ranked(numbers[order], scores[order])


def exact(moment: Moment, questions: Vectors, k: int, *, after: int = -1) -> list[Ranked]:
    """The best `k` entries for each question, of those numbered above `after`."""
    found = [NOTHING] * len(questions)
    for segment in moment.segments:
        start = int(np.searchsorted(segment.numbers, after, side="right"))
        numbers, dead = segment.numbers[start:], np.flatnonzero(~segment.alive[start:])
        for i, scores in _products(questions, segment.vectors[start:]):
            scores[dead] = -np.inf
            floor = found[i].scores[-1] if len(found[i].scores) == k else np.float32(np.finfo(np.float32).min)
            kept = np.flatnonzero(scores >= floor)
            if len(kept):
                found[i] = found[i].merged(best(numbers[kept], scores[kept], k), k)
    return found


def _products(questions: Vectors, rows: Vectors) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    for start in range(0, len(questions) if len(rows) else 0, _QUESTIONS):
        yield from enumerate(questions[start : start + _QUESTIONS] @ rows.T, start)


@dataclass(frozen=True)
class Approximate:
    """A structure over the entries up to the number `last`."""

    index: "faiss.Index"
    last: int
    rows: int  # entries it was made of
    lists: int  # looked through for a question

    @classmethod
    def read(cls, derived: Derived) -> "Approximate":
        import faiss

        if not derived.path.exists():
            raise Lost(derived.path.name)
        return cls(faiss.read_index(str(derived.path)), derived.last, derived.rows, int(derived.about["lists"]))

    def write(self, path: Path) -> None:
        import faiss

        faiss.write_index(self.index, str(path))

    def top(self, moment: Moment, questions: Vectors, k: int) -> list[Ranked]:
        """Nearly the best `k` entries: candidates of the structure, and exactly those that came after it."""
        if k * _CANDIDATES * 10 > self.rows:  # too large a part of all to be worth it
            return exact(moment, questions, k)
        import faiss

        lists = faiss.SearchParametersIVF()
        lists.nprobe = self.lists
        _, candidates = self.index.search(questions, k * _CANDIDATES, params=lists)
        old = [self._rescored(moment, *pair, k) for pair in zip(questions, candidates, strict=True)]
        new = exact(moment, questions, k, after=self.last)
        return [first.merged(second, k) for first, second in zip(old, new, strict=True)]

    def _rescored(self, moment: Moment, question: Vectors, candidates: Numbers, k: int) -> Ranked:
        numbers, vectors = moment.vectors_of(candidates[candidates >= 0])
        if len(numbers) < k:  # too many of the candidates have been removed since
            return exact(moment, question[None], k)[0]
        return best(numbers, vectors @ question, k)


def build(moment: Moment, questions: Vectors | None, seed: int = 0) -> tuple[Approximate, float]:
    """A structure over all entries that reaches RECALL on the questions (or on entries, if none are given), and the
    recall that was measured."""
    import faiss

    live, rng = moment.live(), np.random.default_rng(seed)
    lists = max(1, min(int(2 * len(live) ** 0.5), len(live) // _PER_LIST))
    index = faiss.index_factory(moment.width, f"IVF{lists},SQ8", faiss.METRIC_INNER_PRODUCT)
    learnt = rng.choice(live, min(len(live), lists * _PER_LIST), replace=False)
    index.train(np.ascontiguousarray(moment.vectors_of(np.sort(learnt))[1]))
    for segment in moment.segments:
        if segment.alive.any():
            index.add_with_ids(segment.vectors[segment.alive], segment.numbers[segment.alive])
    own, sample = _sample(moment, questions, rng)
    truth = exact(moment, sample, RECALL_AT + 1)
    made = Approximate(index, int(live[-1]), len(live), lists)
    return _tuned(made, moment, sample=sample, own=own, truth=truth)


def _sample(moment: Moment, questions: Vectors | None, rng: np.random.Generator) -> tuple[Numbers, Vectors]:
    """Vectors to search for, and the entry that each is the vector of, or -1."""
    if questions is not None and len(questions):
        drawn = rng.permutation(len(questions))[:SAMPLE]
        return np.full(len(drawn), -1), questions[drawn]
    return moment.vectors_of(rng.choice(moment.live(), SAMPLE))


def _tuned(
    made: Approximate, moment: Moment, *, sample: Vectors, own: Numbers, truth: Sequence[Ranked]
) -> tuple[Approximate, float]:
    """The same with as few lists as RECALL allows."""
    lists = 1
    while True:
        tried = replace(made, lists=min(lists, made.lists))
        recall = _recall(tried.top(moment, sample, RECALL_AT + 1), truth, own)
        if recall >= RECALL or tried.lists == made.lists:
            return tried, recall
        lists *= 2


def _recall(found: Sequence[Ranked], truth: Sequence[Ranked], own: Numbers) -> float:
    """The share of the RECALL_AT best that was found; that an entry finds itself does not count."""
    shares = []
    for tried, right, self_ in zip(found, truth, own.tolist(), strict=True):
        wanted, got = ([n for n in ranked.numbers.tolist() if n != self_][:RECALL_AT] for ranked in (right, tried))
        shares.append(len(set(wanted) & set(got)) / max(len(wanted), 1))
    return float(np.mean(shares))
