# SPDX-License-Identifier: Apache-2.0
"""A silo: what it does for an approved course, and what it refuses."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from toys import ToyFeatures, ToySkill, differing, toy_course, toy_setting, with_stage

from fedqa.data.records import Collection, Split
from fedqa.federation.course import Course, Evaluation, SiloPlan
from fedqa.federation.messages import Exchange, Finish, Refusal, Report, Request, Train, Update
from fedqa.federation.silo import Silo
from fedqa.training import Local


def silo_of(course: Course, folder: Path, **options: Any) -> Silo:
    """The silo ash: 12 examples, in batches of 4."""
    return toy_setting(course, folder, **options).silos[0]


def weights_of(silo: Silo, stage: int = 0) -> Tensor:
    return silo.workshop.bench(silo.skill, stage).model.loaded_received.clone()


def train(silo: Silo, number: int = 1, **changes: Any) -> Any:
    request = Train(silo.course.fingerprint, number, weights_of(silo))
    content = silo.handle(replace(request, **changes)).content
    silo.ledger.close()
    return content


# -- an update ---------------------------------------------------------------------------------------------------


def test_an_update_says_what_was_done(tmp_path: Path) -> None:
    silo = silo_of(toy_course(local=Local(epochs=2, batch=5, learning_rate=0.02)), tmp_path)
    update = train(silo)
    assert isinstance(update, Update)
    assert (update.silo, update.course, update.round) == ("ash", silo.course.fingerprint, 1)
    assert update.layout == silo.workshop.bench(silo.skill, 0).model.layout.fingerprint
    assert update.delta.shape == (53,)  # all of 85 numbers but the word table's 32
    assert (update.n_examples, update.n_seen, update.n_steps) == (12, 24, 6)  # 5 + 5 + 2, twice
    assert update.loss.min <= update.loss.last <= update.loss.max
    assert set(update.metrics) == {"received/dev/fit", "personal/dev/fit"}


def test_losses_of_the_same_examples_are_told_if_the_course_asks_for_them(tmp_path: Path) -> None:
    """Without steps that change anything they are equal, while those of a round's steps are of different examples."""
    told = {}
    for rate in (0.0, 0.02):
        course = with_stage(toy_course(local=Local(batch=4, learning_rate=rate)), loss_probe=8)
        silo = silo_of(course, tmp_path / str(rate))
        told[rate] = [train(silo, number).loss for number in (1, 2)]  # both from the loaded weights
        assert torch.equal(train(silo).delta, train(silo_of(with_stage(course, loss_probe=0), tmp_path / "none")).delta)
    for loss in told[0.0]:
        assert loss.first == loss.last == loss.max == loss.min == told[0.0][0].first
    for loss in told[0.02]:
        assert (loss.first, loss.max) == (told[0.0][0].first, loss.first)
        assert (loss.last, loss.min) == (loss.min, loss.last) and loss.last < loss.first


def test_received_plus_delta_is_the_personal_model_bit_for_bit(tmp_path: Path) -> None:
    silo = silo_of(toy_course(), tmp_path)
    update = train(silo)
    personal = silo.state.newest("personal", 0, 9)
    names = [entry.name for entry in silo.workshop.bench(silo.skill, 0).model.layout.shared]
    flat = torch.cat([personal[name].reshape(-1) for name in names])
    assert torch.equal(weights_of(silo) + update.delta, flat)


def test_the_same_round_asked_again_gives_the_same_bits(tmp_path: Path) -> None:
    for method in ("fedper", "ditto"):
        course = toy_course(method, local=Local(batch=4, learning_rate=0.02, keep_optimiser=True))
        silo = silo_of(course, tmp_path / method)
        for number in (1, 2):
            first, again = train(silo, number), train(silo, number)
            assert torch.equal(first.delta, again.delta)
            assert first.metrics == again.metrics


def test_rounds_and_silos_draw_different_orders(tmp_path: Path) -> None:
    course = toy_course()
    silo = silo_of(course, tmp_path)
    assert not torch.equal(train(silo, 1).delta, train(silo, 2).delta)
    other = replace(silo, name="birch", folder=tmp_path / "other")
    assert not torch.equal(train(silo, 1).delta, train(other, 1).delta)


def test_global_random_numbers_are_neither_used_nor_moved(tmp_path: Path) -> None:
    silo = silo_of(toy_course(), tmp_path)
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    one = train(silo)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(train(silo).delta, one.delta)


def test_nothing_of_the_silo_before_is_left_in_the_model(tmp_path: Path) -> None:
    course = toy_course("fedper")
    alone = train(toy_setting(course, tmp_path / "alone").silos[1])
    setting = toy_setting(course, tmp_path / "together")
    train(setting.silos[0])
    assert torch.equal(train(setting.silos[1]).delta, alone.delta)


