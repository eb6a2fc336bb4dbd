# SPDX-License-Identifier: Apache-2.0
"""Combiners: several updates into one. `mean` can be streamed (see mixing.py); the robust ones need all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fedqa.errors import ConfigError

SLAB = 1 << 20  # columns handled at a time, so that sorting n updates needs n megabytes and not n models


class Combiner(Protocol):
    def combine(self, deltas: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
        """One delta from those of weight above 0; at least one has."""


@dataclass(frozen=True)
class Mean:
    """Weighted mean."""

    def combine(self, deltas: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
        total = torch.zeros_like(deltas[0])
        for delta, weight in zip(deltas, weights, strict=True):
            total.add_(delta, alpha=weight)
        return total.div_(sum(weights))


@dataclass(frozen=True)
class Median:
    """Coordinate-wise median; of an even number, the mean of the middle two."""

    def combine(self, deltas: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
        return _sorted_mean(_present(deltas, weights), lambda n: (n - 1) // 2)


@dataclass(frozen=True)
class TrimmedMean:
    """Coordinate-wise mean without the `share` largest and smallest values."""

    share: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.share < 0.5:
            raise ConfigError(f"trimmed_mean needs a share from 0 to below 0.5, got {self.share}")

    def combine(self, deltas: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
        return _sorted_mean(_present(deltas, weights), lambda n: min(int(n * self.share), (n - 1) // 2))


@dataclass(frozen=True)
class Krum:
    """The mean of the `keep` updates nearest to their neighbours, assuming at most `bad` bad silos (Multi-Krum)."""

    bad: int = 1
    keep: int = 1

    def __post_init__(self) -> None:
        if self.bad < 0 or self.keep < 1:
            raise ConfigError(f"krum needs bad >= 0 and keep >= 1, got bad = {self.bad}, keep = {self.keep}")

    def combine(self, deltas: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
        present = _present(deltas, weights)
        neighbours = max(1, len(present) - self.bad - 2)
        distances = _squared_distances(present)
        nearest = distances.sort(dim=1).values[:, 1 : neighbours + 1]  # the first is the distance to itself
        scores = nearest.sum(dim=1).tolist()
        norms = [float(delta.norm()) for delta in present]
        # Two updates that are each other's nearest often tie; the shorter one wins, not the one that came first.
        chosen = sorted(range(len(present)), key=lambda i: (scores[i], norms[i]))[: self.keep]
        return Mean().combine([present[i] for i in chosen], [1.0] * len(chosen))


def _present(deltas: Sequence[Tensor], weights: Sequence[float]) -> list[Tensor]:
    return [delta for delta, weight in zip(deltas, weights, strict=True) if weight > 0]


def _sorted_mean(deltas: Sequence[Tensor], cut: "_Cut") -> Tensor:
    """Per coordinate: sort, drop `cut(n)` at both ends, average the rest."""
    result, drop = torch.empty_like(deltas[0]), cut(len(deltas))
    for start in range(0, result.numel(), SLAB):
        slab = torch.stack([delta[start : start + SLAB] for delta in deltas])
        middle = slab.sort(dim=0).values[drop : len(deltas) - drop]
        result[start : start + SLAB] = middle.mean(dim=0)
    return result


def _squared_distances(deltas: Sequence[Tensor]) -> Tensor:
    n = len(deltas)
    distances = torch.zeros(n, n, dtype=torch.float64)
    for i in range(n):
        for j in range(i):
            distances[i, j] = distances[j, i] = float((deltas[i] - deltas[j]).square().sum(dtype=torch.float64))
    return distances


class _Cut(Protocol):
    def __call__(self, n: int, /) -> int: ...


COMBINERS: Mapping[str, type[Combiner]] = {
    "mean": Mean,
    "median": Median,
    "trimmed_mean": TrimmedMean,
    "krum": Krum,
}
