# SPDX-License-Identifier: Apache-2.0
"""What every encoder-decoder offers to the skills that write: read sources, score a given target, write one.

There are two: `pointer.py` makes one of any encoder, which copies what it reads; `text_writer.py` takes a pretrained
encoder-decoder such as T5 or BART as it is.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fedqa.models.encoding import Framing, Tokens
from fedqa.models.search import Rule, Search, Step, Written

Target = npt.NDArray[np.int64]  # [steps, 2]: kind and index of each step, the end included
FORBIDDEN = -1e9  # a score that is as good as none, yet leaves numbers finite


@dataclass(frozen=True, eq=False)
class Items:
    """What is known beside a text and can be copied as a whole. Sources that have the same share one object."""

    vectors: Tensor  # [items, hidden]
    kinds: tuple[int, ...]  # of each item, from 0


@dataclass(frozen=True, eq=False)
class Source:
    """A text to write from."""

    tokens: Tokens
    words: npt.NDArray[np.int64]  # [words, 2]: the first and the last token of each word that can be copied
    items: Items | None = None
    links: npt.NDArray[np.int64] | None = None  # [links, 4]: first word, last word, item and kind; None: not looked for


Change = Callable[[Tensor], Tensor]  # linear, but for a constant


@dataclass(frozen=True, eq=False)
class Memory:
    """Sources as read. Groups are the different `Items` among them."""

    text: Tensor  # [rows, length, hidden]
    text_mask: Tensor  # [rows, length], true where a text is
    items: Tensor  # [groups, items, hidden]
    item_mask: Tensor  # [groups, items]
    group: Tensor  # [rows]
    words: Tensor  # [rows, words, 2]: as in `Source`, counted with special tokens
    n_words: Tensor  # [rows]
    flags: Tensor | None = None  # [rows, items, kinds of links]: one where a row's text has such a link to the item
    flag_vectors: Tensor | None = None  # [kinds of links, hidden]: what a flag adds to its item

    def take(self, rows: Tensor) -> "Memory":
        """These rows, of which one may stand several times."""
        return replace(
            self,
            text=self.text[rows],
            text_mask=self.text_mask[rows],
            group=self.group[rows],
            words=self.words[rows],
            n_words=self.n_words[rows],
            flags=None if self.flags is None else self.flags[rows],
        )

    def mapped(self, change: Change) -> Tensor:
        """All that is read after a linear change: [rows, length + items, …]."""
        return torch.cat([change(self.text), self.mapped_items(change)], dim=1)

    def mapped_items(self, change: Change) -> Tensor:
        """The items of each row after a linear change, which is computed once for each group: [rows, items, …]."""
        changed = change(self.items)[self.group]
        if self.flags is None or self.flag_vectors is None:
            return changed
        return changed + self.flags @ (change(self.flag_vectors) - change(torch.zeros_like(self.flag_vectors)))

    @property
    def mask(self) -> Tensor:
        """[rows, length + items]"""
        return torch.cat([self.text_mask, self.item_mask[self.group]], dim=1)


@dataclass(frozen=True, eq=False)
class Logits:
    """Scores of all that could stand at each step of given targets.

    A class is a symbol, a piece, or something to copy. Where there are many pieces, one class stands for all of them,
    and `pieces` tells them apart at the steps whose target is one.
    """

    classes: Tensor  # [rows, steps, classes]
    gold: Tensor  # [rows, steps]: the class of the target, -1 behind its end
    pieces: Tensor | None = None  # [steps that are pieces, vocabulary]
    gold_pieces: Tensor | None = None  # [steps that are pieces]


@runtime_checkable
class Seq2Seq(Protocol):
    def encode(self, sources: Sequence[Source]) -> Memory: ...

    def logits(self, memory: Memory, targets: Sequence[Target]) -> Logits:
        """At each step given the true steps before it."""

    def write(self, memory: Memory, search: Search, rules: Sequence[Rule] | None = None) -> list[list[Written]]:
        """What the model writes for each source, the best first."""


def cross_entropy(logits: Logits, smoothing: float = 0.0) -> Tensor:
    """-log of the probability of a step, mean over all steps; smoothing is over the classes that can be."""
    real = logits.gold >= 0
    likely = F.log_softmax(logits.classes[real], dim=-1)
    loss = -likely.gather(1, logits.gold[real].unsqueeze(1)).squeeze(1)
    if smoothing:
        possible = logits.classes[real] > FORBIDDEN / 2
        others = -torch.where(possible, likely, 0.0).sum(dim=1) / possible.sum(dim=1)
        loss = (1 - smoothing) * loss + smoothing * others
    total = loss.sum()
    if logits.pieces is not None and logits.gold_pieces is not None:
        total = total + F.cross_entropy(logits.pieces, logits.gold_pieces, reduction="sum")
    return total / real.sum()


def padded_targets(targets: Sequence[Target], device: torch.device) -> Tensor:
    """[rows, steps, 2], -1 behind the end of each."""
    rows = [torch.from_numpy(target) for target in targets]
    return pad_sequence(rows, batch_first=True, padding_value=-1).to(device)


def steps_tensor(last: Sequence[Step | None], start: Step, device: torch.device) -> Tensor:
    """The last step of each row, as a target of one step: [rows, 1, 2]."""
    chosen = [step or start for step in last]
    return torch.tensor([[(step.kind, step.index)] for step in chosen], device=device)


def target_of(steps: Iterable[Step]) -> Target:
    return np.array([(step.kind, step.index) for step in steps], dtype=np.int64).reshape(-1, 2)


Encode = Callable[[dict[str, Tensor]], Tensor]  # padded token ids and mask -> states [texts, length, hidden]


def read_texts(texts: Sequence[Tokens], framing: Framing, encode: Encode) -> tuple[Tensor, Tensor]:
    """The states of texts, [texts, length, hidden], and where there are any; computed in groups of similar length."""
    states: dict[int, Tensor] = {}
    for group in framing.padded([(text,) for text in texts]):
        found = encode(group.inputs)
        lengths = group.inputs["attention_mask"].sum(dim=1).tolist()
        states |= {row: found[i, :length] for i, (row, length) in enumerate(zip(group.rows, lengths, strict=True))}
    ordered = [states[i] for i in range(len(texts))]
    padded = pad_sequence(ordered, batch_first=True)
    sizes = torch.tensor([len(one) for one in ordered], device=padded.device)
    return padded, torch.arange(padded.shape[1], device=padded.device) < sizes.unsqueeze(1)
