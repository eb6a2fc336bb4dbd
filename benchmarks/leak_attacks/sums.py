# SPDX-License-Identifier: Apache-2.0
"""Attacks on a sum of states, such as a text of ATC's probe set: which words, and which texts, are in one silo's part.

The attacker owns the encoder, knows how sums are made, and has texts of the same kind, from which it makes sums of its
own to learn from. Its detectors are matched filters: what a word or a text adds to a sum, seen through all that sums
differ by. They are the best linear ones; an attacker with more texts, or more patience, will see more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg import cho_factor, cho_solve
from scipy.stats import rankdata
from torch import Tensor

from fedqa.federation.probe import ProbeOptions, part
from fedqa.seeds import generator

Array = npt.NDArray[np.float64]
_SEEN = 3  # times a word must stand in the attacker's texts for its mean state to mean something
_RIDGE = 1e-3  # of the mean variance


@dataclass(frozen=True, eq=False)
class Pool:
    """Texts of a silo and what the encoder makes of them."""

    ids: npt.NDArray[np.int64]  # [texts, length]
    states: Tensor  # [texts, length, width]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums, the attacked silo having the largest share in each; `rows` are its texts in every one."""

    parts: Sequence[Array]  # of each silo, the attacked one first: [items, length, width]
    rows: npt.NDArray[np.int64]  # [items, texts]

    def seen(self, accomplices: int) -> Array:
        """What is left to silos that take their own parts away."""
        found: Array = self.parts[0] + sum(self.parts[1 + accomplices :])
        return found


def summed(pools: Sequence[Pool], items: int, options: ProbeOptions, seed: int) -> Sums:
    """Sums as the channel `probe` makes them, the first pool being that of the silo with the largest share."""
    rest = (1 - options.primary) / (len(pools) - 1)
    parts, drawn = [], []
    for place, pool in enumerate(pools):
        rng = generator(seed, "sums", place)
        rows = rng.integers(len(pool), size=(items, options.texts))
        share = np.full((items, 1, 1), rest if place else options.primary)
        parts.append(part((pool.states[torch.from_numpy(row)] for row in rows), share, len(pools), options, rng))
        drawn.append(rows)
    return Sums(parts, drawn[0])


@dataclass(frozen=True, eq=False)
class Filter:
    """How sums vary at one place: what is looked for is weighed against it."""

    mean: Array
    factor: tuple[Array, bool]

    @classmethod
    def of(cls, vectors: Array) -> "Filter":
        covariance = np.cov(vectors, rowvar=False)
        covariance += _RIDGE * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
        return cls(vectors.mean(axis=0), cho_factor(covariance))

    def __call__(self, vectors: Array) -> Array:
        """[n, width], such that the product with what is looked for says how much of it is there."""
        found: Array = cho_solve(self.factor, (vectors - self.mean).T).T
        return found


