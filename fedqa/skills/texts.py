# SPDX-License-Identifier: Apache-2.0
"""The text that an example is about, and the texts of a silo that it may learn from without any question or answer."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedqa.data.records import EVERY_SPLIT, SPLITS, Collection, Document, Example, Split
from fedqa.errors import ConfigError, DataError
from fedqa.models.annotations import PreTrainedTokenizerBase
from fedqa.models.backbones import Backbone
from fedqa.models.encoding import Tokens


@dataclass(frozen=True, eq=False, slots=True)
class Text:
    """A text of a silo, tokenised; `id` is that of its document or, where there are none, of the example."""

    id: str
    tokens: Tokens

    def window(self, size: int, rng: np.random.Generator) -> Tokens:
        """`size` of its tokens that follow one another, drawn; all of a text that is not longer."""
        start = int(rng.integers(max(1, len(self.tokens) - size + 1)))
        return self.tokens[start : start + size]


def texts_of(collection: Collection, tokenizer: PreTrainedTokenizerBase) -> dict[Split, tuple[Text, ...]]:
    """A silo's documents; where it has none, its questions. Never answers: documents that are one are left out.

    A document is a text of `train` if a training example rests on it or none does at all, else of `dev`, else of
    `test`.
    """
    found = list(_documents(collection) or _questions(collection))
    splits: dict[Split, list[Text]] = {split: [] for split in EVERY_SPLIT}
    for (split, id, _), tokens in zip(found, all_tokens(tokenizer, [text for *_, text in found]), strict=True):
        if len(tokens):
            splits[split].append(Text(id, tokens))
    return {split: tuple(texts) for split, texts in splits.items()}


def source_of(example: Example, documents: Mapping[str, Document]) -> str:
    """What is to be told of or written about: the document that an example is about, or else its question.

    Evidence does not count: where a silo's rows have no context, it is the answer itself.
    """
    return documents[example.about].text if example.about else example.question


def split_of(example: Example) -> Split:
    if example.split is None:
        raise DataError(f"the example {example.id!r} is in no split; give the collection to fedqa.data.splits.split")
    return example.split


def all_tokens(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], most: int | None = None) -> list[Tokens]:
    """The tokens of whole texts, or the first ones of each, without special ones."""
    if not texts:
        return []
    rows = tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
    return [np.array(row[:most], dtype=np.int64) for row in rows]


def check_length(skill: str, key: str, length: int, backbone: Backbone) -> None:
    """Raise ConfigError unless so many tokens, special ones among them, can be read at once."""
    positions = min(backbone.tokenizer.model_max_length, backbone.encoder.config.max_position_embeddings)
    if length > positions:
        raise ConfigError(
            f"{skill}: {key} must be at most {positions}, the positions of {backbone.spec!r}, got {length}"
        )


def _documents(collection: Collection) -> list[tuple[Split, str, str]]:
    resting: dict[str, set[Split | None]] = {}
    for example in collection.examples:
        for id in example.documents:
            resting.setdefault(id, set()).add(example.split)
    answers = set(_answers(collection))
    found = []
    for document in collection.documents:
        used = resting.get(document.id, {"train"})
        split = next((split for split in SPLITS if split in used), None)
        if split and document.id not in answers:
            found.append((split, document.id, document.text))
    return found


def _questions(collection: Collection) -> list[tuple[Split, str, str]]:
    return [(split, one.id, one.question) for split in SPLITS for one in collection.of_split(split)]


def _answers(collection: Collection) -> Iterator[str]:
    """Documents that are as a whole the answer to a question, which is about no document."""
    lengths = {document.id: len(document.text) for document in collection.documents}
    for example in collection.examples:
        if not example.about:
            yield from (s.document for s in example.evidence if s.end - s.start == lengths[s.document])
