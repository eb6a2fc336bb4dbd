# SPDX-License-Identifier: Apache-2.0
"""What a PDF repeats at the top and at the bottom of its pages: headers, footers and page numbers."""

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile

from fedqa.data.door import shorten
from fedqa.intake.pdf_pieces import Printed

_AT_THE_EDGE = 3  # lines at the top and at the bottom of a page that may be repeated ones
_NEAR = 4  # pages
_LONGEST = 200  # characters: no header or footer is longer
_ROMAN = r"x{0,3}(?:ix|iv|v?i{1,3}|v)|x{1,3}"
_PAGE_NUMBER = re.compile(
    rf"(?:\W|page|seite|página|pagina|p\.)*(\d{{1,4}}|{_ROMAN})(?:\s*(?:/|of|von|de|sur|di)\s*\d{{1,4}})?\W*", re.I
)


def repeated(pages: Sequence[Sequence[Printed]]) -> list[Printed]:
    """Headers, footers and page numbers: lines at the edge of a page that other pages have in the same place.

    Text of the document is never worth less than a clean page, so only the outermost lines can go, and only if enough
    pages near by have the same (chapters have their own titles, left and right pages differ) or a number in them
    counts with the pages.
    """
    where: dict[tuple[str, int], set[int]] = {}
    for line in (line for page in pages for edge in _edges(page) for line in edge):
        for signature in _signatures(line):
            where.setdefault(signature, set()).add(line.page)
    found: list[Printed] = []
    for edge in (edge for page in pages for edge in _edges(page)):
        found += takewhile(lambda line: _is_repeated(line, where, len(pages)), edge)
    return found


def _edges(page: Sequence[Printed]) -> tuple[list[Printed], list[Printed]]:
    """The first lines from the top inwards, and from the bottom."""
    ordered = sorted(page, key=lambda line: -line.y)
    half = (len(ordered) + 1) // 2
    top, bottom = ordered[:half][:_AT_THE_EDGE], ordered[half:][::-1][:_AT_THE_EDGE]
    return [*takewhile(_is_short, top)], [*takewhile(_is_short, bottom)]


def _is_short(line: Printed) -> bool:
    return len(line.text) <= _LONGEST


def _signatures(line: Printed) -> list[tuple[str, int]]:
    """The line as it is, and with each number in it counted from the number of the page."""
    texts = [line.text]
    for found in re.finditer(r"\d{1,6}", line.text):
        offset = int(found[0]) - line.page
        texts.append(f"{line.text[: found.start()]}\0{offset}\0{line.text[found.end() :]}")
    return [(text, round(line.y)) for text in texts]


def _is_repeated(line: Printed, where: Mapping[tuple[str, int], set[int]], pages: int) -> bool:
    same, *counting = [where[signature] - {line.page} for signature in _signatures(line)]
    number = _PAGE_NUMBER.fullmatch(line.text)
    if number:
        return any(counting) or number[1] == str(line.page) or not number[1].isdecimal()
    near = sum(abs(page - line.page) <= _NEAR for page in same)
    counted = any(abs(page - line.page) <= 2 for others in counting for page in others)
    return counted or near >= (1 if pages <= 3 else 2)


def listed(lines: Sequence[Printed]) -> str:
    """What was repeated, for a note: each text once, with a sign for its numbers."""
    texts = dict.fromkeys(re.sub(r"\d+", "#", line.text) for line in lines)
    shown = [f"“{shorten(text)}”" for text in list(texts)[:5]]
    return ", ".join(shown) + (", …" if len(texts) > 5 else "")
