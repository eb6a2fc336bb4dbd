# SPDX-License-Identifier: Apache-2.0
"""Texts made worse, so that a model can learn to mend them: words hidden (BERT), sentences mixed and runs of words
hidden (BART). Everything is drawn from the generator that is given."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedqa.models.encoding import Tokens
from fedqa.models.text_pair import Vocabulary

CHOSEN = 0.15  # of the words are to be told
HIDDEN, REPLACED = 0.8, 0.1  # of those chosen; the rest stand as they are
INFILLED = 0.3  # of the words are hidden in runs
RUN = 3.0  # words in a run, on average, before empty runs are dropped


class Masked(NamedTuple):
    """Ids of texts, and which of them have to be told."""

    ids: npt.NDArray[np.int64]  # [texts, length]
    chosen: npt.NDArray[np.bool_]


def masked(
    ids: npt.NDArray[np.int64], mask: npt.NDArray[np.bool_], vocabulary: Vocabulary, rng: np.random.Generator
) -> Masked:
    """15 % of the words of each text, at least one, never a special token: 80 % hidden, 10 % another word, 10 % kept.

    `ids` and `mask` are [texts, length].
    """
    words = mask & ~vocabulary.special[ids]
    chosen = np.zeros_like(words)
    for row, can in enumerate(words):
        places = np.flatnonzero(can)
        count = min(len(places), max(1, round(CHOSEN * len(places))))
        chosen[row, rng.permutation(places)[:count]] = True
    fate = rng.random(ids.shape)
    others = np.flatnonzero(~vocabulary.special)
    drawn = others[rng.integers(len(others), size=ids.shape)]
    changed = np.where(fate < HIDDEN, vocabulary.mask, np.where(fate < HIDDEN + REPLACED, drawn, ids))
    return Masked(np.where(chosen, changed, ids), chosen)


def damaged(tokens: Tokens, vocabulary: Vocabulary, rng: np.random.Generator) -> Tokens:
    """Sentences in another order, then 30 % of the words in runs, each run hidden behind one mask."""
    return infilled(permuted(tokens, vocabulary, rng), vocabulary.mask, rng)


def permuted(tokens: Tokens, vocabulary: Vocabulary, rng: np.random.Generator) -> Tokens:
    """The sentences in a random order."""
    parts = np.split(tokens, sentence_ends(tokens, vocabulary))
    return np.concatenate([parts[i] for i in rng.permutation(len(parts))])


def sentence_ends(tokens: Tokens, vocabulary: Vocabulary) -> npt.NDArray[np.int64]:
    """Where sentences end but the last: behind a full stop, a question mark and the like, but not within a number."""
    stop, digit = vocabulary.stops[tokens], vocabulary.digits[tokens]
    inside = np.zeros(len(tokens), dtype=bool)
    inside[1:-1] = digit[:-2] & digit[2:]
    follows = np.append(stop[1:], True)  # of several marks the last one ends it; the text's end is no cut
    found: npt.NDArray[np.int64] = np.flatnonzero(stop & ~inside & ~follows) + 1
    return found


def infilled(tokens: Tokens, mask: int, rng: np.random.Generator) -> Tokens:
    """30 % of the tokens, rounded up, hidden in runs of Poisson(3) tokens with one mask for each; none is empty."""
    if not len(tokens):
        return tokens
    lengths = run_lengths(math.ceil(INFILLED * len(tokens)), rng)
    kept = len(tokens) - sum(lengths)
    # A run goes before one of the tokens that stay, or behind the last; so no two of them touch.
    before = np.sort(rng.permutation(kept + 1)[: len(lengths)])
    pieces, at = [], 0
    for place, length, earlier in zip(before, lengths, np.cumsum([0, *lengths[:-1]]), strict=True):
        start = int(place + earlier)
        pieces += [tokens[at:start], np.array([mask])]
        at = start + length
    return np.concatenate([*pieces, tokens[at:]])


def run_lengths(total: int, rng: np.random.Generator) -> list[int]:
    """Runs that hide `total` tokens together; the one that would hide more is cut, and stands anywhere among them."""
    lengths: list[int] = []
    while total:
        drawn = min(int(rng.poisson(RUN)), total)
        if drawn:
            lengths.append(drawn)
        total -= drawn
    return [lengths[i] for i in rng.permutation(len(lengths))]
