# SPDX-License-Identifier: Apache-2.0
"""The skill `denoise`: write a text again whose sentences were mixed and parts of which are hidden (Lewis et al. 2020).

It trains encoder and decoder. No question, answer or label is used: silos whose tasks differ, or are secret, can learn
it together. Sentences are told apart by their full stops; unlike BART's, their ends have no mark of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from fedqa.data.records import Collection, Split
from fedqa.errors import ConfigError
from fedqa.models.backbones import Backbone
from fedqa.models.encoding import Tokens
from fedqa.models.tagged import TaggedModel
from fedqa.models.text_pair import Paired, TextPair, Vocabulary, pair_of, tagged_pair, text_pair
from fedqa.skills.corruption import damaged
from fedqa.skills.mending import Answered, TextFeatures, mending_scores, text_features
from fedqa.skills.skill import Scores, no_draws
from fedqa.skills.word_losses import told, writing_loss


@dataclass(frozen=True, slots=True)
class DenoiseOptions:
    """What a silo or course can set for this skill."""

    max_length: int = 128  # tokens of a text that are read and written at once, special ones among them

    def __post_init__(self) -> None:
        if self.max_length < 8:
            raise ConfigError(f"denoise: max_length must be at least 8, got {self.max_length}")


class Batch(NamedTuple):
    damaged: list[Tokens]
    whole: list[Tokens]


def loss_of(pair: TextPair, texts: Sequence[Tensor] | Tensor, rng: np.random.Generator) -> Tensor:
    """How far the pair is from writing these texts again once they are damaged, mean over words.

    A text is the ids of its words, [length]; special tokens, such as padding, are no part of it.
    """
    ids = [text.cpu().numpy() for text in texts]
    return _loss(pair, _damaged([one[~pair.vocabulary.special[one]] for one in ids], pair.vocabulary, rng))


class Denoise:
    """The skill with its options; `fedqa.skills.skill.Skill` says what the methods are for."""

    name = "denoise"
    higher_is_better = "likelihood"
    right = "accuracy"

    def __init__(self, options: DenoiseOptions | None = None) -> None:
        self.options = options or DenoiseOptions()

    def build(self, backbone: Backbone, seed: int) -> TaggedModel:
        return tagged_pair(Paired(text_pair(backbone, seed)), backbone)

    def prepare(self, collection: Collection, backbone: Backbone, seed: int) -> TextFeatures[Batch]:
        """The silo's texts; `seed` draws how those of dev and test are damaged."""
        longest = self.options.max_length
        return text_features(collection, backbone, _damaged, skill=self.name, max_length=longest, seed=seed)

    def check_draws(self, draws: Mapping[str, Any], where: str) -> None:
        no_draws(draws, self.name, where)

    def drawn(
        self, model: nn.Module, features: TextFeatures[Batch], draws: Mapping[str, Any], received: Mapping[str, Tensor]
    ) -> TextFeatures[Batch]:
        return features

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return _loss(pair_of(model), batch)

    def score(self, model: nn.Module, features: TextFeatures[Batch], split: Split) -> Scores:
        """`accuracy` and `likelihood` of each text's words, given the true ones before them; see `mending_scores`."""
        pair = pair_of(model)
        return mending_scores(model, features.fixed.get(split, ()), lambda batch: _answered(pair, batch))


def _damaged(texts: Sequence[Tokens], vocabulary: Vocabulary, rng: np.random.Generator) -> Batch:
    return Batch([damaged(text, vocabulary, rng) for text in texts], list(texts))


def _answered(pair: TextPair, batch: Batch) -> Answered:
    states, gold = told(pair, *pair.read(batch.damaged, again=False), batch.whole)
    real = gold >= 0
    return Answered(pair.write(states[real]), gold[real], real.nonzero()[:, 0], len(gold))


def _loss(pair: TextPair, batch: Batch) -> Tensor:
    return writing_loss(pair, *pair.read(batch.damaged, again=False), batch.whole)
