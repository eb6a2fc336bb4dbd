# SPDX-License-Identifier: Apache-2.0
"""The lines of a PDF's pages as a reader sees them: without what pages repeat, with headings and rows of tables."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise

from fedqa.intake.blocks import LONGEST_HEADING, looks_like_heading
from fedqa.intake.pdf_edges import listed, repeated
from fedqa.intake.pdf_pieces import Printed
from fedqa.intake.pdf_tables import is_row, whole_rows
from fedqa.intake.reflow import Line

_LINE_END = 200  # characters: dots before the number of a page are not looked for further away
_LEADERS = re.compile(r"(?:\s*[.·…]){4,}\s*[\divxlc]{1,6}$")


def document_lines(pages: Sequence[Sequence[Printed]]) -> tuple[list[Line], list[str]]:
    """The lines of a document for `reflow`, and notes on what was left out."""
    gone = repeated(pages)
    notes = [f"Repeated at the edges of pages and left out: {listed(gone)}."] if gone else []
    left_out = set(gone)
    kept = [line for page in pages for line in page if line not in left_out]
    contents = [bool(_LEADERS.search(line.text[-_LINE_END:])) for line in kept]
    if sum(contents) > 2:
        notes.append("The table of contents was left out.")
        kept = [line for line, is_content in zip(kept, contents, strict=True) if not is_content]
    return _lines(kept), notes


def _lines(printed: Sequence[Printed]) -> list[Line]:
    if not printed:
        return []
    body = _common_size(printed)
    leading = _leading(printed)
    printed = list(whole_rows(printed, leading))
    placed = []
    for k, line in enumerate(printed):
        above = printed[k - 1] if k else None
        below = printed[k + 1] if k + 1 < len(printed) else None
        rows = is_row(line, above) or is_row(line, below)
        placed.append(
            Line(
                line.text,
                line.left,
                line.right,
                line.em,
                gap=above is not None and _room(above, line) > 1.3 * leading,
                jump=above is None or above.page != line.page or _room(above, line) < 0.3,
                heading=not rows and line.em > 1.12 * body and len(line.text) <= 2 * LONGEST_HEADING,
                cells=tuple(cell.text for cell in line.cells) if rows else (),
            )
        )
    return _with_bold_headings(placed, printed)


def _common_size(printed: Sequence[Printed]) -> float:
    sizes = Counter[float]()
    for line in printed:
        sizes[line.em] += len(line.text)
    return sizes.most_common(1)[0][0]


def _room(above: Printed, line: Printed) -> float:
    """The distance between two baselines, in letter sizes; negative where a column begins."""
    return (above.lowest - line.y) / max(above.em, line.em)


def _leading(printed: Sequence[Printed]) -> float:
    """The usual distance inside paragraphs: a low one, as between paragraphs there is seldom less room."""
    rooms = sorted(
        _room(above, line) for above, line in pairwise(printed) if above.page == line.page and above.em == line.em
    )
    usual = [room for room in rooms if 0.8 < room < 2.6]
    return usual[len(usual) // 4] if usual else 1.2


def _with_bold_headings(lines: list[Line], printed: Sequence[Printed]) -> list[Line]:
    """A bold line or two between others are a heading, unless most of the document is bold or they end as sentences."""
    if 2 * sum(line.bold for line in printed) > len(printed):
        return lines
    found: list[Line] = []
    for bold, members in groupby(zip(lines, printed, strict=True), key=lambda pair: pair[1].bold and not pair[0].cells):
        run = [line for line, _ in members]
        short = len(run) <= 2 and looks_like_heading(run[-1].text)
        found += [replace(line, heading=True) for line in run] if bold and short else run
    return found
