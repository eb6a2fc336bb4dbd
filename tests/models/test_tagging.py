# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from transformers import (
    AlbertConfig,
    AlbertModel,
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    PreTrainedModel,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5ForConditionalGeneration,
)

from fedqa.models.tagged import TaggedModel
from fedqa.models.tagging import layers_of, retagged, tagged_module, tags_of

WIDTH: dict[str, Any] = {"vocab_size": 50, "hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2}


def bert() -> PreTrainedModel:
    return BertModel(BertConfig(num_hidden_layers=3, **WIDTH))


def roberta() -> PreTrainedModel:
    return RobertaModel(RobertaConfig(num_hidden_layers=3, **WIDTH))


def distilbert() -> PreTrainedModel:
    return DistilBertModel(DistilBertConfig(vocab_size=50, dim=8, hidden_dim=8, n_heads=2, n_layers=3))


def t5() -> PreTrainedModel:
    # Two layers, like the two parts inside each T5 encoder layer: the lists must not be confused.
    sizes: dict[str, Any] = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_heads": 2}
    return T5ForConditionalGeneration(T5Config(vocab_size=50, num_layers=2, num_decoder_layers=3, **sizes))


def bart() -> PreTrainedModel:
    sizes: dict[str, Any] = {"d_model": 8, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
    heads: dict[str, Any] = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    return BartForConditionalGeneration(BartConfig(vocab_size=50, encoder_layers=2, decoder_layers=3, **sizes, **heads))


def with_tag(model: PreTrainedModel, tag: str) -> set[str]:
    return {name for name, tags in tags_of(model).items() if tag in tags}


@pytest.mark.parametrize("make", [bert, roberta, distilbert, t5, bart])
def test_every_parameter_is_tagged_once_by_name(make: Callable[[], PreTrainedModel]) -> None:
    model = make()
    TaggedModel(model, tags_of(model))  # raises if names and tags differ
    assert all(tags_of(model).values())


@pytest.mark.parametrize("make", [bert, roberta, distilbert])
def test_an_encoder_has_words_embeddings_and_numbered_layers(make: Callable[[], PreTrainedModel]) -> None:
    model = make()
    assert with_tag(model, "words") == {"embeddings.word_embeddings.weight"}
    embeddings = {f"embeddings.{name}" for name, _ in model.embeddings.named_parameters()}
    assert with_tag(model, "embeddings") == embeddings
    layers = layers_of(model)
    assert layers is not None
    for k in range(3):
        assert len(with_tag(model, f"enc.{k}")) == len(list(layers[k].parameters()))
    assert not with_tag(model, "enc.3") and not with_tag(model, "other") and not with_tag(model, "lm_head")


@pytest.mark.parametrize(("make", "count"), [(bert, 14), (roberta, 14), (distilbert, 14), (t5, 15), (bart, 30)])
def test_norms_are_tagged_besides_their_place(make: Callable[[], PreTrainedModel], count: int) -> None:
    # Encoders: two in each of 3 layers and one after the embeddings, each with weight and bias: 7 * 2.
    # T5: 2 * 2 + 1 in the encoder, 3 * 3 + 1 in the decoder, without bias. BART: as many, with bias.
    tags = [entry for entry in tags_of(make()).values() if "norm" in entry]
    assert len(tags) == count
    assert all(len(entry) == 2 for entry in tags)


def test_the_pooler_is_tagged_where_there_is_one() -> None:
    assert with_tag(bert(), "pooler") == {"pooler.dense.weight", "pooler.dense.bias"}
    assert with_tag(distilbert(), "pooler") == set()


@pytest.mark.parametrize("make", [t5, bart])
def test_an_encoder_decoder_has_layers_of_both_halves(make: Callable[[], PreTrainedModel]) -> None:
    tags = set().union(*tags_of(make()).values())
    assert {"enc.0", "enc.1", "dec.0", "dec.1", "dec.2"} <= tags
    assert not tags & {"enc.2", "dec.3"}


@pytest.mark.parametrize(("make", "table"), [(t5, "shared.weight"), (bart, "model.shared.weight")])
def test_a_tied_table_is_one_parameter_with_the_tags_of_both_uses(
    make: Callable[[], PreTrainedModel], table: str
) -> None:
    assert tags_of(make())[table] == {"embeddings", "words", "lm_head"}


def test_an_untied_output_layer_is_no_word_table() -> None:
    model = t5()
    model.lm_head.weight = nn.Parameter(torch.zeros(50, 8))
    assert tags_of(model)["lm_head.weight"] == {"lm_head"}
    assert tags_of(model)["shared.weight"] == {"embeddings", "words"}


def test_tables_outside_the_layers_are_embeddings_and_those_inside_are_not() -> None:
    assert tags_of(bart())["model.encoder.embed_positions.weight"] == {"embeddings"}
    inside = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    assert tags_of(t5())[inside] == {"enc.0"}


def test_a_norm_after_the_last_layer_is_other() -> None:
    assert tags_of(t5())["encoder.final_layer_norm.weight"] == {"other", "norm"}


def test_layers_that_share_their_weights_have_no_numbers() -> None:
    model = AlbertModel(AlbertConfig(num_hidden_layers=3, embedding_size=4, **WIDTH))
    assert layers_of(model) is None
    assert set().union(*tags_of(model).values()) == {"words", "embeddings", "norm", "pooler", "other"}


def test_tags_move_under_a_prefix_and_a_module_can_be_added() -> None:
    tags = retagged({"a.weight": frozenset({"enc.0"})}, "encoder")
    tags |= tagged_module("encoder.a.patch", nn.Linear(2, 1), "patch", "enc.0")
    assert tags == {
        "encoder.a.weight": {"enc.0"},
        "encoder.a.patch.weight": {"patch", "enc.0"},
        "encoder.a.patch.bias": {"patch", "enc.0"},
    }


def test_a_patch_inserted_into_a_layer_fits_the_tags() -> None:
    model = bert()
    tags, layers = tags_of(model), layers_of(model)
    assert layers is not None
    layers[1].patch = nn.Linear(8, 8)
    TaggedModel(model, tags | tagged_module("encoder.layer.1.patch", layers[1].patch, "patch"))


def test_tags_that_miss_a_parameter_are_refused() -> None:
    with pytest.raises(ValueError, match="do not cover the parameters"):
        TaggedModel(nn.Linear(2, 1), {"weight": frozenset({"head"})})
