# SPDX-License-Identifier: Apache-2.0
import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedqa.models.aligners import Aligner, Block, Esim, Network, Re2, Texts, aligned, aligner, highest, mean, padded
from fedqa.models.backbones import load_backbone
from fedqa.models.encoding import Tokens, tokenised
from fedqa.models.matcher import Pairs, Parts, Scorer
from fedqa.models.tagged import TaggedModel

BACKBONE = load_backbone("tiny", seed=3)
NETWORKS: tuple[Network, ...] = (Esim, Re2)
QUESTIONS = tokenised(BACKBONE.tokenizer, ["who pays?", "what is covered by the policy in winter?", ""], 48)
PASSAGES = tokenised(BACKBONE.tokenizer, ["the insurer pays", "snow", "rain and hail are covered, and storms"], 48)
EVERY_PAIR = [(question, passage) for question in QUESTIONS for passage in PASSAGES]


def built(network: Network, *, biased: bool = False, seed: int = 0) -> TaggedModel:
    return aligner(network, Parts(BACKBONE, torch.Generator().manual_seed(seed), scale=20.0, biased=biased))


def model_of(network: Network, *, biased: bool = False, seed: int = 0) -> Aligner:
    module = built(network, biased=biased, seed=seed).module
    assert isinstance(module, Aligner)
    return module.eval()


def texts(values: Tensor, *lengths: int) -> Texts:
    return Texts(values, torch.arange(values.shape[1]) < torch.tensor(lengths).unsqueeze(1))


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# Parts


def test_alignment_mixes_the_other_texts_states_by_a_softmax_without_padding() -> None:
    # One pair; a has one position, b two and a third of padding, whose affinity and state are huge.
    a = texts(torch.tensor([[[1.0, 2.0]]]), 1)
    b = texts(torch.tensor([[[3.0, 0.0], [0.0, 5.0], [1e9, 1e9]]]), 2)
    affinity = torch.tensor([[[math.log(1.0), math.log(3.0), 1e9]]])  # softmax over two: 1/4 and 3/4
    to_a, to_b = aligned(a, b, affinity)
    assert torch.allclose(to_a, torch.tensor([[[3 / 4, 15 / 4]]]))
    assert torch.allclose(to_b[0, :2], torch.tensor([[1.0, 2.0], [1.0, 2.0]]))  # a has one position to choose from


def test_pooling_does_not_see_padding() -> None:
    text = texts(torch.tensor([[[-1.0, -6.0], [-3.0, -2.0], [9.0, 9.0]]]), 2)
    assert mean(text).tolist() == [[-2.0, -4.0]]
    assert highest(text).tolist() == [[-1.0, -2.0]]


def test_padding_stands_at_the_end_and_a_text_of_no_tokens_is_one_padding_token() -> None:
    rows: list[Tokens] = [np.array([5, 6, 7]), np.array([8]), np.array([], dtype=np.int64)]
    ids, mask = padded(rows, pad=9)
    assert ids.tolist() == [[5, 6, 7], [8, 9, 9], [9, 9, 9]]
    assert mask.tolist() == [[True, True, True], [True, False, False], [True, False, False]]


# References: one pair without padding, computed by hand


