# SPDX-License-Identifier: Apache-2.0
"""Texts cut into sentences, with offsets that stay exact."""

import re
from itertools import pairwise

from fedqa.data.passages import Passage

# A full stop, question or exclamation mark (with closing quotes and brackets) before white space ends a sentence; in
# Chinese and Japanese the mark alone does. A line break may: see `_breaks`.
_END = re.compile(
    "\\n|[.!?\u2026]+[\"'\u201d\u2019)\\]]*(?=\\s)|[\u3002\uff01\uff1f]+[\u300d\u300f\u201d\u2019\uff09]*"
)
# What has a full stop and goes on: titles, initials, "e.g.", and "No." before a number.
_GOES_ON = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|Prof|St|vs|cf|e\.g|i\.e|[A-Z])\.$")
_NUMBERED = re.compile(r"\b(?:No|Nos|Art|Sec|Fig)\.\s+\d")
_SMALL = re.compile(r"\s+[a-z]")
_SHORT = 60  # characters; a line of running text that was broken for its length is longer


def sentences(text: str) -> list[tuple[int, int]]:
    """Start and end (exclusive) of each sentence, without white space around it; at least one unless text is blank."""
    cuts = [0, *(match.end() for match in _END.finditer(text) if _ends(text, match)), len(text)]
    found = []
    for start, end in pairwise(cuts):
        part = text[start:end]
        if part.strip():
            start += len(part) - len(part.lstrip())
            found.append((start, start + len(part.strip())))
    return found


def sentences_of(passage: Passage) -> tuple[Passage, ...]:
    """The sentences of a passage in order, numbered from 0: passages cut finer, with offsets into the document."""
    return tuple(
        Passage(
            f"{passage.id}.{k}", passage.document, passage.start + start, passage.start + end, passage.text[start:end]
        )
        for k, (start, end) in enumerate(sentences(passage.text))
    )


def _ends(text: str, mark: re.Match[str]) -> bool:
    if mark[0] == "\n":
        return _breaks(text, mark.start())
    near = max(0, mark.end() - 6)
    goes_on = mark[0] == "." and (
        _GOES_ON.search(text, near, mark.end()) or _NUMBERED.search(text[near : mark.end() + 3])
    )
    return not goes_on and not (mark[0].isascii() and _SMALL.match(text, mark.end()))


def _breaks(text: str, at: int) -> bool:
    """Whether a sentence ends at a line break: after a short line, such as a heading or an item of a list."""
    line = text[text.rfind("\n", 0, at) + 1 : at].strip()
    after = text[at : at + 200].lstrip()[:1]
    return len(line) <= _SHORT and not (after.islower() or line.endswith((",", ";")))
