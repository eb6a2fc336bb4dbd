# SPDX-License-Identifier: Apache-2.0
"""Statistics over the outcomes of a study: means with intervals, and paired comparisons of two arms.

The unit is a cell: one silo in one training (a seed), with a value for every test question. Every cell counts the same,
however many questions it has, so a mean over cells is the mean over seeds of the mean over silos. Intervals are for
these silos and these trainings on other questions; how much the trainings themselves vary is seen in the spread over
seeds, which stands beside them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import numpy.typing as npt

from benchmarks.study.runner import Outcome
from fedqa.errors import RunError
from fedqa.evaluation.metrics import Summary
from fedqa.evaluation.run_scores import LEVEL, Estimate, macro_score
from fedqa.evaluation.significance import Comparison, holm, paired_t_test
from fedqa.seeds import generator

Array = npt.NDArray[np.float64]
Cell = tuple[int, str]  # seed, silo
Cells = Mapping[Cell, Array]  # one value for every test question
Pair = tuple[Cells, Cells]

RESAMPLES = 10_000
AT_ONCE = 500  # resamples held in memory together
ROUNDING = 1e-12  # resampled means of equal values differ from them in the last bits


@dataclass(frozen=True)
class Results:
    """The outcomes of a study, by arm and seed."""

    by_arm: Mapping[str, Mapping[int, Outcome]]

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> "Results":
        if not outcomes:
            raise RunError("there is no outcome to report; run the study first")
        by_arm: dict[str, dict[int, Outcome]] = {}
        for outcome in outcomes:
            if outcome.seed in by_arm.setdefault(outcome.arm, {}):
                raise RunError(f"arm {outcome.arm!r} has two outcomes for seed {outcome.seed}; give one of them")
            by_arm[outcome.arm][outcome.seed] = outcome
        return cls(by_arm)

    def __contains__(self, arm: str) -> bool:
        return arm in self.by_arm

    @property
    def seeds(self) -> list[int]:
        return sorted({seed for outcomes in self.by_arm.values() for seed in outcomes})

    @property
    def silos(self) -> list[str]:
        """In the order in which the outcomes name them."""
        every = (outcome for outcomes in self.by_arm.values() for outcome in outcomes.values())
        return list(dict.fromkeys(silo for outcome in every for silo in outcome.test["personal"]))

    def cells(self, arm: str, metric: str, point: str = "personal") -> Cells:
        """Test scores; silos without a test question are left out."""
        return {
            (seed, silo): np.asarray(values[metric], dtype=np.float64)
            for seed, outcome in self.by_arm[arm].items()
            for silo, values in outcome.test[point].items()
            if values[metric]
        }

    def seconds(self, arm: str) -> float:
        """CPU seconds of a training, mean over seeds."""
        return fmean(outcome.seconds for outcome in self.by_arm[arm].values())

    def bytes_a_round(self, arm: str) -> float | None:
        """From all silos together, mean over seeds; None where no round was run."""
        outcomes = self.by_arm[arm].values()
        if not all(outcome.rounds for outcome in outcomes):
            return None
        return fmean(outcome.bytes_up / outcome.rounds for outcome in outcomes)


# -- one arm -----------------------------------------------------------------------------------------------------


def overall(cells: Cells) -> Estimate:
    """The mean of silos and seeds, with its interval from the spread of questions within each cell."""
    return macro_score({f"{seed} {silo}": Summary.of(values) for (seed, silo), values in cells.items()})


def by_silo(cells: Cells) -> dict[str, float]:
    """Each silo's mean score, mean over seeds."""
    silos = dict.fromkeys(silo for _, silo in cells)
    return {silo: _mean_of_means([v for (_, of), v in cells.items() if of == silo]) for silo in silos}


def by_seed(cells: Cells) -> dict[int, float]:
    """The mean of silos, seed by seed."""
    seeds = dict.fromkeys(seed for seed, _ in cells)
    return {seed: _mean_of_means([v for (of, _), v in cells.items() if of == seed]) for seed in seeds}


