# SPDX-License-Identifier: Apache-2.0
"""Representations and the contrastive loss, against computations with plain numbers."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from toys import toy_model

from fedqa.errors import ConfigError
from fedqa.models.backbones import load_backbone
from fedqa.models.contrast import check_pair, contrastive, represented, with_contrast_head
from fedqa.skills import make_skill


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / math.sqrt((one @ one) * (other @ other)))


@pytest.mark.parametrize("temperature", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("n_far", [1, 4])
def test_the_loss_is_equation_3(temperature: float, n_far: int) -> None:
    rng = np.random.default_rng(n_far)
    own, near = rng.normal(size=(2, 3, 5))
    far = rng.normal(size=(n_far, 3, 5))
    losses = []
    for item in range(3):
        plus = math.exp(cosine(own[item], near[item]) / temperature)
        minus = sum(math.exp(cosine(own[item], far[silo, item]) / temperature) for silo in range(n_far))
        losses.append(-math.log(plus / (plus + minus)))
    found = contrastive(*(torch.from_numpy(array) for array in (own, near, far)), temperature)
    assert float(found) == pytest.approx(sum(losses) / 3, rel=1e-12)


def test_by_hand_in_the_plane() -> None:
    east, north = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])
    # Like the near and square to the far: -log(e / (e + 1)); the other way round: -log(1 / (1 + e)).
    assert float(contrastive(east, east, north[None], 1.0)) == pytest.approx(math.log(1 + 1 / math.e))
    assert float(contrastive(east, north, east[None], 1.0)) == pytest.approx(math.log(1 + math.e))


def test_it_draws_towards_the_near_and_away_from_the_far() -> None:
    own = torch.tensor([[1.0, 1.0]], requires_grad=True)
    contrastive(own, torch.tensor([[1.0, 0.0]]), torch.tensor([[[0.0, 1.0]]]), 1.0).backward()
    assert own.grad is not None
    assert own.grad[0, 0] < 0 < own.grad[0, 1]


def test_a_representation_is_the_mean_over_tokens_of_decoder_and_head() -> None:
    module = with_contrast_head(toy_model(1), seed=2).module.eval()
    tokens, states = (
        torch.tensor([[1, 2, 3], [4, 5, 6]]),
        torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)),
    )
    found = represented(module, tokens, states)
    _, first, _, _, second = module.contrast
    for row in range(2):
        hidden = module.pair.decode(tokens[row : row + 1], states[row : row + 1], None)[0]
        each = [second(torch.tanh(first(state))) for state in hidden]
        assert torch.allclose(found[row], torch.stack(each).mean(dim=0), atol=1e-6)


def test_without_states_the_decoder_reads_what_the_encoder_makes_of_the_tokens() -> None:
    module = with_contrast_head(toy_model(1), seed=2).module.eval()
    tokens = torch.tensor([[1, 2, 3]])
    own = represented(module, tokens, None)
    assert torch.equal(own, represented(module, tokens, module.pair.encode(tokens, torch.ones_like(tokens))))
    own.sum().backward()
    assert module.layer0.weight.grad is not None  # so the term trains the encoder, too


def test_with_mixed_states_the_encoder_is_not_trained() -> None:
    module = with_contrast_head(toy_model(1), seed=2).module.eval()
    represented(module, torch.tensor([[1, 2, 3]]), torch.zeros(1, 3, 4)).sum().backward()
    assert module.layer0.weight.grad is None
    assert module.layer1.weight.grad is not None


def test_the_head_is_made_from_its_seed_without_global_random_numbers() -> None:
    before = torch.random.get_rng_state()
    one, again, other = (with_contrast_head(toy_model(1), seed) for seed in (2, 2, 3))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(one.module.contrast[1].weight, again.module.contrast[1].weight)
    assert not torch.equal(one.module.contrast[1].weight, other.module.contrast[1].weight)
    assert {tags for name, tags in one.tags.items() if name.startswith("contrast.")} == {frozenset({"head"})}


def test_a_real_pair_has_a_head_of_its_width_and_its_mode_stays() -> None:
    model = make_skill("mlm", {}, "test").build(load_backbone("tiny"), 0)
    model.module.train()
    with_head = with_contrast_head(model, 1).module
    assert with_head.training
    states = torch.zeros(2, 6, with_head.contrast[1].in_features)
    assert represented(with_head, torch.ones(2, 6, dtype=torch.long), states).shape == (
        2,
        with_head.contrast[4].out_features,
    )


def test_a_model_without_an_encoder_decoder_is_refused() -> None:
    check_pair(toy_model().module, "toy")
    with pytest.raises(ConfigError, match=r"skill 'match' has a model without the encoder-decoder .* take classify"):
        check_pair(nn.Linear(1, 1), "match")
