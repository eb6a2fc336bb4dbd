# SPDX-License-Identifier: Apache-2.0
"""Two steps of each server optimiser, computed by hand: first a delta of 2, then one of -1."""

from math import sqrt

import pytest
import torch

from fedqa.federation.server_optimisers import SERVER_OPTIMISERS, Adam, Add, Damped, ServerOptimiser, Sgd, State, Yogi


def two_steps(optimiser: ServerOptimiser) -> tuple[float, float]:
    state: State = {}
    first = optimiser.step(torch.tensor([2.0]), state, 1).item()
    return first, optimiser.step(torch.tensor([-1.0]), state, 2).item()


def test_none_adds_the_delta_as_it_is() -> None:
    assert two_steps(Add()) == (2, -1)


def test_sgd_carries_momentum() -> None:
    # velocity 2, then 0.5 * 2 - 1 = 0; with a rate of 3 the first step is 6
    assert two_steps(Sgd(learning_rate=3.0, momentum=0.5)) == (6, 0)


def test_sgd_without_momentum_and_a_rate_of_one_adds() -> None:
    assert two_steps(Sgd(1.0, 0.0)) == two_steps(Add())


def test_damped_divides_by_the_round() -> None:
    assert two_steps(Damped()) == (2, -0.5)


def test_adam_divides_by_the_root_of_the_mean_square() -> None:
    # mean 0.5 * 2 = 1, square 0.25 * 4 = 1; then mean 0.5 * 1 - 0.5 = 0, square 0.75 * 1 + 0.25 * 1 = 1
    assert two_steps(Adam(learning_rate=3.0, beta1=0.5, beta2=0.75, floor=1.0)) == (3 * 1 / (1 + 1), 0)
    # with beta1 = 0 the mean is the delta: 3 * 2 / (1 + 1), then 3 * -1 / (1 + 1)
    assert two_steps(Adam(learning_rate=3.0, beta1=0.0, beta2=0.75, floor=1.0)) == (3, -1.5)


def test_yogi_moves_the_square_by_a_share_of_the_new_one() -> None:
    # square 0 - 0.25 * 4 * sign(0 - 4) = 1; then 1 - 0.25 * 1 * sign(1 - 1) = 1 where adam would have it move
    assert two_steps(Yogi(learning_rate=3.0, beta1=0.0, beta2=0.75, floor=1.0)) == (3, -1.5)
    state: State = {"mean": torch.zeros(1), "square": torch.tensor([4.0])}
    step = Yogi(learning_rate=1.0, beta1=0.0, beta2=0.75, floor=1.0).step(torch.tensor([2.0 * sqrt(2)]), state, 1)
    assert state["square"].item() == pytest.approx(4 + 0.25 * 8)  # 8 is above 4, so it rises by a quarter of 8
    assert step.item() == pytest.approx(2 * sqrt(2) / (sqrt(6) + 1))


@pytest.mark.parametrize("make", SERVER_OPTIMISERS.values())
def test_what_is_remembered_is_enough_to_continue(make: type[ServerOptimiser]) -> None:
    optimiser, generator = make(), torch.Generator().manual_seed(2)
    deltas = [torch.randn(5, generator=generator) for _ in range(4)]
    state: State = {}
    whole = [optimiser.step(delta.clone(), state, t).clone() for t, delta in enumerate(deltas, start=1)]
    carried: State = {}
    for t, delta in enumerate(deltas, start=1):
        carried = {name: tensor.clone() for name, tensor in carried.items()}
        assert torch.equal(optimiser.step(delta.clone(), carried, t), whole[t - 1])


@pytest.mark.parametrize("make", SERVER_OPTIMISERS.values())
def test_no_delta_at_all_changes_nothing_at_first(make: type[ServerOptimiser]) -> None:
    assert make().step(torch.zeros(3), {}, 1).tolist() == [0, 0, 0]
