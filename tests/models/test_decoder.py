# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
from torch import nn

from fedqa.errors import ModelError
from fedqa.models.backbones import load_backbone
from fedqa.models.decoder import DecoderLayer, Kept
from fedqa.models.tagging import layers_of


def layer(seed: int = 0) -> DecoderLayer:
    layers = layers_of(load_backbone("tiny").encoder)
    assert layers is not None
    generator = torch.Generator().manual_seed(seed)
    return DecoderLayer(layers[1], heads=2, dropout=0.0, generator=generator).eval()


def test_it_starts_as_the_encoders_layer_and_reads_by_new_maps() -> None:
    layers = layers_of(load_backbone("tiny").encoder)
    assert layers is not None
    given, made = dict(layers[1].named_parameters()), dict(layer().named_parameters())
    assert torch.equal(made["own.query.weight"], given["attention.self.query.weight"])
    assert torch.equal(made["own.norm.bias"], given["attention.output.LayerNorm.bias"])
    assert torch.equal(made["outer.weight"], given["output.dense.weight"])
    assert torch.equal(made["norm.weight"], given["output.LayerNorm.weight"])
    assert not torch.equal(made["source.query.weight"], given["attention.self.query.weight"])
    again, other = dict(layer().named_parameters()), dict(layer(seed=1).named_parameters())
    assert torch.equal(made["source.key.weight"], again["source.key.weight"])
    assert not torch.equal(made["source.key.weight"], other["source.key.weight"])


def test_step_by_step_is_the_same_as_all_at_once() -> None:
    module, generator = layer(), torch.Generator().manual_seed(3)
    states, source = (torch.randn(2, n, 32, generator=generator) for n in (5, 7))
    mask = torch.ones(2, 1, 1, 7, dtype=torch.bool)
    mask[1, ..., 4:] = False
    read = module.source.keys_and_values(source)
    whole = module(states, read, mask, None, 0)
    kept, parts = Kept(), []
    for i in range(5):
        assert kept.steps == i
        parts.append(module(states[:, i : i + 1], read, mask, kept, 0))
    assert torch.allclose(torch.cat(parts, dim=1), whole, atol=1e-5)


def test_what_is_masked_is_not_read() -> None:
    module, generator = layer(), torch.Generator().manual_seed(3)
    states, source = (torch.randn(1, n, 32, generator=generator) for n in (2, 4))
    mask = torch.tensor([True, True, False, False]).view(1, 1, 1, 4)
    other = source.clone()
    other[:, 2:] += 9
    results = [module(states, module.source.keys_and_values(one), mask, None, 0) for one in (source, other)]
    assert torch.equal(*results)


def test_rows_can_be_taken_several_times() -> None:
    kept = Kept([(torch.arange(6.0).view(3, 1, 2, 1), torch.zeros(3, 1, 2, 1))])
    kept.take(torch.tensor([2, 2, 0]))
    assert kept.layers[0][0].flatten().tolist() == [4, 5, 4, 5, 0, 1]


def test_a_layer_of_another_form_is_refused() -> None:
    with pytest.raises(ModelError, match=r"cannot be made of a Sequential.*take 'embedded'"):
        DecoderLayer(nn.Sequential(nn.Linear(2, 2)), heads=1, dropout=0.0, generator=torch.Generator())
