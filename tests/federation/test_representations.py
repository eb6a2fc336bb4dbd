# SPDX-License-Identifier: Apache-2.0
"""Representations of the probe set: how they are packed, who gets whose, and the term that is made of them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from at_home import NAMES, Between, homes
from torch import Tensor

from fedqa.errors import BoundaryError, ConfigError
from fedqa.federation import wire
from fedqa.federation.channels import REPRESENTATIONS
from fedqa.federation.messages import Contribution, Exchange
from fedqa.federation.probe import STATES, TOKENS
from fedqa.federation.representations import (
    FAR,
    NEAR,
    RepresentationOptions,
    answer,
    contrast,
    packed,
    unpacked,
)
from fedqa.models.contrast import contrastive, represented

ITEMS = 6
PLAIN = RepresentationOptions(coordinates=4, items_per_step=ITEMS)
# ash and birch were mixed, cedar with ash, dogwood stayed alone
MIXTURE = {
    "ash": {"ash": 0.6, "birch": 0.4, "cedar": 0.0, "dogwood": 0.0},
    "birch": {"ash": 0.6, "birch": 0.4, "cedar": 0.0, "dogwood": 0.0},
    "cedar": {"ash": 0.5, "birch": 0.0, "cedar": 0.5, "dogwood": 0.0},
    "dogwood": {"ash": 0.0, "birch": 0.0, "cedar": 0.0, "dogwood": 1.0},
}


def between(options: RepresentationOptions = PLAIN, mixture: Any = MIXTURE, **changes: Any) -> Between:
    """Four silos that have the same probe set."""
    made = homes(options)
    rng = torch.Generator().manual_seed(0)
    probe = {TOKENS: torch.randint(8, (ITEMS, 5), generator=rng), STATES: torch.randn(ITEMS, 5, 4, generator=rng)}
    for home in made.values():
        home.inbox |= probe
    return Between("representations", made, options, mixture, **changes)


def vectors(found: Between, silo: str) -> Tensor:
    home = found.homes[silo]
    with torch.no_grad():
        own = represented(home.model.eval(), home.inbox[TOKENS], home.inbox[STATES])
    return torch.nn.functional.pad(own, (0, 4))  # widths travel in whole bytes: 4 become 8


# -- few coordinates, as bytes -----------------------------------------------------------------------------------


def test_the_largest_coordinates_come_back_to_within_half_a_step_and_the_rest_are_zero() -> None:
    given = torch.randn(7, 24, generator=torch.Generator().manual_seed(1))
    back = unpacked(packed(given, 10))
    largest = given.abs() >= given.abs().sort(dim=-1, descending=True).values[:, 9:10]
    assert torch.equal(back != 0, largest)
    step = given.abs().amax(dim=-1, keepdim=True) / 127
    assert bool(((back - given).abs() <= 0.5001 * step)[largest].all())


@pytest.mark.parametrize("width", [1, 4, 8, 13])
def test_all_coordinates_may_be_sent_and_a_width_is_filled_up_to_whole_bytes(width: int) -> None:
    given = torch.randn(3, width, generator=torch.Generator().manual_seed(width))
    back = unpacked(packed(given, 1000))
    assert back.shape == (3, -(-width // 8) * 8)
    assert torch.allclose(back[:, :width], given, atol=0.02)
    assert not back[:, width:].any()
    assert not unpacked(packed(torch.zeros(2, 8), 3)).any()


def test_bytes_before_and_after() -> None:
    """A quarter of the coordinates of 256 vectors of width 128: a tenth of the bytes, and nearly the same direction."""
    given = torch.randn(256, 128, generator=torch.Generator().manual_seed(2))
    sizes = [
        wire.size(Contribution("ash", "f" * 64, 5, "representations", "represent", t))
        for t in ({"v": given}, packed(given, 32))
    ]
    assert sizes[0] > 256 * 128 * 4
    assert 256 * (16 + 32 + 4) < sizes[1] < 256 * (16 + 32 + 4) + 600
    assert sizes[0] / sizes[1] > 9
    alike = torch.cosine_similarity(unpacked(packed(given, 32)), given, dim=-1)
    assert float(alike.mean()) > 0.8


SOUND = packed(torch.ones(2, 3, 8), 2)


@pytest.mark.parametrize(
    "change",
    [
        {"bytes": SOUND["bytes"][:1]},
        {"bytes": SOUND["bytes"][..., :1]},  # fewer values than places
        {"bytes": SOUND["bytes"].float()},
        {"scale": SOUND["scale"][:, :2]},
        {"places": torch.zeros(2, 3, 1, dtype=torch.uint8)},
        {"places": torch.zeros(2, 3, 1, dtype=torch.int8)},
    ],
)
def test_what_does_not_fit_together_is_malformed(change: dict[str, Tensor]) -> None:
    assert unpacked(SOUND).shape == (2, 3, 8)
    with pytest.raises(BoundaryError, match="malformed"):
        unpacked({**SOUND, **change})
    with pytest.raises(BoundaryError, match="malformed"):
        unpacked({name: tensor for name, tensor in SOUND.items() if name not in change})


# -- who gets whose ----------------------------------------------------------------------------------------------


def test_a_silo_gets_the_mean_of_its_neighbours_and_each_of_the_others() -> None:
    found = between().relay()
    ash, cedar = found.homes["ash"].inbox, found.homes["cedar"].inbox
    assert torch.allclose(ash[NEAR], vectors(found, "birch"), atol=0.02)
    assert torch.allclose(ash[FAR], torch.stack([vectors(found, "cedar"), vectors(found, "dogwood")]), atol=0.02)
    assert torch.allclose(cedar[NEAR], vectors(found, "ash"), atol=0.02)
    assert found.refused == []


def test_several_neighbours_are_averaged_without_oneself() -> None:
    mixture = {**MIXTURE, "dogwood": {"ash": 0.1, "birch": 0.0, "cedar": 0.3, "dogwood": 0.6}}
    found = between(mixture=mixture).relay()
    mean = (vectors(found, "ash") + vectors(found, "cedar")) / 2
    assert torch.allclose(found.homes["dogwood"].inbox[NEAR], mean, atol=0.02)
    assert found.homes["dogwood"].inbox[FAR].shape == (1, ITEMS, 8)


def test_a_silo_without_neighbours_gets_nothing() -> None:
    assert NEAR not in between().relay().homes["dogwood"].inbox


@pytest.mark.parametrize("mixture", [{}, {name: dict.fromkeys(NAMES, 0.25) for name in NAMES}])
def test_before_the_first_mixture_and_after_one_of_all_nothing_is_asked(mixture: Mapping[str, Any]) -> None:
    assert between(mixture=mixture).relay().heard == []


def test_what_is_delivered_names_nobody() -> None:
    found = between().relay()
    (_, requests) = found.sent[-1]
    assert all(set(tensors) == {"places", "bytes", "scale", "near"} for tensors in requests.values())
    assert set(requests) == {"ash", "birch", "cedar"}


def test_of_the_others_only_the_farthest_may_be_taken() -> None:
    found = between(replace(PLAIN, negatives=1)).relay()
    own = vectors(found, "ash").flatten()
    far = {
        name: float(torch.cosine_similarity(own, vectors(found, name).flatten(), dim=0))
        for name in ("cedar", "dogwood")
    }
    assert torch.allclose(found.homes["ash"].inbox[FAR], vectors(found, min(far, key=far.__getitem__))[None], atol=0.02)


def test_a_silo_that_does_not_answer_is_missing_among_the_others() -> None:
    found = between(lost=lambda step, silo, time: silo == "birch").relay()
    assert NEAR not in found.homes["ash"].inbox  # its only neighbour is away
    assert torch.allclose(found.homes["cedar"].inbox[FAR], vectors(found, "dogwood")[None], atol=0.02)


def test_a_silo_without_the_probe_set_is_left_out() -> None:
    missing = between()
    del missing.homes["cedar"].inbox[TOKENS]
    missing.relay()
    assert missing.refused == [("cedar", "no_probe")]
    assert missing.homes["ash"].inbox[FAR].shape == (1, ITEMS, 8)


@pytest.mark.parametrize(
    "lie", [{}, packed(torch.ones(ITEMS + 1, 8), 4), packed(torch.ones(ITEMS, 8), 3), packed(torch.ones(ITEMS, 16), 4)]
)
def test_a_silo_that_sends_something_else_is_refused_and_left_out(lie: dict[str, Tensor]) -> None:
    spoilt = between(spoilt=lambda step, silo, t: lie if (step, silo) == ("represent", "cedar") else t).relay()
    assert spoilt.refused == [("cedar", "malformed")]
    assert spoilt.homes["ash"].inbox[FAR].shape == (1, ITEMS, 8)


@pytest.mark.parametrize(
    "tensors",
    [
        {},
        {**packed(torch.ones(2, ITEMS, 8), 4)},
        {**packed(torch.ones(2, ITEMS, 8), 4), "near": torch.zeros(2, dtype=torch.uint8)},
        {**packed(torch.ones(2, ITEMS, 8), 4), "near": torch.ones(3, dtype=torch.uint8)},
        {**packed(torch.ones(2, ITEMS + 1, 8), 4), "near": torch.ones(2, dtype=torch.uint8)},
        {**packed(torch.ones(ITEMS, 8), 4), "near": torch.ones(ITEMS, dtype=torch.uint8)},
    ],
)
def test_a_delivery_that_does_not_fit_is_refused(tensors: dict[str, Tensor]) -> None:
    home = between().homes["ash"]
    with pytest.raises(BoundaryError, match="bad_request"):
        answer(home, Exchange("course", 5, "representations", "deliver", tensors))  # type: ignore[arg-type]


def test_an_unknown_step_is_refused() -> None:
    with pytest.raises(BoundaryError, match="not_in_course"):
        answer(between().homes["ash"], Exchange("course", 5, "representations", "dance"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "tensor", "code"),
    [
        ("bytes", torch.zeros(4097, 1, dtype=torch.int8), "wrong_length"),
        ("bytes", torch.zeros(1, 1), "wrong_dtype"),
        ("places", torch.zeros(1, 513, dtype=torch.uint8), "wrong_length"),
        ("scale", torch.tensor([float("nan")]), "not_finite"),
        ("near", torch.zeros(1, dtype=torch.uint8), "extra_tensor"),
    ],
)
def test_the_channel_carries_nothing_else(name: str, tensor: Tensor, code: str) -> None:
    with pytest.raises(BoundaryError, match=code):
        REPRESENTATIONS.check({name: tensor})


# -- the term ----------------------------------------------------------------------------------------------------


def test_the_term_is_equation_3_over_the_whole_set() -> None:
    found = between().relay()
    home = found.homes["ash"]
    loss = contrast(home.model.eval(), PLAIN, home.inbox, np.random.default_rng(0))
    assert loss is not None
    expected = contrastive(vectors(found, "ash"), home.inbox[NEAR], home.inbox[FAR], 1.0)
    assert loss().item() == pytest.approx(float(expected), rel=1e-6)


def test_over_silos_the_means_of_all_items_are_compared() -> None:
    options = replace(PLAIN, reduce="silo", temperature=0.5)
    found = between(options).relay()
    home = found.homes["ash"]
    loss = contrast(home.model.eval(), options, home.inbox, np.random.default_rng(0))
    assert loss is not None
    means = vectors(found, "ash").mean(0), home.inbox[NEAR].mean(0), home.inbox[FAR].mean(1)
    cosines = [float(torch.cosine_similarity(means[0], other, dim=0)) / 0.5 for other in (means[1], *means[2])]
    assert loss().item() == pytest.approx(float(np.log(np.exp(cosines).sum()) - cosines[0]), rel=1e-5)


def test_each_step_compares_some_items_drawn_from_the_generator() -> None:
    home = between().relay().homes["ash"]
    options = replace(PLAIN, items_per_step=2)
    losses = []
    for seed in (1, 1, 2):
        loss = contrast(home.model.eval(), options, home.inbox, np.random.default_rng(seed))
        assert loss is not None
        losses.append([loss().item() for _ in range(4)])
    assert losses[0] == losses[1] != losses[2]
    assert len(set(losses[0])) > 1


@pytest.mark.parametrize("missing", [TOKENS, STATES, NEAR, FAR])
def test_without_all_that_it_needs_there_is_no_term(missing: str) -> None:
    inbox = between().relay().homes["ash"].inbox
    there = {name: tensor for name, tensor in inbox.items() if name != missing}
    assert contrast(torch.nn.Module(), PLAIN, there, np.random.default_rng(0)) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coordinates": 0}, "representations: coordinates must be at least 1, got 0"),
        ({"items_per_step": 0}, "representations: items_per_step must be at least 1, got 0"),
        ({"temperature": 0.0}, "representations: temperature must be above 0, got 0.0"),
        ({"negatives": 0}, "representations: negatives must be at least 1, got 0"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RepresentationOptions(**options)
