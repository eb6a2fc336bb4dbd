# SPDX-License-Identifier: Apache-2.0
"""A pretrained encoder-decoder (T5, BART and the like) as it is: a text in, a text out, by its own vocabulary."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from fedqa.errors import ModelError
from fedqa.models.backbones import Backbone
from fedqa.models.encoding import Framing
from fedqa.models.search import PIECE, Allowed, Likely, Rule, Search, Step, Written, searched
from fedqa.models.seq2seq import Logits, Memory, Source, Target, padded_targets, read_texts, steps_tensor
from fedqa.models.tagged import TaggedModel
from fedqa.models.tagging import retagged


class TextWriter(nn.Module):
    """Every step is a piece; nothing is copied, so the items of sources and their words do not count."""

    def __init__(self, model: PreTrainedModel, framing: Framing) -> None:
        super().__init__()
        self.model, self.framing = model, framing
        config = model.config
        self._start = Step(PIECE, int(config.decoder_start_token_id))
        self._end = Step(PIECE, int(config.eos_token_id))

    def encode(self, sources: Sequence[Source]) -> Memory:
        text, mask = read_texts([source.tokens for source in sources], self.framing, self._encoded)
        rows, device = len(sources), text.device
        none = torch.zeros(rows, dtype=torch.long, device=device)
        nothing = text.new_zeros(1, 0, text.shape[-1])
        no_words = torch.zeros(rows, 0, 2, dtype=torch.long, device=device)
        return Memory(text, mask, nothing, nothing[..., 0].bool(), none, no_words, none)

    def _encoded(self, inputs: dict[str, Tensor]) -> Tensor:
        given = {name: tensor.to(self.model.device) for name, tensor in inputs.items()}
        states: Tensor = self.model.get_encoder()(**given)[0]
        return states

    def logits(self, memory: Memory, targets: Sequence[Target]) -> Logits:
        gold = padded_targets(targets, memory.text.device)[..., 1]
        start = gold.new_full((len(gold), 1), self._start.index)
        given = torch.cat([start, gold[:, :-1].clamp(min=0)], dim=1)
        return Logits(self.decoded(memory, given, None), gold)

    def write(self, memory: Memory, search: Search, rules: Sequence[Rule] | None = None) -> list[list[Written]]:
        if rules is not None:
            raise ModelError("rules bind what a pointer writes; a pretrained encoder-decoder knows no grammar")
        with torch.inference_mode():
            return searched(_Stepper(self, memory), len(memory.text), search, end=self._end)

    def decoded(self, memory: Memory, ids: Tensor, kept: EncoderDecoderCache | None) -> Tensor:
        """Scores [rows, steps, vocabulary] after ids [rows, steps], which follow those that `kept` has seen."""
        output = self.model(
            encoder_outputs=BaseModelOutput(last_hidden_state=memory.text),  # type: ignore[arg-type]
            attention_mask=memory.text_mask.long(),
            decoder_input_ids=ids,
            past_key_values=kept,
            use_cache=kept is not None,
        )
        logits: Tensor = output.logits
        return logits

    @property
    def start(self) -> Step:
        return self._start


class _Stepper:
    def __init__(self, writer: TextWriter, memory: Memory) -> None:
        self._writer, self._memory = writer, memory
        self._kept = EncoderDecoderCache(DynamicCache(), DynamicCache())

    def likely(self, last: Sequence[Step | None], k: int, allowed: Sequence[Allowed] | None) -> list[list[Likely]]:
        steps = steps_tensor(last, self._writer.start, self._memory.text.device)
        logits = self._writer.decoded(self._memory, steps[..., 1], self._kept)
        best = F.log_softmax(logits[:, -1], dim=-1).topk(k, dim=-1)
        return [
            [Likely(value, Step(PIECE, piece)) for value, piece in zip(values, pieces, strict=True)]
            for values, pieces in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]

    def take(self, rows: Sequence[int]) -> None:
        at = torch.tensor(rows, device=self._memory.text.device)
        self._memory = self._memory.take(at)
        self._kept.batch_select_indices(at)


def text_writer(backbone: Backbone) -> TaggedModel:
    """The backbone's encoder-decoder, whole; its tags are its own."""
    if not backbone.encoder.config.is_encoder_decoder:
        raise ModelError(f"{backbone.spec!r} is no encoder-decoder; take one such as t5-small, or make a pointer of it")
    module = TextWriter(backbone.fresh(), Framing(backbone.tokenizer, segments=False))
    return TaggedModel(module, retagged(backbone.tags, "model"))