def test_a_silo_may_work_in_its_own_way(tmp_path: Path) -> None:
    course = replace(
        toy_course(), silos=(SiloPlan("ash", "toy", local={"epochs": 3, "batch": 6}), SiloPlan("birch", "toy"))
    )
    update = train(silo_of(course, tmp_path))
    assert (update.n_seen, update.n_steps) == (36, 6)


def test_kept_moments_make_a_difference_and_are_on_disk(tmp_path: Path) -> None:
    forgetful = silo_of(toy_course(), tmp_path / "forgetful")
    keeping = silo_of(toy_course(local=Local(batch=4, learning_rate=0.02, keep_optimiser=True)), tmp_path / "keeping")
    assert torch.equal(train(forgetful, 1).delta, train(keeping, 1).delta)
    assert not torch.equal(train(forgetful, 2).delta, train(keeping, 2).delta)
    assert forgetful.state.newest("round", 1, 9) == {}
    kept = keeping.state.newest("round", 1, 9)
    assert kept["moments/main"].shape == (2, 53)
    assert int(kept["steps/main"]) == 6  # three batches, two rounds


def test_progress_is_told(tmp_path: Path) -> None:
    silo, told = silo_of(toy_course(), tmp_path), list[tuple[int, int]]()
    silo.handle(Train(silo.course.fingerprint, 1, weights_of(silo)), lambda done, total: told.append((done, total)))
    silo.ledger.close()
    assert told == [(1, 3), (2, 3), (3, 3)]


# -- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"course": "0" * 64}, "course_not_approved"),
        ({"round": 0}, "not_in_course"),
        ({"round": 4}, "not_in_course"),
        ({"weights": torch.zeros(52)}, "bad_request"),
        ({"weights": torch.zeros(53, dtype=torch.float64)}, "bad_request"),
        ({"weights": torch.zeros(1, 53)}, "bad_request"),
        ({"weights": torch.full((53,), float("nan"))}, "diverged"),
    ],
)
def test_a_request_that_is_wrong_is_refused(tmp_path: Path, changes: dict[str, Any], code: str) -> None:
    silo = silo_of(replace(toy_course(), evaluation=Evaluation(0)), tmp_path)
    assert train(silo, **changes) == Refusal("ash", code)
    assert not list((tmp_path / "silos" / "ash").glob("state/*"))


def test_a_course_that_the_silo_has_not_approved_is_refused(tmp_path: Path) -> None:
    silo = silo_of(toy_course(), tmp_path)
    silo.approved = frozenset({"another"})
    requests: list[Request] = [
        Train(silo.course.fingerprint, 1, weights_of(silo)),
        Finish(silo.course.fingerprint, 0, weights_of(silo)),
        Exchange(silo.course.fingerprint, 1, "examples", "collect"),
    ]
    for request in requests:
        assert silo.handle(request).content == Refusal("ash", "course_not_approved")
    assert [row.kind for row in silo.ledger.rows()] == ["refusal"] * 3
    silo.ledger.close()


def test_a_silo_without_examples_says_so(tmp_path: Path) -> None:
    silo = silo_of(toy_course(), tmp_path, data=dict.fromkeys(["ash", "birch", "cedar", "dogwood"], Collection((), ())))
    assert train(silo) == Refusal("ash", "no_examples")


class Failing(ToySkill):
    """Does its work until `when` says otherwise; the error quotes what it must not."""

    def __init__(self, when: Callable[[int], bool]) -> None:
        self._when, self._calls = when, 0

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        self._calls += 1
        if self._when(self._calls):
            raise ValueError(f"the patient's name is Xanthippe {batch[0].tolist()}")
        return super().loss(model, batch)


def test_an_error_inside_comes_out_as_a_code_and_stays_in_the_silos_own_log(tmp_path: Path) -> None:
    silo = silo_of(toy_course(), tmp_path, skill=Failing(lambda call: call == 2))
    assert train(silo) == Refusal("ash", "failed")
    log = (tmp_path / "silos" / "ash" / "errors.log").read_text(encoding="utf-8")
    assert "Xanthippe" in log
    assert "Xanthippe" not in str(list(silo.ledger.rows()))
    silo.ledger.close()


class BreakingBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise RuntimeError("out of memory")


class HalfWay(ToySkill):
    """Its first gradient is there for the head when it fails for the layer below."""

    calls = 0

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        self.calls += 1
        if self.calls > 1:
            return super().loss(model, batch)
        parameters = dict(model.named_parameters())
        broken: Tensor = BreakingBackward.apply(parameters["layer0.weight"].sum())  # type: ignore[no-untyped-call]
        return broken + parameters["head.weight"].sum() * 100


