# SPDX-License-Identifier: Apache-2.0
"""The skill `mlm`: a toy that is learnt, that nothing but text is used, and the loss for others to use."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from pair_toys import same_bits, texts_silo, tiny, trained
from torch import nn

from fedqa.data.records import Collection
from fedqa.errors import ConfigError, DataError
from fedqa.models.text_pair import pair_of, text_pair
from fedqa.skills import make_skill
from fedqa.skills.corruption import masked
from fedqa.skills.mending import TextFeatures
from fedqa.skills.mlm import Batch, Mlm, MlmOptions, framed, loss_of


@cache
def learnt() -> tuple[Mlm, TextFeatures[Batch], nn.Module]:
    skill = Mlm()
    features = skill.prepare(texts_silo(), tiny(), 0)
    module, _ = trained(skill, features, epochs=40, rate=5e-3, batch=12)
    return skill, features, module


def test_it_learns_to_tell_hidden_words() -> None:
    skill, features, module = learnt()
    before = skill.score(skill.build(tiny(), 0).module, features, "test")
    after = skill.score(module, features, "test")
    assert before["accuracy"].mean() < 0.1 and before["likelihood"].mean() < 0.01
    assert after["accuracy"].mean() > 0.5 and after["likelihood"].mean() > 0.25
    assert features.questions("test") == tuple(f"d{i}" for i in range(25, 36, 2))
    assert len(after["accuracy"]) == len(after["likelihood"]) == 6
    assert after.keys() == {skill.higher_is_better, skill.right}


def test_the_same_seed_gives_the_same_bits_and_the_same_task_to_score() -> None:
    skill, features, _ = learnt()
    runs = [trained(skill, skill.prepare(texts_silo(), tiny(), 0), epochs=2, rate=5e-3)[0] for _ in (0, 1)]
    assert same_bits(*runs)
    again, other = (skill.prepare(texts_silo(), tiny(), seed) for seed in (0, 1))
    assert torch.equal(again.fixed["dev"][0].ids, features.fixed["dev"][0].ids)
    assert not torch.equal(other.fixed["dev"][0].gold, features.fixed["dev"][0].gold)


def test_training_moves_the_encoder_and_the_head_that_fills_but_not_the_decoder() -> None:
    skill, _, module = learnt()
    before = dict(skill.build(tiny(), 0).module.named_parameters())
    moved = {name for name, value in module.named_parameters() if not torch.equal(value, before[name])}
    assert all(name.startswith(("pair.encoder.encoder.", "pair.filling.")) for name in moved)
    assert "pair.filling.dense.weight" in moved


def test_other_questions_and_answers_change_nothing() -> None:
    skill, features, _ = learnt()
    others = tuple(replace(one, question="other", answers=("thing",)) for one in texts_silo().examples)
    found = skill.prepare(replace(texts_silo(), examples=others), tiny(), 0)
    one, other = (next(some.epoch(8, np.random.default_rng(3)))[0] for some in (features, found))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_words_are_chosen_anew_in_every_epoch() -> None:
    _, features, _ = learnt()
    rng = np.random.default_rng(0)
    first, second = (list(features.epoch(24, rng)) for _ in (0, 1))
    assert [n for _, n in first] == [24] and features.n_batches(24) == 1
    golds = [sorted(map(tuple, batches[0][0].gold.tolist())) for batches in (first, second)]
    assert golds[0] != golds[1]


def test_the_loss_for_others_is_that_of_the_words_chosen() -> None:
    pair = text_pair(tiny(), 0).eval()
    ids, mask = framed(pair.framing, [np.arange(2000, 2020), np.arange(2100, 2107)])
    assert ids[1, :9].tolist() == [101, *range(2100, 2107), 102] and mask.sum(dim=1).tolist() == [22, 9]
    given = ids.clone()
    loss = loss_of(pair, ids, mask, np.random.default_rng(5))
    damaged, chosen = masked(ids.numpy(), mask.bool().numpy(), pair.vocabulary, np.random.default_rng(5))
    likely = pair.fill(pair.encode(torch.from_numpy(damaged), mask)).log_softmax(dim=-1)
    by_hand = [likely[row, at, ids[row, at]] for row, at in zip(*np.nonzero(chosen), strict=True)]
    assert len(by_hand) == 3 + 1
    assert loss.item() == pytest.approx(-torch.stack(by_hand).mean().item(), rel=1e-5)
    assert torch.equal(ids, given)
    loss.backward()  # type: ignore[no-untyped-call]
    assert pair.filling.dense.weight.grad is not None and pair.spelling.dense.weight.grad is None


def test_scores_are_means_over_the_words_of_each_text() -> None:
    skill, features, module = learnt()
    (batch,) = features.fixed["dev"]
    pair = pair_of(module)
    with torch.inference_mode():
        likely = pair.fill(pair.encode(batch.ids, batch.mask)).log_softmax(dim=-1)
    scores = skill.score(module, features, "dev")
    for row in range(6):
        places = (batch.gold[row] >= 0).nonzero()[:, 0]
        logs = likely[row, places, batch.gold[row, places]]
        assert scores["likelihood"][row] == pytest.approx(logs.mean().exp().item(), rel=1e-4)
        right = (likely[row, places].argmax(dim=1) == batch.gold[row, places]).double()
        assert scores["accuracy"][row] == pytest.approx(right.mean().item())


def test_a_text_without_a_word_to_tell_scores_nothing() -> None:
    odd = replace(texts_silo().documents[24], text="\U0001f600")  # unknown to the tokenizer
    documents = tuple(odd if document.id == odd.id else document for document in texts_silo().documents)
    skill, _, module = learnt()
    features = skill.prepare(replace(texts_silo(), documents=documents), tiny(), 0)
    scores = skill.score(module, features, "dev")
    assert features.questions("dev")[0] == odd.id
    assert (scores["accuracy"][0], scores["likelihood"][0]) == (0.0, 0.0)


def test_train_and_checks_are_not_scored() -> None:
    skill, features, module = learnt()
    assert features.questions("train") == features.questions("check") == ()
    assert [len(values) for values in skill.score(module, features, "check").values()] == [0, 0]


def test_wrong_options_and_silos_without_text_are_errors() -> None:
    with pytest.raises(ConfigError, match="mlm: max_length must be at least 8, got 7"):
        make_skill("mlm", {"max_length": 7}, "test")
    with pytest.raises(ConfigError, match="mlm: max_length must be at most 512, the positions of 'tiny', got 513"):
        Mlm(MlmOptions(max_length=513)).prepare(texts_silo(), tiny(), 0)
    with pytest.raises(DataError, match="mlm has nothing to train on: there is no document, nor a training question"):
        Mlm().prepare(Collection((), ()), tiny(), 0)
    with pytest.raises(ConfigError, match="mlm has no options for drawing examples"):
        Mlm().check_draws({"x": 1}, "stage")
