# SPDX-License-Identifier: Apache-2.0
"""From a question to its answers: find passages, match them again, read the exact words, say how sure it is.

Each step looks at fewer passages than the one before: those with the highest plain sum of what was said so far, so that
which are looked at does not depend on what was fitted. In the end all that was said of a passage is blended into one
score, and the confidence is that of the whole: it is fitted to the final scores of dev questions.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np

from fedqa.answering.blending import PARTS, USUAL, Blend, Floats, Measured, confidences
from fedqa.answering.confidence import CANDIDATES, Confidence
from fedqa.answering.document_index import DocumentIndex
from fedqa.answering.loaded import Loaded, match_scores
from fedqa.answering.matching import Found
from fedqa.answering.reading import Reading, read_in
from fedqa.answering.vector_index import Candidate
from fedqa.data.passages import Passage, passages
from fedqa.data.records import Document, Span
from fedqa.data.sentences import sentences

FOUND = 50  # pieces that vectors, and as many that words bring
CONSIDERED = CANDIDATES + 2  # passages with a final score; without the right ones, enough for the confidence
MATCHED = 8
READ = 5
Documents = Callable[[str], Document | None]  # by id; None: it is gone
Extent = tuple[int, int]


@dataclass(frozen=True)
class Models:
    """Who does what. Without `match` nothing is matched again, without `read` a sentence is the answer."""

    match: Loaded | None
    read: Loaded | None
    points: Loaded | None  # chooses the sentence of a passage; None where sentences were what was found

    def parts(self, with_vectors: bool) -> tuple[str, ...]:
        """Those of the blend that say anything."""
        have = {"vectors": with_vectors, "words": True, "match": self.match, "read": self.read}
        return tuple(part for part in PARTS if have[part])


@dataclass(frozen=True)
class _Considered:
    """A passage, what is said of it, and where in it to look."""

    passage: Passage
    values: tuple[float, ...]  # of PARTS
    sentence: Extent | None = None  # of the document
    answer: Extent | None = None


@dataclass(frozen=True)
class Pipeline:
    """All that answers a question; may be asked by several threads, which take turns with the models."""

    models: Models
    index: DocumentIndex
    documents: Documents
    turn: AbstractContextManager[object]
    blend: Blend = USUAL

    @property
    def confidence(self) -> Confidence:
        return self.blend.confidence

    @property
    def parts(self) -> tuple[str, ...]:
        return self.models.parts(self.index.encoder.width > 0)

    def find(self, question: str, k: int) -> list[Found]:
        """The best `k` passages, each with its answer and a confidence."""
        considered = self._considered(question, max(k, CONSIDERED))
        scores = self.blend.scores(_table(considered))
        ranked = np.argsort(-scores, kind="stable").tolist()
        shares = confidences(self.blend, [float(scores[i]) for i in ranked])
        best = [considered[i] for i in ranked[:k]]
        return [
            Found(one.passage, float(scores[i]), share, *extent, one.answer)
            for one, i, share, extent in zip(best, ranked, shares, self._extents(question, best), strict=False)
        ]

    def measured(self, question: str, evidence: Sequence[Span]) -> Measured:
        """What all parts say for a question whose answers are known."""
        considered = self._considered(question, CONSIDERED)
        gold = [_overlaps(evidence, one.passage.document, one.passage.start, one.passage.end) for one in considered]
        right = [
            held and (one.answer is None or _overlaps(evidence, one.passage.document, *one.answer))
            for held, one in zip(gold, considered, strict=True)
        ]
        return Measured(_table(considered), right, gold)

    # -- the steps ---------------------------------------------------------------------------------------------------

    def _considered(self, question: str, most: int) -> list[_Considered]:
        found = list(self._found(question, most))
        found = self._matched(question, found)
        return self._read(question, found)

    def _found(self, question: str, most: int) -> Iterator[_Considered]:
        """The best passages by vectors and words, each once, by its best piece."""
        scale = self.index.encoder.scale
        pieces = [
            (one, (scale * one.dot, one.words, 0.0, 0.0))
            for one in self.index.candidates(question, max(FOUND, most))
            if one.dot or one.words
        ]
        pieces.sort(key=lambda piece: -sum(piece[1]))
        seen: set[tuple[str, int]] = set()
        for piece, values in pieces:
            document = self.documents(piece.document)
            passage = _passage_at(document, piece) if document else None
            if passage and (passage.document, passage.start) not in seen:
                seen.add((passage.document, passage.start))
                sentence = (piece.start, piece.end) if self.models.points is None else None
                yield _Considered(passage, values, sentence)
            if len(seen) == most:
                return

    def _matched(self, question: str, found: list[_Considered]) -> list[_Considered]:
        """With the matching model's scores; what it did not look at gets the least it gave, and stays behind."""
        if self.models.match is None or not found:
            return found
        with self.turn:
            scores = match_scores(self.models.match, question, [one.passage.text for one in found[:MATCHED]])
        scores += [min(scores)] * (len(found) - len(scores))
        matched = [_with(one, "match", score) for one, score in zip(found, scores, strict=True)]
        return sorted(matched, key=lambda one: -sum(one.values))

    def _read(self, question: str, found: list[_Considered]) -> list[_Considered]:
        """With the reading model's answers, as `_matched`."""
        if self.models.read is None or not found:
            return found
        with self.turn:
            readings = read_in(self.models.read, question, [one.passage.text for one in found[:READ]])
        least = min(reading.odds for reading in readings)
        rest = [_with(one, "read", least) for one in found[len(readings) :]]
        return [*(_answered(one, r) for one, r in zip(found, readings, strict=False)), *rest]

    def _extents(self, question: str, best: Sequence[_Considered]) -> list[Extent]:
        """The sentence of each passage to look at: the one with the answer, that was found, or that matches best."""
        known = [_sentence_around(one) or one.sentence for one in best]
        unknown = [one.passage for one, extent in zip(best, known, strict=True) if extent is None]
        chosen = iter(self._pointed(question, unknown))
        return [extent or next(chosen) for extent in known]

    def _pointed(self, question: str, some: Sequence[Passage]) -> list[Extent]:
        if not some or self.models.points is None:
            return [(passage.start, passage.end) for passage in some]
        cut = [sentences(passage.text) for passage in some]
        texts = [p.text[start:end] for p, extents in zip(some, cut, strict=True) for start, end in extents]
        with self.turn:
            scores = iter(match_scores(self.models.points, question, texts))
        found = []
        for passage, extents in zip(some, cut, strict=True):
            _, (start, end) = max(((next(scores), extent) for extent in extents), key=lambda scored: scored[0])
            found.append((passage.start + start, passage.start + end))
        return found


def _table(considered: Sequence[_Considered]) -> Floats:
    return np.array([one.values for one in considered], dtype=float).reshape(-1, len(PARTS))


def _with(one: _Considered, part: str, value: float) -> _Considered:
    at = PARTS.index(part)
    return replace(one, values=(*one.values[:at], value, *one.values[at + 1 :]))


def _answered(one: _Considered, reading: Reading) -> _Considered:
    start = one.passage.start
    return replace(_with(one, "read", reading.odds), answer=(start + reading.start, start + reading.end))


def _sentence_around(one: _Considered) -> Extent | None:
    """The sentence, or the sentences, that the answer stands in."""
    if one.answer is None:
        return None
    start, end = (offset - one.passage.start for offset in one.answer)
    around = [(a, b) for a, b in sentences(one.passage.text) if a < end and start < b]
    return one.passage.start + around[0][0], one.passage.start + around[-1][1]


def _passage_at(document: Document, piece: Candidate) -> Passage | None:
    return next((part for part in passages(document) if part.start <= piece.start < part.end), None)


def _overlaps(evidence: Sequence[Span], document: str, start: int, end: int) -> bool:
    return any(span.document == document and span.start < end and start < span.end for span in evidence)
