# SPDX-License-Identifier: Apache-2.0
"""Plain text: lines that an editor or a mail program wrapped become paragraphs again."""

import re
from collections.abc import Sequence

from fedqa.intake.blocks import compose, looks_like_heading
from fedqa.intake.characters import clean
from fedqa.intake.encodings import decode
from fedqa.intake.records import Extracted, Limits, check_length
from fedqa.intake.reflow import Line, as_rows, marker_of, reflow

_WRAPPED = 120  # columns: where lines are longer, the editor did not wrap them and each is a paragraph
_CELLS = re.compile(r"\t+| {3,}")
_UNDERLINE = re.compile(r"(=+|-+|~+)\s*")


def read(content: bytes, limits: Limits) -> Extracted:
    """The text of a file without any markup."""
    text, notes = decode(content)
    check_length(len("".join(text.split())), limits)
    lines = _lines(clean(text).split("\n"))
    unwrapped = sum(len(line.text) > _WRAPPED for line in lines) > 0.05 * len(lines)
    blocks = reflow(as_rows(lines), width=float("inf") if unwrapped else 0)
    title = next((line.text for line in lines[:1] if line.heading), "")
    return Extracted(title, compose(blocks), "text", notes)


def _lines(typed: Sequence[str]) -> list[Line]:
    found = []
    for k, text in enumerate(typed):
        if text.strip() and not _UNDERLINE.fullmatch(text):
            found.append(_line(text, typed, k))
    return found


def _line(text: str, typed: Sequence[str], k: int) -> Line:
    above = typed[k - 1].strip() if k else ""
    stripped = text.strip()
    cells = tuple(cell for cell in _CELLS.split(stripped) if cell)
    left = len(text.expandtabs()) - len(text.expandtabs().lstrip())
    return Line(
        " ".join(stripped.split()),
        left,
        left + len(stripped),
        em=2,  # columns
        gap=not above or bool(_UNDERLINE.fullmatch(above)),
        heading=_is_heading(stripped, above, typed[k + 1 : k + 20]),
        cells=cells if len(cells) > 1 and not marker_of(stripped) else (),
    )


def _is_heading(text: str, above: str, below: Sequence[str]) -> bool:
    """Underlined, or short and alone between blank lines with more text to come."""
    next_line = below[0].strip() if below else ""
    next_text = next((line.strip() for line in below if line.strip()), "")
    if _UNDERLINE.fullmatch(next_line) and len(next_line) > 2:
        return not above
    alone = not above and not next_line and bool(next_text)
    short = looks_like_heading(text) and not text.endswith(("!", "?", ":"))
    listed = bool(marker_of(text)) and bool(marker_of(next_text) or not text[0].isalnum())
    return alone and short and not listed and text[0].isalnum() and not text[0].islower()
