# SPDX-License-Identifier: Apache-2.0
"""Any text as word pieces of a fixed vocabulary, with marks for case, and back.

The vocabulary is the frozen tokenizer's, so what can be spelled says nothing of a silo's words. Pieces are in small
letters; a mark before one restores its case. A character without a piece is spelled by its number.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

CAPITAL, UPPER, LOWER = "^", "^^", "_"  # the case of what follows
WILDCARD, SPACE = "'%'", "' '"
CHARACTER, INNER_CHARACTER = "chr", "##chr"  # seven digits follow; the second is glued to what stands before
MARKS = (CAPITAL, UPPER, LOWER, WILDCARD, SPACE, CHARACTER, INNER_CHARACTER)

_DIGITS = 7
_PART = re.compile(r"%|\s+|[^%\s]+")


class Copied(str):
    """A text that is taken over as it is."""

    __slots__ = ()


class Spelling:
    """Spelling by the word pieces of a tokenizer's vocabulary."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._ids = {piece: id for piece, id in vocabulary.items() if not re.fullmatch(r"\[.+\]", piece)}
        self._pieces = {id: piece for piece, id in self._ids.items()}
        self._longest = max(map(len, self._ids))

    def spelled(self, text: str) -> list[str | int]:
        """Marks and ids of pieces. White space between words needs no mark; elsewhere it does."""
        parts = _PART.findall(text)
        found: list[str | int] = []
        for i, part in enumerate(parts):
            if part == "%":
                found.append(WILDCARD)
            elif part.isspace():
                between = 0 < i < len(parts) - 1 and "%" not in (parts[i - 1], parts[i + 1])
                found += [] if between else [SPACE]
            else:
                found += self._word(part)
        return found

    def text(self, steps: Sequence[str | int | Copied]) -> str:
        """What marks, pieces and copied texts say together."""
        written, case = "", ""
        places = iter(steps)
        for step in places:
            if isinstance(step, str) and not isinstance(step, Copied) and step in (CAPITAL, UPPER, LOWER):
                case = step
                continue
            word, glued = self._said(step, places)
            if not word:
                continue
            tight = glued or not written or word in ("%", " ") or written[-1] in "% "
            written += ("" if tight else " ") + _cased(word, case)
            case = ""
        return written

    def _said(self, step: str | int | Copied, following: Iterator[str | int | Copied]) -> tuple[str, bool]:
        """What a step says, and whether it is glued to what stands before it; a character takes more steps."""
        if isinstance(step, int):
            piece = self._pieces.get(step, "")
            return piece.removeprefix("##"), piece.startswith("##")
        if step in (CHARACTER, INNER_CHARACTER):
            digits = "".join(self._digit(next(following, None)) for _ in range(_DIGITS))
            return _character(digits), step == INNER_CHARACTER
        return {WILDCARD: "%", SPACE: " "}.get(step, step), False

    def _digit(self, step: object) -> str:
        return self._pieces.get(step, "").removeprefix("##") if isinstance(step, int) else ""

    def _word(self, word: str) -> Iterator[str | int]:
        start = 0
        while start < len(word):
            piece = self._longest_piece(word, start)
            if piece is None:
                yield INNER_CHARACTER if start else CHARACTER
                yield from (self._ids[digit] for digit in f"{ord(word[start]):0{_DIGITS}}")
                start += 1
                continue
            own = word[start : start + len(piece)]
            if own != piece:
                yield UPPER if own == piece.upper() and len(own) > 1 else CAPITAL
            yield self._ids[f"##{piece}" if start else piece]
            start += len(piece)

    def _longest_piece(self, word: str, start: int) -> str | None:
        """The longest piece that stands here and whose case a mark can restore."""
        prefix = "##" if start else ""
        for stop in range(min(len(word), start + self._longest), start, -1):
            own = word[start:stop]
            small = own.lower()
            if prefix + small in self._ids and own in (small, small.upper(), small.capitalize()):  # not ß, as SS
                return small
        return None


def capitalised(text: str) -> str:
    return " ".join(word[:1].upper() + word[1:] for word in text.split(" "))


def _cased(word: str, case: str) -> str:
    return {CAPITAL: capitalised(word), UPPER: word.upper(), LOWER: word.lower()}.get(case, word)


def _character(digits: str) -> str:
    return chr(int(digits)) if digits.isdecimal() and int(digits) < 0x110000 else ""
