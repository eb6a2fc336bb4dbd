# SPDX-License-Identifier: Apache-2.0
"""What the skill `read` trains on and is scored on: questions, the documents to read for each, and windows of them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedqa.data.records import EVERY_SPLIT, Collection, Document, Example, Split
from fedqa.data.splits import normalise
from fedqa.errors import ConfigError, DataError
from fedqa.models.annotations import PreTrainedTokenizerBase
from fedqa.models.encoding import Tokens
from fedqa.models.reader import Row
from fedqa.skills.bm25 import KeywordIndex
from fedqa.skills.by_split import BySplit
from fedqa.skills.windows import Extent, TokenText, token_texts, windows


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a silo or course can set for this skill."""

    window: int = 256  # tokens of a document that are read at once
    overlap: int = 64  # tokens that a window shares with the next
    max_question: int = 96  # tokens; of a longer question the last ones are read, where the asking is done
    max_answer: int = 30  # tokens; of a longer answer the first ones are learnt
    no_answer: float = 0.5  # windows without the answer for each one that has it, in training
    pair: bool = False  # the encoder is half of a pair, shared with silos that write or classify

    def __post_init__(self) -> None:
        for key, least in (("window", 16), ("max_question", 8), ("max_answer", 1)):
            if getattr(self, key) < least:
                raise ConfigError(f"read: {key} must be at least {least}, got {getattr(self, key)}")
        if not self.max_answer <= self.overlap < self.window:
            raise ConfigError(
                f"read: overlap must be from max_answer = {self.max_answer}, so that every answer is whole in some "
                f"window, to below window = {self.window}, got {self.overlap}"
            )
        if not 0 <= self.no_answer < float("inf"):
            raise ConfigError(f"read: no_answer must be a number from 0, got {self.no_answer}")


@dataclass(frozen=True, eq=False, slots=True)
class Question:
    """A tokenised question, the texts to read for it, and in each of them the gold spans; none: it has no answer."""

    id: str
    tokens: Tokens
    texts: tuple[int, ...]
    gold: tuple[tuple[Extent, ...], ...]  # by text
    accepted: tuple[str, ...]  # answers


class Target(NamedTuple):
    """What to train on: a window, and the gold spans in it; none: it does not answer."""

    row: Row
    gold: tuple[Extent, ...]


class Prediction(NamedTuple):
    """What a model makes of a question: the words of the best span, and their log-odds against no answer."""

    answer: str
    odds: float


@dataclass
class Kept:
    """What the model that was last scored makes of the dev questions: the scores of all splits need it."""

    digest: bytes = b""
    dev: Sequence[Prediction] = ()


@dataclass(frozen=True, eq=False)
class ReadFeatures(BySplit[Question]):
    """A silo's documents and questions, tokenised once."""

    options: ReadOptions
    documents: tuple[Document, ...]
    texts: tuple[TokenText, ...]  # of the documents
    splits: Mapping[Split, tuple[Question, ...]]
    tokenizer: PreTrainedTokenizerBase
    kept: Kept = field(default_factory=Kept)

    def windows(self, question: Question) -> Iterator[tuple[int, Extent]]:
        """All that is to be read for a question: which of its texts, and where."""
        for i, text in enumerate(question.texts):
            for extent in windows(len(self.texts[text]), self.options.window, self.options.overlap):
                yield i, extent

    def epoch(self, size: int, rng: np.random.Generator) -> Iterator[tuple[list[Target], int]]:
        """Every training question once, `size` in a batch, each with newly drawn windows."""
        train = self.splits["train"]
        order: list[int] = rng.permutation(len(train)).tolist()
        for start in range(0, len(order), size):
            questions = [train[i] for i in order[start : start + size]]
            yield [target for question in questions for target in self._drawn(question, rng)], len(questions)

    def _drawn(self, question: Question, rng: np.random.Generator) -> list[Target]:
        """A window with the answer, and some without; of a question that has no answer, one window."""
        found = [self._target(question, i, extent) for i, extent in self.windows(question)]
        whole = [target for target in found if target and target.gold]
        empty = [target for target in found if target and not target.gold]
        count = int(self.options.no_answer + rng.random()) if whole else 1
        drawn = [whole[int(rng.integers(len(whole)))]] if whole else []
        return drawn + [empty[i] for i in rng.permutation(len(empty))[:count]]

    def _target(self, question: Question, i: int, extent: Extent) -> Target | None:
        """None for a window that holds a part of an answer and no whole one: it is neither right nor wrong."""
        gold = tuple(span.after(extent.start) for span in question.gold[i] if span in extent)
        if not gold and any(span.touches(extent) for span in question.gold[i]):
            return None
        return Target(row_of(question.tokens, self.texts[question.texts[i]], extent), gold)


