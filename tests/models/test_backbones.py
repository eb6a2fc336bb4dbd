# SPDX-License-Identifier: Apache-2.0
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    MPNetConfig,
    MPNetModel,
    PreTrainedModel,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5ForConditionalGeneration,
)

from fedqa.errors import ModelError
from fedqa.models.backbones import MODELS, Backbone, load_backbone
from fedqa.models.tagged import TaggedModel

SMALL: dict[str, Any] = {
    "vocab_size": 30522,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 8,
}


@pytest.fixture(scope="module")
def tiny() -> Backbone:
    return load_backbone("tiny")


@pytest.fixture
def saved(tmp_path: Path, tiny: Backbone) -> Callable[[PreTrainedModel], Path]:
    """Saves a model with a tokenizer, as a user's folder would hold it."""

    def save(model: PreTrainedModel) -> Path:
        model.save_pretrained(tmp_path)
        tiny.tokenizer.save_pretrained(tmp_path)
        return tmp_path

    return save


def count(backbone: Backbone) -> int:
    return sum(parameter.numel() for parameter in backbone.encoder.parameters())


def test_the_embedded_model_is_minilm_with_six_layers() -> None:
    backbone = load_backbone("embedded")
    assert count(backbone) == 22_713_216
    assert {f"enc.{k}" for k in range(6)} < set().union(*backbone.tags.values())
    assert backbone.encoder.config._attn_implementation == "sdpa"
    assert not backbone.encoder.training


def test_the_first_layers_are_those_of_the_whole() -> None:
    # A layer of width 384: attention 4 * (384 * 384 + 384), feed-forward 2 * 384 * 1536 + 1536 + 384, norms 4 * 384.
    layer = 4 * (384 * 384 + 384) + 2 * 384 * 1536 + 1536 + 384 + 4 * 384
    whole, part = load_backbone("embedded"), load_backbone("embedded:2")
    assert count(part) == count(whole) - 4 * layer
    assert part.encoder.config.num_hidden_layers == 2
    weights = dict(whole.encoder.named_parameters())
    assert all(torch.equal(parameter, weights[name]) for name, parameter in part.encoder.named_parameters())


@pytest.mark.parametrize("spec", ["embedded:0", "embedded:7", "embedded:two", "embedded:"])
def test_layers_that_do_not_exist_are_refused(spec: str) -> None:
    with pytest.raises(ModelError, match=rf"'{spec}'.*layers 1 to 6"):
        load_backbone(spec)


def test_tiny_depends_on_its_seed_alone_and_leaves_the_global_generator_alone(tiny: Backbone) -> None:
    torch.manual_seed(99)
    before = torch.get_rng_state()
    same, other = load_backbone("tiny", seed=0), load_backbone("tiny", seed=1)
    assert torch.equal(before, torch.get_rng_state())
    assert tiny.fingerprint() == same.fingerprint() != other.fingerprint()


def test_tiny_is_a_two_layer_encoder_without_dropout(tiny: Backbone) -> None:
    config = tiny.encoder.config
    assert (config.num_hidden_layers, config.hidden_size, config.intermediate_size) == (2, 32, 64)
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.0, 0.0)
    assert len(tiny.tokenizer) == config.vocab_size


def test_a_fresh_copy_can_be_trained_without_touching_the_backbone() -> None:
    backbone = load_backbone("tiny", seed=4)
    before = backbone.fingerprint()
    for parameter in backbone.fresh().parameters():
        parameter.data.zero_()
    assert Backbone("tiny", backbone.encoder, backbone.tokenizer, backbone.tags).fingerprint() == before


def test_the_fingerprint_sees_a_change_of_one_weight() -> None:
    backbone = load_backbone("tiny")
    copy = backbone.fresh()
    next(copy.parameters()).data[0, 0] += 1e-3
    assert Backbone("tiny", copy, backbone.tokenizer, backbone.tags).fingerprint() != backbone.fingerprint()


@pytest.mark.parametrize(
    "model",
    [
        BertModel(BertConfig(**SMALL)),
        RobertaModel(RobertaConfig(**SMALL)),
        MPNetModel(MPNetConfig(**SMALL)),  # has no fused attention
        DistilBertModel(DistilBertConfig(vocab_size=30522, dim=8, hidden_dim=8, n_heads=2, n_layers=2)),
        T5ForConditionalGeneration(
            T5Config(vocab_size=30522, d_model=8, d_kv=4, d_ff=8, num_heads=2, num_layers=2, num_decoder_layers=2)
        ),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_folder_is_loaded_with_the_weights_it_holds(
    model: PreTrainedModel, saved: Callable[[PreTrainedModel], Path]
) -> None:
    backbone = load_backbone(str(saved(model)))
    weights = dict(model.named_parameters())
    assert all(torch.equal(parameter, weights[name]) for name, parameter in backbone.encoder.named_parameters())
    TaggedModel(backbone.encoder, backbone.tags)


def test_a_pooler_that_no_file_holds_is_drawn_from_the_seed(saved: Callable[[PreTrainedModel], Path]) -> None:
    folder = str(saved(BertForMaskedLM(BertConfig(**SMALL))))
    first, again, other = load_backbone(folder), load_backbone(folder), load_backbone(folder, seed=1)
    assert first.fingerprint() == again.fingerprint() != other.fingerprint()


def test_a_file_that_lacks_layers_is_refused(saved: Callable[[PreTrainedModel], Path]) -> None:
    folder = saved(BertModel(BertConfig(**SMALL)))
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"num_hidden_layers": 2', '"num_hidden_layers": 3'))
    with pytest.raises(ModelError, match=r"lacks 16 weights .*encoder\.layer\.2"):
        load_backbone(str(folder))


def test_weights_in_another_file_format_are_refused(saved: Callable[[PreTrainedModel], Path]) -> None:
    folder = saved(BertModel(BertConfig(**SMALL)))
    shutil.move(folder / "model.safetensors", folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"cannot be loaded \(.*model\.safetensors"):
        load_backbone(str(folder))


def test_a_damaged_file_is_refused(saved: Callable[[PreTrainedModel], Path]) -> None:
    folder = saved(BertModel(BertConfig(**SMALL)))
    (folder / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(ModelError, match=r"cannot be loaded \("):
        load_backbone(str(folder))


def test_weights_of_another_shape_are_refused(saved: Callable[[PreTrainedModel], Path]) -> None:
    folder = saved(BertModel(BertConfig(**SMALL)))
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"hidden_size": 8', '"hidden_size": 4'))
    with pytest.raises(ModelError, match=r"cannot be loaded \("):
        load_backbone(str(folder))


def test_an_empty_folder_is_refused_with_what_it_should_hold(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot be loaded .*config\.json, model\.safetensors"):
        load_backbone(str(tmp_path))


def test_a_name_that_cannot_be_had_says_where_it_was_looked_for() -> None:
    with pytest.raises(
        ModelError, match=r"'nobody/no-such-model' is not to be had: looked for .*not on the hub.*give 'embedded'"
    ):
        load_backbone("nobody/no-such-model")


def test_no_name_at_all_is_not_the_current_folder() -> None:
    with pytest.raises(ModelError, match="model '' is not to be had"):
        load_backbone("")


def test_loading_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    load_backbone("embedded:1")
    assert capfd.readouterr() == ("", "")


def test_the_list_of_models_has_a_line_for_each_kind() -> None:
    assert [spec for spec, _ in MODELS] == ["embedded", "embedded:k", "tiny", "FOLDER", "NAME"]
