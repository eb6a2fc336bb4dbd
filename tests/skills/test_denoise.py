# SPDX-License-Identifier: Apache-2.0
"""The skill `denoise`: a toy that is learnt, that nothing but text is used, and the loss for others to use."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from pair_toys import same_bits, texts_silo, tiny, trained
from torch import nn

from fedqa.data.records import Collection
from fedqa.errors import ConfigError, DataError
from fedqa.models.text_pair import text_pair
from fedqa.skills import make_skill
from fedqa.skills.corruption import damaged
from fedqa.skills.denoise import Batch, Denoise, loss_of
from fedqa.skills.mending import TextFeatures
from fedqa.skills.word_losses import writing_loss


@cache
def learnt() -> tuple[Denoise, TextFeatures[Batch], nn.Module]:
    skill = Denoise()
    features = skill.prepare(texts_silo(), tiny(), 0)
    module, _ = trained(skill, features, epochs=12, rate=1e-2, batch=12)
    return skill, features, module


def test_it_learns_to_write_texts_again() -> None:
    skill, features, module = learnt()
    before = skill.score(skill.build(tiny(), 0).module, features, "test")
    after = skill.score(module, features, "test")
    assert before["accuracy"].mean() < 0.1
    assert after["accuracy"].mean() > 0.7 and after["likelihood"].mean() > 100 * before["likelihood"].mean()
    assert len(after["accuracy"]) == len(features.questions("test")) == 6
    assert after.keys() == {skill.higher_is_better, skill.right}


def test_the_same_seed_gives_the_same_bits_and_the_same_task_to_score() -> None:
    skill, features, _ = learnt()
    runs = [trained(skill, skill.prepare(texts_silo(), tiny(), 0), epochs=1, rate=1e-2)[0] for _ in (0, 1)]
    assert same_bits(*runs)
    again, other = (skill.prepare(texts_silo(), tiny(), seed) for seed in (0, 1))

    def noisy(some: TextFeatures[Batch]) -> list[list[int]]:
        return [text.tolist() for text in some.fixed["dev"][0].damaged]

    assert noisy(again) == noisy(features) != noisy(other)


def test_training_moves_both_halves_but_not_the_head_that_fills() -> None:
    skill, _, module = learnt()
    before = dict(skill.build(tiny(), 0).module.named_parameters())
    moved = {name for name, value in module.named_parameters() if not torch.equal(value, before[name])}
    parts = ("pair.encoder.encoder.", "pair.decoder.", "pair.spelling.")
    assert all(name.startswith(parts) for name in moved)
    assert all(any(name.startswith(part) for name in moved) for part in parts)


def test_other_questions_and_answers_change_nothing() -> None:
    skill, features, _ = learnt()
    others = tuple(replace(one, question="other", answers=("thing",)) for one in texts_silo().examples)
    found = skill.prepare(replace(texts_silo(), examples=others), tiny(), 0)
    one, other = (next(some.epoch(8, np.random.default_rng(3)))[0] for some in (features, found))
    for a, b in zip((*one.damaged, *one.whole), (*other.damaged, *other.whole), strict=True):
        assert np.array_equal(a, b)


def test_what_is_to_be_written_is_the_whole_text() -> None:
    _, features, _ = learnt()
    texts = {tuple(text.tokens.tolist()) for text in features.splits["train"]}
    rng = np.random.default_rng(0)
    for batch, n in features.epoch(5, rng):
        assert n == len(batch.whole) == len(batch.damaged)
        assert {tuple(text.tolist()) for text in batch.whole} <= texts
        assert all(103 in text for text in batch.damaged)


@pytest.mark.parametrize("padded", [False, True])
def test_the_loss_for_others_takes_bare_texts_and_padded_ones(padded: bool) -> None:
    pair = text_pair(tiny(), 0).eval()
    texts = [np.arange(2000, 2020), np.arange(2100, 2107)]
    given = [torch.from_numpy(text) for text in texts]
    if padded:
        rows = [torch.cat([torch.tensor([101]), row, torch.tensor([102])]) for row in given]
        given = list(torch.nn.utils.rnn.pad_sequence(rows, batch_first=True))
    loss = loss_of(pair, torch.stack(given) if padded else given, np.random.default_rng(5))
    rng = np.random.default_rng(5)
    noisy = [damaged(text, pair.vocabulary, rng) for text in texts]
    expected = writing_loss(pair, *pair.read(noisy), texts)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    loss.backward()  # type: ignore[no-untyped-call]
    assert pair.spelling.dense.weight.grad is not None and pair.filling.dense.weight.grad is None


def test_wrong_options_and_silos_without_text_are_errors() -> None:
    with pytest.raises(ConfigError, match="denoise: max_length must be at least 8, got 7"):
        make_skill("denoise", {"max_length": 7}, "test")
    with pytest.raises(DataError, match="denoise has nothing to train on: there is no document"):
        Denoise().prepare(Collection((), ()), tiny(), 0)
    with pytest.raises(ConfigError, match="denoise has no options for drawing examples"):
        Denoise().check_draws({"x": 1}, "stage")
