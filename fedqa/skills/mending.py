# SPDX-License-Identifier: Apache-2.0
"""What the skills `mlm` and `denoise` have in common: they learn from a silo's texts alone, and mend what was damaged.

How a text is damaged is drawn anew in every epoch of every round. For scoring it is drawn once, from the seed of the
features, so that models are compared on the same task.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedqa.data.records import Collection, Split
from fedqa.errors import ConfigError, DataError
from fedqa.models.backbones import Backbone
from fedqa.models.encoding import Tokens
from fedqa.models.tagged import TaggedModel
from fedqa.models.text_pair import Paired, TextPair, Vocabulary, pair_of, tagged_pair, text_pair
from fedqa.seeds import generator
from fedqa.skills.batches import batched, cut
from fedqa.skills.by_split import BySplit
from fedqa.skills.skill import Scores, evaluating, no_draws
from fedqa.skills.texts import Text, check_length, texts_of

B = TypeVar("B")  # a batch of damaged texts

Damage = Callable[[Sequence[Tokens], Vocabulary, np.random.Generator], B]

SCORED: tuple[Split, ...] = ("dev", "test")
_AT_ONCE = 16  # texts that are scored together


@dataclass(frozen=True)
class MendingOptions:
    """What a silo or course can set for these skills."""

    skill: ClassVar[str]
    max_length: int = 128  # tokens of a text that are read, or read and written, at once, special ones among them

    def __post_init__(self) -> None:
        if self.max_length < 8:
            raise ConfigError(f"{self.skill}: max_length must be at least 8, got {self.max_length}")


class Answered(NamedTuple):
    """What a model makes of the words of a batch that are to be told."""

    scores: Tensor  # [words, vocabulary]
    gold: Tensor  # [words]
    rows: Tensor  # [words]: the number of the text in which it stands
    texts: int


@dataclass(frozen=True, eq=False)
class TextFeatures(BySplit[Text], Generic[B]):
    """A silo's texts, tokenised once. `damage` makes a batch of texts, cut to `window` tokens."""

    splits: Mapping[Split, tuple[Text, ...]]
    window: int
    damage: Callable[[Sequence[Tokens], np.random.Generator], B]
    fixed: Mapping[Split, Sequence[B]]  # what is scored

    def questions(self, split: Split) -> tuple[str, ...]:
        """The ids of the texts of dev and test; the other splits are not scored."""
        return super().questions(split) if split in self.fixed else ()

    def epoch(self, size: int, rng: np.random.Generator) -> Iterator[tuple[B, int]]:
        """Every training text once, `size` in a batch of similar length, of a long text one window."""
        windows = [text.window(self.window, rng) for text in self.splits["train"]]
        for some in batched(windows, size, rng, len):
            yield self.damage(some, rng), len(some)


class Mending(ABC, Generic[B]):
    """A skill with its options; `fedqa.skills.skill.Skill` says what the methods are for."""

    name: str
    higher_is_better = "likelihood"
    right = "accuracy"

    def __init__(self, options: MendingOptions) -> None:
        self.options = options

    @abstractmethod
    def damage(self, backbone: Backbone) -> Damage[B]:
        """How texts become a batch."""

    @abstractmethod
    def answered(self, pair: TextPair, batch: B) -> Answered: ...

    @abstractmethod
    def mended(self, pair: TextPair, batch: B) -> Tensor:
        """The loss: how far the pair is from the words as they were, mean over words."""

    def build(self, backbone: Backbone, seed: int) -> TaggedModel:
        return tagged_pair(Paired(text_pair(backbone, seed)), backbone)

    def prepare(self, collection: Collection, backbone: Backbone, seed: int) -> TextFeatures[B]:
        """The silo's texts; `seed` draws how those of dev and test are damaged."""
        longest = self.options.max_length
        return text_features(
            collection, backbone, self.damage(backbone), skill=self.name, max_length=longest, seed=seed
        )

    def check_draws(self, draws: Mapping[str, Any], where: str) -> None:
        no_draws(draws, self.name, where)

    def drawn(
        self, model: nn.Module, features: TextFeatures[B], draws: Mapping[str, Any], received: Mapping[str, Tensor]
    ) -> TextFeatures[B]:
        return features

    def loss(self, model: nn.Module, batch: B) -> Tensor:
        return self.mended(pair_of(model), batch)

    def score(self, model: nn.Module, features: TextFeatures[B], split: Split) -> Scores:
        """`accuracy` and `likelihood` of the words of each text that are to be told; see `mending_scores`."""
        pair = pair_of(model)
        return mending_scores(model, features.fixed.get(split, ()), lambda batch: self.answered(pair, batch))


def text_features(
    collection: Collection,
    backbone: Backbone,
    damage: Damage[B],
    *,
    skill: str,
    max_length: int,
    seed: int,
) -> TextFeatures[B]:
    """The texts of all splits; those of dev and test damaged once for all."""
    check_length(skill, "max_length", max_length, backbone)
    vocabulary, splits = Vocabulary.of(backbone), texts_of(collection, backbone.tokenizer)
    if not splits["train"]:
        raise DataError(f"{skill} has nothing to train on: there is no document, nor a training question; add some")
    window = max_length - backbone.tokenizer.num_special_tokens_to_add(pair=False)
    rngs = {split: generator(seed, skill, split) for split in SCORED}
    fixed: dict[Split, list[B]] = {
        split: [
            damage([text.tokens[:window] for text in some], vocabulary, rngs[split])
            for some in cut(splits[split], _AT_ONCE)
        ]
        for split in SCORED
    }
    return TextFeatures(splits, window, lambda texts, rng: damage(texts, vocabulary, rng), fixed)


def mending_scores(model: nn.Module, batches: Sequence[B], answered: Callable[[B], Answered]) -> Scores:
    """Of each text, over the words that were to be told: the share of right ones, and the geometric mean of the
    probabilities that they were given; both 0 if there is no such word.
    """
    right, likely = [np.zeros(0)], [np.zeros(0)]
    with evaluating(model):
        for batch in batches:
            found = answered(batch)
            logs = -F.cross_entropy(found.scores, found.gold, reduction="none")
            right.append(_means(found.scores.argmax(dim=-1) == found.gold, found))
            likely.append(np.nan_to_num(np.exp(_means(logs, found))))
    return {"accuracy": np.nan_to_num(np.concatenate(right)), "likelihood": np.concatenate(likely)}


def _means(values: Tensor, found: Answered) -> npt.NDArray[np.float64]:
    """The mean of the values of each text."""
    sums = torch.bincount(found.rows, weights=values.double(), minlength=found.texts)
    means: npt.NDArray[np.float64] = (sums / torch.bincount(found.rows, minlength=found.texts)).cpu().numpy()
    return means
