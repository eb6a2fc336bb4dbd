# SPDX-License-Identifier: Apache-2.0
"""The skill `generate`: a toy that is learnt to the word, its features, and its options."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from pair_toys import ANIMALS, PLACES, same_bits, split_number, tiny, trained
from torch import nn

from fedqa.data.records import Collection, Document, Example, Span
from fedqa.errors import ConfigError, DataError
from fedqa.models.text_pair import pair_of
from fedqa.skills import make_skill
from fedqa.skills.generate import Generate, GenerateFeatures, GenerateOptions
from fedqa.skills.word_losses import writing_loss

OPTIONS = GenerateOptions(max_source=24, max_target=10, beams=3)


def silo() -> Collection:
    examples = []
    for i in range(36):
        animal, place = ANIMALS[i % 6], PLACES[i % 5]
        source, target = f"The {animal} sat in the {place} for days.", f"where was the {animal}?"
        examples.append(Example(f"e{i}", source, answers=(target,), split=split_number(i)))
    return Collection((), tuple(examples))


@cache
def learnt() -> tuple[Generate, GenerateFeatures, nn.Module]:
    skill = Generate(OPTIONS)
    features = skill.prepare(silo(), tiny(), 0)
    module, _ = trained(skill, features, epochs=32, rate=1e-2, batch=12)
    return skill, features, module


def test_it_learns_to_write_what_the_text_says() -> None:
    skill, features, module = learnt()
    found = skill.predict(module, features, "test")
    assert list(found) == list(features.questions("test")) == [f"e{i}" for i in range(25, 36, 2)]
    scores = skill.score(module, features, "test")
    assert scores["em"].mean() > 0.6 and scores["rouge_l"].mean() > 0.9, (
        found
    )  # a wrong animal leaves three words of four
    assert {name: len(values) for name, values in skill.score(module, features, "check").items()} == {
        name: 0 for name in ("rouge_1", "rouge_2", "rouge_l", "bleu_4", "meteor", "em")
    }
    assert scores.keys() >= {skill.higher_is_better, skill.right}


def test_the_same_seed_gives_the_same_bits() -> None:
    skill, features, _ = learnt()
    one, other = (trained(skill, skill.prepare(silo(), tiny(), i), epochs=2, rate=1e-2)[0] for i in (0, 1))
    assert same_bits(one, other)
    assert skill.predict(one, features, "dev") == skill.predict(other, features, "dev")


def test_targets_are_smoothed_in_training_and_not_in_evaluation() -> None:
    skill, features, module = learnt()
    batch, _ = next(features.epoch(4, np.random.default_rng(0)))
    pair = pair_of(module)  # the tiny model has no dropout
    plain, smooth = (
        writing_loss(pair, *pair.read(batch.sources), batch.targets, smoothing=smoothing).item()
        for smoothing in (0.0, 0.1)
    )
    assert skill.loss(module.train(), batch).item() == pytest.approx(smooth)
    assert skill.loss(module.eval(), batch).item() == pytest.approx(plain)
    assert plain != pytest.approx(smooth)


def test_one_of_several_targets_is_drawn_for_each_epoch() -> None:
    targets = ("a cat", "a dog")
    examples = [Example("e", "It sat.", answers=targets, split="train")]
    features = Generate().prepare(Collection((), tuple(examples)), tiny(), 0)
    rng = np.random.default_rng(0)
    drawn = [tiny().tokenizer.decode(batch.targets[0]) for _ in range(20) for batch, _ in features.epoch(4, rng)]
    assert set(drawn) == set(targets)
    assert features.splits["train"][0].accepted == targets


def test_sources_and_targets_are_cut_and_framed() -> None:
    long = Example("e", "cat " * 50, answers=("dog " * 50,), split="train")
    features = Generate(OPTIONS).prepare(Collection((), (long,)), tiny(), 0)
    (told,) = features.splits["train"]
    assert (len(told.source), len(told.targets[0])) == (22, 9)  # room for two special tokens, and for the end


def test_what_is_written_from_is_the_document_an_example_is_about() -> None:
    document = Document("d", "The abstract.")
    example = Example("e", "Title", (Span("d", 0, 3),), answers=("short",), about="d", split="train")
    features = Generate().prepare(Collection((document,), (example,)), tiny(), 0)
    assert tiny().tokenizer.decode(features.splits["train"][0].source) == "the abstract."


def test_examples_without_a_target_are_left_out() -> None:
    empty = replace(silo().examples[0], id="x", answers=())
    features = Generate().prepare(Collection((), (*silo().examples, empty)), tiny(), 0)
    assert features.n_train == 24
    check = replace(silo().examples[0], id="check/e0", split="check")
    features = Generate().prepare(Collection((), (*silo().examples, check)), tiny(), 0)
    assert features.questions("check") == ("check/e0",)


def test_an_epoch_has_every_training_example_once() -> None:
    _, features, _ = learnt()
    batches = list(features.epoch(10, np.random.default_rng(1)))
    assert features.n_batches(10) == 3 and sorted(n for _, n in batches) == [4, 10, 10]
    seen = sorted(id(source) for batch, _ in batches for source in batch.sources)
    assert seen == sorted(id(one.source) for one in features.splits["train"])


def test_training_moves_encoder_and_decoder_but_not_the_head_that_fills() -> None:
    skill, features, _ = learnt()
    module, _ = trained(skill, features, epochs=1, rate=1e-2)
    before = dict(skill.build(tiny(), 0).module.named_parameters())
    moved = {name for name, value in module.named_parameters() if not torch.equal(value, before[name])}
    parts = ("pair.encoder.encoder.", "pair.decoder.", "pair.spelling.")
    assert all(name.startswith(parts) for name in moved)
    assert all(any(name.startswith(part) for name in moved) for part in parts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_source": 7}, "generate: max_source must be at least 8, got 7"),
        ({"beams": 0}, "generate: beams must be at least 1, got 0"),
        ({"no_repeat": -1}, "generate: no_repeat must be at least 0, got -1"),
        ({"min_target": 48}, "generate: min_target must be below max_target = 48, got 48"),
        ({"smoothing": 1.0}, "generate: smoothing must be from 0 to below 1, got 1.0"),
        ({"length_penalty": -1.0}, "generate: length_penalty must be a number from 0, got -1.0"),
    ],
)
def test_wrong_options_are_errors(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_skill("generate", options, "test")


def test_what_cannot_be_learnt_is_an_error_in_words() -> None:
    with pytest.raises(DataError, match="generate has nothing to train on: none of 1 examples is a training example"):
        Generate().prepare(Collection((), (replace(silo().examples[0], split="test"),)), tiny(), 0)
    with pytest.raises(ConfigError, match="generate: max_target must be at most 512, the positions of 'tiny', got 900"):
        Generate(GenerateOptions(max_target=900)).prepare(silo(), tiny(), 0)
    with pytest.raises(ConfigError, match="generate has no options for drawing examples"):
        Generate().check_draws({"x": 1}, "stage")
