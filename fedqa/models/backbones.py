# SPDX-License-Identifier: Apache-2.0
"""Pretrained models to start from: the embedded one, its first layers, a tiny random one, a folder, a hub name."""

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from fedqa.errors import ConfigError, ModelError
from fedqa.models.annotations import PreTrainedModel, PreTrainedTokenizerBase
from fedqa.models.head import Head, read_head
from fedqa.models.tagged import Tags
from fedqa.models.tagging import layers_of, tags_of
from fedqa.models.trunk import Trunk, cut_below

MODELS: tuple[tuple[str, str], ...] = (
    ("embedded", "all-MiniLM-L6-v2: English encoder, 6 layers, 22.7 M parameters; installed with fedqa"),
    ("embedded:k", "the first k of its 6 layers: faster, and smaller to send"),
    ("tiny", "a random two-layer encoder for tests; it knows nothing"),
    ("FOLDER", "a folder with config.json, model.safetensors and the tokenizer's files, such as `fedqa export` writes"),
    ("NAME", "a Hugging Face name such as bert-base-uncased, from the local cache or the hub"),
)


@dataclass(frozen=True)
class Backbone:
    """A model to start from, never trained itself: skills build on `fresh()` copies of the encoder."""

    spec: str
    encoder: PreTrainedModel  # the whole encoder-decoder where the model is one
    tokenizer: PreTrainedTokenizerBase
    tags: Mapping[str, Tags]
    trunk: Trunk | None = None  # the frozen layers below the encoder, where there are any
    head: Head | None = None  # what was trained with the encoder, in a folder of `fedqa export`

    def fresh(self) -> PreTrainedModel:
        """A copy of the encoder that may be changed and trained."""
        return copy.deepcopy(self.encoder)

    @cached_property
    def frozen(self) -> Trunk:
        """The whole encoder as it was loaded: what it makes of a text is kept, whoever asks."""
        return Trunk(self.trunk.with_layers(self.encoder) if self.trunk else self.fresh())

    def fingerprint(self) -> str:
        """SHA-256 over the names and bytes of the initial weights, the same on every machine."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        trunk = self.trunk.named_parameters() if self.trunk else ()
        head = sorted(self.head.weights.items()) if self.head else ()
        for name, parameter in (*trunk, *self.encoder.named_parameters(), *head):
            digest.update(f"{name} {tuple(parameter.shape)}\n".encode())
            digest.update(parameter.detach().contiguous().numpy().tobytes())
        return digest.hexdigest()


def frozen_below(backbone: Backbone, count: int) -> Backbone:
    """The backbone with its embeddings and `count` lowest layers as a trunk; tags number the layers as before."""
    if not count:
        return backbone
    layers = None if backbone.encoder.config.is_encoder_decoder else layers_of(backbone.encoder)
    if layers is None:
        raise ModelError(f"freeze_layers needs an encoder with a list of layers, and {backbone.spec!r} is none")
    if not 0 < count < len(layers):
        most = len(layers) - 1
        raise ConfigError(f"freeze_layers must leave a layer to train: 0 to {most} for {backbone.spec!r}, got {count}")
    encoder = backbone.fresh()
    tags = {id(parameter): backbone.tags[name] for name, parameter in encoder.named_parameters()}
    trunk = cut_below(encoder, count)
    kept = {name: tags[id(parameter)] for name, parameter in encoder.named_parameters()}
    return replace(backbone, encoder=encoder, tags=kept, trunk=trunk)


def load_backbone(spec: str, seed: int = 0) -> Backbone:
    """The model that `spec` names (see MODELS); `seed` draws the weights that no checkpoint gives."""
    from fedqa.models.pretrained import load  # transformers: seconds, for those alone who load a model

    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(seed)
        encoder, tokenizer = load(spec)
    return Backbone(spec, encoder.train(False), tokenizer, tags_of(encoder), head=read_head(Path(spec).expanduser()))
