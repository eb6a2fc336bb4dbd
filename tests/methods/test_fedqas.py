# SPDX-License-Identifier: Apache-2.0
"""What FedQAS makes of its options, and one round of it against a hand computation."""

from pathlib import Path
from typing import Any

import pytest
import torch
from toys import SIZES, toy_course, toy_run, toy_setting

from fedqa.errors import ConfigError
from fedqa.federation.course import Choice, Stage
from fedqa.federation.messages import Train, Update
from fedqa.methods import stages_of
from fedqa.methods.method import Plan
from fedqa.training import Local, Term

PLAN = Plan(5, Local(batch=8))


def stage_of(**options: Any) -> Stage:
    (stage,) = stages_of("fedqas", PLAN, options)
    return stage


def test_by_default_everything_is_averaged_by_size() -> None:
    stage = stage_of()
    assert (stage.rounds, stage.local, stage.objective) == (5, PLAN.local, (Term("task"),))
    assert (stage.mixing.weigher, stage.mixing.combiner, stage.mixing.optimiser) == (
        Choice("size"),
        Choice("mean"),
        Choice("none"),
    )
    assert stage.sharing[-1] == ("*", "shared") and ("head", "private") not in stage.sharing


def test_damping_a_proximal_term_and_a_private_head_are_keys() -> None:
    stage = stage_of(server="damped", proximal_weight=0.1, private_head=True)
    assert stage.mixing.optimiser == Choice("damped")
    assert stage.objective == (Term("task"), Term("prox", 0.1))
    assert ("head", "private") in stage.sharing


def test_a_negative_proximal_weight_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"proximal_weight must be a number from 0, got -1"):
        stage_of(proximal_weight=-1.0)


@pytest.mark.parametrize(("server", "share"), [("none", 1.0), ("damped", 0.5)])
def test_two_rounds_are_means_by_size_and_damping_halves_the_second(server: str, share: float, tmp_path: Path) -> None:
    course = toy_course("fedqas", rounds=2, server=server)
    setting = toy_setting(course, tmp_path / "by_hand")
    weights = setting.start_of(0).weights.clone()
    for number in (1, 2):
        deltas = {}
        for silo in setting.silos:
            update = silo.handle(Train(course.fingerprint, number, weights)).content
            assert isinstance(update, Update)
            deltas[silo.name] = update.delta.clone()  # the silos take turns on one vector
        total = sum(SIZES.values())
        mean = sum(SIZES[name] / total * delta for name, delta in deltas.items())
        weights = weights + mean * (share if number == 2 else 1.0)
    coordinator, _ = toy_run(course, tmp_path / "run")
    (found,) = (tensor for name, tensor in coordinator.folder.checkpoint(2).items() if name.startswith("weights/"))
    assert torch.allclose(found, weights, atol=1e-6)
