# SPDX-License-Identifier: Apache-2.0
"""The lines of a PDF's page. A PDF knows only pieces of text and where each begins; the rest is inferred here."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fedqa.data.door import fold
from fedqa.intake.characters import clean, raised
from fedqa.intake.reflow import marker_of

_BOLD = re.compile(r"bold|black|heavy|semibd|-bd|-medi", re.IGNORECASE)
_FIXED = re.compile(r"mono|courier|consol|typewriter|cmtt|nimbusmon", re.IGNORECASE)
_NARROW, _WIDE = set("iljtfrI.,:;'!|()[]/ -"), set("mwMW@%—…")


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that was set in one go, and where it begins: points from the left and from the bottom of the page."""

    text: str
    x: float
    y: float
    size: float
    font: str = ""
    turn: int = 0  # degrees


class Cell(NamedTuple):
    """Text with wide room around it."""

    left: float
    right: float
    text: str


@dataclass(frozen=True, slots=True)
class Printed:
    """A line on a page, or a row of a table."""

    page: int  # from 1
    y: float
    left: float
    right: float
    em: float
    bold: bool
    text: str
    cells: tuple[Cell, ...]  # more than one where there is wide room inside the line
    lowest: float  # the baseline of its last line


def placed(text: str, matrix: Sequence[float], size: float, font: str) -> Piece:
    """A piece from the matrix that puts it on the page. Its coordinates are those of a page turned upright."""
    turn = round(math.degrees(math.atan2(matrix[1], matrix[0])))
    x, y = matrix[4], matrix[5]
    upright = {0: (x, y), 90: (y, -x), 180: (-x, -y), -180: (-x, -y), -90: (-y, x)}.get(turn, (x, y))
    return Piece(text.replace("\n", ""), *upright, size * math.hypot(matrix[2], matrix[3]), font, turn)


def printed_lines(pieces: Iterable[Piece], page: int) -> list[Printed]:
    """The lines of a page in the order in which they were set, without those that run in another direction."""
    kept = [piece for piece in pieces if piece.text.strip() and piece.size > 0]
    turns = Counter[int]()
    for piece in kept:
        turns[piece.turn] += len(piece.text)
    upright = [piece for piece in kept if piece.turn == turns.most_common(1)[0][0]]
    return [_printed(line, page) for line in _by_baseline(upright)]


def _by_baseline(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    line: list[Piece] = []
    for piece in pieces:
        if line and not _same_line(line, piece):
            yield line
            line = []
        if not line or not _same_again(line[-1], piece):
            line.append(piece)
    if line:
        yield line


def _same_line(line: Sequence[Piece], piece: Piece) -> bool:
    em = max(piece.size, line[0].size, line[-1].size)
    return abs(piece.y - line[0].y) < 0.5 * em and piece.x > line[-1].x - 0.5 * em


def _same_again(last: Piece, piece: Piece) -> bool:
    """Some programs print a word twice, nearly in the same place, to make it look bold."""
    return last.text.strip() == piece.text.strip() and abs(piece.x - last.x) < 0.1 * piece.size


def _printed(pieces: Sequence[Piece], page: int) -> Printed:
    sizes = Counter[float]()
    for piece in pieces:
        sizes[round(piece.size, 1)] += len(piece.text.strip())
    em = sizes.most_common(1)[0][0] or 1.0
    cells = tuple(_cells(pieces, em))
    bold = all(_BOLD.search(piece.font) for piece in pieces)
    text = " ".join(cell.text for cell in cells)
    y = pieces[0].y
    return Printed(page, y, cells[0].left, cells[-1].right, em, bold, text, cells, y)


def _cells(pieces: Sequence[Piece], em: float) -> Iterator[Cell]:
    """The pieces of a line, together where they follow one another and apart where there is wide room between them."""
    left, right, text = pieces[0].x, pieces[0].x, ""
    for piece in pieces:
        if text and piece.x - right > em and not _is_marker(text):
            yield Cell(left, right, fold(clean(text)))
            left, text = piece.x, ""
        is_raised = piece.size < 0.9 * em and piece.y - pieces[0].y > 0.15 * em
        text += raised(piece.text.strip()) if is_raised and text.strip() else piece.text
        right = piece.x + _width(piece)
    yield Cell(left, right, fold(clean(text)))


def _is_marker(text: str) -> bool:
    return bool(marker_of(f"{text.strip()} x"))


def _width(piece: Piece) -> float:
    """About how wide it is; good to a few per cent for the usual fonts."""
    if _FIXED.search(piece.font):
        return 0.6 * piece.size * len(piece.text)
    return piece.size * sum(map(_character_width, piece.text))


def _character_width(character: str) -> float:
    if character in _NARROW:
        return 0.3
    if character in _WIDE:
        return 0.85
    if ord(character) > 0x2E80:
        return 1.0
    return 0.67 if character.isupper() else 0.51
