# SPDX-License-Identifier: Apache-2.0
"""The skill `generate`: write a text from a text, such as a summary, or a question that a sentence answers.

What is written from is the document that an example is about or, where it is about none, its question; what is to be
written is one of its answers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from fedqa.data.records import EVERY_SPLIT, Collection, Split
from fedqa.errors import ConfigError, DataError
from fedqa.evaluation.generation import generation_scores
from fedqa.models.annotations import PreTrainedTokenizerBase
from fedqa.models.backbones import Backbone
from fedqa.models.encoding import Tokens, tokenised
from fedqa.models.pair_writing import Writing, written
from fedqa.models.search import Step
from fedqa.models.tagged import TaggedModel
from fedqa.models.text_pair import Paired, pair_of, tagged_pair, text_pair
from fedqa.skills.batches import batched, cut
from fedqa.skills.by_split import BySplit
from fedqa.skills.skill import Scores, evaluating, no_draws
from fedqa.skills.texts import all_tokens, check_length, source_of, split_of
from fedqa.skills.word_losses import writing_loss

_AT_ONCE = 32  # texts that are written together


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """What a silo or course can set for this skill."""

    max_source: int = 192  # tokens, special ones among them
    max_target: int = 48  # tokens, the end among them; of longer targets the first ones are learnt
    min_target: int = 1  # words that are written at least
    smoothing: float = 0.1  # of the targets, in training
    beams: int = 5
    no_repeat: int = 3  # no run of so many tokens is written twice; 0 = any
    length_penalty: float = 1.0  # above 1 longer texts are preferred, below 1 shorter ones

    def __post_init__(self) -> None:
        for key, least in (("max_source", 8), ("max_target", 2), ("min_target", 0), ("beams", 1), ("no_repeat", 0)):
            if getattr(self, key) < least:
                raise ConfigError(f"generate: {key} must be at least {least}, got {getattr(self, key)}")
        if self.min_target >= self.max_target:
            raise ConfigError(
                f"generate: min_target must be below max_target = {self.max_target}, got {self.min_target}"
            )
        if not 0 <= self.smoothing < 1:
            raise ConfigError(f"generate: smoothing must be from 0 to below 1, got {self.smoothing}")
        if not 0 <= self.length_penalty < float("inf"):
            raise ConfigError(f"generate: length_penalty must be a number from 0, got {self.length_penalty}")

    @property
    def writing(self) -> Writing:
        return Writing(
            longest=self.max_target,
            shortest=self.min_target,
            beams=self.beams,
            penalty=self.length_penalty,
            no_repeat=self.no_repeat,
        )


@dataclass(frozen=True, eq=False, slots=True)
class Told:
    """A text to write from, what may be written, and that as tokens where it is trained on."""

    id: str
    source: Tokens
    accepted: tuple[str, ...]
    targets: tuple[Tokens, ...] = ()


class Batch(NamedTuple):
    sources: list[Tokens]
    targets: list[Tokens]


@dataclass(frozen=True, eq=False)
class GenerateFeatures(BySplit[Told]):
    """A silo's texts, tokenised once."""

    splits: Mapping[Split, tuple[Told, ...]]
    tokenizer: PreTrainedTokenizerBase

    def epoch(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Batch, int]]:
        """Every training example once, `size` in a batch of similar length, each with one of its targets."""
        for some in batched(self.splits["train"], size, rng, lambda one: len(one.source)):
            targets = [one.targets[int(rng.integers(len(one.targets)))] for one in some]
            yield Batch([one.source for one in some], targets), len(some)


class Generate:
    """The skill with its options; `fedqa.skills.skill.Skill` says what the methods are for."""

    name = "generate"
    higher_is_better = "rouge_l"
    right = "em"

    def __init__(self, options: GenerateOptions | None = None) -> None:
        self.options = options or GenerateOptions()

    def build(self, backbone: Backbone, seed: int) -> TaggedModel:
        return tagged_pair(Paired(text_pair(backbone, seed)), backbone)

    def prepare(self, collection: Collection, backbone: Backbone, seed: int) -> GenerateFeatures:
        """Features of all splits. Nothing in them is random: `seed` has no influence."""
        for key in ("max_source", "max_target"):
            check_length(self.name, key, getattr(self.options, key), backbone)
        documents, tokenizer = {document.id: document for document in collection.documents}, backbone.tokenizer
        examples = [example for example in collection.examples if example.answers]
        sources = tokenised(tokenizer, [source_of(one, documents) for one in examples], self.options.max_source)
        splits: dict[Split, list[Told]] = {split: [] for split in EVERY_SPLIT}
        for example, source in zip(examples, sources, strict=True):
            split = split_of(example)
            targets = self._targets(tokenizer, example.answers) if split == "train" else ()
            if targets or split != "train":
                splits[split].append(Told(example.id, source, example.answers, targets))
        if not splits["train"]:
            raise DataError(
                f"generate has nothing to train on: none of {len(collection.examples)} examples is a training example "
                "with an answer, which is what is to be written; add some"
            )
        return GenerateFeatures({split: tuple(told) for split, told in splits.items()}, tokenizer)

    def check_draws(self, draws: Mapping[str, Any], where: str) -> None:
        no_draws(draws, self.name, where)

    def drawn(
        self, model: nn.Module, features: GenerateFeatures, draws: Mapping[str, Any], received: Mapping[str, Tensor]
    ) -> GenerateFeatures:
        return features

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """How far the model is from writing the targets, word by word; smoothed only while it is in training mode."""
        pair = pair_of(model)
        memory, mask = pair.read(batch.sources)
        smoothing = self.options.smoothing if model.training else 0.0
        return writing_loss(pair, memory, mask, batch.targets, smoothing=smoothing)

    def score(self, model: nn.Module, features: GenerateFeatures, split: Split) -> Scores:
        """See `fedqa.evaluation.generation`."""
        accepted = {one.id: one.accepted for one in features.splits[split]}
        return generation_scores(self.predict(model, features, split), accepted)

    def predict(self, model: nn.Module, features: GenerateFeatures, split: Split) -> dict[str, str]:
        """What the model writes for each example of a split, by id."""
        told = features.splits[split]
        texts = self.write(model, features.tokenizer, [one.source for one in told])
        return {one.id: text for one, text in zip(told, texts, strict=True)}

    def write(self, model: nn.Module, tokenizer: PreTrainedTokenizerBase, sources: Sequence[Tokens]) -> list[str]:
        """What the model writes from each of these texts."""
        pair, found = pair_of(model), dict[int, str]()
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
        with evaluating(model):
            for rows in cut(order, _AT_ONCE):
                memory, mask = pair.read([sources[i] for i in rows])
                for i, candidates in zip(rows, written(pair, memory, mask, self.options.writing), strict=True):
                    found[i] = _text(tokenizer, candidates[0].steps)
        return [found[i] for i in range(len(sources))]

    def _targets(self, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> tuple[Tokens, ...]:
        found = all_tokens(tokenizer, texts, self.options.max_target - 1)
        return tuple(tokens for tokens in found if len(tokens))


def _text(tokenizer: PreTrainedTokenizerBase, steps: Sequence[Step]) -> str:
    text = tokenizer.decode([step.index for step in steps], skip_special_tokens=True)
    assert isinstance(text, str)
    return text.strip()
