# SPDX-License-Identifier: Apache-2.0
"""The skill `mlm`: tell the words that are hidden in a text (Devlin et al. 2019). It trains the encoder.

No question, answer or label is used: silos whose tasks differ, or are secret, can learn it together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from fedqa.data.records import Collection, Split
from fedqa.errors import ConfigError
from fedqa.models.backbones import Backbone
from fedqa.models.encoding import Framing, Tokens
from fedqa.models.tagged import TaggedModel
from fedqa.models.text_pair import Paired, TextPair, Vocabulary, pair_of, tagged_pair, text_pair
from fedqa.skills.corruption import masked
from fedqa.skills.mending import Answered, TextFeatures, mending_scores, text_features
from fedqa.skills.skill import Scores, no_draws
from fedqa.skills.word_losses import smoothed


@dataclass(frozen=True, slots=True)
class MlmOptions:
    """What a silo or course can set for this skill."""

    max_length: int = 128  # tokens of a text that are read at once, special ones among them

    def __post_init__(self) -> None:
        if self.max_length < 8:
            raise ConfigError(f"mlm: max_length must be at least 8, got {self.max_length}")


class Batch(NamedTuple):
    """Damaged texts, all [texts, length]: ids, where a text is, and the words that were chosen, -1 elsewhere."""

    ids: Tensor
    mask: Tensor
    gold: Tensor


def loss_of(pair: TextPair, ids: Tensor, mask: Tensor, rng: np.random.Generator) -> Tensor:
    """How badly words of these texts are told once they are hidden, mean over words.

    `ids` [texts, length] are framed by special tokens, `mask` is 1 where a text is.
    """
    return _loss(pair, _hidden(ids, mask, pair.vocabulary, rng))


class Mlm:
    """The skill with its options; `fedqa.skills.skill.Skill` says what the methods are for."""

    name = "mlm"
    higher_is_better = "likelihood"
    right = "accuracy"

    def __init__(self, options: MlmOptions | None = None) -> None:
        self.options = options or MlmOptions()

    def build(self, backbone: Backbone, seed: int) -> TaggedModel:
        return tagged_pair(Paired(text_pair(backbone, seed)), backbone)

    def prepare(self, collection: Collection, backbone: Backbone, seed: int) -> TextFeatures[Batch]:
        """The silo's texts; `seed` draws what is hidden in those of dev and test."""
        framing = Framing(backbone.tokenizer, segments=False)

        def damage(texts: Sequence[Tokens], vocabulary: Vocabulary, rng: np.random.Generator) -> Batch:
            return _hidden(*framed(framing, texts), vocabulary, rng)

        longest = self.options.max_length
        return text_features(collection, backbone, damage, skill=self.name, max_length=longest, seed=seed)

    def check_draws(self, draws: Mapping[str, Any], where: str) -> None:
        no_draws(draws, self.name, where)

    def drawn(
        self, model: nn.Module, features: TextFeatures[Batch], draws: Mapping[str, Any], received: Mapping[str, Tensor]
    ) -> TextFeatures[Batch]:
        return features

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return _loss(pair_of(model), batch)

    def score(self, model: nn.Module, features: TextFeatures[Batch], split: Split) -> Scores:
        """`accuracy` and `likelihood` of the words that are hidden in each text; see `mending_scores`."""
        pair = pair_of(model)
        return mending_scores(model, features.fixed.get(split, ()), lambda batch: _answered(pair, batch))


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
