# SPDX-License-Identifier: Apache-2.0
"""Documents cut into passages at blank lines, with offsets that stay exact."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fedqa.data.records import Document, Span

_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n)+")


@dataclass(frozen=True, slots=True)
class Passage:
    """Characters `start` to `end` (exclusive) of a document, without white space around them."""

    id: str
    document: str
    start: int
    end: int
    text: str


def passages(document: Document) -> tuple[Passage, ...]:
    """The passages of a document in order, numbered from 0: `text[start:end]` is the passage's text."""
    text = document.text
    cuts = [0, *(offset for gap in _BLANK_LINES.finditer(text) for offset in gap.span()), len(text)]
    found = []
    for start, end in zip(cuts[::2], cuts[1::2], strict=True):
        part = text[start:end]
        if part.strip():
            start += len(part) - len(part.lstrip())
            found.append((start, start + len(part.strip())))
    return tuple(Passage(f"{document.id}#{k}", document.id, a, b, text[a:b]) for k, (a, b) in enumerate(found))


def passage_of(span: Span, passages: Iterable[Passage]) -> tuple[Passage, ...]:
    """The passages that a span overlaps: one for an answer, several for evidence across paragraphs."""
    return tuple(
        passage
        for passage in passages
        if passage.document == span.document and passage.start < span.end and span.start < passage.end
    )
