# SPDX-License-Identifier: Apache-2.0
"""The skill `classify`: which of a few labels a text has. An example's label is its answer.

The text is the document that an example is about or, where it is about none, its question. Its mean state goes through
one linear map; sentence encoders are trained so that this mean tells a text's meaning.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedqa.data.records import EVERY_SPLIT, Collection, Split
from fedqa.errors import ConfigError, DataError
from fedqa.models.backbones import Backbone
from fedqa.models.decoder import new_linear
from fedqa.models.encoding import Tokens, tokenised
from fedqa.models.pooling import mean, pooled
from fedqa.models.tagged import TaggedModel
from fedqa.models.text_pair import Paired, TextPair, tagged_pair, text_pair
from fedqa.seeds import derive
from fedqa.skills.batches import batched
from fedqa.skills.by_split import BySplit
from fedqa.skills.skill import Scores, evaluating, no_draws
from fedqa.skills.texts import check_length, source_of, split_of


@dataclass(frozen=True, slots=True)
class ClassifyOptions:
    """What a silo or course can set for this skill."""

    labels: tuple[str, ...] = ()  # where silos share the head; else each has those of its own training examples
    classes: int = 8  # room for so many labels where they are not named
    max_length: int = 128  # tokens of a text, special ones among them

    def __post_init__(self) -> None:
        if len(self.labels) == 1 or len(set(self.labels)) != len(self.labels):
            raise ConfigError(f"classify: labels must be two or more different ones, got {', '.join(self.labels)}")
        for key, least in (("classes", 2), ("max_length", 8)):
            if getattr(self, key) < least:
                raise ConfigError(f"classify: {key} must be at least {least}, got {getattr(self, key)}")

    @property
    def room(self) -> int:
        return len(self.labels) or self.classes


@dataclass(frozen=True, eq=False, slots=True)
class Labelled:
    """A text and the numbers of its labels: those the features know, the first one being trained on."""

    id: str
    tokens: Tokens
    labels: tuple[int, ...]


class Batch(NamedTuple):
    texts: list[Tokens]
    labels: Tensor  # [texts]
    n_labels: int


@dataclass(frozen=True, eq=False)
class ClassifyFeatures(BySplit[Labelled]):
    """A silo's texts, tokenised once."""

    labels: tuple[str, ...]
    splits: Mapping[Split, tuple[Labelled, ...]]

    def epoch(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Batch, int]]:
        """Every training text once, `size` in a batch of similar length."""
        for some in batched(self.splits["train"], size, rng, lambda text: len(text.tokens)):
            labels = torch.tensor([text.labels[0] for text in some])
            yield Batch([text.tokens for text in some], labels, len(self.labels)), len(some)


class Classifier(Paired):
    """A pair and a linear map of a text's mean state, which is brought to one scale before."""

    def __init__(self, pair: TextPair, classes: int, generator: torch.Generator) -> None:
        super().__init__(pair)
        self.head = new_linear(pair.encoder.config.hidden_size, classes, generator)
        self.dropout = nn.Dropout(next((m.p for m in pair.encoder.modules() if isinstance(m, nn.Dropout)), 0.0))

    def forward(self, texts: Sequence[Tokens]) -> Tensor:
        """Scores [texts, classes]."""
        rows, pair = [(text,) for text in texts], self.pair
        states = pooled(pair.encoder, rows, mean, framing=pair.framing, trunk=pair.trunk)
        scores: Tensor = self.head(self.dropout(F.layer_norm(states, states.shape[-1:])))
        return scores


class Classify:
    """The skill with its options; `fedqa.skills.skill.Skill` says what the methods are for."""

    name = "classify"
    higher_is_better = "accuracy"
    right = "accuracy"

    def __init__(self, options: ClassifyOptions | None = None) -> None:
        self.options = options or ClassifyOptions()

    def build(self, backbone: Backbone, seed: int) -> TaggedModel:
        pair = text_pair(backbone, seed)
        generator = torch.Generator().manual_seed(derive(seed, "labels"))
        return tagged_pair(Classifier(pair, self.options.room, generator), backbone)

    def prepare(self, collection: Collection, backbone: Backbone, seed: int) -> ClassifyFeatures:
        """Features of all splits. Nothing in them is random: `seed` has no influence."""
        check_length(self.name, "max_length", self.options.max_length, backbone)
        labels = self._labels(collection)
        numbers, documents = {label: i for i, label in enumerate(labels)}, {d.id: d for d in collection.documents}
        examples = [example for example in collection.examples if example.answers]
        texts = [source_of(example, documents) for example in examples]
        tokens = tokenised(backbone.tokenizer, texts, self.options.max_length)
        splits: dict[Split, list[Labelled]] = {split: [] for split in EVERY_SPLIT}
        for example, ids in zip(examples, tokens, strict=True):
            known = tuple(numbers[label] for label in map(str.strip, example.answers) if label in numbers)
            splits[split_of(example)].append(Labelled(example.id, ids, known))
        return ClassifyFeatures(labels, {split: tuple(texts) for split, texts in splits.items()})

    def check_draws(self, draws: Mapping[str, Any], where: str) -> None:
        no_draws(draws, self.name, where)

    def drawn(
        self, model: nn.Module, features: ClassifyFeatures, draws: Mapping[str, Any], received: Mapping[str, Tensor]
    ) -> ClassifyFeatures:
        return features

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Cross-entropy over the labels of the silo; room for more labels does not count."""
        scores: Tensor = model(batch.texts)
        return F.cross_entropy(scores[:, : batch.n_labels], batch.labels.to(scores.device))

    def score(self, model: nn.Module, features: ClassifyFeatures, split: Split) -> Scores:
        """`accuracy`: one where the label is right. A label that no training example has is never found."""
        texts, found = features.splits[split], self._numbers(model, features, split)
        return {"accuracy": np.array([float(i in text.labels) for i, text in zip(found, texts, strict=True)])}

    def predict(self, model: nn.Module, features: ClassifyFeatures, split: Split) -> dict[str, str]:
        """The likeliest label of each text of a split, by id."""
        found = [features.labels[i] for i in self._numbers(model, features, split)]
        return dict(zip(features.questions(split), found, strict=True))

    def _numbers(self, model: nn.Module, features: ClassifyFeatures, split: Split) -> list[int]:
        texts = [text.tokens for text in features.splits[split]]
        if not texts:
            return []
        with evaluating(model):
            scores: Tensor = model(texts)
            best: list[int] = scores[:, : len(features.labels)].argmax(dim=1).tolist()
        return best

    def _labels(self, collection: Collection) -> tuple[str, ...]:
        given = {label.strip() for example in collection.of_split("train") for label in example.answers}
        known = self.options.labels or tuple(sorted(given))
        unknown = sorted(given - set(known))
        if unknown:
            raise DataError(f"classify: the label {unknown[0]!r} is none of {', '.join(known)}; add it to labels")
        if not given or len(known) < 2:
            raise DataError(
                f"classify has nothing to train on: the training examples have {len(given)} labels, where it needs "
                "two; give examples their label as the answer"
            )
        if len(known) > self.options.room:
            raise DataError(
                f"classify: the training examples have {len(known)} labels, such as {known[0]!r}, and there is room "
                f"for {self.options.room}; raise classes, or check that the answers are labels"
            )
        return known
