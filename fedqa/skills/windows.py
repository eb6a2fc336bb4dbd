# SPDX-License-Identifier: Apache-2.0
"""Texts cut into windows that a model can read at once, with every token's exact place in the text.

Windows overlap, so that whatever is not longer than the overlap is whole in one of them. Nothing is cut off: the last
window ends with the text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedqa.data.passages import passages
from fedqa.data.records import Document
from fedqa.data.sentences import sentences
from fedqa.errors import ModelError
from fedqa.models.annotations import PreTrainedTokenizerBase
from fedqa.models.encoding import Tokens

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Extent:
    """Tokens `start` to `end` (exclusive) of a text."""

    start: int
    end: int

    def __contains__(self, other: "Extent") -> bool:
        return self.start <= other.start and other.end <= self.end

    def __len__(self) -> int:
        return self.end - self.start

    def touches(self, other: "Extent") -> bool:
        return self.start < other.end and other.start < self.end

    def after(self, start: int) -> "Extent":
        """The same tokens, counted from `start`."""
        return Extent(self.start - start, self.end - start)


@dataclass(frozen=True, eq=False, slots=True)
class TokenText:
    """A text as tokens: their ids, the characters (Unicode code points) each stands for, and its sentence's number."""

    ids: Tokens
    starts: Places
    ends: Places
    sentences: Places

    def __len__(self) -> int:
        return len(self.ids)

    def characters(self, extent: Extent) -> tuple[int, int]:
        """Where tokens stand in the text."""
        return int(self.starts[extent.start]), int(self.ends[extent.end - 1])

    def tokens(self, start: int, end: int) -> Extent | None:
        """The tokens that hold characters `start` to `end`; None where there are none, as for white space."""
        held = np.flatnonzero((self.starts < end) & (self.ends > start))
        return Extent(int(held[0]), int(held[-1]) + 1) if len(held) else None


def windows(length: int, size: int, overlap: int) -> Iterator[Extent]:
    """All of a text of `length` tokens, `size` at a time; an empty text has no window."""
    start = 0
    while start < length:
        yield Extent(start, min(start + size, length))
        if start + size >= length:
            return
        start += size - overlap


def token_texts(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> Iterator[TokenText]:
    """Texts one by one, so that at no time more than one is there as the tokenizer's own objects."""
    if not tokenizer.is_fast:
        raise ModelError(
            f"the tokenizer {type(tokenizer).__name__} does not tell where its tokens stand in a text, which reading "
            "needs; take a model with a tokenizer.json"
        )
    return (_token_text(tokenizer, text) for text in texts)


def _token_text(tokenizer: PreTrainedTokenizerBase, text: str) -> TokenText:
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    offsets = np.array(encoded["offset_mapping"], dtype=np.int64).reshape(-1, 2)
    starts, ends = _trimmed(text, offsets)
    number = np.maximum(np.searchsorted(_sentence_starts(text), starts, side="right") - 1, 0)
    return TokenText(np.array(encoded["input_ids"], dtype=np.int64), starts, ends, number)


def _sentence_starts(text: str) -> Places:
    """By passage, since a heading without a full stop is no part of what follows it."""
    found = [part.start + start for part in passages(Document("", text)) for start, _ in sentences(part.text)]
    return np.array(found, dtype=np.int64)


def _trimmed(text: str, offsets: Places) -> tuple[Places, Places]:
    """Without white space at either end: some tokenizers count the space before a word as part of it."""
    starts, ends = offsets[:, 0].copy(), offsets[:, 1].copy()
    for i, (start, end) in enumerate(offsets):
        part = text[start:end]
        if part[:1].isspace() or part[-1:].isspace():
            starts[i] += len(part) - len(part.lstrip())
            ends[i] -= len(part) - len(part.rstrip())
    return np.minimum(starts, ends), ends
