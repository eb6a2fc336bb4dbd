# SPDX-License-Identifier: Apache-2.0
"""Frozen lower layers: the same model in two parts, computed once, and not in what is trained."""

import copy

import pytest
import torch
from transformers import AutoModel, BertConfig, DistilBertConfig, RobertaConfig

from fedqa.errors import ConfigError, ModelError
from fedqa.models import trunk as trunk_module
from fedqa.models.backbones import Backbone, frozen_below, load_backbone
from fedqa.models.tagging import tags_of

TINY = load_backbone("tiny")
SMALL = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 50}
CONFIGS = {
    "bert": BertConfig(**SMALL),
    "roberta": RobertaConfig(**SMALL, pad_token_id=1),
    "distilbert": DistilBertConfig(dim=16, n_layers=3, n_heads=2, hidden_dim=32, vocab_size=50),
}


def backbone_of(family: str) -> Backbone:
    torch.manual_seed(0)
    encoder = AutoModel.from_config(CONFIGS[family]).eval()  # type: ignore[no-untyped-call]
    return Backbone(family, encoder, TINY.tokenizer, tags_of(encoder))


def padded() -> dict[str, torch.Tensor]:
    """Two texts, the second shorter."""
    ids = torch.tensor([[5, 9, 7, 30, 6], [5, 8, 6, 1, 1]])
    return {"input_ids": ids, "attention_mask": torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])}


@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize("count", [1, 2])
def test_the_two_parts_give_what_the_whole_gives(family: str, count: int) -> None:
    whole = backbone_of(family)
    parts = frozen_below(whole, count)
    assert parts.trunk is not None
    inputs = padded()
    with torch.no_grad():
        expected = whole.encoder(**inputs).last_hidden_state
        got = parts.encoder(**parts.trunk(inputs)).last_hidden_state
    seen = inputs["attention_mask"].bool()
    assert torch.allclose(got[seen], expected[seen], atol=1e-6)


@pytest.mark.parametrize("family", CONFIGS)
def test_what_is_trained_has_the_upper_layers_alone_with_their_numbers(family: str) -> None:
    whole = backbone_of(family)
    parts = frozen_below(whole, 2)
    assert {tag for tags in parts.tags.values() for tag in tags if tag.startswith("enc.")} == {"enc.2"}
    assert not any("embeddings" in tags for tags in parts.tags.values())
    upper = sum(p.numel() for p in parts.encoder.parameters())
    top = [tags for name, tags in whole.tags.items() if tags & {"enc.2", "pooler"}]
    assert len(top) == len(parts.tags)
    assert upper == sum(
        p.numel() for name, p in whole.encoder.named_parameters() if whole.tags[name] & {"enc.2", "pooler"}
    )


@pytest.mark.parametrize("family", CONFIGS)
def test_the_whole_model_can_be_put_together_again(family: str) -> None:
    whole = backbone_of(family)
    parts = frozen_below(whole, 1)
    assert parts.trunk is not None
    again = parts.trunk.with_layers(parts.encoder)
    assert again.config.num_hidden_layers == 3
    expected = dict(whole.encoder.named_parameters())
    found = dict(again.named_parameters())
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)


def test_a_text_is_computed_once_and_its_bits_do_not_depend_on_its_company() -> None:
    first, second = (frozen_below(TINY, 1).trunk for _ in range(2))
    assert first is not None and second is not None
    both = padded()
    alone = {name: tensor[1:, :3] for name, tensor in both.items()}
    together, by_itself = first(both)["inputs_embeds"], second(alone)["inputs_embeds"]
    assert torch.equal(together[1, :3], by_itself[0])
    first._encoder.forward = None  # type: ignore[assignment, method-assign] # whoever computes again, fails
    assert torch.equal(first(both)["inputs_embeds"], together)


def test_states_computed_while_scoring_can_be_trained_on() -> None:
    parts = frozen_below(TINY, 1)
    assert parts.trunk is not None
    with torch.inference_mode():
        parts.trunk(padded())
    encoder = parts.fresh()
    encoder(**parts.trunk(padded())).last_hidden_state.sum().backward()
    assert all(p.grad is not None for n, p in encoder.named_parameters() if "pooler" not in parts.tags[n])


def test_beyond_its_room_a_text_is_computed_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trunk_module, "KEPT_BYTES", 5 * 32 * 4)  # one text of five tokens
    trunk = frozen_below(TINY, 1).trunk
    assert trunk is not None
    states = trunk(padded())["inputs_embeds"]
    assert len(trunk._states) == 1
    assert torch.equal(trunk(padded())["inputs_embeds"], states)


def test_copies_share_the_trunk_and_its_weights_count_in_the_fingerprint() -> None:
    parts = frozen_below(TINY, 1)
    assert copy.deepcopy(parts.trunk) is parts.trunk
    other = frozen_below(load_backbone("tiny", seed=1), 1)
    assert parts.fingerprint() != other.fingerprint()
    assert parts.fingerprint() == frozen_below(TINY, 1).fingerprint()


def test_none_frozen_is_the_backbone_itself() -> None:
    assert frozen_below(TINY, 0) is TINY


@pytest.mark.parametrize("count", [-1, 2, 7])
def test_a_layer_must_be_left_to_train(count: int) -> None:
    with pytest.raises(ConfigError, match=f"0 to 1 for 'tiny', got {count}"):
        frozen_below(TINY, count)


def test_an_encoder_without_a_list_of_layers_is_refused() -> None:
    from transformers import AlbertConfig

    config = AlbertConfig(hidden_size=16, num_attention_heads=2, intermediate_size=32, vocab_size=50, embedding_size=8)
    encoder = AutoModel.from_config(config)  # type: ignore[no-untyped-call]
    with pytest.raises(ModelError, match="needs an encoder with a list of layers"):
        frozen_below(Backbone("albert", encoder, TINY.tokenizer, tags_of(encoder)), 1)
