# SPDX-License-Identifier: Apache-2.0
"""Weights by hand: three silos of 2, 6 and 4 examples."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from toys import toy_update

from fedqa.errors import ConfigError
from fedqa.federation.messages import LossSummary, Update
from fedqa.federation.neighbour_weighers import Nearest
from fedqa.federation.similarity import cosines, normalised
from fedqa.federation.weighers import (
    WEIGHERS,
    Groups,
    Identity,
    Lorar,
    LossReduction,
    Size,
    Uniform,
    capped,
)
from fedqa.tables import from_table

UPDATES = [toy_update("a", [0.0], 2), toy_update("b", [0.0], 6), toy_update("c", [0.0], 4)]
NAMES = ["a", "b", "c"]
GROUPS = {"a": "law", "b": "bank", "c": "law", "d": "hospital"}


def test_uniform_counts_every_silo_the_same() -> None:
    assert [Uniform().share(update) for update in UPDATES] == [1, 1, 1]


def test_size_counts_examples() -> None:
    assert [Size().share(update) for update in UPDATES] == [2, 6, 4]


def test_identity_gives_every_silo_its_own_update() -> None:
    assert Identity().matrix(NAMES, UPDATES, GROUPS).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_a_silo_whose_update_is_missing_keeps_its_model() -> None:
    assert Identity().matrix(NAMES, [UPDATES[2], UPDATES[0]], GROUPS).tolist() == [[0, 1], [0, 0], [1, 0]]
    assert Groups().matrix(["b", "d"], [UPDATES[0], UPDATES[2]], GROUPS).tolist() == [[0, 0], [0, 0]]


def test_groups_share_by_size_and_do_not_mix() -> None:
    # a and c are in one group, of 2 + 4 examples; b is alone
    expected = [[2 / 6, 0, 4 / 6], [0, 1, 0], [2 / 6, 0, 4 / 6]]
    assert np.allclose(Groups().matrix(NAMES, UPDATES, GROUPS), expected, atol=1e-15)


def test_a_silo_that_sent_nothing_receives_its_group_all_the_same() -> None:
    assert Groups().matrix(["a"], [UPDATES[1], UPDATES[2]], GROUPS).tolist() == [[0, 1]]


def test_rows_are_divided_by_their_sums_and_empty_rows_stay() -> None:
    assert normalised(np.array([[1.0, 3.0], [0.0, 0.0]])).tolist() == [[0.25, 0.75], [0, 0]]


@pytest.mark.parametrize("weigher", WEIGHERS.values())
def test_every_weigher_says_how_many_models_it_makes(weigher: Any) -> None:
    assert [hasattr(weigher, name) for name in ("share", "row", "matrix")].count(True) == 1
    assert hasattr(weigher, "matrix") is not weigher.one_row


# -- by how far losses fell --------------------------------------------------------------------------------------


def fallen(*reductions: float) -> list[Update]:
    """The three silos, or as many of one example as there are numbers, each with a loss that fell from there to 0."""
    updates = UPDATES if len(reductions) == 3 else [toy_update(f"s{i}", [0.0]) for i in range(len(reductions))]
    losses = [LossSummary(first=fall, last=0.0, max=fall, min=0.0) for fall in reductions]
    return [replace(update, loss=loss) for update, loss in zip(updates, losses, strict=True)]


def test_losses_that_fell_alike_leave_plain_weights() -> None:
    assert Lorar().row(fallen(0.3, 0.3, 0.3)).tolist() == [2 / 12, 6 / 12, 4 / 12]
    assert LossReduction().row(fallen(0.3, 0.3, 0.3)).tolist() == [1 / 3, 1 / 3, 1 / 3]


def test_a_loss_that_fell_further_counts_more() -> None:
    # 2 * 1, 6 * 0.5 and 4 * 0.25 are 2, 3 and 1 of 6; without sizes 4, 2 and 1 of 7
    assert Lorar().row(fallen(1, 0.5, 0.25)).tolist() == pytest.approx([2 / 6, 3 / 6, 1 / 6], rel=1e-14)
    assert LossReduction().row(fallen(1, 0.5, 0.25)).tolist() == pytest.approx([4 / 7, 2 / 7, 1 / 7], rel=1e-14)


def test_the_fall_is_from_highest_to_lowest_or_from_first_to_last() -> None:
    losses = [LossSummary(1.0, 0.5, 2.0, 0.5), LossSummary(1.0, 0.0, 1.0, 0.0)]  # 1.5 or 0.5, and 1 both ways
    updates = [replace(update, loss=loss) for update, loss in zip(fallen(1, 1), losses, strict=True)]
    assert LossReduction().row(updates).tolist() == pytest.approx([0.6, 0.4])
    assert LossReduction("first_last").row(updates).tolist() == pytest.approx([1 / 3, 2 / 3])


@pytest.mark.parametrize("loss", [LossSummary(0.7, 0.7, 0.7, 0.7), LossSummary(0.5, 0.9, 0.9, 0.5)])
def test_if_no_loss_fell_plain_weights_are_left(loss: LossSummary) -> None:
    """As after rounds of one step, whose first loss is the last, or where every loss rose."""
    updates = [replace(update, loss=loss) for update in UPDATES]
    assert Lorar("first_last").row(updates).tolist() == [2 / 12, 6 / 12, 4 / 12]
    assert LossReduction("first_last").row(updates).tolist() == [1 / 3, 1 / 3, 1 / 3]


def test_a_loss_that_did_not_fall_beside_others_that_did_counts_next_to_nothing() -> None:
    weights = LossReduction(floor=1e-4).row(fallen(1, 0, 1))
    assert weights.tolist() == pytest.approx([1 / 2.0001, 1e-4 / 2.0001, 1 / 2.0001])


@pytest.mark.parametrize("claim", [100.0, 1e30, 1.7e308])
def test_a_silo_cannot_buy_weight_by_lying(claim: float) -> None:
    # Of a third, odds of 1 : 2 become 3 : 2, which is 0.6; the others share 0.4 as their losses say, 1 : 3.
    assert LossReduction().row(fallen(1, 3, claim)).tolist() == pytest.approx([0.1, 0.3, 0.6], rel=1e-12)
    # Of 2 examples in 12, odds of 1 : 5 become 3 : 5; the others share 5/8 as 6 : 4.
    assert Lorar().row(fallen(claim, 1, 1)).tolist() == pytest.approx([3 / 8, 3 / 8, 2 / 8], rel=1e-12)


def test_losses_further_apart_than_any_number_are_bounded_too() -> None:
    liar = replace(UPDATES[2], loss=LossSummary(0.0, 0.0, 1.7e308, -1.7e308))
    weights = LossReduction().row([*fallen(1, 3, 1)[:2], liar])
    assert weights.tolist() == pytest.approx([0.1, 0.3, 0.6], rel=1e-12)


def test_what_is_cut_from_one_silo_may_bring_the_next_to_its_bound() -> None:
    # Of a fifth, odds of 1 : 4 become 3 : 4. Two silos end there; 1/7 is left for 1 : 1 : 2.
    weights = LossReduction().row(fallen(1e30, 1e10, 1, 1, 2))
    assert weights.tolist() == pytest.approx([3 / 7, 3 / 7, 1 / 28, 1 / 28, 2 / 28], rel=1e-9)


@pytest.mark.parametrize(("silos", "most"), [(1, 1), (2, 3 / 4), (3, 3 / 5), (5, 3 / 7), (100, 3 / 102)])
def test_the_bound_leaves_something_to_the_others_however_many_they_are(silos: int, most: float) -> None:
    weights = LossReduction().row(fallen(1e30, *[1.0] * (silos - 1)))
    assert weights[0] == pytest.approx(most, rel=1e-12)
    assert weights[1:].tolist() == pytest.approx([(1 - most) / max(1, silos - 1)] * (silos - 1), rel=1e-12)


def test_a_factor_of_one_leaves_plain_weights() -> None:
    assert Lorar(cap_factor=1).row(fallen(5, 0.1, 1e30)).tolist() == pytest.approx([2 / 12, 6 / 12, 4 / 12], rel=1e-9)


@pytest.mark.parametrize("factor", [1.0, 1.5, 3.0, 50.0])
def test_weights_sum_to_one_and_keep_to_their_bounds(factor: float) -> None:
    rng = np.random.default_rng(5)
    for silos in (2, 3, 7, 40):
        plain = rng.dirichlet(np.ones(silos))
        weights = capped(plain * 10 ** rng.uniform(-8, 8, silos), plain, factor)
        assert weights.sum() == pytest.approx(1, rel=1e-9)
        assert np.all(weights / (1 - weights) <= factor * plain / (1 - plain) * (1 + 1e-6))


def test_a_round_without_updates_has_no_weights() -> None:
    assert Lorar().row([]).tolist() == []


# -- by direction ------------------------------------------------------------------------------------------------


def moved(*deltas: Sequence[float]) -> list[Update]:
    """Updates of the silos a, b, c, d with 2, 6, 4 and 1 examples."""
    return [toy_update(name, delta, n) for name, delta, n in zip("abcd", deltas, (2, 6, 4, 1), strict=False)]


COMPASS = moved([1.0, 0.0], [5.0, 5.0], [0.0, 0.1], [-1.0, 0.0])  # east, north-east, north, west


def test_every_silo_is_mixed_with_those_that_moved_its_way() -> None:
    # b is 45 degrees from a and from c, and takes the first by name; d is 90 degrees from c, 135 from b
    expected = [[2 / 8, 6 / 8, 0, 0], [2 / 8, 6 / 8, 0, 0], [0, 6 / 10, 4 / 10, 0], [0, 0, 4 / 5, 1 / 5]]
    assert Nearest(k=1).matrix(list("abcd"), COMPASS, {}).tolist() == expected


def test_two_neighbours_are_taken_unless_said_otherwise() -> None:
    # a: b, c; b: a, c; c: b, then a and d at 90 degrees, by name a; d: c, b
    expected = [[2 / 12, 6 / 12, 4 / 12, 0]] * 3 + [[0, 6 / 11, 4 / 11, 1 / 11]]
    assert Nearest().matrix(list("abcd"), COMPASS, {}).tolist() == expected


def test_the_order_of_updates_does_not_choose_the_neighbours() -> None:
    turned = Nearest(k=1).matrix(list("abcd"), COMPASS[::-1], {})
    assert turned[:, ::-1].tolist() == Nearest(k=1).matrix(list("abcd"), COMPASS, {}).tolist()


@pytest.mark.parametrize("k", [3, 4, 100])
def test_with_as_many_neighbours_as_silos_weights_are_by_size(k: int) -> None:
    assert Nearest(k=k).matrix(list("abcd"), COMPASS, {}).tolist() == [[2 / 13, 6 / 13, 4 / 13, 1 / 13]] * 4


def test_a_silo_that_did_not_move_is_nobodys_neighbour_and_keeps_its_own() -> None:
    updates = moved([1.0, 0.0], [0.0, 0.0], [-1.0, 0.0])
    assert Nearest(k=9).matrix(list("abc"), updates, {}).tolist() == [[2 / 6, 0, 4 / 6], [0, 1, 0], [2 / 6, 0, 4 / 6]]


def test_a_silo_that_sent_nothing_keeps_its_model_and_is_nobodys_neighbour() -> None:
    rows = Nearest(k=1).matrix(["a", "x", "d"], [COMPASS[3], COMPASS[0]], {})
    assert rows.tolist() == [[1 / 3, 2 / 3], [0, 0], [1 / 3, 2 / 3]]
    assert Nearest().matrix(["a", "b"], COMPASS[:1], {}).tolist() == [[1], [0]]
    assert Nearest().matrix(["a"], [], {}).tolist() == [[]]


def test_cosines_of_long_updates_are_those_of_torch() -> None:
    one, other = torch.randn(2, 200_000, generator=torch.Generator().manual_seed(6))
    other += one
    expected = float(torch.cosine_similarity(one.double(), other.double(), dim=0))
    found = cosines([one, other])
    assert found[0, 1] == found[1, 0] == pytest.approx(expected, abs=1e-9)
    assert found.diagonal().tolist() == [1, 1]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lorar", {"floor": 0.0}, "floor must be above 0 and below 1e.100, got 0.0"),
        ("loss_reduction", {"cap_factor": 0.5}, "cap_factor must be a number from 1, got 0.5"),
        ("lorar", {"estimator": "ema"}, "weigher: estimator: unknown value 'ema'"),
        ("nearest", {"k": 0}, "nearest: k must be at least 1, got 0"),
    ],
)
def test_an_option_that_cannot_be_is_refused(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_table(WEIGHERS[name], options, "weigher")
