# SPDX-License-Identifier: Apache-2.0
"""Hyphens at the ends of lines: those that only divide a word, and those that belong to it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_HYPHENATED = re.compile(r"([^\W\d_]+)[-\u2010]$")
_TENS = {"twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"}
_LONGEST_WORD = 60  # characters; looking further back would take a time that grows with the square of a line
_OFTEN = 0.08  # of the lines


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a document that no line's end divides, and whether its lines do end inside words."""

    known: set[str]
    divides: bool

    def is_divided(self, text: str, more: str) -> bool:
        """Does a word go on from one line to the next, with a hyphen that is only there for the line's end?"""
        left, right = _HYPHENATED.search(text[-_LONGEST_WORD:]), _WORD.match(more)
        if not left or not right or not more[0].islower():
            return False
        return not self._is_compound(left[1].lower(), right[0].lower())

    def _is_compound(self, left: str, right: str) -> bool:
        """The rest of the document tells: it is "blood-thinning", but "examination"."""
        if left + right in self.known:
            return False
        both = len(left) > 3 and left in self.known and right in self.known
        return f"{left}-{right}" in self.known or left in _TENS or both or not self.divides


def words_of(lines: Sequence[str]) -> Words:
    """What there is to know about the words of these lines."""
    known: set[str] = set()
    whole: set[str] = set()  # the words that line ends divide, put together
    left = ""
    for line in lines:
        words = _WORD.findall(line.lower())
        whole.update(left + word for word in words[:1] if left and left not in _TENS)
        end = _HYPHENATED.search(line[-_LONGEST_WORD:].lower())
        known.update(words[bool(left) : len(words) - bool(end)])
        left = end[1] if end else ""
    # Where words are divided many lines end so, or some of the words stand elsewhere as a whole.
    return Words(known, divides=len(whole) > _OFTEN * len(lines) or not known.isdisjoint(whole))
