# SPDX-License-Identifier: Apache-2.0
"""The models of the skill `match`: how well a passage answers a question, as one number.

`dual` compares two vectors, `cross` reads both texts together, `residual` adds a cross reading to the dual score.
A pretrained sentence encoder is good at `dual` before any training; `residual` starts exactly there. `Keywords` is
keyword search by itself. What all of them offer, those in `aligners.py` included, is a `Scorer`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedqa.errors import ConfigError, ModelError
from fedqa.models.annotations import PreTrainedModel
from fedqa.models.backbones import Backbone
from fedqa.models.encoding import Framing, Tokens
from fedqa.models.pooling import Pool, first, mean, pooled
from fedqa.models.tagged import TaggedModel, Tags
from fedqa.models.tagging import retagged
from fedqa.models.trunk import Trunk

Interaction = Literal["dual", "cross", "residual"]
Pair = tuple[Tokens, Tokens]  # a question and a passage


@dataclass(frozen=True, eq=False, slots=True)
class Pairs:
    """Pairs to score. What else is known of them is worked out only for a model that asks."""

    tokens: Sequence[Pair]
    cosines: Callable[[], Tensor]  # of their vectors: [pairs]
    keywords: Callable[[], Tensor]  # their scores by keyword search: [pairs]


@runtime_checkable
class Scorer(Protocol):
    """What the skill `match` needs of a model."""

    @property
    def reads(self) -> bool:
        """Does every pair cost a reading? Then somebody's question is put only to passages chosen before."""

    def __call__(self, questions: Sequence[Tokens], passages: Sequence[Tokens], wanted: Tensor) -> Tensor:
        """Scores [questions, passages] to train on, complete where `wanted` is true."""

    def total(self, pairs: Pairs) -> Tensor:
        """The scores of pairs: [pairs]."""

    def vectors(self, texts: Sequence[Tokens]) -> Tensor:
        """Texts as vectors of length one: [texts, hidden], hidden being 0 where a model has none."""


@dataclass(frozen=True, eq=False, slots=True)
class Parts:
    """What a model is made of: a pretrained backbone, draws for what is new, and how its scores start."""

    backbone: Backbone
    generator: torch.Generator
    scale: float  # of the cosine
    biased: bool  # whether a constant added to all scores can be learnt


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
        trunk: Trunk | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.trunk = trunk
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
            where, pairs = wanted_pairs(questions, passages, wanted)
            scores = scores.index_put(where, self.readings(pairs), accumulate=True)
        return scores

    @property
    def reads(self) -> bool:
        return self.cross is not None

    def total(self, pairs: Pairs) -> Tensor:
        """The scores of pairs: [pairs]."""
        device = self.encoder.device
        if self.log_scale is None:
            scores = torch.zeros(len(pairs.tokens), device=device)
        else:
            scores = self.compared(pairs.cosines().to(device))
        return scores if self.cross is None else scores + self.readings(pairs.tokens)

    def compared(self, cosines: Tensor) -> Tensor:
        """Cosines as scores."""
        assert self.log_scale is not None
        return self.log_scale.exp() * (cosines if self.bias is None else cosines - self.bias)

    def vectors(self, texts: Sequence[Tokens]) -> Tensor:
        """The mean state of each text's tokens, at length one: [texts, hidden]."""
        return F.normalize(self._pooled([(text,) for text in texts], mean), dim=-1)

    def readings(self, pairs: Sequence[Pair]) -> Tensor:
        """What reading question and passage together gives: [pairs]."""
        assert self.cross is not None
        readings: Tensor = self.cross(self.dropout(self._pooled(pairs, first)))
        return readings.squeeze(-1)

    def _pooled(self, rows: Sequence[tuple[Tokens, ...]], pool: Pool) -> Tensor:
        return pooled(self.encoder, rows, pool, framing=self.framing, trunk=self.trunk)


class Keywords(nn.Module):
    """Keyword search as a model: it has no parameters, reads nothing, and cannot be trained."""

    reads = False

    def forward(self, questions: Sequence[Tokens], passages: Sequence[Tokens], wanted: Tensor) -> Tensor:
        raise ConfigError(
            "match: interaction 'bm25' has nothing to train; use method 'zero_shot', or another interaction"
        )

    def total(self, pairs: Pairs) -> Tensor:
        return pairs.keywords()

    def vectors(self, texts: Sequence[Tokens]) -> Tensor:
        return torch.zeros(len(texts), 0)


def encoder_matcher(interaction: Interaction, parts: Parts) -> TaggedModel:
    """A `Matcher` on a copy of the backbone's encoder; all that is new is its head."""
    backbone, encoder = parts.backbone, parts.backbone.fresh()
    if encoder.config.is_encoder_decoder:
        raise ModelError(f"match needs an encoder, but {backbone.spec!r} is an encoder-decoder; try 'embedded'")
    matcher = Matcher(
        encoder,
        Framing(backbone.tokenizer, segments=getattr(encoder.config, "type_vocab_size", 0) > 1),
        interaction,
        scale=parts.scale,
        biased=parts.biased,
        generator=parts.generator,
        trunk=backbone.trunk,
    )
    return with_head(matcher, retagged(backbone.tags, "encoder"))


def keyword_matcher(parts: Parts) -> TaggedModel:
    """A `Keywords`, which takes nothing from a backbone."""
    return TaggedModel(Keywords(), {})


def with_head(module: nn.Module, tags: Mapping[str, Tags]) -> TaggedModel:
    """The module with the tags of what it took from a backbone; the rest of it is the head."""
    head = {name: frozenset({"head"}) for name, _ in module.named_parameters() if name not in tags}
    return TaggedModel(module, {**tags, **head})


def wanted_pairs(
    questions: Sequence[Tokens], passages: Sequence[Tokens], wanted: Tensor
) -> tuple[tuple[Tensor, ...], list[Pair]]:
    """Where `wanted` [questions, passages] is true, row by row, and the pairs that stand there."""
    i, j = wanted.nonzero(as_tuple=True)
    return (i, j), [(questions[a], passages[b]) for a, b in zip(i.tolist(), j.tolist(), strict=True)]


def _linear(width: int, generator: torch.Generator, *, zero: bool) -> nn.Linear:
    # Made on "meta" and filled here: nn.Linear's own initialisation would draw from the global generator.
    layer = nn.Linear(width, 1, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        layer.weight.normal_(0.0, 0.0 if zero else 0.02, generator=generator)
        layer.bias.zero_()
    return layer
