# SPDX-License-Identifier: Apache-2.0
"""The local loop: schedules, terms and the optimiser, against hand-made numbers and plain PyTorch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedqa.errors import ConfigError
from fedqa.training import Adam, Local, Probe, Term, Trace, fit, one_thread, prox

TASK = (Term("task"),)


@dataclass
class Numbers:
    """Targets, one an example; a batch is a tensor of them."""

    values: list[float]
    epochs: list[list[float]] = field(default_factory=list)

    def n_batches(self, size: int) -> int:
        return -(-len(self.values) // size)

    def epoch(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Any, int]]:
        order = [self.values[i] for i in rng.permutation(len(self.values))]
        self.epochs.append(order)
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            yield torch.tensor(chosen), len(chosen)


def squares(weight: nn.Parameter) -> Callable[[Tensor], Tensor]:
    """Mean over the batch of half the squared distance: its gradient is weight minus the batch's mean."""
    return lambda batch: (weight - batch).square().mean() / 2


def train(weight: nn.Parameter, data: Numbers, local: Local, **options: Any) -> Trace:
    optimiser = options.pop("optimiser", None) or Adam([weight])
    if "started" not in options or not options.pop("started"):
        optimiser.start(local, None, 0)
    settings: dict[str, Any] = {"terms": TASK, "rng": np.random.default_rng(0), **options}
    return fit(squares(weight), [weight], optimiser, data=data, local=local, **settings)


# -- settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, r"\[local\] epochs must be at least 1, got 0"),
        ({"batch": -1}, "batch must be at least 1, got -1"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"learning_rate": -1e-3}, "learning_rate must be a number from 0, got -0.001"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number from 0, got nan"),
        ({"weight_decay": float("inf")}, "weight_decay must be a number from 0, got inf"),
        ({"clip": -1.0}, "clip must be a number from 0, got -1.0"),
        ({"warmup": 1.5}, "warmup must be a share from 0 to 1, got 1.5"),
    ],
)
def test_local_work_that_cannot_be_done_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Local(**settings)


def test_a_term_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown objective term 'prx'; did you mean 'prox'"):
        Term("prx")
    with pytest.raises(ConfigError, match="objective term 'prox' needs a weight of at least 0, got -1"):
        Term("prox", -1)


def test_steps_replace_epochs() -> None:
    assert Local(epochs=3).steps_per_round(4) == 12
    assert Local(epochs=3, steps=5).steps_per_round(4) == 5


# -- schedules ---------------------------------------------------------------------------------------------------


def test_a_constant_rate_is_constant() -> None:
    assert [Local().rate_at(step, 4) for step in range(4)] == [1, 1, 1, 1]


def test_a_linear_rate_falls_from_one_and_would_be_zero_after_the_last_step() -> None:
    assert [Local(schedule="linear").rate_at(step, 4) for step in range(5)] == [1, 0.75, 0.5, 0.25, 0]


def test_a_rate_never_falls_below_zero() -> None:
    assert Local(schedule="linear").rate_at(9, 4) == 0


def test_a_warm_up_rises_first() -> None:
    # 0.3 of 10 steps: 1/4, 2/4, 3/4, then (10 - step) / 7
    rates = [Local(schedule="linear", warmup=0.3).rate_at(step, 10) for step in (0, 1, 2, 3, 9)]
    assert rates == pytest.approx([0.25, 0.5, 0.75, 1, 1 / 7])
    assert [Local(warmup=0.3).rate_at(step, 10) for step in (0, 3, 9)] == [0.25, 1, 1]


def test_a_warm_up_of_the_whole_horizon_only_rises() -> None:
    assert [Local(schedule="linear", warmup=1.0).rate_at(step, 3) for step in range(3)] == [0.25, 0.5, 0.75]


def test_a_round_is_placed_in_a_longer_schedule() -> None:
    local = Local(batch=1, schedule="linear", learning_rate=0.1, weight_decay=0.0)
    rates: list[float] = []

    class Noting(Adam):
        def step(self, rate: float) -> None:
            rates.append(rate)
            super().step(rate)

    weight = nn.Parameter(torch.zeros(1))
    train(weight, Numbers([1.0, 2.0]), local, optimiser=Noting([weight]), first_step=2, horizon=8)
    assert rates == pytest.approx([0.1 * 6 / 8, 0.1 * 5 / 8])


# -- what is done ------------------------------------------------------------------------------------------------


def test_the_first_step_is_as_long_as_the_learning_rate() -> None:
    weight = nn.Parameter(torch.tensor([0.0, 5.0]))
    train(weight, Numbers([3.0]), Local(learning_rate=0.25, weight_decay=0.0))
    assert weight.tolist() == pytest.approx([0.25, 4.75], rel=1e-6)  # Adam's first step is the sign of the gradient


