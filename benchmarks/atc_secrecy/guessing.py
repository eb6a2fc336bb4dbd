# SPDX-License-Identifier: Apache-2.0
"""How often a coordinator that knows the tasks of some silos guesses those of others from the way their updates go.

It takes from each update what all updates of its training have in common, and names the task whose known updates are
nearest in the mean. A lower bound: an attacker with more trainings to learn from, or more patience, will do better.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sample:
    """The direction of one silo's updates in one training, and what is to be guessed of it."""

    training: int
    silo: str
    task: str
    direction: Array


@dataclass(frozen=True)
class Guesses:
    right: int
    of: int
    chance: float  # share of the most frequent task: what somebody who sees nothing gets right

    @property
    def accuracy(self) -> float:
        return self.right / self.of


def guesses(samples: Sequence[Sample], apart: Callable[[Sample], Hashable]) -> Guesses | None:
    """Each sample is guessed from those that are `apart` from it; None where there are no two kinds."""
    kinds = {apart(sample) for sample in samples}
    if len(kinds) < 2:
        return None
    told = _without_common(samples)
    right = 0
    for kind in kinds:
        known = _means([sample for sample in told if apart(sample) != kind])
        right += sum(_nearest(known, sample.direction) == sample.task for sample in told if apart(sample) == kind)
    most = Counter(sample.task for sample in samples).most_common(1)[0][1]
    return Guesses(right, len(samples), most / len(samples))


def _without_common(samples: Sequence[Sample]) -> list[Sample]:
    """Unit vectors, after what the silos of a training have in common was taken away."""
    by_training: dict[int, list[Array]] = defaultdict(list)
    for sample in samples:
        by_training[sample.training].append(sample.direction)
    common = {training: np.mean(directions, axis=0) for training, directions in by_training.items()}
    return [replace(sample, direction=_unit(sample.direction - common[sample.training])) for sample in samples]


def _means(samples: Sequence[Sample]) -> dict[str, Array]:
    by_task: dict[str, list[Array]] = defaultdict(list)
    for sample in samples:
        by_task[sample.task].append(sample.direction)
    return {task: _unit(np.mean(directions, axis=0)) for task, directions in by_task.items()}


def _nearest(known: Mapping[str, Array], direction: Array) -> str:
    """Of tasks equally near, the first by name."""
    return min(known, key=lambda task: (-float(known[task] @ direction), task))


def _unit(vector: Array) -> Array:
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector
