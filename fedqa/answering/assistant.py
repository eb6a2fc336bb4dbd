# SPDX-License-Identifier: Apache-2.0
"""The assistant of a silo: questions in, answers with evidence out, from its own documents and its own model.

Everything runs inside the silo and nothing is sent. Answers are what `match` finds among passages, `retrieve` among
sentences, or `read` in passages that the embedded model finds for it. A silo's page has a desk instead (`desk.py`),
with all the models of a silo and the documents of its store.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from torch import nn

from fedqa.answering.answers import Answer, Found, answer_of, check_question
from fedqa.answering.blending import fitted
from fedqa.answering.confidence import Confidence
from fedqa.answering.document_index import DocumentIndex
from fedqa.answering.index import passage_vectors
from fedqa.answering.loaded import Loaded, whole
from fedqa.answering.matching import Matching
from fedqa.answering.pipeline import Pipeline
from fedqa.answering.retrieving import Retrieving, dev_questions
from fedqa.answering.staff import staff_of
from fedqa.answering.turns import Turns
from fedqa.data.records import Document
from fedqa.errors import RunError
from fedqa.federation.messages import Point
from fedqa.federation.silo import Silo
from fedqa.models.retriever import Retriever
from fedqa.opening import model_at, open_run
from fedqa.skills.match import Match, MatchFeatures
from fedqa.skills.parse import Parse
from fedqa.skills.read import Read
from fedqa.skills.read_features import ReadFeatures
from fedqa.skills.retrieve import Retrieve
from fedqa.skills.retrieve_features import RetrieveFeatures
from fedqa.training import one_thread


class Finder(Protocol):
    """What finds a question's answers: a skill with a silo's model and documents."""

    @property
    def confidence(self) -> Confidence: ...

    def find(self, question: str, k: int) -> list[Found]: ...


@dataclass(frozen=True)
class Assistant:
    """A silo's documents and model, loaded once."""

    silo: str
    documents: Mapping[str, Document]
    finder: "Finder"

    @classmethod
    def open(cls, run: Path, silo: str, point: Point = "best") -> "Assistant":
        """The assistant of a silo of a finished run."""
        return cls.of(open_run(run).silo(silo), point)

    @classmethod
    def of(cls, silo: Silo, point: Point = "best") -> "Assistant":
        with one_thread():
            finder = _finder(silo, model_at(silo, point))
        return cls(silo.name, {document.id: document for document in silo.collection.documents}, finder)

    @property
    def threshold(self) -> float:
        """The confidence below which the best passage is not an answer."""
        return self.finder.confidence.threshold

    def ask(self, question: str, k: int = 3) -> list[Answer]:
        """The best `k` answers, surest first; empty if the documents do not seem to answer."""
        nearest = self.nearest(question, k)
        return nearest if self.answers(nearest) else []

    def answers(self, nearest: list[Answer]) -> bool:
        """Is the surest of the nearest passages sure enough to be called an answer?"""
        return bool(nearest) and nearest[0].confidence >= self.threshold

    def nearest(self, question: str, k: int = 3) -> list[Answer]:
        """The `k` passages that come nearest, whether they answer or not."""
        check_question(question, k)
        with one_thread():
            return [self._answer(found) for found in self.finder.find(question, k)]

    def _answer(self, found: Found) -> Answer:
        return answer_of(found, self.documents[found.passage.document])


def _finder(silo: Silo, model: nn.Module) -> Finder:
    skill, features, folder = silo.skill, silo.features, silo.folder / "index"
    if isinstance(skill, Match) and isinstance(features, MatchFeatures):
        vectors = passage_vectors(skill, model, features, folder)
        return Matching(skill, model, features, vectors).fitted(silo.collection)
    if isinstance(skill, Retrieve) and isinstance(features, RetrieveFeatures) and isinstance(model, Retriever):
        retrieving = Retrieving.of(skill, model, features, folder=folder)
        return retrieving.up_to_date(silo.collection.documents).fitted(silo.collection)
    if isinstance(skill, Read) and isinstance(features, ReadFeatures):
        return _reading(silo, Loaded(skill, whole(model), features.tokenizer, skill.name))
    if isinstance(skill, Parse):
        raise RunError(
            f"silo {silo.name!r} learnt 'parse', whose model asks a database and no documents; "
            "take fedqa.answering.querying.Querying, or `fedqa ask`"
        )
    raise RunError(
        f"silo {silo.name!r} learnt {skill.name!r}, whose model cannot answer; give one 'match', 'retrieve' or 'read'"
    )


def _reading(silo: Silo, read: Loaded) -> Pipeline:
    """Who has only learnt to read lets the embedded model find what to read."""
    staff, turns = staff_of({"read": read}), Turns()
    documents = {document.id: document for document in silo.collection.documents}
    index = DocumentIndex(silo.folder / "index", staff.finder, turns)
    index.remove(index.ids() - documents.keys())
    index.add(documents.values())
    pipeline = Pipeline(staff.models, index, documents.get, turns)
    measured = [pipeline.measured(question, spans) for question, spans in dev_questions(silo.collection)]
    return replace(pipeline, blend=fitted(measured, pipeline.parts))
