# SPDX-License-Identifier: Apache-2.0
"""Finding by `retrieve`: the sentences of a silo's documents that answer a question, from an index kept on disk.

The index is brought up to date when the assistant is opened: documents that are new or changed are encoded, those that
are gone are taken out, and nothing is done where nothing has changed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from torch import nn

from fedqa.answering.answers import Found
from fedqa.answering.confidence import CANDIDATES, Asked, Confidence, calibrated
from fedqa.answering.matching import MAX_DEV
from fedqa.answering.vector_index import Entry, Hit, IndexedDocument, VectorIndex
from fedqa.data.passages import Passage, passages
from fedqa.data.records import Collection, Document, Span
from fedqa.data.sentences import sentences_of
from fedqa.data.splits import rank
from fedqa.models.encoding import tokenised
from fedqa.models.retriever import Retriever
from fedqa.skills.retrieve import Retrieve
from fedqa.skills.retrieve_features import RetrieveFeatures
from fedqa.skills.skill import evaluating

# A fused score is at most 2 / 61; times this, it spreads as far as the scores that confidence is made for.
_SPREAD = 600.0


@dataclass(frozen=True)
class Retrieving:
    """A silo's sentences as its model sees them, in an index."""

    skill: Retrieve
    model: Retriever
    features: RetrieveFeatures
    index: VectorIndex
    passages: Mapping[str, Sequence[Passage]]  # by document
    confidence: Confidence = field(default_factory=Confidence)

    @classmethod
    def of(cls, skill: Retrieve, model: nn.Module, features: RetrieveFeatures, *, folder: Path) -> "Retrieving":
        assert isinstance(model, Retriever)
        index = VectorIndex.open(folder / model.sentence_digest()[:16], model.width, model.sentence_digest())
        return cls(skill, model, features, index, {})

    def up_to_date(self, documents: Sequence[Document]) -> "Retrieving":
        """The same over exactly these documents."""
        cut = {document.id: passages(document) for document in documents}
        entries = {name: [_entry(one) for part in parts for one in sentences_of(part)] for name, parts in cut.items()}
        for gone in self.index.documents() - entries.keys():
            self.index.remove(gone)
        missing = {name: some for name, some in entries.items() if some and not self.index.holds(name, some)}
        if self.index.add_all(self._encoded(missing)):
            self.index.tend()
        return replace(self, passages=cut)

    def _encoded(self, missing: Mapping[str, Sequence[Entry]]) -> Iterator[IndexedDocument]:
        for name, entries in missing.items():
            yield IndexedDocument(name, tuple(entries), self._vectors([entry.text for entry in entries]))

    def _vectors(self, texts: Sequence[str]) -> "np.ndarray":
        tokens = tokenised(self.features.tokenizer, texts, self.skill.options.max_sentence)
        with evaluating(self.model):
            return np.asarray(self.model.sentence_vectors(tokens).cpu().numpy(), dtype=np.float32)

    def fitted(self, collection: Collection) -> "Retrieving":
        """The same with a confidence fitted to the collection's dev questions."""
        return replace(self, confidence=calibrated(list(self._dev(collection))))

    def find(self, question: str, k: int) -> list[Found]:
        """The best `k` sentences, each with the passage it stands in and a confidence."""
        hits = self.ranked(question, max(k, CANDIDATES))
        shares = self.confidence.of([hit.score * _SPREAD for hit in hits[:CANDIDATES]])
        shares += [0.0] * (len(hits) - len(shares))
        return [
            Found(self._passage(hit), hit.score, share, hit.start, hit.end)
            for hit, share in zip(hits[:k], shares, strict=False)
        ]

    def ranked(self, question: str, k: int) -> list[Hit]:
        """The best `k` sentences by vectors and keywords together."""
        tokens = tokenised(self.features.tokenizer, [question], self.skill.options.max_question)
        with evaluating(self.model):
            vectors = self.model.question_vectors(tokens).cpu().numpy()
        (hits,) = self.index.search(vectors, k, questions=[question], hybrid=True)
        return hits

    def _passage(self, hit: Hit) -> Passage:
        return next(part for part in self.passages[hit.document] if part.start <= hit.start < part.end)

    def _dev(self, collection: Collection) -> Iterator[Asked]:
        """Rankings of the dev questions, answerable or not."""
        for question, spans in dev_questions(collection):
            hits = self.ranked(question, CANDIDATES + len(spans))
            right = [any(s.document == h.document and s.start < h.end and h.start < s.end for s in spans) for h in hits]
            yield Asked([hit.score * _SPREAD for hit in hits], right)


def dev_questions(collection: Collection) -> list[tuple[str, list[Span]]]:
    """Each dev question with all its evidence; none for one that has no answer."""
    evidence: dict[str, list[Span]] = {}
    for example in collection.of_split("dev"):
        evidence.setdefault(example.question, []).extend(example.evidence)
    return sorted(evidence.items(), key=lambda asked: rank(0, asked[0]))[:MAX_DEV]


def _entry(sentence: Passage) -> Entry:
    return Entry(sentence.id, sentence.text, sentence.start, sentence.end)
