# SPDX-License-Identifier: Apache-2.0
"""Texts with places marked in them: the sentence that is the evidence, and in it the exact answer."""

from dataclasses import dataclass
from itertools import pairwise

from fedqa.data.passages import passage_of, passages
from fedqa.data.records import Document, Span
from fedqa.data.sentences import sentences_of

_AROUND = 1_200  # characters on either side, where a passage is longer


@dataclass(frozen=True)
class Piece:
    """A stretch of a text that is marked alike."""

    text: str
    evidence: bool = False
    answer: bool = False


@dataclass(frozen=True)
class Excerpt:
    """A passage, cut where marks begin and end. Joined again, the pieces are exactly the passage's text."""

    pieces: tuple[Piece, ...]
    begins: bool = True  # False: the passage is long, and some of it before the first piece is left out
    ends: bool = True


def excerpt(document: Document, evidence: Span, answer: Span) -> Excerpt:
    """The passage in which the evidence stands, with evidence and answer marked."""
    around = passage_of(evidence, passages(document))
    first, last = (around[0].start, around[-1].end) if around else (evidence.start, evidence.end)
    start, end = max(first, evidence.start - _AROUND), min(last, evidence.end + _AROUND)
    return Excerpt(_pieces(document.text, (start, end), evidence, answer), start == first, end == last)


def marked(document: Document, answer: Span | None) -> tuple[Piece, ...]:
    """The whole text of a document with one place marked."""
    whole = (0, len(document.text))
    return _pieces(document.text, whole, answer, answer) if answer else _pieces(document.text, whole)


def sentence_around(document: Document, answer: Span) -> Span:
    """The sentence or sentences in which an answer stands."""
    found = [
        sentence
        for passage in passage_of(answer, passages(document))
        for sentence in passage_of(answer, sentences_of(passage))
    ]
    return Span(document.id, found[0].start, found[-1].end) if found else answer


def _pieces(text: str, shown: tuple[int, int], *marks: Span) -> tuple[Piece, ...]:
    start, end = shown
    inside = {cut for mark in marks for cut in (mark.start, mark.end) if start < cut < end}
    evidence, answer = marks or (None, None)
    cuts = pairwise(sorted({start, end} | inside))
    return tuple(Piece(text[a:b], _holds(evidence, a, b), _holds(answer, a, b)) for a, b in cuts if text[a:b])


def _holds(mark: Span | None, start: int, end: int) -> bool:
    return mark is not None and mark.start <= start and end <= mark.end
