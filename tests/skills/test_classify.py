# SPDX-License-Identifier: Apache-2.0
"""The skill `classify`: labels from a silo's answers, a toy that is learnt, and what cannot be classified."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from pair_toys import ANIMALS, PLACES, same_bits, split_number, tiny, trained
from torch import nn

from fedqa.data.records import Collection, Document, Example, Span
from fedqa.errors import ConfigError, DataError
from fedqa.models.backbones import frozen_below
from fedqa.skills import make_skill
from fedqa.skills.classify import Classify, ClassifyFeatures, ClassifyOptions


def silo() -> Collection:
    """The last three animals are wild."""
    examples = [
        Example(
            f"e{i}",
            f"The {ANIMALS[i % 12]} sat in the {PLACES[i % 5]}.",
            answers=("wild" if i % 12 >= 9 else "tame",),
            split=split_number(i),
        )
        for i in range(36)
    ]
    return Collection((), tuple(examples))


@cache
def learnt() -> tuple[Classify, ClassifyFeatures, nn.Module]:
    skill = Classify()
    features = skill.prepare(silo(), tiny(), 0)
    module, _ = trained(skill, features, epochs=25, rate=3e-3)
    return skill, features, module


def test_it_learns_which_animals_are_wild() -> None:
    skill, features, module = learnt()
    untrained = skill.build(tiny(), 0).module
    assert skill.score(untrained, features, "test")["accuracy"].mean() < 1
    assert skill.score(module, features, "test")["accuracy"].tolist() == [1.0] * 6
    assert skill.predict(module, features, "test")["e33"] == "wild"
    assert skill.predict(module, features, "dev")["e24"] == "tame"
    assert skill.score(module, features, "check")["accuracy"].tolist() == []
    assert (skill.higher_is_better, skill.right) == ("accuracy", "accuracy")


def test_the_same_seed_gives_the_same_bits() -> None:
    skill, _, module = learnt()
    again, _ = trained(skill, skill.prepare(silo(), tiny(), 5), epochs=25, rate=3e-3)
    assert same_bits(module, again)
    assert not same_bits(skill.build(tiny(), 0).module, skill.build(tiny(), 1).module)


def test_training_moves_encoder_and_head_and_nothing_else() -> None:
    skill, _, module = learnt()
    before = dict(skill.build(tiny(), 0).module.named_parameters())
    moved = {name for name, value in module.named_parameters() if not torch.equal(value, before[name])}
    assert all(name.startswith(("pair.encoder.encoder.", "head.")) for name in moved)
    assert {"head.weight", "pair.encoder.encoder.layer.0.attention.self.query.weight"} <= moved


def test_labels_are_those_of_training_in_the_order_of_the_alphabet() -> None:
    more = replace(silo().examples[0], id="odd", split="test", answers=("extinct",))
    _, features, module = learnt()
    found = Classify().prepare(Collection((), (*silo().examples, more)), tiny(), 0)
    assert found.labels == features.labels == ("tame", "wild")
    assert found.questions("test")[-1] == "odd"
    assert Classify().score(module, found, "test")["accuracy"].tolist() == [1.0] * 6 + [0.0]  # a label nobody taught


def test_labels_can_be_named_for_silos_that_share_the_head() -> None:
    skill = make_skill("classify", {"labels": ["wild", "tame", "extinct"]}, "test")
    features = skill.prepare(silo(), tiny(), 0)
    assert isinstance(features, ClassifyFeatures)
    assert features.labels == ("wild", "tame", "extinct")
    assert dict(skill.build(tiny(), 0).module.named_parameters())["head.weight"].shape == (3, 32)
    assert [text.labels for text in features.splits["train"]][:10] == [(1,)] * 9 + [(0,)]


def test_room_for_more_labels_takes_no_part_in_the_loss() -> None:
    skill, features, module = learnt()
    batch, _ = next(features.epoch(8, np.random.default_rng(0)))
    head = dict(module.named_parameters())["head.bias"]
    before = skill.loss(module.eval(), batch)
    with torch.no_grad():
        head[2:] += 100
    after = skill.loss(module, batch)
    with torch.no_grad():
        head[2:] -= 100
    assert torch.equal(before, after)
    logits = module(batch.texts)[:, :2].softmax(dim=1)
    assert before.item() == pytest.approx(-logits[range(8), batch.labels].log().mean().item(), rel=1e-5)


def test_an_epoch_has_every_training_text_once() -> None:
    _, features, _ = learnt()
    batches = list(features.epoch(7, np.random.default_rng(1)))
    assert features.n_batches(7) == 4
    assert sorted(n for _, n in batches) == [3, 7, 7, 7]
    seen = [id(text) for batch, _ in batches for text in batch.texts]
    assert sorted(seen) == sorted(id(text.tokens) for text in features.splits["train"])


def test_a_text_is_the_document_an_example_is_about_and_never_its_evidence() -> None:
    about = Example("a", "What is it?", answers=("x",), about="d", split="train")
    rows = Example("b", "It rained.", (Span("label", 0, 1),), answers=("y",), split="train")
    documents = (Document("d", "A long story."), Document("label", "y"))
    features = Classify().prepare(Collection(documents, (about, rows)), tiny(), 0)
    tokens = [tiny().tokenizer.decode(text.tokens) for text in features.splits["train"]]
    assert tokens == ["a long story.", "it rained."]


def test_it_goes_with_frozen_layers() -> None:
    skill, features, _ = learnt()
    upper = skill.build(frozen_below(tiny(), 1), 0).module
    whole = skill.build(tiny(), 0).module
    texts = [text.tokens for text in features.splits["test"]]
    assert torch.allclose(upper.eval()(texts), whole.eval()(texts), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": ("a",)}, "classify: labels must be two or more different ones, got a"),
        ({"labels": ("a", "b", "a")}, "two or more different ones, got a, b, a"),
        ({"classes": 1}, "classify: classes must be at least 2, got 1"),
        ({"max_length": 7}, "classify: max_length must be at least 8, got 7"),
    ],
)
def test_wrong_options_are_errors(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_skill("classify", options, "test")


def test_what_cannot_be_learnt_is_an_error_in_words() -> None:
    one = replace(silo().examples[0], answers=("tame",))
    with pytest.raises(DataError, match="nothing to train on: the training examples have 1 labels, where it needs two"):
        Classify().prepare(Collection((), (one,)), tiny(), 0)
    with pytest.raises(DataError, match="the training examples have 0 labels"):
        Classify().prepare(Collection((), (replace(one, answers=()),)), tiny(), 0)
    many = tuple(replace(one, id=str(i), answers=(str(i),)) for i in range(9))
    with pytest.raises(DataError, match="have 9 labels, such as '0', and there is room for 8; raise classes"):
        Classify().prepare(Collection((), many), tiny(), 0)
    with pytest.raises(DataError, match="the label 'tame' is none of wild, mild; add it to labels"):
        Classify(ClassifyOptions(labels=("wild", "mild"))).prepare(silo(), tiny(), 0)
    with pytest.raises(DataError, match="the example 'e0' is in no split"):
        unsplit = tuple(replace(example, split=None) for example in silo().examples[:1])
        Classify().prepare(Collection((), (*silo().examples, *unsplit)), tiny(), 0)
    with pytest.raises(ConfigError, match="classify: max_length must be at most 512, the positions of 'tiny', got 600"):
        Classify(ClassifyOptions(max_length=600)).prepare(silo(), tiny(), 0)
    with pytest.raises(ConfigError, match="classify has no options for drawing examples, got 'sources'"):
        Classify().check_draws({"sources": 1}, "stage")
