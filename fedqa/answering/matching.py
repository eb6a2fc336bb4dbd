# SPDX-License-Identifier: Apache-2.0
"""The first step of an answer: the silo's passages that match a question, with evidence and confidence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from fedqa.answering.answers import Found
from fedqa.answering.confidence import CANDIDATES, Asked, Confidence, calibrated
from fedqa.data.passages import Passage
from fedqa.data.records import Collection
from fedqa.data.sentences import sentences
from fedqa.data.splits import rank
from fedqa.skills.match import Match, MatchFeatures, Vectors
from fedqa.skills.questions import judged_questions

MAX_DEV = 200  # dev questions that the confidence is fitted to


@dataclass(frozen=True)
class Matching:
    """A silo's passages as its model sees them, encoded once."""

    skill: Match
    model: nn.Module
    features: MatchFeatures
    vectors: Vectors
    confidence: Confidence = field(default_factory=Confidence)

    def fitted(self, collection: Collection) -> "Matching":
        """The same with a confidence fitted to the collection's dev questions."""
        return replace(self, confidence=calibrated(list(self._dev(collection))))

    def find(self, question: str, k: int) -> list[Found]:
        """The best `k` passages with evidence and confidence."""
        ranked = self.ranked(question, max(k, CANDIDATES))
        shares = self.confidence.of([score for _, score in ranked[:CANDIDATES]])
        shares += [0.0] * (len(ranked) - len(shares))
        spans = self._evidence(question, [passage for passage, _ in ranked[:k]])
        return [Found(*found, share, *span) for found, share, span in zip(ranked, shares, spans, strict=False)]

    def ranked(self, question: str, k: int) -> list[tuple[Passage, float]]:
        """The best `k` passages with their scores."""
        return self.skill.rank(self.model, self.features, question, k, vectors=self.vectors)

    def _dev(self, collection: Collection) -> Iterator[Asked]:
        """Rankings of the dev questions, answerable or not."""
        position = {passage.id: i for i, passage in enumerate(self.features.passages)}
        dev = [example for example in collection.examples if example.split == "dev"]
        relevant = {question.text: question.relevant for question in judged_questions(dev, self.features.passages)}
        unanswerable = {e.question: frozenset[int]() for e in dev if not e.answerable}
        drawn = sorted((unanswerable | relevant).items(), key=lambda asked: rank(0, asked[0]))[:MAX_DEV]
        for question, right in drawn:
            ranked = self.ranked(question, CANDIDATES + len(right))
            yield Asked([score for _, score in ranked], [position[passage.id] in right for passage, _ in ranked])

    def _evidence(self, question: str, passages: Sequence[Passage]) -> Iterator[tuple[int, int]]:
        """Of each passage, the sentence that the same model scores highest for the question."""
        spans = [sentences(passage.text) for passage in passages]
        texts = [p.text[start:end] for p, some in zip(passages, spans, strict=True) for start, end in some]
        scores = self.skill.scores_of(self.model, self.features, question, texts)
        for passage, some, values in zip(passages, spans, torch.split(scores, [len(s) for s in spans]), strict=True):
            start, end = some[int(values.argmax())]
            yield passage.start + start, passage.start + end
