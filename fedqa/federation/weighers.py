# SPDX-License-Identifier: Apache-2.0
"""Weighers: how much each silo's update counts in whose new model.

A weigher with `one_row` makes one model for all. Most say a share for each update alone, so updates can be mixed as
they arrive; one that bounds a silo's weight by the others' gives a `row` once all updates of the round are in. The
rest return a matrix, recipients by senders; a row sums to 1, or to 0 where a recipient's model stays as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np

from fedqa.errors import ConfigError
from fedqa.federation.messages import Update
from fedqa.federation.neighbour_weighers import Bipartition, Clusters, Nearest, Similarity
from fedqa.federation.similarity import Matrix, normalised

Row = np.ndarray  # [senders], float64

_MOST = 1e100  # a reduction above it counts as this much: sums stay finite whatever a silo claims


class OneRow(Protocol):
    one_row: ClassVar[bool]

    def share(self, update: Update) -> float:
        """A number from 0, in proportion to the update's weight."""


class WholeRow(Protocol):
    one_row: ClassVar[bool]

    def row(self, updates: Sequence[Update]) -> Row:
        """The weights of all updates of a round; they sum to 1."""


class ManyRows(Protocol):
    one_row: ClassVar[bool]

    def matrix(self, recipients: Sequence[str], updates: Sequence[Update], groups: Mapping[str, str]) -> Matrix:
        """Weights for every recipient; `groups` gives each silo's group.

        A weigher that is `lasting` makes its own: all silos are one group at first, and those to whom it has given
        different updates are apart from then on.
        """


@dataclass(frozen=True)
class Uniform:
    """Every silo counts the same."""

    one_row: ClassVar[bool] = True

    def share(self, update: Update) -> float:
        return 1.0


@dataclass(frozen=True)
class Size:
    """A silo counts by its training examples."""

    one_row: ClassVar[bool] = True

    def share(self, update: Update) -> float:
        return float(update.n_examples)


@dataclass(frozen=True)
class Identity:
    """Every silo keeps its own update: training alone, written as mixing."""

    one_row: ClassVar[bool] = False

    def matrix(self, recipients: Sequence[str], updates: Sequence[Update], groups: Mapping[str, str]) -> Matrix:
        return np.array([[float(update.silo == name) for update in updates] for name in recipients])


@dataclass(frozen=True)
class Groups:
    """Silos of one group (by default: one skill) share a model, weighted by size."""

    one_row: ClassVar[bool] = False

    def matrix(self, recipients: Sequence[str], updates: Sequence[Update], groups: Mapping[str, str]) -> Matrix:
        mates = np.array([[groups[u.silo] == groups[name] for u in updates] for name in recipients], dtype=float)
        return normalised(mates * [update.n_examples for update in updates])


@dataclass(frozen=True)
class LossReduction:
    """A silo counts by how far its loss fell in the round, within a bound.

    What a silo says of its losses cannot be checked. So no claim buys it more weight against the others together than
    `cap_factor` silos like it would have by plain weights; what is above goes to the others, in proportion.
    """

    one_row: ClassVar[bool] = True
    estimator: Literal["max_min", "first_last"] = "max_min"
    floor: float = 1e-8  # the least reduction: if nobody's loss fell, plain weights are left
    cap_factor: float = 3.0
    relative: bool = False  # to the loss it fell from, so that a silo with larger losses does not count more for it

    def __post_init__(self) -> None:
        if not 0 < self.floor < _MOST:
            raise ConfigError(f"floor must be above 0 and below {_MOST:g}, got {self.floor}")
        if not 1 <= self.cap_factor < float("inf"):
            raise ConfigError(f"cap_factor must be a number from 1, got {self.cap_factor}")

    def row(self, updates: Sequence[Update]) -> Row:
        if not updates:
            return np.zeros(0)
        plain = np.array([self.plain(update) for update in updates])
        reductions = np.clip([self._reduction(update) for update in updates], self.floor, _MOST)
        shares = plain * (reductions / reductions.max())
        return capped(shares, plain / plain.sum(), self.cap_factor)

    def plain(self, update: Update) -> float:
        """In proportion to the update's weight if all losses fell alike."""
        return 1.0

    def _reduction(self, update: Update) -> float:
        loss = update.loss
        start, end = (loss.max, loss.min) if self.estimator == "max_min" else (loss.first, loss.last)
        return (start - end) / start if self.relative and start > 0 else start - end


@dataclass(frozen=True)
class Lorar(LossReduction):
    """A silo counts by its training examples times how far its loss fell (Zhang et al. 2023), within a bound."""

    def plain(self, update: Update) -> float:
        return float(update.n_examples)


def capped(shares: Row, plain: Row, factor: float) -> Row:
    """Shares as weights, none with odds above `factor` times those of its plain weight; what is cut goes to the rest.

    Odds, because three times a plain weight of a half or a third bounds nothing: in odds these may become 3/4 and 3/5.
    The bounds sum to 1 or more, so there is always room for what is cut.
    """
    most = factor * plain / (factor * plain + (1 - plain))
    weights, free, left = np.zeros_like(plain), np.ones(len(plain), dtype=bool), 1.0
    while True:
        weights[free] = left * shares[free] / shares[free].sum()
        over = free & (weights > most * (1 + 1e-12))
        if not over.any():
            return weights
        weights[over] = most[over]
        left -= most[over].sum()
        free &= ~over


WEIGHERS: Mapping[str, type[OneRow] | type[WholeRow] | type[ManyRows]] = {
    "uniform": Uniform,
    "size": Size,
    "identity": Identity,
    "groups": Groups,
    "loss_reduction": LossReduction,
    "lorar": Lorar,
    "nearest": Nearest,
    "clusters": Clusters,
    "bipartition": Bipartition,
    "similarity": Similarity,
}
