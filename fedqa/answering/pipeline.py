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

from fedqa.answering.answers import Found, passage_at
from fedqa.answering.blending import PARTS, USUAL, Blend, Floats, Measured, confidences
from fedqa.answering.confidence import CANDIDATES, Confidence
from fedqa.answering.document_index import DocumentIndex
from fedqa.answering.loaded import Loaded, match_scores
from fedqa.answering.reading import Reading, read_in
from fedqa.data.passages import Passage
from fedqa.data.records import Document, Span
from fedqa.data.sentences import sentences

FOUND = 50  # pieces that vectors, and as many that words bring
CONSIDERED = CANDIDATES + 2  # passages with a final score; without the right ones, enough for the confidence
MATCHED = 8
READ = 3
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
        best = self._with_sentences(question, [considered[i] for i in ranked[:k]])
        return [
            Found(one.passage, float(scores[i]), share, *_sentence(one), one.answer)
            for one, i, share in zip(best, ranked, shares, strict=False)
        ]

    def measured(self, question: str, evidence: Sequence[Span]) -> Measured:
        """What all parts say for a question whose answers are known: right is a sentence that holds one.

        Not the exact words: a reader that has seen few examples often gives too few or the wrong ones of the right
        sentence, and whoever asks sees the sentence too.
        """
        considered = self._considered(question, CONSIDERED)
        gold = [_overlaps(evidence, one.passage.document, one.passage.start, one.passage.end) for one in considered]
        right = [
            held and (one.sentence is None or _overlaps(evidence, one.passage.document, *one.sentence))
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
            passage = passage_at(document, piece.start) if document else None
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
        """With the reading model's answers, as `_matched`.

        It reads the sentence that matches best, not the whole passage: that sentence holds the answer more often than
        what a reader of few examples chooses in a passage.
        """
        if self.models.read is None or not found:
            return found
        first = self._with_sentences(question, found[:READ])
        with self.turn:
            readings = read_in(self.models.read, question, [_text_of(one) for one in first])
        least = min(reading.odds for reading in readings)
        rest = [_with(one, "read", least) for one in found[READ:]]
        return [*(_answered(one, reading) for one, reading in zip(first, readings, strict=True)), *rest]

    def _with_sentences(self, question: str, some: Sequence[_Considered]) -> list[_Considered]:
        """With the sentence of each passage to look at: the one that was found, or that matches best."""
        chosen = iter(self._pointed(question, [one.passage for one in some if one.sentence is None]))
        return [one if one.sentence else replace(one, sentence=next(chosen)) for one in some]

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
    start = _sentence(one)[0]
    return replace(_with(one, "read", reading.odds), answer=(start + reading.start, start + reading.end))


def _sentence(one: _Considered) -> Extent:
    assert one.sentence
    return one.sentence


def _text_of(one: _Considered) -> str:
    start, end = (offset - one.passage.start for offset in _sentence(one))
    return one.passage.text[start:end]


def _overlaps(evidence: Sequence[Span], document: str, start: int, end: int) -> bool:
    return any(span.document == document and span.start < end and start < span.end for span in evidence)
