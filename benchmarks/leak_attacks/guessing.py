# SPDX-License-Identifier: Apache-2.0
"""Attacks by comparison: encode texts one has and see which is nearest to the vector that came.

If the sentence itself is among them, this confirms a guess; if not, the nearest text still shares words with it, and
so do the nearest of all single words that the encoder knows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.leak_attacks.sending import Encoder, Texts
from benchmarks.leak_attacks.words import Overlap, Words, content_words


@dataclass(frozen=True)
class Confirmed:
    """How often the true sentence is the nearest candidate, and the median of its ranks."""

    exact: float
    median_rank: float

    @classmethod
    def of(cls, ranks: Sequence[int]) -> "Confirmed":
        return cls(float(np.mean(np.array(ranks) == 1)), float(np.median(ranks)))

    @classmethod
    def by_chance(cls, candidates: int) -> "Confirmed":
        return cls(1 / candidates, (candidates + 1) / 2)


def cosines(received: Tensor, vectors: Tensor) -> Tensor:
    """[received, vectors]"""
    return F.normalize(received, dim=-1) @ F.normalize(vectors, dim=-1).T


def confirmed(received: Tensor, candidates: Tensor, places: Sequence[int]) -> Confirmed:
    """`places` has the true candidate of each received vector."""
    return Confirmed.of(ranks(cosines(received, candidates), places))


def ranks(scores: Tensor, places: Sequence[int]) -> list[int]:
    """From 1, the rank of each row's true candidate; the others with its very score stand behind it."""
    own = scores[torch.arange(len(places)), torch.tensor(places)]
    found: list[int] = (1 + (scores > own.unsqueeze(1)).sum(dim=1)).tolist()
    return found


def near_duplicates(text: str, count: int, encoder: Encoder, rng: np.random.Generator) -> list[str]:
    """Up to `count` texts that lack a word of this one or have two neighbours swapped, all different to the encoder."""
    words = text.split()
    shorter = [[*words[:i], *words[i + 1 :]] for i in range(len(words)) if len(words) > 1]
    swapped = [[*words[:i], words[i + 1], words[i], *words[i + 2 :]] for i in range(len(words) - 1)]
    made = [" ".join(one) for one in (*shorter, *swapped)]
    own, *seen = encoder.seen([text, *made])
    distinct = {tokens: one for tokens, one in zip(seen, made, strict=True) if tokens != own}
    order = rng.permutation(len(distinct))[:count]
    return [list(distinct.values())[i] for i in order]


def nearest(received: Tensor, others: Texts, count: int = 1) -> list[list[str]]:
    """The texts nearest to each vector, the nearest first."""
    best = cosines(received, others.vectors).topk(min(count, len(others.texts))).indices.tolist()
    return [[others.texts[i] for i in row] for row in best]


def nearest_words(received: Tensor, others: Texts, true: Sequence[Words]) -> Overlap:
    """What the words of the nearest text tell of the true ones."""
    return Overlap.of([content_words(row[0]) for row in nearest(received, others)], true)


def named(row: Tensor, words: Sequence[str], count: int) -> list[str]:
    """The `count` words with the highest scores, the best first."""
    return [words[i] for i in row.topk(min(count, len(words))).indices.tolist()]


def dictionary_recall(received: Tensor, dictionary: Texts, true: Sequence[Words]) -> float:
    """How many of the true words are among the nearest of a dictionary, as many as there are true ones."""
    scores = cosines(received, dictionary.vectors)
    found = [frozenset(named(row, dictionary.texts, len(one))) for row, one in zip(scores, true, strict=True)]
    return Overlap.of(found, true).recall


def random_words(others: Texts, true: Sequence[Words], rng: np.random.Generator) -> Overlap:
    """The floor of `nearest_words`: any text instead of the nearest."""
    drawn = rng.integers(len(others.texts), size=len(true))
    return Overlap.of([content_words(others.texts[i]) for i in drawn], true)
