# SPDX-License-Identifier: Apache-2.0
"""Matchers without a pretrained encoder: they align the words of question and passage, and score how these agree.

`Esim`: Chen et al. 2017, without the tree. `Re2`: Yang et al. 2019, with two blocks and no weight normalisation.
Both stand on the backbone's word vectors. Rows are padded at their end, and padding never reaches a score.
"""

import copy
import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from fedqa.models.encoding import Tokens, by_length
from fedqa.models.matcher import Pair, Pairs, Parts, wanted_pairs, with_head
from fedqa.models.tagged import TaggedModel

_TOKENS = 4096  # in a group of pairs, with padding
Layer = TypeVar("Layer", bound=nn.Module)


class Texts(NamedTuple):
    """One text of each pair, position by position; where the mask is false there is padding."""

    states: Tensor  # [pairs, length, width]
    mask: Tensor  # [pairs, length]


class Network(Protocol):
    """The constructor of what turns two texts into a score: [pairs]. `biased` as in `Matcher`."""

    def __call__(self, width: int, generator: torch.Generator, *, biased: bool) -> nn.Module: ...


class Aligner(nn.Module):
    """Word vectors and a network over both texts of a pair. It has no vector of a text by itself."""

    reads = True

    def __init__(self, words: nn.Module, network: nn.Module, *, pad: int) -> None:
        super().__init__()
        self.words = words
        self.network = network
        self._pad = pad
        # Word vectors of about unit size, as the initial weights expect. A power of two scales without rounding, so
        # that the order in which a machine sums up the table does not show.
        size = torch.cat([table.detach().flatten() for table in words.parameters()]).square().mean().sqrt()
        self._gain = 2.0 ** round(-math.log2(float(size)))

    def forward(self, questions: Sequence[Tokens], passages: Sequence[Tokens], wanted: Tensor) -> Tensor:
        """Scores [questions, passages] where `wanted` is true, zero elsewhere."""
        where, pairs = wanted_pairs(questions, passages, wanted)
        readings = self.readings(pairs)
        return torch.zeros(wanted.shape, device=readings.device).index_put(where, readings)

    def total(self, pairs: Pairs) -> Tensor:
        return self.readings(pairs.tokens)

    def vectors(self, texts: Sequence[Tokens]) -> Tensor:
        return torch.zeros(len(texts), 0)

    def readings(self, pairs: Sequence[Pair]) -> Tensor:
        """The score of each pair: [pairs]."""
        lengths = [len(question) + len(passage) for question, passage in pairs]
        parts, order = [], []
        for group in by_length(lengths, _TOKENS):
            questions, passages = ([pairs[i][side] for i in group] for side in (0, 1))
            parts.append(self.network(self._embedded(questions), self._embedded(passages)))
            order += group
        if not parts:
            return torch.zeros(0)
        return torch.cat(parts)[torch.tensor(order).argsort()]

    def _embedded(self, texts: Sequence[Tokens]) -> Texts:
        ids, mask = padded(texts, self._pad)
        device = next(self.words.parameters()).device
        return Texts(self.words(ids.to(device)) * self._gain, mask.to(device))


class Esim(nn.Module):
    """Both texts read in both directions, aligned, compared, read again and pooled."""

    def __init__(
        self, width: int, generator: torch.Generator, *, biased: bool, hidden: int = 100, dropout: float = 0.2
    ) -> None:
        super().__init__()
        self.encode = _lstm(width, hidden, generator)
        self.project = _linear(8 * hidden, hidden, generator)
        self.compose = _lstm(hidden, hidden, generator)
        self.predict = _Prediction(8 * hidden, hidden, generator, biased=biased, dropout=dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, a: Texts, b: Texts) -> Tensor:
        a, b = (_read(self.encode, self.dropout(text.states), text.mask) for text in (a, b))
        to_a, to_b = aligned(a, b, a.states @ b.states.transpose(1, 2))
        a, b = self._composed(a, to_a), self._composed(b, to_b)
        pooled = [pool(text) for text in (a, b) for pool in (mean, highest)]
        scores: Tensor = self.predict(torch.cat(pooled, dim=-1))
        return scores

    def _composed(self, x: Texts, other: Tensor) -> Texts:
        enhanced = torch.cat([x.states, other, x.states - other, x.states * other], dim=-1)
        return _read(self.compose, self.dropout(F.relu(self.project(enhanced))), x.mask)


class Re2(nn.Module):
    """Two blocks that encode, align and fuse. The second also sees the words again, beside what the first made of them:
    with two blocks, that is all of RE2's augmented residual connections."""

    def __init__(
        self, width: int, generator: torch.Generator, *, biased: bool, hidden: int = 150, dropout: float = 0.2
    ) -> None:
        super().__init__()
        self.first = Block(width, hidden, generator, dropout=dropout)
        self.second = Block(width + hidden, hidden, generator, dropout=dropout)
        self.predict = _Prediction(4 * hidden, hidden, generator, biased=biased, dropout=dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, a: Texts, b: Texts) -> Tensor:
        a, b = (Texts(self.dropout(text.states), text.mask) for text in (a, b))
        fused = self.first(a, b)
        again = (Texts(torch.cat([x.states, y.states], dim=-1), x.mask) for x, y in zip((a, b), fused, strict=True))
        p, q = (highest(text) for text in self.second(*again))
        scores: Tensor = self.predict(torch.cat([p, q, p - q, p * q], dim=-1))
        return scores


