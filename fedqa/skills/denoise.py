# SPDX-License-Identifier: Apache-2.0
"""The skill `denoise`: write a text again whose sentences were mixed and parts of which are hidden (Lewis et al. 2020).

It trains encoder and decoder. No question, answer or label is used: silos whose tasks differ, or are secret, can learn
it together. Sentences are told apart by their full stops; unlike BART's, their ends have no mark of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from torch import Tensor

from fedqa.models.backbones import Backbone
from fedqa.models.encoding import Tokens
from fedqa.models.text_pair import TextPair, Vocabulary
from fedqa.skills.corruption import damaged
from fedqa.skills.mending import Answered, Damage, Mending, MendingOptions
from fedqa.skills.word_losses import told, writing_loss


@dataclass(frozen=True)
class DenoiseOptions(MendingOptions):
    skill: ClassVar[str] = "denoise"


class Batch(NamedTuple):
    damaged: list[Tokens]
    whole: list[Tokens]


class Denoise(Mending[Batch]):
    name = DenoiseOptions.skill

    def __init__(self, options: DenoiseOptions | None = None) -> None:
        super().__init__(options or DenoiseOptions())

    def damage(self, backbone: Backbone) -> Damage[Batch]:
        return _damaged

    def answered(self, pair: TextPair, batch: Batch) -> Answered:
        """Each text's words, given the true ones before them."""
        states, gold = told(pair, *pair.read(batch.damaged, again=False), batch.whole)
        real = gold >= 0
        return Answered(pair.write(states[real]), gold[real], real.nonzero()[:, 0], len(gold))

    def mended(self, pair: TextPair, batch: Batch) -> Tensor:
        return _loss(pair, batch)


def loss_of(pair: TextPair, texts: Sequence[Tensor] | Tensor, rng: np.random.Generator) -> Tensor:
    """How far the pair is from writing these texts again once they are damaged, mean over words.

    A text is the ids of its words, [length]; special tokens, such as padding, are no part of it.
    """
    ids = [text.cpu().numpy() for text in texts]
    return _loss(pair, _damaged([one[~pair.vocabulary.special[one]] for one in ids], pair.vocabulary, rng))


def _damaged(texts: Sequence[Tokens], vocabulary: Vocabulary, rng: np.random.Generator) -> Batch:
    return Batch([damaged(text, vocabulary, rng) for text in texts], list(texts))


def _loss(pair: TextPair, batch: Batch) -> Tensor:
    return writing_loss(pair, *pair.read(batch.damaged, again=False), batch.whole)
