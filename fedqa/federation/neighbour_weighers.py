# SPDX-License-Identifier: Apache-2.0
"""Weighers that give every silo a model of its own, made of the updates that went its way.

Updates are compared by their cosine. One that is zero has no direction: its silo is nobody's neighbour, and keeps its
own. A silo that sent nothing keeps its model, but where groups last (`bipartition`) it gets what its group gets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.spatial.distance import squareform

from fedqa.errors import ConfigError
from fedqa.federation.messages import Update
from fedqa.federation.similarity import Matrix, cosines, cosines_of, normalised, products

Counted = Literal["examples", "seen"]  # a silo's size: what it has, or what it worked on in the round
Labels = npt.NDArray[np.int64]  # the cluster of each update


@dataclass(frozen=True)
class Nearest:
    """Every silo gets its own update and those of the `k` silos that moved most nearly its way, weighted by size."""

    one_row: ClassVar[bool] = False
    k: int = 2
    count: Counted = "examples"

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ConfigError(f"nearest: k must be at least 1, got {self.k}")

    def matrix(self, recipients: Sequence[str], updates: Sequence[Update], groups: Mapping[str, str]) -> Matrix:
        near = cosines([update.delta for update in updates])
        mates = np.zeros((len(recipients), len(updates)))
        position = {update.silo: i for i, update in enumerate(updates)}
        for row, name in enumerate(recipients):
            if name in position:
                mates[row, self._chosen(position[name], near, updates)] = 1
        return normalised(mates * _sizes(updates, self.count))

    def _chosen(self, own: int, near: Matrix, updates: Sequence[Update]) -> list[int]:
        """The silo itself and its neighbours; of silos equally near, the first by name."""
        others = [i for i in range(len(updates)) if i != own and not np.isnan(near[own, i])]
        others.sort(key=lambda i: (-near[own, i], updates[i].silo))
        return [own, *others[: self.k]]


@dataclass(frozen=True)
class Clusters:
    """Silos whose updates cluster share a model, weighted by size: clusters are found anew in every round.

    Agglomerative, average linkage, by cosine; never more than `n` clusters among the updates that have a direction.
    """

    one_row: ClassVar[bool] = False
    n: int = 5
    count: Counted = "examples"

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ConfigError(f"clusters: n must be at least 1, got {self.n}")

    def matrix(self, recipients: Sequence[str], updates: Sequence[Update], groups: Mapping[str, str]) -> Matrix:
        labels = clustered(updates, cosines([update.delta for update in updates]), self.n, "average")
        own = {update.silo: label for update, label in zip(updates, labels.tolist(), strict=True)}
        mates = np.array([[float(own.get(name) == label) for label in labels] for name in recipients])
        return normalised(mates.reshape(len(recipients), len(updates)) * _sizes(updates, self.count))


@dataclass(frozen=True)
class Bipartition:
    """One model until the silos pull it in different ways, then one for each half, and so on (Sattler et al. 2020).

    Silos part where their mean update is short (`mean_below`, as a share of the longest of them) while somebody's is
    long (`one_above`). Of all ways to part, the one that leaves the least alike apart: no silo of one half is nearer
    to one of the other than it must be. Those who have parted stay apart.
    """

    one_row: ClassVar[bool] = False
    lasting: ClassVar[bool] = True  # `groups` are what earlier rounds made of them
    mean_below: float = 0.4
    one_above: float = 0.0
    smallest: int = 2  # silos; a group that cannot be parted into two of this size stays together

    def __post_init__(self) -> None:
        for name, value in (("mean_below", self.mean_below), ("one_above", self.one_above)):
            if not 0 <= value < float("inf"):
                raise ConfigError(f"bipartition: {name} must be a number from 0, got {value}")
        if self.smallest < 1:
            raise ConfigError(f"bipartition: smallest must be at least 1, got {self.smallest}")

    def matrix(self, recipients: Sequence[str], updates: Sequence[Update], groups: Mapping[str, str]) -> Matrix:
        halves: dict[str, str] = {}
        for group in sorted(set(groups.values())):
            members = [update for update in updates if groups[update.silo] == group]
            absent = [name for name in recipients if groups[name] == group and name not in {u.silo for u in members}]
            first, second = self._parted(members)
            # Nobody knows where a silo that is away would have gone; most of its group is the best guess.
            larger = first if len(first) >= len(second) else second
            larger += absent
            halves |= {name: f"{group}/{number}" for number, half in enumerate((first, second)) for name in half}
        mates = np.array([[halves[u.silo] == halves[name] for u in updates] for name in recipients], dtype=float)
        return normalised(mates.reshape(len(recipients), len(updates)) * _sizes(updates, "examples"))

    def _parted(self, members: Sequence[Update]) -> tuple[list[str], list[str]]:
        together = [update.silo for update in members]
        if len(members) < 2 * self.smallest:
            return together, []
        inner = products([update.delta for update in members])
        lengths, sizes = inner.diagonal().sqrt().numpy(), _sizes(members, "examples")
        shares = sizes / sizes.sum()
        mean = float(np.sqrt(max(0.0, shares @ inner.numpy() @ shares)))
        if mean >= self.mean_below * lengths.max() or lengths.max() <= self.one_above:
            return together, []
        # Single linkage joins the most alike first, so what is apart at the end is as unlike as can be.
        labels = clustered(members, cosines_of(inner), 2, "single")
        halves = [
            [u.silo for u, own in zip(members, labels, strict=True) if own == label] for label in sorted(set(labels))
        ]
        if len(halves) != 2 or min(map(len, halves)) < self.smallest:
            return together, []
        return halves[0], halves[1]


@dataclass(frozen=True)
class Similarity:
    """Every silo gets all updates, each weighted by how much it went the silo's own way; those against it by nothing.

    `sharpness` is the power of the cosine: above 1, the nearest count more.
    """

    one_row: ClassVar[bool] = False
    sharpness: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.sharpness < float("inf"):
            raise ConfigError(f"similarity: sharpness must be above 0, got {self.sharpness}")

    def matrix(self, recipients: Sequence[str], updates: Sequence[Update], groups: Mapping[str, str]) -> Matrix:
        near = np.clip(np.nan_to_num(cosines([update.delta for update in updates])), 0.0, 1.0) ** self.sharpness
        np.fill_diagonal(near, 1.0)
        position = {update.silo: i for i, update in enumerate(updates)}
        rows = [near[position[name]] if name in position else np.zeros(len(updates)) for name in recipients]
        return normalised(np.array(rows).reshape(len(recipients), len(updates)))


def clustered(updates: Sequence[Update], near: Matrix, n: int, method: Literal["average", "single"]) -> Labels:
    """The number of each update's cluster; an update without a direction is alone."""
    labels = np.arange(len(updates)) + n  # numbers that no cluster has
    # By name: the order in which silos stand in a course must not decide between ways that are equally good.
    moved = sorted((i for i in range(len(updates)) if not np.isnan(near[i, i])), key=lambda i: updates[i].silo)
    if len(moved) <= n:
        return labels
    apart = np.clip(1.0 - near[np.ix_(moved, moved)], 0.0, None)
    np.fill_diagonal(apart, 0.0)
    tree = linkage(squareform(apart, checks=False), method)
    labels[moved] = cut_tree(tree, n_clusters=n)[:, 0]
    return labels


def _sizes(updates: Sequence[Update], count: Counted) -> npt.NDArray[np.float64]:
    return np.array([update.n_examples if count == "examples" else update.n_seen for update in updates], dtype=float)
