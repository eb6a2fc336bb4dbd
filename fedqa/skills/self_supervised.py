# SPDX-License-Identifier: Apache-2.0
"""Tasks that a course can assign to all silos alike: they need texts and no labels, so nobody's own task shows.

Each trains a part of an encoder-decoder and leaves the rest as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedqa.models.encoding import Tokens
from fedqa.models.text_pair import TextPair
from fedqa.skills import denoise, mlm
from fedqa.skills.silo_texts import Texts

Loss = Callable[[TextPair, Texts, Sequence[Tokens], np.random.Generator], Tensor]  # pair, texts, some of them


@dataclass(frozen=True)
class Task:
    """A task, and what it leaves alone: a selector of parameters that are not stepped while it is worked on."""

    spares: str
    loss: Loss


def _mlm(pair: TextPair, texts: Texts, rows: Sequence[Tokens], rng: np.random.Generator) -> Tensor:
    return mlm.loss_of(pair, *texts.padded(rows), rng)


def _denoise(pair: TextPair, texts: Texts, rows: Sequence[Tokens], rng: np.random.Generator) -> Tensor:
    return denoise.loss_of(pair, [torch.from_numpy(row) for row in rows], rng)


TASKS: Mapping[str, Task] = {
    "mlm": Task("dec|head", _mlm),  # fill in words: encoder and the head that does so
    "denoise": Task("lm_head|head", _denoise),  # put a text right again: encoder and decoder
}
