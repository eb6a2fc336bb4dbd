# SPDX-License-Identifier: Apache-2.0
"""The model of the skill `read`: which words of a text answer a question, both read together by one encoder.

A span's score is that of its first and its last token and of its length, and how near its sentence is to the question:
for each token of the question the nearest one of the sentence, by cosine, mean over the question. A pretrained
sentence encoder is good at that before any training, so that an untrained model finds the right sentence, and what few
examples there are teach it where in the sentence the answer stands.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from fedqa.errors import ModelError
from fedqa.models.annotations import PreTrainedModel
from fedqa.models.backbones import Backbone
from fedqa.models.encoding import Framing, Tokens
from fedqa.models.matcher import with_head
from fedqa.models.tagged import TaggedModel
from fedqa.models.tagging import retagged
from fedqa.models.text_pair import TextPair, tagged_pair
from fedqa.models.trunk import Trunk

IMPOSSIBLE = -1e4  # the score of what is no span: finite, so that no difference of two is NaN
PACE = 50.0  # how much faster than the encoder the head learns
SCALE, LEVEL = 40.0, 20.0  # at the start: of nearness, and the score of no answer
STATES = 3  # of the last layers, that the head sees


class Row(NamedTuple):
    """A question and a text to read together, and for each token of the text the number of its sentence, from 0."""

    question: Tokens
    text: Tokens
    sentences: Tokens


@dataclass(frozen=True, eq=False, slots=True)
class SpanScores:
    """The scores of rows that were read together, and which rows they are."""

    rows: list[int]
    spans: Tensor  # [rows, tokens, lengths]: of the span that begins at a token and has 1, 2, … tokens
    none: Tensor  # [rows]: of there being no answer


class Reader(nn.Module):
    """An encoder and the head that scores spans.

    The head sees the states of several layers, because the last one of a sentence encoder tells meanings apart, but
    hardly words. It starts at zero and learns faster than the encoder, whatever the method: what is kept and sent are
    its weights divided by `PACE`.
    """

    def __init__(
        self,
        encoder: PreTrainedModel,
        framing: Framing,
        *,
        max_answer: int,
        trunk: Trunk | None = None,
        pair: TextPair | None = None,
    ) -> None:
        super().__init__()
        if pair is not None:  # before the encoder, which is part of it: parameters have the name that comes first
            self.pair = pair
        self.encoder, self.framing, self.trunk = encoder, framing, trunk
        self.n_states = min(STATES, encoder.config.num_hidden_layers + 1)
        width = self.n_states * encoder.config.hidden_size
        self.ends = _zeros(width, 2)
        self.none = _zeros(width, 1)
        self.lengths = nn.Parameter(torch.zeros(max_answer))
        self.known = nn.Parameter(torch.zeros(2))  # what a token's nearness to the question says for an end there
        self.log_scale = nn.Parameter(torch.tensor([math.log(SCALE) / PACE]))
        self.dropout = nn.Dropout(next((m.p for m in encoder.modules() if isinstance(m, nn.Dropout)), 0.0))
        with torch.no_grad():
            self.none.bias.fill_(LEVEL / PACE)

    def forward(self, rows: Sequence[Row]) -> Iterator[SpanScores]:
        """The scores of all rows, in groups of similar length."""
        for group in self.framing.padded([row[:2] for row in rows]):
            yield self._scores(group.rows, group.inputs, [rows[i] for i in group.rows])

    def _scores(self, numbers: list[int], inputs: Mapping[str, Tensor], rows: Sequence[Row]) -> SpanScores:
        states = self._states(inputs)
        starts = [self.framing.starts(*row[:2]) for row in rows]
        question = _part(states[-1], [at for at, _ in starts], [len(row.question) for row in rows])
        text = _part(states[-1], [at for _, at in starts], [len(row.text) for row in rows])
        seen = self.dropout(torch.cat([F.layer_norm(one, one.shape[-1:]) for one in states], dim=-1))
        near = _Nearness.of(question, text, [row.sentences for row in rows])
        ends = _part(self.ends(seen), [at for _, at in starts], [len(row.text) for row in rows]).states
        ends = PACE * (ends + self.known * near.tokens.unsqueeze(-1))
        ends = ends + (PACE * self.log_scale).exp() / 2 * near.sentences.unsqueeze(-1)
        ends = ends.masked_fill(~text.mask.unsqueeze(-1), IMPOSSIBLE)
        none: Tensor = PACE * self.none(seen[:, 0]).squeeze(-1)
        return SpanScores(numbers, self._spans(*ends.unbind(-1)), none)

    def _spans(self, first: Tensor, last: Tensor) -> Tensor:
        """[rows, tokens, lengths] from the scores of first and last tokens, both [rows, tokens]."""
        longest = len(self.lengths)
        ends = F.pad(last, (0, longest - 1), value=IMPOSSIBLE).unfold(1, longest, 1)
        return first.unsqueeze(-1) + ends + PACE * self.lengths

    def _states(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """Of the last layers, the very last at the end."""
        given = self.trunk(inputs) if self.trunk else inputs
        given = {name: tensor.to(self.encoder.device) for name, tensor in given.items()}
        states: tuple[Tensor, ...] = self.encoder(**given, output_hidden_states=True).hidden_states
        return states[-self.n_states :]


def reader(backbone: Backbone, *, max_answer: int, pair: TextPair | None = None) -> TaggedModel:
    """A `Reader` on a copy of the backbone's encoder, or on a pair's; all that is new is its head."""
    encoder = backbone.fresh() if pair is None else pair.encoder
    if encoder.config.is_encoder_decoder:
        raise ModelError(f"read needs an encoder, but {backbone.spec!r} is an encoder-decoder; try 'embedded'")
    framing = Framing(backbone.tokenizer, segments=getattr(encoder.config, "type_vocab_size", 0) > 1)
    module = Reader(encoder, framing, max_answer=max_answer, trunk=backbone.trunk, pair=pair)
    return with_head(module, retagged(backbone.tags, "encoder")) if pair is None else tagged_pair(module, backbone)


class _Part(NamedTuple):
    """The states of one text of each row, and which are no padding."""

    states: Tensor  # [rows, tokens, width]
    mask: Tensor  # [rows, tokens]


def _part(states: Tensor, starts: Sequence[int], lengths: Sequence[int]) -> _Part:
    steps = torch.arange(max(1, *lengths), device=states.device)
    begin, length = (torch.tensor(values, device=states.device).unsqueeze(1) for values in (starts, lengths))
    places = (begin + steps).clamp(max=states.shape[1] - 1)
    return _Part(states[torch.arange(len(starts), device=states.device).unsqueeze(1), places], steps < length)


class _Nearness(NamedTuple):
    """Cosines of a text with the question: of each token, and of the sentence around it; [rows, tokens]."""

    tokens: Tensor
    sentences: Tensor

    @classmethod
    def of(cls, question: _Part, text: _Part, sentences: Sequence[Tokens]) -> "_Nearness":
        cosines = F.normalize(question.states, dim=-1) @ F.normalize(text.states, dim=-1).transpose(1, 2)
        cosines = cosines.masked_fill(~(question.mask.unsqueeze(2) & text.mask.unsqueeze(1)), -1.0)
        numbers = pad_sequence([torch.from_numpy(one - one[0]) for one in sentences], batch_first=True)
        numbers = numbers.to(cosines.device)  # [rows, tokens]
        found = cosines.new_full((*cosines.shape[:2], int(numbers.max()) + 1), -1.0)
        best = found.scatter_reduce(2, numbers.unsqueeze(1).expand_as(cosines), cosines, "amax")
        asked = question.mask.unsqueeze(-1)
        means = (best * asked).sum(dim=1) / asked.sum(dim=1).clamp(min=1)  # [rows, sentences]
        return cls(cosines.max(dim=1).values, means.gather(1, numbers))


def _zeros(width: int, outputs: int) -> nn.Linear:
    # Made on "meta" and filled here: nn.Linear's own initialisation would draw from the global generator.
    layer = nn.Linear(width, outputs, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
    return layer
