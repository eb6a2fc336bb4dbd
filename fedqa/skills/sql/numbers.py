# SPDX-License-Identifier: Apache-2.0
"""Numbers as people write them: in words up to twelve, and in groups of digits."""

import re

NUMBER_WORDS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
_VALUES = {word: str(number) for number, word in enumerate(NUMBER_WORDS)}
_GROUPED = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?")


def number_said(text: str) -> str | None:
    """The digits of a number that is written otherwise; None if it is none, or is written in plain digits."""
    if _GROUPED.fullmatch(text):
        return text.replace(",", "")
    return _VALUES.get(text.lower())
