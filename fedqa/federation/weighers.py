# SPDX-License-Identifier: Apache-2.0
"""Weighers: how much each silo's update counts in whose new model.

A weigher with `one_row` makes one model for all and says a share for each update alone, so updates can be mixed as
they arrive. The others see all updates of the round and return a matrix, recipients by senders; a row sums to 1, or to
0 where a recipient's model stays as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from fedqa.federation.messages import Update

Matrix = np.ndarray  # [recipients, senders], float64


class OneRow(Protocol):
    one_row: ClassVar[bool]

    def share(self, update: Update) -> float:
        """A number from 0, in proportion to the update's weight."""


class ManyRows(Protocol):
    one_row: ClassVar[bool]

    def matrix(self, recipients: Sequence[str], updates: Sequence[Update], groups: Mapping[str, str]) -> Matrix:
        """Weights for every recipient; `groups` gives each silo's group."""


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


def normalised(matrix: Matrix) -> Matrix:
    """Rows divided by their sums; a row of zeros stays."""
    sums = matrix.sum(axis=1, keepdims=True)
    result: Matrix = np.divide(matrix, sums, out=np.zeros_like(matrix), where=sums > 0)
    return result


WEIGHERS: Mapping[str, type[OneRow] | type[ManyRows]] = {
    "uniform": Uniform,
    "size": Size,
    "identity": Identity,
    "groups": Groups,
}
