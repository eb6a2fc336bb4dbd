# SPDX-License-Identifier: Apache-2.0
"""How sure an answer is, learnt from the silo's own dev questions, and below what nothing should be answered.

The confidence of a passage is its share in a softmax over the best passages' scores and one more candidate, "nothing
here answers it". The softmax's temperature and the score of "nothing" are those that make dev's right answers most
likely. Unanswerable dev questions are few, so every answerable one also counts, with a small weight, as asked of
documents that lack its gold passages.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

CANDIDATES = 10  # passages that share the confidence
MAX_REFUSED = 0.1  # of dev's answerable questions: the price of silence on unanswerable ones
_STAND_IN = 0.1  # weight of a question without its gold: as if one in eleven questions had no answer
_TEMPERATURES = np.geomspace(0.25, 4, 17)
_SPREAD = 0.5  # of the temperature's logarithm around that of 1, which is what training used
_LEVELS = 41  # scores tried for "nothing"

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Asked:
    """The ranking of one dev question: scores, best first, and which answers are right; none if unanswerable."""

    scores: Sequence[float]
    right: Sequence[bool]
    gold: Sequence[bool] | None = None  # the passages that hold the answer, even if another part of them was answered

    def without_gold(self) -> list[float]:
        """The scores that are left where the documents lack the answer."""
        gold = self.right if self.gold is None else self.gold
        return [score for score, held in zip(self.scores, gold, strict=True) if not held]


@dataclass(frozen=True)
class Confidence:
    """A softmax with a candidate for "nothing"; without dev questions a plain one, and every question is answered."""

    temperature: float = 1.0
    nothing: float = -np.inf
    threshold: float = 0.0  # of the best passage; below it, the honest answer is none
    questions: int = 0  # of dev, that it rests on

    def of(self, scores: Sequence[float]) -> list[float]:
        """One value from 0 to 1 per passage; `scores` are those of the CANDIDATES best."""
        if not scores:
            return []
        shares: list[float] = _shares(np.array([scores], dtype=float), self.temperature, self.nothing)[0, :-1].tolist()
        return shares


def calibrated(dev: Sequence[Asked]) -> Confidence:
    """Fitted to dev questions ranked over all passages, as far down as CANDIDATES passages that are not right."""
    return fit(dev)[0]


def fit(dev: Sequence[Asked]) -> tuple[Confidence, float]:
    """As `calibrated`, and how likely it makes what is right (a logarithm), to compare ways of scoring by."""
    cases = list(_cases(dev))
    if not cases:
        return Confidence(), 0.0
    scores, right, weights = _padded(cases)
    temperature, nothing, likely = _most_likely(scores, right, weights)
    best = _shares(scores, temperature, nothing)[:, 0]
    answerable = np.array([case.answerable for case in cases])
    threshold = _threshold(best[answerable], best[~answerable], weights[~answerable])
    return Confidence(temperature, nothing, threshold, len(dev)), likely


@dataclass(frozen=True)
class _Case:
    scores: Sequence[float]
    right: Sequence[bool]
    weight: float
    answerable: bool


def _cases(dev: Sequence[Asked]) -> Iterator[_Case]:
    for asked in dev:
        scores, right = asked.scores[:CANDIDATES], asked.right[:CANDIDATES]
        if scores:
            yield _Case(scores, right, 1.0, any(asked.right))
        others = asked.without_gold()[:CANDIDATES]
        if any(asked.right) and others:
            yield _Case(others, [False] * len(others), _STAND_IN, False)


def _padded(cases: Sequence[_Case]) -> tuple[Floats, npt.NDArray[np.bool_], Floats]:
    scores = np.full((len(cases), CANDIDATES), -np.inf)
    right = np.zeros((len(cases), CANDIDATES + 1), dtype=bool)  # the last column is "nothing"
    for row, case in enumerate(cases):
        scores[row, : len(case.scores)] = case.scores
        right[row, : len(case.right)] = case.right
        right[row, -1] = not any(case.right)
    return scores, right, np.array([case.weight for case in cases])


def _most_likely(scores: Floats, right: npt.NDArray[np.bool_], weights: Floats) -> tuple[float, float, float]:
    finite = scores[np.isfinite(scores)]
    best, chosen = -np.inf, (1.0, 0.0)
    for temperature in _TEMPERATURES.tolist():
        for nothing in np.linspace(finite.min(), finite.max(), _LEVELS).tolist():
            likely = np.where(right, _shares(scores, temperature, nothing), 0).sum(axis=1)
            total = float(weights @ np.log(np.maximum(likely, 1e-9))) - (np.log(temperature) / _SPREAD) ** 2 / 2
            if total > best:
                best, chosen = total, (temperature, nothing)
    return *chosen, best


def _shares(scores: Floats, temperature: float, nothing: float) -> Floats:
    """[questions, candidates + 1]; the last column is "nothing"."""
    logits = np.hstack([scores, np.full((len(scores), 1), nothing)]) / temperature
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: Floats = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _threshold(answerable: Floats, unanswerable: Floats, weights: Floats) -> float:
    """Where the refused share of unanswerable questions exceeds that of answerable ones most, within MAX_REFUSED."""
    best, chosen = 0.0, 0.0
    for level in sorted({*answerable.tolist(), *unanswerable.tolist()}):
        price = float((answerable < level).mean()) if len(answerable) else 0.0
        gain = float(weights[unanswerable < level].sum() / weights.sum()) - price if len(unanswerable) else 0.0
        if price <= MAX_REFUSED and gain > best:
            best, chosen = gain, level
    return chosen
