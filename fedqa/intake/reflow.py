# SPDX-License-Identifier: Apache-2.0
"""Lines as they were set on paper or typed, put together again into paragraphs.

A line was broken on purpose if the first word of the next line would still have fitted on it; otherwise the paragraph
goes on. Room above a line, its indentation and a list's marker begin a paragraph too.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import Literal

from fedqa.intake.blocks import Block, item, row
from fedqa.intake.hyphens import Words, words_of

# Bullets, dashes and numbers of up to two digits or one letter with a full stop or bracket.
_MARKER = re.compile(r"(?:[•‣▪▫■□●○◦♦✓✔➢\uf0a7\uf0b7\uf0d8*\u2013\u2014-]|\(?(?:\d{1,2}|[a-z])[.)])(?=\s+\S)")
_BULLET = re.compile(r"[^\w(]")
_RULE = re.compile(r"[\W_]{3,}")
_SENTENCE_END = re.compile(r"[.!?…:;][\"'\u201d\u2019)\]]*$")
_STOP = re.compile(r"[.!?…][\"'\u201d\u2019)\]]*$")
_KEPT_HYPHEN = re.compile(r"\w[-\u2010]$")
_CJK = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]")

Relation = Literal["on", "below", "apart"]


@dataclass(frozen=True, slots=True)
class Line:
    """A line and where it stands. Lengths are in any one unit: points on a page, columns of a typed text."""

    text: str
    left: float
    right: float
    em: float  # the size of its letters
    gap: bool = False  # there is more room above it than between the lines of a paragraph
    jump: bool = False  # it begins a page or a column
    heading: bool = False
    cells: tuple[str, ...] = ()  # two or more in a row of a table


def reflow(lines: Iterable[Line], width: float = 0) -> Iterator[Block]:
    """The blocks of a document. `width`: how far lines may reach, where it is known better than by the longest line."""
    kept = [line for line in lines if line.text.strip() and not _RULE.fullmatch(line.text)]
    words = words_of([line.text for line in kept])
    for paragraph in _paragraphs(kept, _edges(kept, width)):
        yield _block(paragraph, words)


def marker_of(text: str) -> str:
    """The marker of a list's item at the beginning of a line, or nothing."""
    found = _MARKER.match(text)
    return found[0] if found else ""


@dataclass(frozen=True, slots=True)
class _Placed:
    """A line and how it stands to the one before."""

    line: Line
    relation: Relation


def _paragraphs(lines: Sequence[Line], edges: Sequence[float]) -> Iterator[list[_Placed]]:
    paragraph: list[_Placed] = []
    for k, line in enumerate(lines):
        relation = _relation(paragraph, line, edges[k - 1]) if paragraph else "apart"
        if relation == "apart" and paragraph:
            yield paragraph
            paragraph = []
        paragraph.append(_Placed(line, relation))
    if paragraph:
        yield paragraph


def _relation(paragraph: Sequence[_Placed], line: Line, edge: float) -> Relation:
    """How a line stands to the last one of the paragraph: it goes on, stands below it, or begins another."""
    last = paragraph[-1].line
    if line.heading or last.heading:
        wrapped = line.heading and last.heading and not line.gap and not line.jump
        return "on" if wrapped and abs(line.em - last.em) < 0.1 else "apart"
    if line.cells or last.cells or marker_of(line.text):
        return "apart"
    if line.jump:
        return "on" if _goes_on(last, line) else "apart"
    if line.gap or _begins_by_indent(paragraph, line):
        return "apart"
    if not _would_fit(last, line, edge) or _goes_on(last, line):
        return "on"
    return "apart" if _STOP.search(last.text) else "below"


def _begins_by_indent(paragraph: Sequence[_Placed], line: Line) -> bool:
    last = paragraph[-1].line
    step = (line.left - last.left) / line.em
    first = len(paragraph) == 1
    if step > 0.6:
        return not (first and marker_of(last.text)) and not _goes_on(last, line)
    return step < -0.6 and not first and not _goes_on(last, line)


def _would_fit(last: Line, line: Line, edge: float) -> bool:
    first_word = line.text.split(maxsplit=1)[0]
    per_character = (line.right - line.left) / len(line.text)
    return last.right + (len(first_word) + 1) * per_character + line.em < edge


def _goes_on(last: Line, line: Line) -> bool:
    """Is this the middle of a sentence?"""
    if _SENTENCE_END.search(last.text):
        return False
    return line.text[0].islower() or last.text.endswith((",", "-"))


def _edges(lines: Sequence[Line], width: float) -> list[float]:
    """For each line, how far to the right the lines of its page or column reach."""
    if width:
        return [width] * len(lines)
    starts = [0, *(k for k, line in enumerate(lines) if line.jump and k), len(lines)]
    everywhere = _edge(lines)
    edges: list[float] = []
    for start, end in pairwise(starts):
        few = end - start < 4  # too few to tell
        edges += [everywhere if few else _edge(lines[start:end])] * (end - start)
    return edges


def _edge(lines: Sequence[Line]) -> float:
    """Where nine of ten lines have ended: the longest may be one that should not be so long."""
    ends = sorted(line.right for line in lines)
    return ends[(9 * (len(ends) - 1)) // 10] if ends else 0


def _block(paragraph: Sequence[_Placed], words: Words) -> Block:
    first = paragraph[0].line
    if first.cells:
        return row(first.cells)
    text = "".join(_joined(paragraph, words))
    if first.heading:
        return Block("heading", text)
    marker = marker_of(text)
    if marker:
        return item(text[len(marker) :].lstrip(), marker="-" if _BULLET.match(marker) else marker)
    return Block("paragraph", text)


def _joined(paragraph: Sequence[_Placed], words: Words) -> Iterator[str]:
    """The lines of a paragraph and what stands between them. Words that were divided are made whole."""
    for placed, following in zip_longest(paragraph, paragraph[1:]):
        text = placed.line.text
        if following is None:
            yield text
        elif following.relation == "below":
            yield f"{text}\n"
        elif words.is_divided(text, following.line.text):
            yield text[:-1]
        else:
            yield text + _glue(text, following.line.text)


def _glue(text: str, more: str) -> str:
    """A space, except after a hyphen that belongs to its word and in scripts that know no spaces."""
    return "" if _KEPT_HYPHEN.search(text) or (_CJK.match(text[-1]) and _CJK.match(more)) else " "


def as_rows(lines: Sequence[Line]) -> list[Line]:
    """Lines whose cells stand under those of a neighbour stay rows; a lone gap in a line makes no table."""
    return [
        replace(line, cells=()) if line.cells and not _has_neighbour(lines, k) else line for k, line in enumerate(lines)
    ]


def _has_neighbour(lines: Sequence[Line], k: int) -> bool:
    around = [lines[n] for n in (k - 1, k + 1) if 0 <= n < len(lines)]
    return any(len(other.cells) > 1 for other in around)
