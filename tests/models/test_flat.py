# SPDX-License-Identifier: Apache-2.0
"""The flat model: one buffer, parameters as views of it, and a change of stage."""

import pytest
import torch
from toys import toy_model

from fedqa.federation.sharing import Rule, compile_layout
from fedqa.models.flat import FlatModel
from fedqa.models.tagged import TaggedModel

PER_HEAD: Rule = (("words", "frozen"), ("head", "private"), ("enc.1", "synced"), ("*", "shared"))
HEAD_ONLY: Rule = (("head", "private"), ("*", "frozen"))
EVERYTHING: Rule = (("*", "shared"),)


def flat(rule: Rule, changed_before: tuple[str, ...] = ()) -> FlatModel:
    model = toy_model()
    return FlatModel(model, compile_layout(model, rule), changed_before)


def names_of(model: TaggedModel, *starts: str) -> list[str]:
    return [name for name, _ in model.module.named_parameters() if name.startswith(starts)]


def test_the_buffer_is_private_then_shared_then_synced() -> None:
    model, loaded = flat(PER_HEAD), dict(toy_model().module.named_parameters())
    expected = [
        *(loaded[name].reshape(-1) for name in ("head.weight", "head.bias")),
        *(loaded[name].reshape(-1) for name in ("layer0.weight", "layer0.bias", "norm.weight", "norm.bias")),
        *(loaded[name].reshape(-1) for name in ("layer1.weight", "layer1.bias")),
    ]
    assert torch.equal(model.buffer, torch.cat(expected))
    assert [len(part) for part in (model.private, model.shared, model.trainable, model.received)] == [5, 28, 33, 48]
    assert torch.equal(model.loaded_received, torch.cat(expected[2:]))


def test_parameters_are_views_of_the_buffer_and_parts_are_too() -> None:
    model = flat(PER_HEAD)
    model.buffer.zero_()
    assert model.module.head.weight.abs().sum() == 0
    assert model.module.words.weight.abs().sum() > 0
    model.received.fill_(2.0)
    assert model.module.layer0.weight.tolist() == [[2.0] * 4] * 4
    assert model.module.layer1.bias.tolist() == [2.0] * 4
    assert model.private.tolist() == [0.0] * 5


def test_only_private_and_shared_parameters_are_trained() -> None:
    model = flat(PER_HEAD)
    trained = {name for name, p in model.module.named_parameters() if p.requires_grad}
    assert trained == set(names_of(model.model, "head", "layer0", "norm"))


def test_trained_parameters_come_in_the_models_order_whatever_is_shared() -> None:
    model = flat(PER_HEAD)
    by_id = {id(p): name for name, p in model.module.named_parameters()}
    names = [by_id[id(p)] for p in model.trained_parameters()]
    assert names == names_of(model.model, "layer0", "norm", "head")


def test_views_have_the_shapes_of_the_trained_parameters() -> None:
    model = flat(PER_HEAD)
    views = model.trained_views(model.private, model.shared)
    for view, parameter in zip(views, model.trained_parameters(), strict=True):
        assert torch.equal(view, parameter)
    model.private.add_(1)
    assert torch.equal(views[-1], model.module.head.bias)


def test_a_layout_without_private_or_shared_parts_has_empty_ones() -> None:
    nothing = flat((("*", "frozen"),))
    assert nothing.buffer.numel() == 0
    assert nothing.trained_parameters() == []
    assert nothing.state() == {}
    nothing.reset()
    everything = flat(EVERYTHING)
    assert everything.private.numel() == 0
    assert len(everything.trained_views(everything.private, everything.shared)) == 9
    assert everything.received.numel() == 85


def test_a_reset_brings_back_what_was_loaded_for_all_that_is_not_received() -> None:
    model = flat(PER_HEAD)
    before = model.private.clone()
    model.buffer.fill_(9.0)
    model.reset()
    assert torch.equal(model.private, before)


def test_values_are_loaded_by_name() -> None:
    model = flat(PER_HEAD)
    model.load({"head.bias": torch.tensor([7.0]), "norm.weight": torch.arange(4.0)})
    assert model.module.head.bias.item() == 7
    assert model.private[-1] == 7
    assert model.state()["norm.weight"].tolist() == [0, 1, 2, 3]


def test_what_belongs_to_every_silo_alike_cannot_be_overwritten() -> None:
    with pytest.raises(KeyError, match=r"words.weight"):
        flat(PER_HEAD).load({"words.weight": torch.zeros(8, 4)})


def test_the_state_is_all_that_may_differ_from_the_loaded_model() -> None:
    model = flat(PER_HEAD)
    assert set(model.state()) == set(names_of(model.model, "head", "layer", "norm"))


def test_another_stage_starts_from_what_was_loaded() -> None:
    model, loaded = flat(PER_HEAD), toy_model().module.state_dict()
    model.buffer.fill_(9.0)
    model.bind(compile_layout(model.model, EVERYTHING))
    for name, value in model.module.state_dict().items():
        assert torch.equal(value, loaded[name])
    model.buffer.fill_(8.0)
    assert model.module.head.bias.item() == 8
    model.bind(compile_layout(model.model, PER_HEAD))
    assert torch.equal(model.module.words.weight, loaded["words.weight"])


def test_gradients_do_not_pass_from_stage_to_stage() -> None:
    model = flat(EVERYTHING)
    model.module(torch.tensor([[1, 2, 3]])).sum().backward()
    model.bind(compile_layout(model.model, PER_HEAD))
    assert all(p.grad is None for p in model.module.parameters())


def test_what_an_earlier_stage_trained_and_this_one_freezes_is_still_a_silos_own() -> None:
    changed = tuple(names_of(toy_model(), "layer0"))
    once = flat(EVERYTHING)
    once.bind(compile_layout(once.model, HEAD_ONLY), changed)
    fresh = flat(HEAD_ONLY, changed)  # a process that was started in the second stage
    for model in (once, fresh):
        assert set(model.state()) == {"head.weight", "head.bias", *changed}
        before = model.module.layer0.bias.clone()
        model.load({"layer0.bias": torch.full((4,), 3.0)})
        assert model.module.layer0.bias.tolist() == [3.0] * 4
        assert not model.module.layer0.bias.requires_grad
        model.reset()
        assert torch.equal(model.module.layer0.bias, before)


def test_what_only_a_later_stage_trains_is_no_silos_own_yet() -> None:
    model = flat(EVERYTHING)
    model.bind(compile_layout(model.model, HEAD_ONLY))
    assert set(model.state()) == {"head.weight", "head.bias"}


def test_a_model_in_half_precision_is_trained_in_single() -> None:
    model = toy_model()
    model.module.half()
    bound = FlatModel(model, compile_layout(model, PER_HEAD))
    assert bound.buffer.dtype == torch.float32
    assert bound.module.head.weight.dtype == torch.float32
