# SPDX-License-Identifier: Apache-2.0
"""The lowest layers of an encoder, where a course freezes them: what they make of a text is computed once and kept.

A course that freezes 4 of 6 layers trains and sends the upper two; the lower four are no part of the model it trains.
Their output for a text never changes, so from the second epoch on only the upper layers cost anything.
"""

import copy
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from fedqa.models.annotations import PreTrainedModel
from fedqa.models.tagging import layers_of

KEPT_BYTES = 4 << 30  # of states in one process; beyond it a text is computed each time


class Trunk:
    """Embeddings and lower layers, without dropout. Copies of a model share it: it cannot change."""

    def __init__(self, encoder: PreTrainedModel) -> None:
        self._encoder: PreTrainedModel = encoder.train(False).requires_grad_(False)
        self._states: dict[bytes, Tensor] = {}
        self._room = KEPT_BYTES

    def __deepcopy__(self, memo: object) -> "Trunk":
        return self

    def __call__(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The arguments of the upper layers for those of the whole encoder: [texts, length] ids, mask, segments."""
        mask = inputs["attention_mask"]
        rows = [
            self._of({name: tensor[i, : int(mask[i].sum())] for name, tensor in inputs.items()})
            for i in range(len(mask))
        ]
        return {"inputs_embeds": pad_sequence(rows, batch_first=True), "attention_mask": mask}

    def _of(self, text: Mapping[str, Tensor]) -> Tensor:
        key = b"".join(tensor.numpy().tobytes() for tensor in text.values())
        states = self._states.get(key)
        if states is None:
            # A text alone, so that its bits do not depend on which others happened to be computed with it.
            with torch.inference_mode(False), torch.no_grad():
                states = self._encoder(**{name: tensor.unsqueeze(0) for name, tensor in text.items()})[0][0]
            if states.nbytes <= self._room:
                self._states[key] = states
                self._room -= states.nbytes
        return states

    @property
    def lower(self) -> PreTrainedModel:
        """The frozen part itself, to be looked at, not to be changed."""
        return self._encoder

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        yield from self._encoder.named_parameters()

    def with_layers(self, upper: PreTrainedModel) -> PreTrainedModel:
        """The whole encoder: these layers, and above them a copy of `upper`'s."""
        whole: PreTrainedModel = copy.deepcopy(self._encoder)
        above = copy.deepcopy(upper)
        lower, layers = layers_of(whole), layers_of(above)
        assert lower is not None and layers is not None
        lower.extend(layers)
        whole.config.num_hidden_layers = len(lower)
        if isinstance(getattr(above, "pooler", None), nn.Module):
            whole.pooler = above.pooler
        return whole


def cut_below(encoder: PreTrainedModel, count: int) -> Trunk:
    """Take embeddings and the `count` lowest layers out of the encoder, which is fed with their states from now on."""
    lower = copy.deepcopy(encoder)
    _keep_layers(lower, slice(0, count))
    _keep_layers(encoder, slice(count, None))
    _take_states(encoder)
    if hasattr(lower, "pooler"):
        lower.add_module("pooler", None)
    return Trunk(lower)


def _keep_layers(encoder: PreTrainedModel, kept: slice) -> None:
    layers = layers_of(encoder)
    assert layers is not None
    left = list(layers[kept])
    del layers[:]
    layers.extend(left)
    encoder.config.num_hidden_layers = len(left)


def _take_states(encoder: PreTrainedModel) -> None:
    """Let the encoder begin with the states it is given instead of embedding words."""
    words = encoder.get_input_embeddings()
    name = next(name for name, child in encoder.named_children() if words in child.modules())
    setattr(encoder, name, _Given())


class _Given(nn.Module):
    """In place of the embeddings. Models hand `inputs_embeds` over by name, or second in place."""

    def forward(self, *args: Tensor | None, **named: object) -> object:
        return named["inputs_embeds"] if "inputs_embeds" in named else args[1]
