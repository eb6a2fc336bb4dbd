# SPDX-License-Identifier: Apache-2.0
"""What each baseline makes of a plan, and that training helps."""

from pathlib import Path
from typing import Any

import pytest
from toys import SIZES, toy_course, toy_model, toy_run

from fedqa.errors import ConfigError
from fedqa.federation.course import Choice, Mixing, Participation, Replica, Stage
from fedqa.federation.sharing import compile_layout
from fedqa.methods import METHODS, stages_of
from fedqa.methods.method import Plan
from fedqa.training import Local, Term

PLAN = Plan(4, Local(batch=2))


def stage_of(method: str, **options: Any) -> Stage:
    (stage,) = stages_of(method, PLAN, options)
    return stage


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if method.stages is not None])
def test_a_method_has_a_line_about_itself_and_does_what_the_plan_says(method: str) -> None:
    assert METHODS[method].name == method
    assert METHODS[method].summary
    stages = stages_of(method, PLAN, {})
    assert not stages or any(stage.rounds == PLAN.rounds for stage in stages)
    assert all(stage.local == PLAN.local for stage in stages)


@pytest.mark.parametrize(
    ("method", "private", "shared"),
    [  # of the toy: word table 32, layer 0 of 20 with a norm of 8, layer 1 of 20, head of 5
        ("isolated", 53, 0),
        ("central", 0, 53),
        ("fedavg", 0, 53),
        ("fedprox", 0, 53),
        ("fedopt", 0, 53),
        ("fedbn", 8, 45),
        ("fedper", 5, 48),
        ("lg_fedavg", 48, 5),
        ("ditto", 0, 53),
    ],
)
def test_what_is_private_and_what_is_shared(method: str, private: int, shared: int) -> None:
    layout = compile_layout(toy_model(), stage_of(method).sharing)
    assert (layout.n_private, layout.n_shared) == (private, shared)
    assert [entry.name for entry in layout.frozen] == ["words.weight"]


def test_embeddings_are_trained_only_if_asked_for() -> None:
    layout = compile_layout(toy_model(), stage_of("fedavg", train_embeddings=True).sharing)
    assert layout.frozen == ()
    assert layout.n_shared == 85
    private = compile_layout(toy_model(), stage_of("lg_fedavg", train_embeddings=True).sharing)
    assert private.n_private == 80


def test_zero_shot_trains_nothing() -> None:
    assert stages_of("zero_shot", PLAN, {}) == ()


def test_fedavg_is_plain() -> None:
    stage = stage_of("fedavg")
    assert stage.objective == (Term("task"),)
    assert stage.mixing == Mixing(Choice("size"), Choice("mean"), Choice("none"))
    assert stage.participation == Participation()
    assert stage.replica is None
    assert stage.channels == ()


def test_options_choose_weights_combiner_and_participants() -> None:
    stage = stage_of("fedper", weights="uniform", combiner="median", sample=3, quorum=2, timeout_s=5)
    assert stage.mixing == Mixing(Choice("uniform"), Choice("median"))
    assert stage.participation == Participation(3, 2, 5.0)


def test_fedprox_holds_silos_near_what_they_received() -> None:
    assert stage_of("fedprox").objective == (Term("task"), Term("prox", 0.01))
    assert stage_of("fedprox", proximal_weight=1).objective[1].weight == 1.0


def test_fedopt_has_an_optimiser_at_the_coordinator() -> None:
    assert stage_of("fedopt").mixing.optimiser == Choice("sgd")
    chosen = stage_of("fedopt", optimiser="adam", server_learning_rate=0.1).mixing.optimiser
    assert chosen == Choice("adam", {"learning_rate": 0.1})
    assert stage_of("fedopt", optimiser="damped", server_learning_rate=0.1).mixing.optimiser == Choice("damped")


def test_ditto_has_a_second_model() -> None:
    assert stage_of("ditto", proximal_weight=0.3).replica == Replica(0.3)


def test_central_opens_the_examples_channel_and_nobody_else_does() -> None:
    opening = [name for name in METHODS if any("examples" in stage.channels for stage in stages_of(name, PLAN, {}))]
    assert opening == ["central"]


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("fedavgg", {}, "unknown method 'fedavgg'; did you mean 'fedavg'"),
        ("fedavg", {"proximal_weight": 1.0}, r"unknown key 'proximal_weight' in \[method_options\] of method 'fedavg'"),
        ("isolated", {"sample": 2}, r"unknown key 'sample' in .* \(known: .*train_embeddings\)"),
        ("zero_shot", {"sample": 2}, r"unknown key 'sample' in .* \(known: none\)"),
        ("fedavg", {"combiner": "mode"}, "combiner: unknown value 'mode'"),
        ("fedopt", {"optimiser": "none"}, "optimiser: unknown value 'none'"),
        ("fedopt", {"server_learning_rate": -1.0}, "'sgd': learning_rate must be above 0, got -1.0"),
        ("ditto", {"proximal_weight": -1.0}, "replica: proximal_weight must be a number from 0, got -1.0"),
        ("fedavg", {"quorum": 0}, "participation: quorum must be at least 1, got 0"),
    ],
)
def test_an_option_that_cannot_be_is_refused(method: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        stages_of(method, PLAN, options)


def test_training_helps_whoever_does_it(tmp_path: Path) -> None:
    fits = {}
    for method in ("zero_shot", "isolated", "fedavg", "central"):
        course = toy_course(method, rounds=4, local=Local(batch=4, epochs=3, learning_rate=0.03))
        _, outcome = toy_run(course, tmp_path / method)
        fits[method] = sum(outcome.scores[silo]["personal/test/fit"].mean for silo in SIZES) / len(SIZES)
    untrained = fits.pop("zero_shot")
    assert min(fits.values()) > untrained + 0.1