def _mean_of_means(cells: Iterable[Array]) -> float:
    return fmean(float(values.mean()) for values in cells)


# -- two arms ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Versus:
    """One arm against another on the same questions.

    `bootstrap` is of the mean over cells; `t_test` takes all questions alike, whichever silo and seed they are of.
    `holm` is the bootstrap's p, corrected for the number of comparisons made together.
    """

    bootstrap: Comparison
    t_test: Comparison
    holm: float
    by_seed: Mapping[int, float]
    by_silo: Mapping[str, float]


def compare(pairs: Mapping[str, Pair], resamples: int = RESAMPLES) -> dict[str, Versus]:
    """First minus second of every pair, on the seeds that both have; pairs of fewer than two questions are left out."""
    shared = {name: _differences(name, *pair) for name, pair in pairs.items()}
    shared = {name: cells for name, cells in shared.items() if sum(map(len, cells.values())) > 1}
    bootstraps = macro_bootstrap(list(shared.values()), resamples)
    corrected = holm([test.p for test in bootstraps])
    return {
        name: Versus(bootstrap, _t_test(cells), p, by_seed(cells), by_silo(cells))
        for (name, cells), bootstrap, p in zip(shared.items(), bootstraps, corrected, strict=True)
    }


def macro_bootstrap(differences: Sequence[Cells], resamples: int = RESAMPLES) -> list[Comparison]:
    """Questions resampled within every cell: percentile intervals of the mean over cells, and two-sided p-values.

    All comparisons see the same resamples, which are a matter of the cell alone: so a comparison's result does not
    depend on the others. Chance alone is the differences shifted to mean zero; the sample counts as one resample.
    """
    alike: dict[tuple[Cell, int], list[int]] = {}
    for i, cells in enumerate(differences):
        for cell, values in cells.items():
            alike.setdefault((cell, len(values)), []).append(i)
    means = np.zeros((len(differences), resamples))
    for (cell, _), rows in alike.items():
        means[rows] += _resampled_means(np.stack([differences[i][cell] for i in rows]), cell, resamples)
    return [_bootstrap(cells, row / len(cells)) for cells, row in zip(differences, means, strict=True)]


def _resampled_means(values: Array, cell: Cell, resamples: int) -> Array:
    """The mean of every resample (columns) for every row of values."""
    rng, n = generator(0, "study", *cell), values.shape[1]
    parts = []
    for start in range(0, resamples, AT_ONCE):
        size = min(AT_ONCE, resamples - start)
        drawn = rng.integers(0, n, (size, n)) + n * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)
        parts.append(values @ counts.T.astype(np.float64) / n)
    return np.concatenate(parts, axis=1)


def _bootstrap(cells: Cells, means: Array) -> Comparison:
    mean = _mean_of_means(cells.values())
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    as_large = int(np.count_nonzero(np.abs(means - mean) >= abs(mean) - ROUNDING))
    questions = sum(map(len, cells.values()))
    return Comparison(questions, mean, float(low), float(high), (as_large + 1) / (len(means) + 1))


def _t_test(cells: Cells) -> Comparison:
    pooled = np.concatenate(list(cells.values()))
    return paired_t_test(pooled, np.zeros_like(pooled), LEVEL)


def _differences(name: str, first: Cells, second: Cells) -> Cells:
    seeds = {seed for seed, _ in first} & {seed for seed, _ in second}
    ours, theirs = ({cell: len(v) for cell, v in side.items() if cell[0] in seeds} for side in (first, second))
    if ours != theirs:
        seed, silo = min(set(ours.items()) ^ set(theirs.items()))[0]
        raise RunError(
            f"{name}: silo {silo!r} with seed {seed} has {ours.get((seed, silo), 0)} test questions on one side and "
            f"{theirs.get((seed, silo), 0)} on the other; compare arms of the same study"
        )
    return {cell: first[cell] - second[cell] for cell in ours}
