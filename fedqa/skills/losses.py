# SPDX-License-Identifier: Apache-2.0
"""Losses over a table of scores [questions, passages], with masks of each question's gold and negative passages.

One passage a row is gold. What is neither gold nor negative does not count.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def hinge(scores: Tensor, gold: Tensor, negatives: Tensor, margin: float) -> Tensor:
    """The mean over all pairs of gold and negative of max(0, margin - gold score + negative score)."""
    short = F.relu(margin - _gold_scores(scores, gold).unsqueeze(1) + scores)
    return torch.where(negatives, short, 0.0).sum() / negatives.sum().clamp(min=1)


def cross_entropy(scores: Tensor, gold: Tensor, negatives: Tensor) -> Tensor:
    """The mean binary cross-entropy of each gold and negative passage by itself, scores being logits."""
    counted = gold | negatives
    return F.binary_cross_entropy_with_logits(scores[counted], gold[counted].to(scores.dtype))


def listwise(scores: Tensor, gold: Tensor, negatives: Tensor) -> Tensor:
    """The mean over questions of -log of the gold passage's share in a softmax over it and its negatives."""
    total = scores.masked_fill(~(gold | negatives), -torch.inf).logsumexp(dim=1)
    return (total - _gold_scores(scores, gold)).mean()


def _gold_scores(scores: Tensor, gold: Tensor) -> Tensor:
    return scores[gold]  # one a row, so in the order of the rows
