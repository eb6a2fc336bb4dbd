# SPDX-License-Identifier: Apache-2.0
"""How right the words of an answer are, and whether it was right to give one at all.

Exact match and F1 are SQuAD's (1.1 and 2.0): lower case, no punctuation, no articles, the best of all accepted answers;
no answer is the empty text, and right exactly where nothing is accepted. Beyond the official script: punctuation of
every script is left out, a character of Chinese or Japanese is a word, and a text of nothing but articles and
punctuation ("A", "?") is compared as it stands, where the script would take it for no answer.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_UNSPACED = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])")
_WARY = 20  # questions that speak for leaving the threshold where it was trained to be


def words(text: str) -> list[str]:
    """A text's words, as they are compared."""
    lower = text.lower()
    plain = _ARTICLES.sub(" ", "".join(character for character in lower if not _is_punctuation(character)))
    return _UNSPACED.sub(r" \1 ", plain).split() or lower.split()


def exact_match(answer: str, accepted: Sequence[str]) -> float:
    """One if the answer has the words of an accepted one; with nothing accepted, if it is empty."""
    found = words(answer)
    return float(any(found == words(gold) for gold in accepted) if accepted else not found)


def overlap(answer: str, accepted: Sequence[str]) -> float:
    """F1: the harmonic mean of precision and recall of the answer's words, the best of all accepted answers."""
    found = words(answer)
    return max((_f1(found, words(gold)) for gold in accepted), default=float(not found))


def _f1(found: Sequence[str], gold: Sequence[str]) -> float:
    common = (Counter(found) & Counter(gold)).total()
    return 2 * common / (len(found) + len(gold)) if common else 0.0


@cache
def _is_punctuation(character: str) -> bool:
    return character in string.punctuation or unicodedata.category(character).startswith("P")


# -- no answer ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refusals:
    """Of questions refused, the share that have no answer; of those without one, the share refused. None: no such."""

    precision: float | None
    recall: float | None


def refusals(refused: Sequence[float] | Floats, right: Sequence[float] | Floats) -> Refusals:
    """From two values a question, 0 or 1: was it refused, and was it right to answer or to refuse."""
    said, decided = np.asarray(refused, dtype=bool), np.asarray(right, dtype=bool)
    unanswerable = said == decided
    both = int((said & unanswerable).sum())
    return Refusals(*(both / int(of.sum()) if of.any() else None for of in (said, unanswerable)))


def answerable(refused: Sequence[float] | Floats, right: Sequence[float] | Floats) -> npt.NDArray[np.bool_]:
    """Which questions have an answer, as `refusals` can tell."""
    found: npt.NDArray[np.bool_] = np.asarray(refused, dtype=bool) != np.asarray(right, dtype=bool)
    return found


def threshold(odds: Floats, answered: Floats, refused: Floats) -> float:
    """Where to draw the line: questions whose log-odds of an answer are not above it are refused.

    `answered` and `refused` are what each question would score. The best line is moved towards 0, where training put
    it, the more so the fewer the questions are.
    """
    if not len(odds):
        return 0.0
    order = np.sort(odds)
    lines = np.concatenate([[0.0, order[0] - 1, order[-1] + 1], (order[1:] + order[:-1]) / 2])
    scores = np.array([np.where(odds > line, answered, refused).mean() for line in lines])
    best = lines[scores >= scores.max() - 1e-12]
    return float(best[np.abs(best).argmin()]) * len(odds) / (len(odds) + _WARY)
