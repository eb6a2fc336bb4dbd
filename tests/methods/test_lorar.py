# SPDX-License-Identifier: Apache-2.0
"""What Lorar makes of its options, that weights follow the losses silos tell, and a course of silos with databases."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from toys import SIZES, toy_course, toy_run, toy_setting

from fedqa.config import Alliance, course_of
from fedqa.data.sample_queries import sample_queries
from fedqa.data.splits import limited, split
from fedqa.errors import ConfigError
from fedqa.federation.course import Choice, Stage
from fedqa.federation.messages import LossSummary, Train, Update
from fedqa.federation.sharing import compile_layout
from fedqa.federation.weighers import Lorar
from fedqa.methods import patches_of, stages_of
from fedqa.methods.method import Plan
from fedqa.models.backbones import load_backbone
from fedqa.models.patches import Patch, patched
from fedqa.runs import build, run_setting
from fedqa.skills import make_skill
from fedqa.tables import from_table
from fedqa.training import Local, Term

PLAN = Plan(4, Local(batch=4))
TOLD = {"estimator": "max_min", "relative": False, "cap_factor": 3.0}


def stage_of(**options: Any) -> Stage:
    (stage,) = stages_of("lorar", PLAN, options)
    return stage


def test_by_default_it_is_fedopt_by_size_and_progress() -> None:
    stage = stage_of()
    assert stage.mixing.weigher == Choice("lorar", TOLD)
    assert stage.mixing.optimiser == Choice("sgd", {"learning_rate": 1.0, "momentum": 0.9})
    assert stage.objective == (Term("task"),)
    assert (stage.rounds, stage.loss_window, stage.local) == (4, 4, PLAN.local)
    assert (stage.loss_probe, stage_of(probe=24).loss_probe) == (0, 24)


def test_the_other_algorithms_average() -> None:
    assert stage_of(algorithm="fedavg").mixing.optimiser == Choice("none")
    prox = stage_of(algorithm="fedprox")
    assert prox.mixing.optimiser == Choice("none")
    assert prox.objective == (Term("task"), Term("prox", 1e-4))


def test_weights_by_size_or_alike_have_no_options() -> None:
    assert stage_of(weights="size").mixing.weigher == Choice("size")
    assert stage_of(weights="uniform").mixing.weigher == Choice("uniform")
    only = stage_of(weights="loss_reduction", estimator="first_last", relative=True, cap_factor=9.0, window=1)
    told = {"estimator": "first_last", "relative": True, "cap_factor": 9.0}
    assert (only.mixing.weigher, only.loss_window) == (Choice("loss_reduction", told), 1)


def test_head_and_patch_stay_home_if_asked_for() -> None:
    skill = make_skill("parse", {"train_encoder": True}, "test")
    tagged = skill.build(load_backbone("tiny"), 0)
    whole, home = (compile_layout(tagged, stage_of(private_head=own).sharing) for own in (False, True))
    assert whole.n_private == 0
    head = {name for name, tags in tagged.tags.items() if "head" in tags}
    assert {entry.name for entry in home.private} == head
    assert home.n_shared + home.n_private == whole.n_shared

    options = {"patch": "low_rank", "width": 8}
    assert patches_of("lorar", options) == (Patch("patch", width=8),)
    assert patches_of("lorar", {}) == ()
    with_patch = skill.build(patched(load_backbone("tiny"), patches_of("lorar", options), seed=0), 0)
    layout = compile_layout(with_patch, stage_of(**options).sharing)
    assert layout.n_private == 2 * (32 * 8 + 8 + 8 * 32 + 32)  # a patch in each of two layers
    assert stage_of(**options).rates == (("patch", 10.0),)


def test_in_the_last_rounds_each_silo_may_go_on_by_itself() -> None:
    together, own = stages_of("lorar", PLAN, {"own_rounds": 1, "patch": "low_rank"})
    assert (together.rounds, own.rounds) == (3, 1)
    assert replace(together, rounds=4, name="train") == stage_of(patch="low_rank")
    assert own.rates == together.rates
    assert own.local == together.local == PLAN.local
    together, own = stages_of("lorar", PLAN, {"own_rounds": 1, "own_learning_rate": 1e-5})
    assert (together.local, own.local) == (PLAN.local, replace(PLAN.local, learning_rate=1e-5))
    tagged = make_skill("parse", {}, "test").build(load_backbone("tiny"), 0)
    shared, home = (compile_layout(tagged, stage.sharing) for stage in (together, own))
    assert home.n_shared == 0 and home.n_private == shared.n_shared > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"own_rounds": 4}, "own_rounds must be from 0 to below the 4 rounds, got 4"),
        ({"own_rounds": -1}, "own_rounds must be from 0 to below the 4 rounds, got -1"),
        ({"patch_rate": 0.0}, "patch_rate must be above 0, got 0.0"),
        ({"cap_factor": 0.5}, "cap_factor must be a number from 1, got 0.5"),
        ({"window": 0}, "loss_window must be at least 1 step, got 0"),
        ({"momentum": 1.0}, "momentum must be from 0 to below 1, got 1.0"),
        ({"algorithm": "fedadam"}, "algorithm: unknown value 'fedadam'"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        stage_of(**options)


# -- losses and weights ------------------------------------------------------------------------------------------


def test_losses_are_told_as_means_of_windows() -> None:
    losses = [4.0, 2.0, 1.0, 3.0, 0.5]
    assert LossSummary.of(losses) == LossSummary(4.0, 0.5, 4.0, 0.5)
    # windows of two: 3, 2 and, left over, 0.5
    assert LossSummary.of(losses, 2) == LossSummary(3.0, 0.5, 3.0, 0.5)
    assert LossSummary.of(losses, 4) == LossSummary(2.5, 0.5, 2.5, 0.5)
    assert LossSummary.of(losses, 99) == LossSummary.of(losses, 2)  # one window alone would be left
    assert LossSummary.of([2.0], 4) == LossSummary(2.0, 2.0, 2.0, 2.0)  # one step: no loss fell


def test_a_silo_tells_its_losses_by_the_windows_of_the_stage(tmp_path: Path) -> None:
    told = []
    for window in (1, 2):
        course = toy_course("lorar", weights="size", window=window, rounds=1)
        setting = toy_setting(course, tmp_path / str(window))
        reply = setting.silos[0].handle(Train(course.fingerprint, 1, setting.start_of(0).weights)).content
        assert isinstance(reply, Update) and reply.n_steps == 3  # twelve examples, four in a batch
        told.append(reply)
    single, double = (one.loss for one in told)
    assert torch.equal(told[0].delta, told[1].delta)
    assert double.first == double.max < single.max  # the mean of the first two is the higher window
    assert double.last == double.min == single.last == single.min  # the third step is a window of its own


def test_the_new_weights_are_the_mean_by_size_times_progress(tmp_path: Path) -> None:
    course = toy_course("lorar", algorithm="fedavg", window=1, cap_factor=1e9, rounds=1)
    setting = toy_setting(course, tmp_path / "asked")
    start = setting.start_of(0).weights
    replies = [silo.handle(Train(course.fingerprint, 1, start.clone())).content for silo in setting.silos]
    updates = [reply for reply in replies if isinstance(reply, Update)]
    shares = torch.tensor([SIZES[u.silo] * (u.loss.max - u.loss.min) for u in updates], dtype=torch.float64)
    expected = start.double() + sum(w * u.delta for w, u in zip(shares / shares.sum(), updates, strict=True))
    coordinator, _ = toy_run(course, tmp_path / "run")
    (mixed,) = (tensor for name, tensor in coordinator._tensors().items() if name.startswith("weights/"))
    assert torch.allclose(mixed.double(), expected, atol=1e-6)


def test_relative_progress_does_not_favour_large_losses() -> None:
    losses = [LossSummary(10.0, 5.0, 10.0, 5.0), LossSummary(2.0, 1.0, 2.0, 1.0), LossSummary(0.0, 0.0, 0.0, 0.0)]
    updates = [
        Update("s", "toys", 1, "toy", torch.zeros(1), n_examples=3, n_seen=3, n_steps=2, loss=loss) for loss in losses
    ]
    # both fell by half, the third not at all
    assert Lorar(relative=True).row(updates).tolist() == pytest.approx([0.5, 0.5, 0.0], abs=1e-6)
    assert Lorar(cap_factor=1e9).row(updates).tolist() == pytest.approx([5 / 6, 1 / 6, 0.0], abs=1e-6)


# -- silos with databases ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "options"), [("lorar", {}), ("lorar", {"own_rounds": 1}), ("central", {}), ("isolated", {})]
)
def test_silos_with_databases_learn_together(method: str, options: dict[str, int], tmp_path: Path) -> None:
    table = {
        "name": "databases",
        "method": method,
        "method_options": options,
        "model": "tiny",
        "rounds": 2,
        "local": {"batch": 8, "learning_rate": 1e-3},
        "skills": {"parse": {"decoder_layers": 1, "max_steps": 40}},
        "silo": [{"name": name, "skill": "parse", "data": {"sample": name}} for name in ("hospital", "bank")],
    }
    course = course_of(from_table(Alliance, table, "test"))
    course = replace(course, silos=tuple(replace(plan, local={"epochs": 2}) for plan in course.silos))
    data = {name: split(limited(sample_queries(name, tmp_path), 30, 1), 1) for name in ("hospital", "bank")}
    result = run_setting(build(course, data, tmp_path / "run"), processes=1)
    assert set(result["silos"]) == {"hospital", "bank"}
    assert set(result["silos"]["bank"]["best"]["test"]) == {"em"}
    assert result["rounds"] == 2