def test_weight_decay_shrinks_the_weights() -> None:
    weight = nn.Parameter(torch.tensor([2.0]))
    train(weight, Numbers([2.0]), Local(learning_rate=0.5, weight_decay=0.1))  # no gradient at the target
    assert weight.item() == pytest.approx(2 * (1 - 0.5 * 0.1))


def test_the_trace_is_of_examples_steps_and_task_losses() -> None:
    data = Numbers([1.0, 2.0, 3.0, 4.0, 5.0])
    trace = train(nn.Parameter(torch.zeros(1)), data, Local(epochs=2, batch=2, learning_rate=0.0))
    assert trace.n_seen == 10
    assert len(trace.losses) == 6
    first_epoch = data.epochs[0]
    assert trace.losses[0] == pytest.approx((first_epoch[0] ** 2 + first_epoch[1] ** 2) / 4)
    assert trace.losses[2] == pytest.approx(first_epoch[4] ** 2 / 2)


def test_steps_go_over_the_end_of_an_epoch_into_a_new_order() -> None:
    data = Numbers([1.0, 2.0, 3.0, 4.0])
    trace = train(nn.Parameter(torch.zeros(1)), data, Local(steps=5, batch=2))
    assert len(trace.losses) == 5
    assert [sorted(order) for order in data.epochs] == [[1, 2, 3, 4]] * 3
    assert data.epochs[0] != data.epochs[1]


def test_progress_is_told_after_every_step() -> None:
    told: list[tuple[int, int]] = []
    train(
        nn.Parameter(torch.zeros(1)),
        Numbers([1.0, 2.0, 3.0]),
        Local(batch=1),
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(1, 3), (2, 3), (3, 3)]


def gradients_seen(local: Local, **options: Any) -> list[float]:
    """The gradient of each step, as the optimiser sees it."""
    seen: list[float] = []
    weight = nn.Parameter(torch.tensor([5.0]))

    class Noting(Adam):
        def step(self, rate: float) -> None:
            assert weight.grad is not None
            seen.append(weight.grad.item())
            super().step(rate)

    train(weight, Numbers([2.0]), local, optimiser=Noting([weight]), **options)
    return seen


def test_a_gradient_is_clipped_to_its_longest_length() -> None:
    assert gradients_seen(Local(clip=0.0)) == [3]  # 5 - 2
    assert gradients_seen(Local(clip=2.0)) == [pytest.approx(2, rel=1e-5)]
    assert gradients_seen(Local(clip=9.0)) == [pytest.approx(3, rel=1e-5)]


def test_terms_are_weighted() -> None:
    assert gradients_seen(Local(clip=0.0), terms=(Term("task", 0.5),)) == [1.5]
    # prox: 2 * (5 - 1), where the anchor is 1
    terms = (Term("task"), Term("prox", 2.0))
    assert gradients_seen(Local(clip=0.0), terms=terms, anchor=[torch.tensor([1.0])]) == [3 + 8]


def test_a_term_that_others_brought_is_added_and_left_out_where_they_did_not() -> None:
    weight, seen = nn.Parameter(torch.tensor([5.0])), []

    class Noting(Adam):
        def step(self, rate: float) -> None:
            assert weight.grad is not None
            seen.append(weight.grad.item())
            super().step(rate)

    local, terms = Local(clip=0.0, learning_rate=0.0), (Term("task"), Term("contrast", 2.0))
    for brought in ({"contrast": lambda: 4 * weight.sum()}, {}, None):
        train(weight, Numbers([2.0]), local, optimiser=Noting([weight]), terms=terms, brought=brought)
    assert seen == [3 + 2 * 4, 3, 3]


def test_without_an_anchor_prox_pulls_towards_the_start() -> None:
    terms = (Term("task"), Term("prox", 1e6))
    local = Local(steps=3, clip=0.0, learning_rate=1.0, weight_decay=0.0)
    seen = gradients_seen(local, terms=terms)
    assert seen[0] == 3  # at the start, prox has no gradient
    assert seen[1] == pytest.approx((4 - 2) + 1e6 * (4 - 5), rel=1e-6)  # after a step of about 1


def test_prox_is_half_the_squared_distance() -> None:
    parameters = [nn.Parameter(torch.tensor([1.0, 2.0])), nn.Parameter(torch.tensor([[3.0]]))]
    value = prox(parameters, [torch.tensor([0.0, 4.0]), torch.tensor([[0.0]])])
    assert value.item() == (1 + 4 + 9) / 2
    value.backward()
    assert parameters[0].grad is not None and parameters[0].grad.tolist() == [1, -2]
    assert parameters[1].grad is not None and parameters[1].grad.tolist() == [[3]]


def test_the_loss_trace_does_not_see_other_terms() -> None:
    options = {"terms": (Term("task"), Term("prox", 5.0)), "anchor": [torch.tensor([-7.0])]}
    plain = train(nn.Parameter(torch.zeros(1)), Numbers([2.0]), Local(learning_rate=0.0))
    assert train(nn.Parameter(torch.zeros(1)), Numbers([2.0]), Local(learning_rate=0.0), **options) == plain