def test_gradients_of_a_silo_that_failed_do_not_reach_the_next(tmp_path: Path) -> None:
    course = replace(toy_course(), evaluation=Evaluation(0))
    alone = train(toy_setting(course, tmp_path / "alone").silos[1])
    setting = toy_setting(course, tmp_path / "together", skill=HalfWay())
    assert train(setting.silos[0]) == Refusal("ash", "failed")
    assert torch.equal(train(setting.silos[1]).delta, alone.delta)


class Diverging(ToySkill):
    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return super().loss(model, batch) * float("inf")


def test_a_silo_that_diverges_says_so_and_keeps_nothing(tmp_path: Path) -> None:
    silo = silo_of(replace(toy_course("fedper"), evaluation=Evaluation(0)), tmp_path, skill=Diverging())
    assert train(silo) == Refusal("ash", "diverged")
    assert silo.state.newest("round", 0, 9) == {}


# -- private state -----------------------------------------------------------------------------------------------


def test_private_parameters_go_on_from_round_to_round(tmp_path: Path) -> None:
    silo = silo_of(toy_course("fedper"), tmp_path)
    train(silo, 1)
    first = silo.state.newest("round", 1, 2)
    train(silo, 2)
    second = silo.state.newest("round", 1, 3)
    assert set(first) == {"main/head.weight", "main/head.bias"}
    assert len(differing(first, second)) == 2
    skipped = silo_of(toy_course("fedper"), tmp_path / "skipped")
    train(skipped, 2)  # without a first round, the head starts as it was loaded
    assert differing(second, skipped.state.newest("round", 1, 3))


def test_a_second_model_is_kept_whole_and_is_the_personal_one(tmp_path: Path) -> None:
    silo = silo_of(toy_course("ditto"), tmp_path)
    train(silo, 1)
    kept, personal = silo.state.newest("round", 1, 2), silo.state.newest("personal", 1, 2)
    assert not differing({name.removeprefix("replica/"): t for name, t in kept.items()}, personal)


def test_a_second_model_is_drawn_towards_what_was_received(tmp_path: Path) -> None:
    """Put far above it and pulled by nothing but the received weights, every number of it comes down."""
    local = Local(batch=12, learning_rate=0.02, weight_decay=0.0)
    silo = silo_of(toy_course("ditto", proximal_weight=1e6, local=local), tmp_path)
    train(silo, 1)
    far = {name: tensor + 5 for name, tensor in silo.state.newest("round", 1, 2).items()}
    silo.state.keep("round", 1, far)
    train(silo, 2)
    for name, tensor in silo.state.newest("round", 2, 3).items():
        torch.testing.assert_close(tensor, far[name] - 0.02, rtol=0, atol=1e-5)  # Adam's first step is the rate


# -- scores ------------------------------------------------------------------------------------------------------


def finish(silo: Silo, stage: int = 0) -> Any:
    content = silo.handle(Finish(silo.course.fingerprint, stage, weights_of(silo))).content
    silo.ledger.close()
    return content


def test_a_report_scores_received_personal_and_best_on_dev_and_test(tmp_path: Path) -> None:
    silo = silo_of(toy_course(rounds=1), tmp_path)
    train(silo)
    report = finish(silo)
    assert isinstance(report, Report)
    points = {tuple(key.split("/")) for key in report.metrics}
    assert points == {(p, s, "fit") for p in ("received", "personal", "best") for s in ("dev", "test")}
    assert report.metrics["personal/dev/fit"].n == 12
    values = json.loads((tmp_path / "silos" / "ash" / "scores" / "best-test.json").read_text())
    assert len(values["fit"]) == 12  # per question, in the silo's own folder


def test_the_best_model_is_the_best_on_dev_of_all_that_were_scored(tmp_path: Path) -> None:
    silo = silo_of(toy_course(rounds=3), tmp_path)
    means = []
    for number in (1, 2, 3):
        metrics = train(silo, number).metrics
        means += [metrics["received/dev/fit"].mean, metrics["personal/dev/fit"].mean]
    report = finish(silo)
    best = silo.state.best()
    assert best is not None
    assert best.score == pytest.approx(max(means))
    assert report.metrics["best/dev/fit"].mean == pytest.approx(max(means))
    assert (best.round, best.point) == (
        means.index(max(means)) // 2 + 1,
        ("received", "personal")[means.index(max(means)) % 2],
    )


@dataclass
class Corrected(ToyFeatures):
    """With one thing that people corrected."""

    def questions(self, split: Split) -> tuple[str, ...]:
        return ("c1",) if split == "check" else super().questions(split)


def corrected(silo: Silo) -> None:
    assert isinstance(silo.features, ToyFeatures)
    silo.features = Corrected(silo.features.tokens, silo.features.targets)


def scored(silo: Silo, score: Callable[[nn.Module, Split], float]) -> None:
    """Let the silo's models have these scores."""
    silo.skill.score = lambda model, features, split: {"fit": np.array([score(model, split)])}  # type: ignore[method-assign]


