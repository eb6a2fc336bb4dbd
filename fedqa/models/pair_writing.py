# SPDX-License-Identifier: Apache-2.0
"""Writing with a pair of encoder and decoder: beam search, step by step, keeping what has been computed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fedqa.models.decoder import Kept
from fedqa.models.search import PIECE, Allowed, Likely, Search, Step, Written, searched
from fedqa.models.text_pair import TextPair, reading_mask


@dataclass(frozen=True, slots=True)
class Writing:
    """How a text is looked for."""

    longest: int = 64  # steps, the end among them
    shortest: int = 1  # words
    beams: int = 5
    penalty: float = 1.0  # on length: texts are ranked by the sum of their logarithms over their length to this power
    no_repeat: int = 3  # no run of so many words twice; 0 = any


def written(pair: TextPair, memory: Tensor, mask: Tensor | None, writing: Writing) -> list[list[Written]]:
    """What the pair writes of each row of a memory, the best first: steps are word pieces, without the end."""
    end = Step(PIECE, pair.vocabulary.end)
    with torch.inference_mode():
        stepper = _Stepper(pair, memory, mask, writing)
        search = Search(min(writing.longest, pair.positions), writing.beams)
        return searched(stepper, len(memory), search, end=end, penalty=writing.penalty)


class _Stepper:
    """A pair in the middle of writing."""

    def __init__(self, pair: TextPair, memory: Tensor, mask: Tensor | None, writing: Writing) -> None:
        self._pair, self._writing, self._kept = pair, writing, Kept()
        self._reads, self._mask = pair.reads(memory), reading_mask(memory, mask)
        self._rows: list[tuple[int, ...]] = [()] * len(memory)
        never = torch.from_numpy(pair.vocabulary.special.copy())
        never[pair.vocabulary.end] = False
        self._never = never.to(memory.device)

    def likely(self, last: Sequence[Step | None], k: int, allowed: Sequence[Allowed] | None) -> list[list[Likely]]:
        self._rows = [row if one is None else (*row, one.index) for row, one in zip(self._rows, last, strict=True)]
        ids = torch.tensor([[row[-1] if row else self._pair.vocabulary.start] for row in self._rows])
        states = self._pair.decoded(ids, self._reads, self._mask, self._kept)
        scores = self._bound(F.log_softmax(self._pair.write(states[:, 0]), dim=-1))
        best = scores.topk(k, dim=-1)
        return [
            [Likely(value, Step(PIECE, piece)) for value, piece in zip(*row, strict=True) if value > -torch.inf]
            for row in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]

    def take(self, rows: Sequence[int]) -> None:
        self._rows = [self._rows[row] for row in rows]
        if list(rows) == list(range(len(self._mask))):
            return
        at = torch.tensor(rows, device=self._mask.device)
        self._reads = [(keys[at], values[at]) for keys, values in self._reads]
        self._mask = self._mask[at]
        self._kept.take(at)

    def _bound(self, scores: Tensor) -> Tensor:
        """What may not be written has no score."""
        scores = scores.masked_fill(self._never, -torch.inf)
        if len(self._rows[0]) < self._writing.shortest:
            scores[:, self._pair.vocabulary.end] = -torch.inf
        places = [(i, id) for i, row in enumerate(self._rows) for id in repeating(row, self._writing.no_repeat)]
        if places:
            rows, ids = torch.tensor(places, device=scores.device).T
            scores[rows, ids] = -torch.inf
        return scores


def repeating(row: Sequence[int], size: int) -> Iterator[int]:
    """The words that would end a run of `size` words that stands in the row already."""
    if not size:
        return
    last = tuple(row[len(row) - size + 1 :])
    for start in range(len(row) - size + 1):
        if tuple(row[start : start + size - 1]) == last:
            yield row[start + size - 1]
