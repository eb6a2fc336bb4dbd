# SPDX-License-Identifier: Apache-2.0
"""Ranking metrics of one question, and summaries of many questions that can be combined across silos.

The conventions are trec_eval's: score descending, equal scores by id in descending string order, and the average
precision divides by all gold ids, ranked or not. A question without gold has no value and is not counted.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy import special

from fedqa.errors import ModelError

Floats = Sequence[float] | npt.NDArray[np.floating]


def average_precision(scores: Floats, ids: Sequence[str], gold: Collection[str]) -> float:
    """The mean, over all gold ids, of the precision at each one's rank; zero for one that was not ranked."""
    ranks = _gold_ranks(scores, ids, gold)
    return sum(found / rank for found, rank in enumerate(ranks, start=1)) / len(set(gold))


def reciprocal_rank(scores: Floats, ids: Sequence[str], gold: Collection[str]) -> float:
    """One over the rank of the first gold id; zero if none was ranked."""
    ranks = _gold_ranks(scores, ids, gold)
    return 1 / ranks[0] if ranks else 0.0


def precision_at_1(scores: Floats, ids: Sequence[str], gold: Collection[str]) -> float:
    """One if the first id is gold, else zero."""
    return float(_gold_ranks(scores, ids, gold)[:1] == [1])


RANKING = {"map": average_precision, "mrr": reciprocal_rank, "p1": precision_at_1}


def _gold_ranks(scores: Floats, ids: Sequence[str], gold: Collection[str]) -> list[int]:
    """The ranks, from 1, of the gold ids, best first."""
    if not gold:
        raise ValueError("a question without gold has no ranking metric; leave it out")
    refuse_nan(scores)
    ranked = sorted(zip(scores, ids, strict=True), reverse=True)
    wanted = set(gold)
    return [rank for rank, (_, id) in enumerate(ranked, start=1) if id in wanted]


Ranks = npt.NDArray[np.intp]  # of all gold texts of a question, from 1


def tie_order(ids: Sequence[str]) -> npt.NDArray[np.intp]:
    """The place of each id among equal scores, worked out once for many rankings of the same texts by `ranks_of`."""
    order = np.empty(len(ids), dtype=np.intp)
    order[sorted(range(len(ids)), key=ids.__getitem__, reverse=True)] = np.arange(len(ids))
    return order


def ranks_of(scores: npt.NDArray[np.floating], order: npt.NDArray[np.intp], gold: Sequence[int]) -> Ranks:
    """The ranks, best first, of the gold positions among all texts; `order` is their `tie_order`.

    Ranks are counted, not sorted out: with thousands of texts and few gold ones that is a hundred times as fast.
    """
    if not len(gold):
        raise ValueError("a question without gold has no ranking metric; leave it out")
    refuse_nan(scores)
    before = [(scores > scores[i]) | ((scores == scores[i]) & (order < order[i])) for i in gold]
    return np.sort(np.array([1 + int(one.sum()) for one in before], dtype=np.intp))


def reciprocal_rank_at(k: int, ranks: Ranks) -> float:
    """One over the rank of the first gold text; zero beyond rank k."""
    return 1 / int(ranks[0]) if ranks[0] <= k else 0.0


def recall_at(k: int, ranks: Ranks) -> float:
    """The share of gold texts up to rank k."""
    return float((ranks <= k).mean())


RETRIEVAL: Mapping[str, Callable[[Ranks], float]] = {
    "mrr10": partial(reciprocal_rank_at, 10),
    "r1": partial(recall_at, 1),
    "r20": partial(recall_at, 20),
    "r100": partial(recall_at, 100),
}


def refuse_nan(scores: Floats) -> None:
    if np.isnan(scores).any():
        raise ModelError("a score is NaN: the model's weights have diverged; train with a lower learning rate")


@dataclass(frozen=True, slots=True)
class Summary:
    """What may be told of many values: how many, their mean, and their variance (n - 1 in the denominator).

    `Summary(0, 0.0, 0.0)` stands for no value at all: it changes nothing in `micro`, `macro` and `worst`.
    """

    n: int
    mean: float
    variance: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Summary":
        array = np.fromiter(values, dtype=np.float64)
        if not len(array):
            return cls(0, 0.0, 0.0)
        return cls(len(array), float(array.mean()), float(array.var(ddof=1)) if len(array) > 1 else 0.0)

    def combine(self, other: "Summary") -> "Summary":
        """The summary of both sets of values together, exactly as if they had been pooled."""
        if not self.n or not other.n:
            return self if self.n else other
        n = self.n + other.n
        apart = other.mean - self.mean
        squares = self.variance * (self.n - 1) + other.variance * (other.n - 1) + apart**2 * self.n * other.n / n
        return Summary(n, self.mean + apart * other.n / n, squares / (n - 1))

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """The t-interval of the mean; None for fewer than two values, which say nothing of their spread."""
        if self.n < 2:
            return None
        half = t_quantile((1 + level) / 2, self.n - 1) * math.sqrt(self.variance / self.n)
        return self.mean - half, self.mean + half


# Student's distribution from scipy.special: scipy.stats has it too, but takes a second to import.
def t_quantile(level: float, freedom: float) -> float:
    """What a t-distributed value is below with probability `level`."""
    return float(special.stdtrit(freedom, level))


def t_tail(t: float, freedom: float) -> float:
    """The probability of a value above `t`."""
    return float(special.stdtr(freedom, -t))


def micro(summaries: Iterable[Summary]) -> Summary:
    """All questions alike, whichever silo they come from."""
    total = Summary(0, 0.0, 0.0)
    for summary in summaries:
        total = total.combine(summary)
    return total


def macro(summaries: Iterable[Summary]) -> Summary:
    """All silos alike: the mean of their means, and the variance between them."""
    return Summary.of(summary.mean for summary in summaries if summary.n)


def worst(summaries: Iterable[Summary]) -> Summary:
    """The silo with the lowest mean."""
    return min((summary for summary in summaries if summary.n), key=lambda s: s.mean, default=Summary(0, 0.0, 0.0))
