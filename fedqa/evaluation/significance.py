# SPDX-License-Identifier: Apache-2.0
"""Is one model better than another on the same questions? Paired tests, and the correction for asking often."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedqa.evaluation.metrics import Floats, Summary, t_tail

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The mean of (first - second) over `n` questions, its confidence interval, and the two-sided p-value."""

    n: int
    difference: float
    low: float
    high: float
    p: float


def paired_t_test(first: Floats, second: Floats, level: float = 0.95) -> Comparison:
    """Student's t-test on the differences; `level` is that of the interval."""
    differences = _differences(first, second)
    summary = Summary.of(differences)
    interval = summary.interval(level)
    assert interval is not None
    error = math.sqrt(summary.variance / summary.n)
    # The same difference everywhere leaves no doubt; no difference anywhere is no evidence.
    t = abs(summary.mean) / error if error else math.inf if summary.mean else 0.0
    return Comparison(summary.n, summary.mean, *interval, p=2 * t_tail(t, summary.n - 1))


def paired_bootstrap(
    first: Floats, second: Floats, seed: int, *, resamples: int = 10_000, level: float = 0.95
) -> Comparison:
    """Resampled questions: a percentile interval, and how often chance alone gives a difference as large.

    Chance alone is the differences shifted to mean zero. The observed sample counts as one resample, so p is never 0.
    """
    differences = _differences(first, second)
    n, mean = len(differences), float(differences.mean())
    means = _resampled_means(differences, resamples, np.random.default_rng(seed))
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    tolerance = 1e-12  # resampled means of equal values differ from them in the last bits
    as_large = int(np.count_nonzero(np.abs(means - mean) >= abs(mean) - tolerance))
    return Comparison(n, mean, float(low), float(high), (as_large + 1) / (resamples + 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given: below 0.05 means significant among all these comparisons."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = highest
    return adjusted


def _differences(first: Floats, second: Floats) -> Array:
    if len(first) != len(second):
        raise ValueError(f"a paired test needs the same questions for both, got {len(first)} and {len(second)} values")
    if len(first) < 2:
        raise ValueError(f"a paired test needs at least two questions, got {len(first)}")
    return np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)


def _resampled_means(values: Array, resamples: int, rng: np.random.Generator) -> Array:
    # One resample at a time: all at once would need resamples x n numbers.
    return np.array([values[rng.integers(0, len(values), len(values))].mean() for _ in range(resamples)])