@dataclass(frozen=True, eq=False)
class Attacker:
    """`texts` are its own, `sums` those it has made of them, as `seen` by it."""

    texts: Pool
    words: npt.NDArray[np.int64]  # the tokens that it looks for
    sums: Sums
    seen: Array

    # -- words ---------------------------------------------------------------------------------------------------

    @cached_property
    def known(self) -> npt.NDArray[np.int64]:
        """The words that it has seen often enough."""
        counts = np.bincount(self.texts.ids.ravel(), minlength=int(self.words.max()) + 1)
        found: npt.NDArray[np.int64] = self.words[counts[self.words] >= _SEEN]
        return found

    @cached_property
    def _often(self) -> Array:
        """How many of its texts have each word, as a logarithm."""
        return np.log(np.array([(self.texts.ids == word).any(axis=1).sum() for word in self.known], dtype=np.float64))

    @cached_property
    def _templates(self) -> Array:
        """What each word adds to a state, [words, width]."""
        flat, ids = self.texts.states.flatten(0, 1).double().numpy(), self.texts.ids.ravel()
        means = np.stack([flat[ids == word].mean(axis=0) for word in self.known])
        found: Array = means - flat[ids > 0].mean(axis=0)
        return found

    @cached_property
    def _filter(self) -> Filter:
        return Filter.of(self.seen.reshape(-1, self.seen.shape[-1]))

    def _features(self, seen: Array) -> Array:
        """Of every sum and word: the most of it at one place, how much at all of them, and how common it is."""
        templates = self._templates
        norms = np.sqrt(np.einsum("wd,wd->w", templates, cho_solve(self._filter.factor, templates.T).T))
        found = self._filter(seen.reshape(-1, seen.shape[-1])) @ templates.T / norms
        found = found.reshape(*seen.shape[:2], -1)
        return np.stack([found.max(axis=1), found.mean(axis=1), np.tile(self._often, (len(seen), 1))], axis=-1)

    @cached_property
    def _weights(self) -> tuple[Array, Array, Array]:
        """Learnt from its own sums, whose words it knows: how much each feature says."""
        from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

        features = self._features(self.seen).reshape(-1, 3)
        mean, deviation = features.mean(axis=0), features.std(axis=0)
        truth = present(self.texts.ids, self.sums.rows, self.known).ravel()
        return mean, deviation, LogisticRegression().fit((features - mean) / deviation, truth).coef_[0]

    def named(self, seen: Array, counts: Sequence[int]) -> list[frozenset[int]]:
        """Of each sum, so many of the words that are most likely in it."""
        mean, deviation, weights = self._weights
        return self._likeliest((self._features(seen) - mean) / deviation @ weights, counts)

    def guessed(self, counts: Sequence[int]) -> list[frozenset[int]]:
        """The most common words: what it would name without any sum."""
        return self._likeliest(np.tile(self._often, (len(counts), 1)), counts)

    def _likeliest(self, scores: Array, counts: Sequence[int]) -> list[frozenset[int]]:
        best = np.argsort(-scores, axis=1)
        return [frozenset(self.known[row[:n]].tolist()) for row, n in zip(best, counts, strict=True)]

    # -- texts ---------------------------------------------------------------------------------------------------

    def confirmed(self, seen: Array, rows: npt.NDArray[np.int64], candidates: Pool) -> float:
        """How often a text that is in a sum looks more like it than one that is not (a half: by chance).

        A text may stand in its places, or in any; what does better counts.
        """
        width = seen.shape[-1]
        white = self._filter(seen.reshape(-1, width)).reshape(seen.shape)
        whole = Filter.of(self.seen.mean(axis=1))(seen.mean(axis=1))
        states = candidates.states.double().numpy()
        centred = states - states.mean(axis=(0, 1))
        inside = np.stack([np.isin(np.arange(len(candidates)), row) for row in rows])
        in_place = np.einsum("ild,cld->ic", white, centred, optimize=True)
        anywhere = whole @ centred.mean(axis=1).T
        nearest = np.stack([(item @ centred.reshape(-1, width).T).max(axis=0) for item in white])
        nearest = nearest.reshape(len(seen), *states.shape[:2]).mean(axis=-1)
        return max(_area(scores, inside) for scores in (in_place, anywhere, nearest))


def read(attacker: Attacker, seen: Array, true: Sequence[frozenset[int]]) -> tuple[float, float]:
    """The share of the true words that are named, as many as there are: with the sums, and without."""
    counts = [len(one) for one in true]
    return _share(attacker.named(seen, counts), true), _share(attacker.guessed(counts), true)


def present(
    ids: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], words: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Which of the words each item has, [items, words]."""
    return np.stack([np.isin(words, ids[row]) for row in rows])


def _share(found: Sequence[frozenset[int]], true: Sequence[frozenset[int]]) -> float:
    return fmean(len(one & all_) / len(all_) for one, all_ in zip(found, true, strict=True))


def _area(scores: Array, inside: npt.NDArray[np.bool_]) -> float:
    """The area under the ROC curve, mean of items."""
    areas = []
    for row, true in zip(scores, inside, strict=True):
        n, m = int(true.sum()), int((~true).sum())
        areas.append((rankdata(row)[true].sum() - n * (n + 1) / 2) / (n * m))
    return float(np.mean(areas))
