# SPDX-License-Identifier: Apache-2.0
"""Texts through an encoder to one vector each, in groups of similar length, above a frozen trunk where there is one."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fedqa.models.annotations import PreTrainedModel
from fedqa.models.encoding import Framing, Tokens
from fedqa.models.trunk import Trunk

Pool = Callable[[Tensor, Tensor], Tensor]  # states [texts, length, hidden] and mask -> [texts, hidden]


def pooled(
    encoder: PreTrainedModel, rows: Sequence[tuple[Tokens, ...]], pool: Pool, *, framing: Framing, trunk: Trunk | None
) -> Tensor:
    """One vector for each row, of one text or two: [rows, hidden]."""
    device, parts, order = encoder.device, [], []
    for group in framing.padded(rows):
        inputs = trunk(group.inputs) if trunk else group.inputs
        inputs = {name: tensor.to(device) for name, tensor in inputs.items()}
        parts.append(pool(encoder(**inputs).last_hidden_state, inputs["attention_mask"]))
        order += group.rows
    if not parts:
        return torch.zeros(0, encoder.config.hidden_size, device=device)
    return torch.cat(parts)[torch.tensor(order).argsort().to(device)]


def mean(states: Tensor, mask: Tensor) -> Tensor:
    """The mean state of a text's tokens."""
    weights = mask.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(dim=1) / weights.sum(dim=1)


def first(states: Tensor, mask: Tensor) -> Tensor:
    """The state of the first token, which encoders put there to stand for the text."""
    return states[:, 0]
