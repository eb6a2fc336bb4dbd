# SPDX-License-Identifier: Apache-2.0
"""The model of the skill `match`: how well a passage answers a question, as one number.

`dual` compares two vectors, `cross` reads both texts together, `residual` adds a cross reading to the dual score.
A pretrained sentence encoder is good at `dual` before any training; `residual` starts exactly there.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from fedqa.models.encoding import Framing, Tokens

Interaction = Literal["dual", "cross", "residual"]


class Matcher(nn.Module):
    """One encoder for questions and passages, and the parameters of the chosen interaction.

    `biased` adds a learnable bias to the cosine. Only a pointwise loss can learn it: where differences of scores
    count, its gradient is rounding noise, which Adam would blow up to full steps.
    """

    def __init__(
        self,
        encoder: PreTrainedModel,
        framing: Framing,
        interaction: Interaction,
        *,
        scale: float,
        biased: bool,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.framing = framing
        compares, reads = interaction != "cross", interaction != "dual"
        self.log_scale = nn.Parameter(torch.tensor([math.log(scale)])) if compares else None
        self.bias = nn.Parameter(torch.tensor([0.5])) if compares and biased else None
        self.cross = _linear(encoder.config.hidden_size, generator, zero=compares) if reads else None
        self.dropout = nn.Dropout(next((m.p for m in encoder.modules() if isinstance(m, nn.Dropout)), 0.0))

    def forward(self, questions: Sequence[Tokens], passages: Sequence[Tokens], wanted: Tensor) -> Tensor:
        """Scores [questions, passages], complete where `wanted` is true."""
        scores = torch.zeros(wanted.shape, device=self.encoder.device)
        if self.log_scale is not None:
            scores = self.compared(self.vectors(questions) @ self.vectors(passages).T)
        if self.cross is not None:
            i, j = wanted.nonzero(as_tuple=True)
            pairs = [(questions[a], passages[b]) for a, b in zip(i.tolist(), j.tolist(), strict=True)]
            scores = scores.index_put((i, j), self.readings(pairs), accumulate=True)
        return scores

    def total(self, cosines: Tensor, pairs: Sequence[tuple[Tokens, Tokens]]) -> Tensor:
        """The scores of pairs of question and passage whose cosines are known: [pairs]."""
        scores = torch.zeros_like(cosines) if self.log_scale is None else self.compared(cosines)
        return scores if self.cross is None else scores + self.readings(pairs)

    def compared(self, cosines: Tensor) -> Tensor:
        """Cosines as scores."""
        assert self.log_scale is not None
        return self.log_scale.exp() * (cosines if self.bias is None else cosines - self.bias)

    def vectors(self, texts: Sequence[Tokens]) -> Tensor:
        """The mean state of each text's tokens, at length one: [texts, hidden]."""
        return F.normalize(self._pooled([(text,) for text in texts], _mean), dim=-1)

    def readings(self, pairs: Sequence[tuple[Tokens, Tokens]]) -> Tensor:
        """What reading question and passage together gives: [pairs]."""
        assert self.cross is not None
        readings: Tensor = self.cross(self.dropout(self._pooled(pairs, _first)))
        return readings.squeeze(-1)

    def _pooled(self, rows: Sequence[tuple[Tokens, ...]], pool: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        device, parts, order = self.encoder.device, [], []
        for group in self.framing.padded(rows):
            inputs = {name: tensor.to(device) for name, tensor in group.inputs.items()}
            parts.append(pool(self.encoder(**inputs).last_hidden_state, inputs["attention_mask"]))
            order += group.rows
        if not parts:
            return torch.zeros(0, self.encoder.config.hidden_size, device=device)
        return torch.cat(parts)[torch.tensor(order).argsort().to(device)]


def _mean(states: Tensor, mask: Tensor) -> Tensor:
    weights = mask.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(dim=1) / weights.sum(dim=1)


def _first(states: Tensor, mask: Tensor) -> Tensor:
    return states[:, 0]


def _linear(width: int, generator: torch.Generator, *, zero: bool) -> nn.Linear:
    # Made on "meta" and filled here: nn.Linear's own initialisation would draw from the global generator.
    layer = nn.Linear(width, 1, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        layer.weight.normal_(0.0, 0.0 if zero else 0.02, generator=generator)
        layer.bias.zero_()
    return layer
