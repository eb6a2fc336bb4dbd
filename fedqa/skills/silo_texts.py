# SPDX-License-Identifier: Apache-2.0
"""A silo's texts apart from its skill: what self-supervised tasks work on, and what a probe set is made of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fedqa.data.records import Collection
from fedqa.models.annotations import PreTrainedTokenizerBase
from fedqa.models.encoding import Tokens
from fedqa.skills.batches import batched
from fedqa.skills.texts import Text, texts_of


@dataclass(frozen=True, eq=False)
class Texts:
    """The training texts, without special tokens; those stand `before` and `after` a window of one."""

    texts: Sequence[Text] = ()
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    pad: int = 0
    length: int = 128  # tokens of a window, special ones among them

    def cut(self, length: int) -> "Texts":
        """The same texts, read in windows of another length."""
        return replace(self, length=length)

    def n_batches(self, size: int) -> int:
        return -(-len(self.texts) // size)

    def epoch(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Sequence[Tokens], int]]:
        """Every text once, `size` in a batch of similar length, of a long one a window."""
        for some in batched(self._windows(range(len(self.texts)), rng), size, rng, len):
            yield some, len(some)

    def drawn(self, n: int, rng: np.random.Generator) -> list[Tokens]:
        """Windows of so many texts; where there are fewer, some texts come again."""
        return self._windows(np.resize(rng.permutation(len(self.texts)), n).tolist(), rng)

    def _windows(self, places: Sequence[int], rng: np.random.Generator) -> list[Tokens]:
        room = self.length - len(self.before) - len(self.after)
        return [self.texts[place].window(room, rng) for place in places]

    def padded(self, rows: Sequence[Tokens]) -> tuple[Tensor, Tensor]:
        """Ids with special tokens and a mask that is 1 where a text is, each [rows, length]."""
        framed = [torch.tensor([*self.before, *row.tolist(), *self.after]) for row in rows]
        ids = pad_sequence(framed, batch_first=True, padding_value=self.pad)
        lengths = torch.tensor([len(row) for row in framed])
        return ids, (torch.arange(ids.shape[1]) < lengths.unsqueeze(1)).long()


NO_TEXTS = Texts()


def silo_texts(collection: Collection, tokenizer: PreTrainedTokenizerBase) -> Texts:
    """The texts that a silo trains on, without its labels."""
    whole = tokenizer("a")["input_ids"]
    inner = tokenizer("a", add_special_tokens=False)["input_ids"]
    start = whole.index(inner[0])
    before, after = tuple(whole[:start]), tuple(whole[start + len(inner) :])
    return Texts(texts_of(collection, tokenizer)["train"], before, after, int(tokenizer.pad_token_id or 0))