def test_the_best_model_is_also_chosen_by_what_people_corrected(tmp_path: Path) -> None:
    silo = silo_of(toy_course(rounds=2), tmp_path)
    corrected(silo)
    scored(silo, lambda model, split: {"dev": 0.75, "check": 0.0}[split])
    train(silo, 1)
    scored(silo, lambda model, split: {"dev": 0.5, "check": 1.0}[split])
    train(silo, 2)
    best = silo.state.best()
    assert best is not None and (best.round, best.score) == (2, (0.5 + 1.0) / 2)  # round 1 has (0.75 + 0) / 2


def test_after_a_correction_the_best_model_so_far_is_scored_again(tmp_path: Path) -> None:
    silo = silo_of(toy_course(rounds=2), tmp_path)
    scored(silo, lambda model, split: 0.75)
    train(silo, 1)
    before, kept = silo.state.best(), silo.state.best_tensors()
    assert before is not None and before.score == 0.75

    def is_kept(model: nn.Module) -> bool:
        parameters = dict(model.named_parameters())
        return all(torch.equal(parameters[name], value) for name, value in kept.items())

    corrected(silo)
    scored(silo, lambda model, split: 0.5 if is_kept(model) else 0.25)
    train(silo, 2)
    best = silo.state.best()
    assert best is not None and (best.round, best.score) == (1, 0.5)
    assert best.asked != before.asked


def test_silos_are_scored_as_often_as_the_course_says_and_in_the_last_round(tmp_path: Path) -> None:
    silo = silo_of(replace(toy_course(rounds=3), evaluation=Evaluation(2)), tmp_path)
    assert [bool(train(silo, number).metrics) for number in (1, 2, 3)] == [False, True, True]


def test_without_evaluation_nothing_is_scored(tmp_path: Path) -> None:
    silo = silo_of(replace(toy_course(rounds=1), evaluation=Evaluation(0)), tmp_path)
    assert train(silo).metrics == {}
    assert finish(silo).metrics == {}
    assert not (tmp_path / "silos" / "ash" / "scores").exists()


def test_a_course_without_stages_is_scored_as_loaded(tmp_path: Path) -> None:
    silo = silo_of(toy_course("zero_shot"), tmp_path)
    content = silo.handle(Finish(silo.course.fingerprint, -1, torch.zeros(0))).content
    assert isinstance(content, Report)
    values = {key: summary.mean for key, summary in content.metrics.items()}
    assert len(values) == 6
    assert len(set(values.values())) == 1  # the toy's dev and test are its training examples
    assert silo.handle(Train(silo.course.fingerprint, 1, torch.zeros(0))).content == Refusal("ash", "not_in_course")
    silo.ledger.close()


@pytest.mark.parametrize("stage", [-1, 1])
def test_the_end_of_a_stage_that_is_not_in_the_course_is_refused(tmp_path: Path, stage: int) -> None:
    silo = silo_of(toy_course(), tmp_path)
    request = Finish(silo.course.fingerprint, stage, weights_of(silo))
    assert silo.handle(request).content == Refusal("ash", "not_in_course")
    silo.ledger.close()


def test_a_stage_in_the_middle_ends_without_scores(tmp_path: Path) -> None:
    course = toy_course(rounds=1)
    course = replace(course, stages=(course.stages[0], replace(course.stages[0], name="second")))
    silo = silo_of(course, tmp_path)
    train(silo)
    report = finish(silo)
    assert report.metrics == {}
    assert set(silo.state.newest("stage", 1, 2)) == set(silo.state.newest("personal", 1, 2))


def test_a_replica_that_a_stage_drops_is_not_taken_for_its_model(tmp_path: Path) -> None:
    silo = silo_of(with_stage(toy_course("ditto", rounds=1), replica=None), tmp_path)
    train(silo)
    assert silo.state.newest("round", 0, 9) == {}


def test_a_silo_that_missed_the_end_of_a_stage_says_so_instead_of_starting_anew(tmp_path: Path) -> None:
    course = toy_course(rounds=1)
    course = replace(course, stages=(*course.stages, replace(course.stages[0], name="second")))
    setting = toy_setting(course, tmp_path)
    weights = setting.start_of(1).weights
    reply = setting.silos[0].handle(Train(course.fingerprint, 2, weights)).content
    assert reply == Refusal("ash", "missed_stage")


def test_of_rounds_that_are_equally_good_the_later_is_kept(tmp_path: Path) -> None:
    silo = silo_of(toy_course(rounds=2, local=Local(batch=4, learning_rate=0.0)), tmp_path)  # nothing changes
    for number in (1, 2):
        train(silo, number)
    finish(silo)
    best = silo.state.best()
    assert best is not None and (best.round, best.point) == (2, "personal")