def lstm_by_hand(lstm: nn.LSTM, x: Tensor) -> Tensor:
    """Both directions over one text [length, width], gate by gate."""

    def run(x: Tensor, suffix: str) -> list[Tensor]:
        w, u, b, c = (getattr(lstm, f"{name}_l0{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        state, cell, states = torch.zeros(lstm.hidden_size), torch.zeros(lstm.hidden_size), []
        for word in x:
            i, f, g, o = (w @ word + b + u @ state + c).chunk(4)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            state = o.sigmoid() * cell.tanh()
            states.append(state)
        return states

    backwards = run(x.flip(0), "_reverse")[::-1]
    return torch.cat([torch.stack(run(x, "")), torch.stack(backwards)], dim=1)


def prediction_by_hand(predict: nn.Module, x: Tensor) -> float:
    hidden, score = predict.get_submodule("hidden"), predict.get_submodule("score")
    return float(score(F.gelu(hidden(x))))


def mixed_by_hand(affinity: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    shares = affinity.exp()
    return (shares / shares.sum(1, keepdim=True)) @ b, (shares / shares.sum(0, keepdim=True)).T @ a


@torch.no_grad()
def test_esim_is_its_formula() -> None:
    net = Esim(4, torch.Generator().manual_seed(1), biased=False, hidden=3).eval()
    words_a, words_b = drawn(5, 4, seed=2), drawn(2, 4, seed=3)
    a, b = lstm_by_hand(net.encode, words_a), lstm_by_hand(net.encode, words_b)
    pooled = []
    for x, other in zip((a, b), mixed_by_hand(a @ b.T, a, b), strict=True):
        enhanced = torch.cat([x, other, x - other, x * other], dim=1)
        composed = lstm_by_hand(net.compose, net.project(enhanced).clamp(min=0))
        pooled += [composed.sum(0) / len(composed), composed.max(0).values]
    expected = prediction_by_hand(net.predict, torch.cat(pooled))
    assert net(texts(words_a[None], 5), texts(words_b[None], 2)).tolist() == pytest.approx([expected], abs=1e-6)


def convolved_by_hand(layer: nn.Module, x: Tensor) -> Tensor:
    """Three words at a time, zeros before the first and after the last."""
    weight, bias = layer.get_parameter("weight"), layer.get_parameter("bias")
    around = torch.cat([torch.zeros(1, x.shape[1]), x, torch.zeros(1, x.shape[1])])
    return torch.stack([(weight * around[i : i + 3].T).sum((1, 2)) + bias for i in range(len(x))])


def block_by_hand(block: Block, a: Tensor, b: Tensor) -> list[Tensor]:
    sides = []
    for x in (a, b):
        first, second = block.convolutions
        encoded = F.gelu(convolved_by_hand(second, F.gelu(convolved_by_hand(first, x))))
        sides.append(torch.cat([x, encoded], dim=1))
    a, b = sides
    affinity = F.gelu(block.focus(a)) @ F.gelu(block.focus(b)).T * block.temperature
    fused = []
    for x, other in zip((a, b), mixed_by_hand(affinity, a, b), strict=True):
        one, two, three = block.views
        views = [one(torch.cat([x, other], 1)), two(torch.cat([x, x - other], 1)), three(torch.cat([x, x * other], 1))]
        fused.append(F.gelu(block.fuse(F.gelu(torch.cat(views, dim=1)))))
    return fused


@torch.no_grad()
def test_re2_is_its_formula() -> None:
    net = Re2(4, torch.Generator().manual_seed(1), biased=True, hidden=3).eval()
    net.predict.score.bias.fill_(0.7)
    a, b = drawn(5, 4, seed=2), drawn(2, 4, seed=3)
    once_a, once_b = block_by_hand(net.first, a, b)
    twice = block_by_hand(net.second, torch.cat([a, once_a], dim=1), torch.cat([b, once_b], dim=1))
    p, q = (x.max(0).values for x in twice)
    expected = prediction_by_hand(net.predict, torch.cat([p, q, p - q, p * q]))
    assert net(texts(a[None], 5), texts(b[None], 2)).tolist() == pytest.approx([expected], abs=1e-6)


def test_the_temperature_starts_at_one_by_the_root_of_the_width_and_blocks_share_nothing() -> None:
    net = Re2(4, torch.Generator().manual_seed(1), biased=False, hidden=16)
    assert net.first.temperature.item() == net.second.temperature.item() == pytest.approx(1 / 4)
    assert not {id(p) for p in net.first.parameters()} & {id(p) for p in net.second.parameters()}


# Padding


@pytest.mark.parametrize("network", NETWORKS)
def test_a_score_does_not_depend_on_the_pairs_beside_it(network: Network) -> None:
    model = model_of(network)
    with torch.no_grad():
        alone = torch.cat([model.readings([pair]) for pair in EVERY_PAIR])
        assert torch.allclose(model.readings(EVERY_PAIR), alone, rtol=0, atol=1e-6)
        assert torch.allclose(model.readings(EVERY_PAIR[::-1]), alone.flip(0), rtol=0, atol=1e-6)
        assert torch.allclose(model.readings(EVERY_PAIR[3:8]), alone[3:8], rtol=0, atol=1e-6)
    assert alone.std() > 1e-3  # far apart, next to what is allowed


@pytest.mark.parametrize("network", NETWORKS)
def test_what_stands_in_the_padding_has_no_influence_at_all(network: Network) -> None:
    net = network(4, torch.Generator().manual_seed(0), biased=False).eval()
    a, b = drawn(2, 6, 4, seed=1), drawn(2, 5, 4, seed=2)
    scores = net(texts(a, 6, 3), texts(b, 2, 5))
    a[1, 3:], b[0, 2:] = 1e3, -1e3
    assert torch.equal(net(texts(a, 6, 3), texts(b, 2, 5)), scores)


# The model


@pytest.mark.parametrize("network", NETWORKS)
def test_an_aligner_is_a_scorer_that_reads_pairs_and_has_no_vectors(network: Network) -> None:
    model = model_of(network)
    assert isinstance(model, Scorer) and model.reads
    assert model.vectors(PASSAGES).shape == (3, 0)
    assert model.readings([]).shape == (0,)


@pytest.mark.parametrize("network", NETWORKS)
def test_only_wanted_pairs_are_read_and_a_total_is_their_reading(network: Network) -> None:
    model = model_of(network)
    wanted = torch.tensor([[True, False, True], [False, True, False], [False, False, False]])
    scores = model(QUESTIONS, PASSAGES, wanted)
    assert (scores[~wanted] == 0).all()
    chosen = [(QUESTIONS[0], PASSAGES[0]), (QUESTIONS[0], PASSAGES[2]), (QUESTIONS[1], PASSAGES[1])]

    def unused() -> Tensor:
        raise AssertionError("an aligner needs no cosines and no keywords")

    total = model.total(Pairs(chosen, cosines=unused, keywords=unused))
    assert torch.allclose(scores[wanted], total, atol=1e-6)


@pytest.mark.parametrize("network", NETWORKS)
def test_the_word_table_keeps_its_tags_and_all_else_is_the_head(network: Network) -> None:
    model = built(network)
    assert model.tags["words.weight"] == BACKBONE.tags["embeddings.word_embeddings.weight"] == {"embeddings", "words"}
    assert {tags for name, tags in model.tags.items() if name != "words.weight"} == {frozenset({"head"})}


@pytest.mark.parametrize("network", NETWORKS)
def test_gradients_reach_every_parameter_but_the_word_table(network: Network) -> None:
    model = model_of(network, biased=True).train()
    model.readings(EVERY_PAIR).square().sum().backward()
    without = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0}
    assert without == {"words.weight"}


@pytest.mark.parametrize("network", NETWORKS)
def test_a_word_table_that_a_rule_makes_trainable_gets_gradients_and_is_not_the_backbones(network: Network) -> None:
    model = model_of(network)
    table = model.words.get_parameter("weight").requires_grad_(True)
    model.readings(EVERY_PAIR).sum().backward()
    assert table.grad is not None and table.grad.abs().sum() > 0
    own = BACKBONE.encoder.get_input_embeddings().weight
    assert torch.equal(own, table) and own.data_ptr() != table.data_ptr()


@pytest.mark.parametrize("network", NETWORKS)
def test_only_a_biased_score_has_a_constant(network: Network) -> None:
    names = {biased: dict(model_of(network, biased=biased).named_parameters()) for biased in (True, False)}
    assert set(names[True]) - set(names[False]) == {"network.predict.score.bias"}


@pytest.mark.parametrize("network", NETWORKS)
def test_weights_depend_on_the_seed_and_not_on_global_state(network: Network) -> None:
    state = torch.get_rng_state()
    first, same, other = (model_of(network, seed=seed).network.state_dict() for seed in (1, 1, 2))
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert all(not torch.equal(first[name], other[name]) for name, value in first.items() if value.dim() > 1)


@pytest.mark.parametrize("network", NETWORKS)
def test_dropout_works_in_training_only_and_can_be_chosen(network: Network) -> None:
    model = model_of(network)
    assert torch.equal(model.readings(EVERY_PAIR), model.readings(EVERY_PAIR))
    model.train()
    assert not torch.equal(model.readings(EVERY_PAIR), model.readings(EVERY_PAIR))
    assert {m.p for m in model.modules() if isinstance(m, nn.Dropout)} == {0.2}
    without = network(4, torch.Generator(), biased=False, dropout=0.0)  # type: ignore[call-arg]
    assert {m.p for m in without.modules() if isinstance(m, nn.Dropout)} == {0.0}


@pytest.mark.parametrize("network", NETWORKS)
def test_word_vectors_are_scaled_by_a_power_of_two_to_about_unit_size(network: Network) -> None:
    model = model_of(network)
    states, mask = model._embedded(QUESTIONS)
    table = model.words.get_parameter("weight")
    factors = states[mask] / table[torch.from_numpy(np.concatenate([*QUESTIONS[:2], [0]]))]
    (factor,) = factors[~factors.isnan()].unique().tolist()  # 0 / 0 where the padding token of the empty text is zero
    assert factor == 64.0  # the tiny table's entries are drawn from N(0, 0.02): 0.02 * 64 = 1.28, nearest to 1
    assert 2**-0.5 <= table.square().mean().sqrt().item() * factor <= 2**0.5


@pytest.mark.parametrize("network", NETWORKS)
def test_a_copy_of_a_model_scores_the_same(network: Network) -> None:
    model = model_of(network)
    assert torch.equal(copy.deepcopy(model).readings(EVERY_PAIR), model.readings(EVERY_PAIR))
