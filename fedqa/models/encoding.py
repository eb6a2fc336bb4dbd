# SPDX-License-Identifier: Apache-2.0
"""Texts as token ids and back into padded tensors: tokenised once, framed and padded when a batch needs them.

Padding is the main waste on a CPU. Texts are therefore encoded in groups of similar length that hold a budget of
tokens with padding: training two layers of 384 units is 1.6 times as fast as with one padded batch of all texts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedqa.models.annotations import PreTrainedTokenizerBase

Tokens = npt.NDArray[np.int64]  # the ids of one text, without special tokens
TOKEN_BUDGET = 1024  # measured: 512 is as fast, 2048 costs 8 %, 4096 a quarter


def tokenised(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], longest: int) -> list[Tokens]:
    """The token ids of each text, cut so that `longest` holds them together with the special tokens of one text."""
    room = longest - tokenizer.num_special_tokens_to_add(pair=False)
    if not texts:
        return []
    rows = tokenizer(list(texts), add_special_tokens=False, truncation=True, max_length=room)["input_ids"]
    return [np.array(row, dtype=np.int64) for row in rows]


@dataclass(frozen=True)
class Padded:
    """Texts of similar length as the arguments of an encoder, each [texts, length], and which texts they are."""

    rows: list[int]
    inputs: dict[str, Tensor]


@dataclass(frozen=True)
class _Piece:
    """One step of a frame: a special token, or the place of a text."""

    text: int | None
    id: int
    segment: int


class Framing:
    """The special tokens and segment numbers that a tokenizer puts around one text and around two."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, segments: bool) -> None:
        self._frames = {1: _frame(tokenizer, "a"), 2: _frame(tokenizer, "a", "a")}
        self._pad = int(tokenizer.pad_token_id or 0)
        self._segments = segments

    @property
    def before(self) -> int:
        """Special tokens before a text that stands alone."""
        return [piece.text for piece in self._frames[1]].index(0)

    def starts(self, *texts: Tokens) -> list[int]:
        """Where in their row the texts begin."""
        at, found = 0, []
        for piece in self._frames[len(texts)]:
            if piece.text is not None:
                found.append(at)
            at += 1 if piece.text is None else len(texts[piece.text])
        return found

    def length(self, *texts: Tokens) -> int:
        return sum(len(texts[piece.text]) if piece.text is not None else 1 for piece in self._frames[len(texts)])

    def padded(self, rows: Sequence[tuple[Tokens, ...]], budget: int = TOKEN_BUDGET) -> Iterator[Padded]:
        """The rows (one text or two each) in groups of similar length, longest first."""
        lengths = [self.length(*row) for row in rows]
        for group in by_length(lengths, budget):
            yield self._pad_group(rows, group, lengths[group[0]])

    def _pad_group(self, rows: Sequence[tuple[Tokens, ...]], group: list[int], longest: int) -> Padded:
        ids = np.full((len(group), longest), self._pad, dtype=np.int64)
        mask, segments = np.zeros_like(ids), np.zeros_like(ids)
        for i, row in enumerate(group):
            at = 0
            for piece in self._frames[len(rows[row])]:
                tokens = rows[row][piece.text] if piece.text is not None else np.array([piece.id])
                ids[i, at : at + len(tokens)] = tokens
                segments[i, at : at + len(tokens)] = piece.segment
                at += len(tokens)
            mask[i, :at] = 1
        inputs = {"input_ids": ids, "attention_mask": mask} | ({"token_type_ids": segments} if self._segments else {})
        return Padded(group, {name: torch.from_numpy(array) for name, array in inputs.items()})


def by_length(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """The indexes, longest first, in groups of at most `budget` tokens with padding (a longer text stands alone)."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        end = start + max(1, budget // max(1, lengths[order[start]]))
        yield order[start:end]
        start = end


def _frame(tokenizer: PreTrainedTokenizerBase, *texts: str) -> tuple[_Piece, ...]:
    """Read the frame off an example, since tokenizers do not tell it otherwise."""
    encoded = tokenizer(*texts)
    ids, places = encoded["input_ids"], encoded.sequence_ids()
    segments = encoded.get("token_type_ids", [0] * len(ids))
    pieces = [_Piece(*step) for step in zip(places, ids, segments, strict=True)]
    previous = [None, *pieces[:-1]]
    # A text of several tokens is one place: keep the first step of each run.
    return tuple(
        piece
        for piece, before in zip(pieces, previous, strict=True)
        if piece.text is None or before is None or piece.text != before.text
    )
