# SPDX-License-Identifier: Apache-2.0
"""Words as they are compared between questions, names and values: in small letters, without the ending of a plural."""

import re
from collections.abc import Iterable

Words = tuple[str, ...]

_WORD = re.compile(r"[^\W_]+")
_LEAST_ALIKE = 4  # letters with which two words must begin to be of one family
_ENDINGS = (
    ("ies", "y"),
    ("sses", "ss"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("xes", "x"),
    ("ss", "ss"),
    ("us", "us"),
    ("s", ""),
)
_PLAIN = """a all an and any are as at be been by did do does each ever every for from get give given had has have how
i in is it its list many me more most much no not of on one or our out per show so some tell than that the their them
then there these they this those to up us was we were what when where which who whom whose why with yes you your"""


def stem(word: str) -> str:
    """A word without its plural's ending; rough, but the same for a word wherever it stands."""
    small = word.lower()
    for ending, instead in _ENDINGS:
        if small.endswith(ending) and len(small) > len(ending) + 1:
            return small[: -len(ending)] + instead
    return small


_PLAIN_STEMS = frozenset(map(stem, _PLAIN.split()))


def stems(text: str) -> Words:
    """The words of a name or a value."""
    return tuple(stem(word) for word in _WORD.findall(text))


def stems_of(words: Iterable[str]) -> Words:
    """One for each word of a question; empty for marks."""
    return tuple(stem(word) if _WORD.search(word) else "" for word in words)


def says_something(word: str) -> bool:
    """Whether a word, by its stem, stands in few questions rather than in all."""
    return len(word) > 1 and word not in _PLAIN_STEMS


def related(one: str, other: str) -> bool:
    """Whether two stems are the same, or begin alike for more than half of the longer: `join` and `joined`."""
    if one == other:
        return True
    alike = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return alike >= _LEAST_ALIKE and 2 * alike > max(len(one), len(other))
