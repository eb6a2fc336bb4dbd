# SPDX-License-Identifier: Apache-2.0
"""The assistant of a silo: questions in, answers with evidence out, from its own documents and its own model.

Everything runs inside the silo and nothing is sent. Today an answer is what `match` finds; a further skill is a
further step between finding and answering.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedqa.answering.index import passage_vectors
from fedqa.answering.matching import Found, Matching
from fedqa.data.records import Document
from fedqa.errors import ConfigError, RunError
from fedqa.federation.messages import Point
from fedqa.federation.silo import Silo
from fedqa.opening import model_at, open_run
from fedqa.skills.match import Match, MatchFeatures
from fedqa.training import one_thread


@dataclass(frozen=True)
class Answer:
    """A passage that answers, the sentence of it to look at first, and how sure the model is."""

    document: str  # id
    title: str
    passage: str
    evidence: str  # characters `start` to `end` of the document
    start: int
    end: int
    score: float  # of the model; comparable within one question only
    confidence: float  # from 0 to 1, that this passage is the answer


@dataclass(frozen=True)
class Assistant:
    """A silo's documents and model, loaded once."""

    silo: str
    documents: Mapping[str, Document]
    matching: Matching

    @classmethod
    def open(cls, run: Path, silo: str, point: Point = "best") -> "Assistant":
        """The assistant of a silo of a finished run."""
        return cls.of(open_run(run).silo(silo), point)

    @classmethod
    def of(cls, silo: Silo, point: Point = "best") -> "Assistant":
        if not isinstance(silo.skill, Match) or not isinstance(silo.features, MatchFeatures):
            raise RunError(
                f"silo {silo.name!r} learnt {silo.skill.name!r}; questions are answered by silos with 'match'"
            )
        model = model_at(silo, point)
        with one_thread():
            vectors = passage_vectors(silo.skill, model, silo.features, silo.folder / "index")
            matching = Matching(silo.skill, model, silo.features, vectors).fitted(silo.collection)
        return cls(silo.name, {document.id: document for document in silo.collection.documents}, matching)

    @property
    def threshold(self) -> float:
        """The confidence below which the best passage is not an answer."""
        return self.matching.confidence.threshold

    def ask(self, question: str, k: int = 3) -> list[Answer]:
        """The best `k` answers, surest first; empty if the documents do not seem to answer."""
        nearest = self.nearest(question, k)
        return nearest if self.answers(nearest) else []

    def answers(self, nearest: list[Answer]) -> bool:
        """Is the surest of the nearest passages sure enough to be called an answer?"""
        return bool(nearest) and nearest[0].confidence >= self.threshold

    def nearest(self, question: str, k: int = 3) -> list[Answer]:
        """The `k` passages that come nearest, whether they answer or not."""
        if not question.strip():
            raise ConfigError("the question is empty; ask something, in quotation marks")
        if k < 1:
            raise ConfigError(f"k must be at least 1 answer, got {k}")
        with one_thread():
            return [self._answer(found) for found in self.matching.find(question, k)]

    def _answer(self, found: Found) -> Answer:
        document = self.documents[found.passage.document]
        return Answer(
            document=document.id,
            title=document.title,
            passage=found.passage.text,
            evidence=document.text[found.start : found.end],
            start=found.start,
            end=found.end,
            score=found.score,
            confidence=found.confidence,
        )
