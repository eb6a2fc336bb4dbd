# SPDX-License-Identifier: Apache-2.0
"""A question as words that can be copied."""

import re

LONGEST_SPAN = 10  # words that are copied in one step
_WORD = re.compile(r"\w+|[^\w\s]")


class Question:
    """A question and its words: runs of letters and digits, and marks one by one.

    A span is a run of at most `LONGEST_SPAN` words, told as one number: first word times that, plus length minus one.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._places = [match.span() for match in _WORD.finditer(text)]
        self._lower = [word.lower() for word in self.words]

    @property
    def words(self) -> list[str]:
        return [self.text[start:end] for start, end in self._places]

    def span(self, text: str) -> int | None:
        """The first span that says the text, case and white space aside."""
        wanted = squeezed(text).lower()
        words = _WORD.findall(wanted)
        if not 0 < len(words) <= LONGEST_SPAN:
            return None
        for first in range(len(self._lower) - len(words) + 1):
            if self._lower[first : first + len(words)] == words:
                span = first * LONGEST_SPAN + len(words) - 1
                if self.said(span).lower() == wanted:
                    return span
        return None

    def said(self, span: int) -> str:
        """The words of a span as they stand in the text; empty if there are none."""
        first, more = divmod(span, LONGEST_SPAN)
        if first + more >= len(self._places):
            return ""
        return squeezed(self.text[self._places[first][0] : self._places[first + more][1]])


def squeezed(text: str) -> str:
    return " ".join(text.split())
