# SPDX-License-Identifier: Apache-2.0
"""The skill `mlm`: tell the words that are hidden in a text (Devlin et al. 2019). It trains the encoder.

No question, answer or label is used: silos whose tasks differ, or are secret, can learn it together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedqa.models.backbones import Backbone
from fedqa.models.encoding import Framing, Tokens
from fedqa.models.text_pair import TextPair, Vocabulary
from fedqa.skills.corruption import masked
from fedqa.skills.mending import Answered, Damage, Mending, MendingOptions
from fedqa.skills.word_losses import smoothed


@dataclass(frozen=True)
class MlmOptions(MendingOptions):
    skill: ClassVar[str] = "mlm"


class Batch(NamedTuple):
    """Damaged texts, all [texts, length]: ids, where a text is, and the words that were chosen, -1 elsewhere."""

    ids: Tensor
    mask: Tensor
    gold: Tensor


class Mlm(Mending[Batch]):
    name = MlmOptions.skill

    def __init__(self, options: MlmOptions | None = None) -> None:
        super().__init__(options or MlmOptions())

    def damage(self, backbone: Backbone) -> Damage[Batch]:
        framing = Framing(backbone.tokenizer, segments=False)

        def hide(texts: Sequence[Tokens], vocabulary: Vocabulary, rng: np.random.Generator) -> Batch:
            return _hidden(*framed(framing, texts), vocabulary, rng)

        return hide

    def answered(self, pair: TextPair, batch: Batch) -> Answered:
        return _answered(pair, batch)

    def mended(self, pair: TextPair, batch: Batch) -> Tensor:
        return _loss(pair, batch)


def loss_of(pair: TextPair, ids: Tensor, mask: Tensor, rng: np.random.Generator) -> Tensor:
    """How badly words of these texts are told once they are hidden, mean over words.

    `ids` [texts, length] are framed by special tokens, `mask` is 1 where a text is.
    """
    return _loss(pair, _hidden(ids, mask, pair.vocabulary, rng))


def framed(framing: Framing, texts: Sequence[Tokens]) -> tuple[Tensor, Tensor]:
    """Texts with special tokens around them, in their order, as ids and mask [texts, length]."""
    (group,) = framing.padded([(text,) for text in texts], budget=len(texts) * max(map(framing.length, texts)))
    order = torch.tensor(group.rows).argsort()
    return group.inputs["input_ids"][order], group.inputs["attention_mask"][order]


def _hidden(ids: Tensor, mask: Tensor, vocabulary: Vocabulary, rng: np.random.Generator) -> Batch:
    damaged, chosen = masked(ids.cpu().numpy(), mask.cpu().bool().numpy(), vocabulary, rng)
    gold = torch.where(torch.from_numpy(chosen).to(ids.device), ids, -1)
    return Batch(torch.from_numpy(damaged), mask, gold)


def _answered(pair: TextPair, batch: Batch) -> Answered:
    gold = batch.gold.to(pair.device)
    chosen = gold >= 0
    states = pair.encode(batch.ids, batch.mask, again=False)
    return Answered(pair.fill(states[chosen]), gold[chosen], chosen.nonzero()[:, 0], len(gold))


def _loss(pair: TextPair, batch: Batch) -> Tensor:
    found = _answered(pair, batch)
    return smoothed(found.scores, found.gold)