class Block(nn.Module):
    """Of RE2: two convolutions over three words, alignment with a learned temperature, fusion of three views."""

    def __init__(self, width: int, hidden: int, generator: torch.Generator, *, dropout: float) -> None:
        super().__init__()
        both = width + hidden  # a position's input beside its encoding
        self.convolutions = nn.ModuleList(_convolution(size, hidden, generator) for size in (width, hidden))
        self.focus = _linear(both, hidden, generator)
        self.temperature = nn.Parameter(torch.tensor([1 / math.sqrt(hidden)]))
        self.views = nn.ModuleList(_linear(2 * both, hidden, generator) for _ in range(3))
        self.fuse = _linear(3 * hidden, hidden, generator)
        self.dropout = nn.Dropout(dropout)

    def forward(self, a: Texts, b: Texts) -> tuple[Texts, Texts]:
        a, b = self._encoded(a), self._encoded(b)
        focused = [F.gelu(self.focus(self.dropout(text.states))) for text in (a, b)]
        to_a, to_b = aligned(a, b, focused[0] @ focused[1].transpose(1, 2) * self.temperature)
        return self._fused(a, to_a), self._fused(b, to_b)

    def _encoded(self, x: Texts) -> Texts:
        states = x.states
        for convolution in self.convolutions:
            # What a convolution finds beyond the end of a text must be zero, as it is beyond the end of a row.
            states = states.masked_fill(~x.mask.unsqueeze(-1), 0.0)
            states = self.dropout(F.gelu(convolution(states.transpose(1, 2)).transpose(1, 2)))
        return Texts(torch.cat([x.states, states], dim=-1), x.mask)

    def _fused(self, x: Texts, other: Tensor) -> Texts:
        seen = (other, x.states - other, x.states * other)
        pairs = zip(self.views, seen, strict=True)
        views = [F.gelu(view(torch.cat([x.states, beside], dim=-1))) for view, beside in pairs]
        return Texts(F.gelu(self.fuse(self.dropout(torch.cat(views, dim=-1)))), x.mask)


class _Prediction(nn.Module):
    """A hidden layer and a score. Without `biased` the score has no constant, which only a pointwise loss can learn."""

    def __init__(self, width: int, hidden: int, generator: torch.Generator, *, biased: bool, dropout: float) -> None:
        super().__init__()
        self.hidden = _linear(width, hidden, generator)
        self.score = _linear(hidden, 1, generator, bias=biased)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.score(self.dropout(F.gelu(self.hidden(self.dropout(x)))))
        return scores.squeeze(-1)


def aligner(network: Network, parts: Parts) -> TaggedModel:
    """An `Aligner` over a copy of the backbone's word table, which keeps its tags; the network is the head.

    The table is frozen unless a sharing rule says otherwise.
    """
    encoder = parts.backbone.encoder
    table = encoder.get_input_embeddings()
    names = {id(parameter): name for name, parameter in encoder.named_parameters()}
    tags = {f"words.{name}": parts.backbone.tags[names[id(p)]] for name, p in table.named_parameters()}
    words = copy.deepcopy(table).requires_grad_(False)
    width = next(words.parameters()).shape[-1]
    pad = int(parts.backbone.tokenizer.pad_token_id or 0)
    return with_head(Aligner(words, network(width, parts.generator, biased=parts.biased), pad=pad), tags)


def padded(texts: Sequence[Tokens], pad: int) -> tuple[Tensor, Tensor]:
    """Token ids and mask, both [texts, length]. A text of no tokens is one padding token: there is always a word to
    align with."""
    lengths = np.array([max(1, len(text)) for text in texts])
    ids = np.full((len(texts), lengths.max()), pad, dtype=np.int64)
    for row, text in zip(ids, texts, strict=True):
        row[: len(text)] = text
    return torch.from_numpy(ids), torch.from_numpy(np.arange(ids.shape[1]) < lengths[:, None])


def aligned(a: Texts, b: Texts, affinity: Tensor) -> tuple[Tensor, Tensor]:
    """For each position of a text, the mean of the other's states weighted by affinity [pairs, length a, length b]."""

    def mixed(other: Texts, affinity: Tensor) -> Tensor:
        return affinity.masked_fill(~other.mask.unsqueeze(1), -torch.inf).softmax(dim=-1) @ other.states

    return mixed(b, affinity), mixed(a, affinity.transpose(1, 2))


def mean(text: Texts) -> Tensor:
    """[pairs, width]"""
    weights = text.mask.unsqueeze(-1).to(text.states.dtype)
    return (text.states * weights).sum(dim=1) / weights.sum(dim=1)


def highest(text: Texts) -> Tensor:
    """[pairs, width]"""
    return text.states.masked_fill(~text.mask.unsqueeze(-1), -torch.inf).amax(dim=1)


def _read(lstm: nn.LSTM, states: Tensor, mask: Tensor) -> Texts:
    packed = pack_padded_sequence(states, mask.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False)
    read, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=mask.shape[1])
    return Texts(read, mask)


def _lstm(width: int, hidden: int, generator: torch.Generator) -> nn.LSTM:
    return _filled(nn.LSTM(width, hidden, batch_first=True, bidirectional=True, device="meta"), generator)


def _linear(width: int, out: int, generator: torch.Generator, *, bias: bool = True) -> nn.Linear:
    return _filled(nn.Linear(width, out, bias=bias, device="meta"), generator)


def _convolution(width: int, out: int, generator: torch.Generator) -> nn.Conv1d:
    return _filled(nn.Conv1d(width, out, kernel_size=3, padding=1, device="meta"), generator)


def _filled(layer: Layer, generator: torch.Generator) -> Layer:
    """A layer made on "meta", with values: its own initialisation would draw from the global generator."""
    layer = layer.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in layer.parameters():
            if parameter.dim() > 1:
                # Not He's sqrt(2) more: through RE2's products, scores would then start several units apart.
                parameter.normal_(0.0, 1 / math.sqrt(parameter[0].numel()), generator=generator)
            else:
                parameter.zero_()
    return layer