# -- the optimiser -----------------------------------------------------------------------------------------------


def network(seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))


def steps_of(module: nn.Module, step: Callable[[], object], n: int, first: int = 0) -> None:
    for i in range(first, first + n):
        inputs = torch.randn(4, 3, generator=torch.Generator().manual_seed(i))
        module(inputs).square().sum().backward()
        step()


def values(module: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


@pytest.mark.parametrize("fused", [True, False])
def test_steps_are_those_of_adamw(fused: bool) -> None:
    ours, theirs = network(), network()
    adam = Adam(list(ours.parameters()))
    adam.start(Local(weight_decay=0.1), None, 0)
    reference = torch.optim.AdamW(theirs.parameters(), lr=0.01, weight_decay=0.1, fused=fused)
    steps_of(ours, lambda: adam.step(0.01), 6)
    steps_of(theirs, lambda: (reference.step(), reference.zero_grad()), 6)
    if fused:
        assert torch.equal(values(ours), values(theirs))
    torch.testing.assert_close(values(ours), values(theirs), rtol=1e-6, atol=1e-7)
    assert adam.steps == 6


def test_a_parameter_with_a_factor_learns_that_much_faster() -> None:
    weights = [nn.Parameter(torch.tensor([1.0])) for _ in range(3)]
    adam = Adam(weights, [1.0, 10.0, 0.5])
    adam.start(Local(weight_decay=0.0), None, 0)
    sum(weights).sum().backward()  # type: ignore[union-attr]
    adam.step(0.01)
    moved = [1 - weight.item() for weight in weights]  # Adam's first step is the rate itself
    assert moved == pytest.approx([0.01, 0.1, 0.005], rel=1e-4)


def test_kept_moments_continue_where_they_were() -> None:
    whole, parts = network(), network()
    local = Local(weight_decay=0.0)
    adam = Adam(list(whole.parameters()))
    adam.start(local, None, 0)
    steps_of(whole, lambda: adam.step(0.01), 5)

    first = Adam(list(parts.parameters()))
    first.start(local, None, 0)
    steps_of(parts, lambda: first.step(0.01), 2)
    moments, steps = first.moments.clone(), first.steps
    second = Adam(list(parts.parameters()))
    second.start(local, moments, steps)
    steps_of(parts, lambda: second.step(0.01), 3, first=2)
    assert torch.equal(values(parts), values(whole))
    assert second.steps == 5


def test_a_fresh_start_forgets_everything() -> None:
    module, again = network(), network()
    adam = Adam(list(module.parameters()))
    adam.start(Local(), None, 0)
    steps_of(module, lambda: adam.step(0.01), 3)
    module.load_state_dict(again.state_dict())
    adam.start(Local(), None, 0)
    other = Adam(list(again.parameters()))
    other.start(Local(), None, 0)
    steps_of(module, lambda: adam.step(0.01), 3)
    steps_of(again, lambda: other.step(0.01), 3)
    assert torch.equal(values(module), values(again))


def test_gradients_of_work_that_broke_off_are_not_carried_on() -> None:
    module = network()
    adam = Adam(list(module.parameters()))
    module(torch.ones(1, 3)).sum().backward()
    adam.start(Local(), None, 0)
    assert all(p.grad is None for p in module.parameters())


def test_a_parameter_that_the_loss_does_not_touch_does_not_hide_the_steps() -> None:
    unused, used = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    adam = Adam([unused, used])
    adam.start(Local(), None, 0)
    for _ in range(3):
        used.sum().backward()
        adam.step(0.1)
    assert adam.steps == 3


def test_local_work_has_one_thread_and_gives_the_others_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    with pytest.raises(ZeroDivisionError), one_thread():
        raise ZeroDivisionError
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


# -- the same examples, before and after ----------------------------------------------------------------------------


def test_a_probe_asks_the_same_examples_whatever_was_learnt_between() -> None:
    weight, data = nn.Parameter(torch.tensor(0.0)), Numbers([1.0, 1.0, 1.0, 1.0, 3.0])
    probe = Probe(squares(weight), data, batch=2, count=5, rng=np.random.default_rng(1))
    drawn = data.epochs[0][:4]  # two whole batches of two
    assert probe() == pytest.approx(sum(value**2 for value in drawn) / 8)
    with torch.no_grad():
        weight.fill_(2.0)
    assert probe() == pytest.approx(sum((2 - value) ** 2 for value in drawn) / 8)
    assert len(data.epochs) == 1


def test_in_a_probe_every_example_counts_the_same() -> None:
    weight, data = nn.Parameter(torch.tensor(0.0)), Numbers([1.0, 2.0, 3.0])
    probe = Probe(squares(weight), data, batch=2, count=4, rng=np.random.default_rng(0))
    assert probe() == pytest.approx((1 + 4 + 9) / 6)  # a batch of two and one of one
