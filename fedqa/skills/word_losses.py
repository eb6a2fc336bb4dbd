# SPDX-License-Identifier: Apache-2.0
"""Losses over words: of words that were hidden, and of a text that is to be written."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fedqa.models.encoding import Tokens
from fedqa.models.text_pair import TextPair


def smoothed(scores: Tensor, gold: Tensor, smoothing: float = 0.0) -> Tensor:
    """The divergence (Kullback and Leibler) of a softmax over `scores` [words, vocabulary] from smoothed targets, mean
    over words: the gold one has 1 - `smoothing`, all others the rest in equal shares. Without smoothing it is the
    cross-entropy; with it, a constant less.
    """
    others = scores.shape[1] - 1
    # PyTorch spreads the rest over all words, the gold one too, so that it must be somewhat more.
    spread = smoothing * (others + 1) / others
    cross = F.cross_entropy(scores, gold, reduction="sum", label_smoothing=spread) / max(1, len(gold))
    if not smoothing or not len(gold):
        return cross
    return cross + (1 - smoothing) * math.log(1 - smoothing) + smoothing * math.log(smoothing / others)


def told(pair: TextPair, memory: Tensor, mask: Tensor, texts: Sequence[Tokens]) -> tuple[Tensor, Tensor]:
    """The decoder's states before each word of texts that are given, and these words, the end of each among them.

    `memory` [texts, length, hidden] is what they are to be written from. Both results are [texts, steps, ...], the
    words -1 behind the end.
    """
    end = [pair.vocabulary.end]
    rows = [torch.cat([torch.from_numpy(text), torch.tensor(end)]) for text in texts]
    gold = pad_sequence(rows, batch_first=True, padding_value=-1).to(memory.device)
    start = gold.new_full((len(gold), 1), pair.vocabulary.start)
    given = torch.cat([start, gold[:, :-1].clamp(min=0)], dim=1)
    return pair.decode(given, memory, mask), gold


def writing_loss(
    pair: TextPair, memory: Tensor, mask: Tensor, texts: Sequence[Tokens], *, smoothing: float = 0.0
) -> Tensor:
    """How far the pair is from writing these texts, each word given the true ones before it; mean over words."""
    states, gold = told(pair, memory, mask, texts)
    real = gold >= 0
    return smoothed(pair.write(states[real]), gold[real], smoothing)