def row_of(question: Tokens, text: TokenText, extent: Extent) -> Row:
    """A question and a window of a text, to be read together."""
    part = slice(extent.start, extent.end)
    return Row(question, text.ids[part], text.sentences[part])


def question_tokens(tokenizer: PreTrainedTokenizerBase, question: str, most: int) -> Tokens:
    """The last tokens of a question: whoever tells a story first asks at its end."""
    ids = tokenizer(question, add_special_tokens=False, verbose=False)["input_ids"]
    return np.array(ids[-most:], dtype=np.int64)


def read_features(collection: Collection, tokenizer: PreTrainedTokenizerBase, options: ReadOptions) -> ReadFeatures:
    """A question is read in the documents it rests on or was asked about; if nobody says which these are, in the one
    that has most of its words. Questions that a database answers are left out.
    """
    texts = tuple(token_texts(tokenizer, [document.text for document in collection.documents]))
    asking = _Asking(collection.documents, texts, tokenizer, options)
    splits: dict[Split, list[Question]] = {split: [] for split in EVERY_SPLIT}
    for split, example in _merged(collection.examples):
        question = asking.question(example)
        if question and (split != "train" or asking.can_be_learnt(question)):
            splits[split].append(question)
    kept = {split: tuple(questions) for split, questions in splits.items()}
    return ReadFeatures(options, collection.documents, texts, kept, tokenizer)


def _merged(examples: Sequence[Example]) -> Iterator[tuple[Split, Example]]:
    """Examples that ask the same of the same documents are one, with all their answers, and the id of the first."""
    groups: dict[tuple[Split, str, frozenset[str]], list[Example]] = defaultdict(list)
    for example in examples:
        groups[_split(example), normalise(example.question), frozenset(example.documents)].append(example)
    for (split, _, _), group in groups.items():
        evidence = tuple(dict.fromkeys(span for example in group for span in example.evidence))
        answers = tuple(dict.fromkeys(answer for example in group for answer in example.answers))
        yield split, replace(group[0], evidence=evidence, answers=answers)


def _split(example: Example) -> Split:
    if example.split is None:
        raise DataError(f"the example {example.id!r} is in no split; give the collection to fedqa.data.splits.split")
    return example.split


@dataclass(frozen=True)
class _Asking:
    """Makes questions of examples."""

    documents: Sequence[Document]
    texts: Sequence[TokenText]
    tokenizer: PreTrainedTokenizerBase
    options: ReadOptions

    def question(self, example: Example) -> Question | None:
        """None where there is nothing to read."""
        texts = self._texts(example)
        if not texts or (example.sql and not example.evidence):
            return None
        return Question(
            example.id,
            question_tokens(self.tokenizer, example.question, self.options.max_question),
            texts,
            tuple(self._gold(example, text) for text in texts),
            example.answers or self._evidence(example),
        )

    def can_be_learnt(self, question: Question) -> bool:
        """Not if there is an answer, but no token that stands for it."""
        return bool(question.accepted) == any(question.gold)

    def _texts(self, example: Example) -> tuple[int, ...]:
        known = sorted(self._numbers[id] for id in example.documents)
        found = known or self._index.top(example.question, 1)
        return tuple(number for number in found if len(self.texts[number]))

    def _gold(self, example: Example, text: int) -> tuple[Extent, ...]:
        """The gold spans in a text, cut to the longest answer there may be."""
        spans = (span for span in example.evidence if self._numbers[span.document] == text)
        extents = (self.texts[text].tokens(span.start, span.end) for span in spans)
        most = self.options.max_answer
        return tuple(dict.fromkeys(Extent(e.start, min(e.end, e.start + most)) for e in extents if e is not None))

    def _evidence(self, example: Example) -> tuple[str, ...]:
        return tuple(self.documents[self._numbers[s.document]].text[s.start : s.end] for s in example.evidence)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {document.id: number for number, document in enumerate(self.documents)}

    @cached_property
    def _index(self) -> KeywordIndex:
        return KeywordIndex([document.text for document in self.documents])
