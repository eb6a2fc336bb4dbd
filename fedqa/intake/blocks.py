# SPDX-License-Identifier: Apache-2.0
"""The parts of a document in reading order, and how they become paragraphs.

A paragraph is what is found and shown as one passage, so it has to make sense alone:
- A heading stands above the paragraph that follows it, in the same passage. Alone it would win every search for its
  words and answer nothing, and the paragraph under it often does not repeat them.
- The items of a list and the rows of a table are lines of one passage, with the sentence that leads to them.
- What is longer than a model reads at once is cut between lines or sentences; a table's header is repeated.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Literal

from fedqa.data.sentences import sentences

LONGEST = 1_200  # characters of a passage, about 250 tokens; only a sentence or a word without end may be longer
LONGEST_HEADING = 90
_NO_HEADING = re.compile(r"[.;,]$")

Shape = Literal["heading", "paragraph", "item", "row"]


@dataclass(frozen=True, slots=True)
class Block:
    """One part. `group` tells which items are of one list and which rows of one table."""

    shape: Shape
    text: str  # of one or more lines, none of them blank
    group: int = 0
    header: bool = False  # a row that names the columns


def row(cells: Sequence[str], group: int = 0, *, header: bool = False) -> Block:
    """A row of a table; the separator of its cells never stands inside one."""
    return Block("row", " | ".join(cell.replace("|", "/") for cell in cells), group, header)


def item(text: str, group: int = 0, *, marker: str = "-", depth: int = 0) -> Block:
    """An item of a list. Without a marker it goes on with the item above."""
    return Block("item", "  " * depth + (f"{marker} {text}" if marker else f"  {text}"), group)


def looks_like_heading(text: str) -> bool:
    """Is a text that stands out, by itself, short enough for a heading and no sentence?"""
    return len(text.strip()) <= LONGEST_HEADING and not _NO_HEADING.search(text.strip())


def compose(blocks: Iterable[Block]) -> str:
    """The text: paragraphs separated by one blank line."""
    return "\n\n".join("\n".join(lines) for lines in _passages([block for block in blocks if block.text.strip(" |")]))


def _passages(blocks: Sequence[Block]) -> Iterator[list[str]]:
    """The lines of each passage. Headings and a sentence that ends in a colon wait for what they lead to."""
    waiting: list[str] = []
    for (shape, _), members in groupby(blocks, key=_belonging):
        group = list(members)
        if shape == "heading":
            waiting += [block.text for block in group]
        elif shape == "paragraph":
            for block in group:
                waiting += block.text.split("\n")
                if not block.text.endswith(":"):
                    yield from _cut(waiting)
                    waiting = []
        else:
            header = [block.text for block in group[:1] if block.header]
            yield from _cut(waiting + [line for block in group for line in block.text.split("\n")], header)
            waiting = []
    yield from _cut(waiting)


def _belonging(block: Block) -> tuple[str, int]:
    return block.shape, block.group


def _cut(lines: Iterable[str], header: Sequence[str] = ()) -> Iterator[list[str]]:
    """Lines in passages of at most LONGEST characters. Each after the first begins with the header."""
    passage: list[str] = []
    length = 0
    for part in chain.from_iterable(map(_parts, lines)):
        if passage and length + len(part) > LONGEST:
            yield passage
            passage = list(header)
            length = sum(map(len, passage))
        passage.append(part)
        length += len(part) + 1
    if passage:
        yield passage


def _parts(line: str) -> Iterator[str]:
    """A line that is too long, cut between sentences into parts of about equal length."""
    start = 0
    while len(line) - start > LONGEST:
        end = _end_of_part(line, start)
        yield line[start:end].rstrip()
        start = end
    if start < len(line):
        yield line[start:]


def _end_of_part(line: str, start: int) -> int:
    """Where the next sentence begins after about as much as is wanted; between words where a sentence has no end."""
    left = len(line) - start
    wanted = left / -(-left // LONGEST)
    window = line[start : start + 2 * LONGEST]
    begins = [begin for begin, _ in sentences(window) if begin]
    if begins:
        near = [begin for begin in begins if begin <= LONGEST] or begins[:1]
        return start + min(near, key=lambda begin: abs(begin - wanted))
    space = line.find(" ", start + LONGEST)
    return len(line) if space < 0 else space + 1
