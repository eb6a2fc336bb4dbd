# SPDX-License-Identifier: Apache-2.0
"""Sentences as words, and how much of a sentence's words an attack has found."""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

Words = frozenset[str]

_STOP = (
    "a about after all also an and any are as at be because been before being between both but by can could did do "
    "does during each for from had has have he her his how i if in into is it its more most no not of on one only or "
    "other our over s she so some such t than that the their them then there these they this those through to under "
    "up was we were what when where which while who will with would you"
)
STOP_WORDS: Words = frozenset(_STOP.split())
_WORD, _PIECE = re.compile(r"\w+"), re.compile(r"\w+|[^\w\s]")


def pieces(text: str) -> tuple[str, ...]:
    """Words and marks in order, in lower case: joined by blanks, they are the same text to an uncased encoder."""
    return tuple(_PIECE.findall(text.lower()))


def content_words(text: str) -> Words:
    """The different words of a text that say what it is about."""
    return frozenset(_WORD.findall(text.lower())) - STOP_WORDS


def recall(found: Words, true: Words) -> float:
    assert true, "a sentence without content words has nothing to be found"
    return len(found & true) / len(true)


def precision(found: Words, true: Words) -> float:
    return len(found & true) / len(found) if found else 0.0


@dataclass(frozen=True)
class Overlap:
    """Means over sentences."""

    recall: float
    precision: float

    @classmethod
    def of(cls, found: Sequence[Words], true: Sequence[Words]) -> "Overlap":
        pairs = list(zip(found, true, strict=True))
        return cls(statistics.fmean(recall(*pair) for pair in pairs), statistics.fmean(precision(*p) for p in pairs))
