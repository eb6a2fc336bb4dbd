# SPDX-License-Identifier: Apache-2.0
"""What FedMatch makes of its options, what stays home, and that its best model is never worse than training alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from toys import SIZES, toy_coordinator, toy_course, toy_run, toy_setting

from fedqa.config import course_of, sample_alliance
from fedqa.errors import ConfigError
from fedqa.federation.course import Choice, Stage
from fedqa.federation.messages import Train, Update
from fedqa.federation.sharing import compile_layout
from fedqa.federation.silo_state import Best, SiloState
from fedqa.methods import patches_of, stages_of
from fedqa.methods.method import Plan
from fedqa.models.backbones import load_backbone
from fedqa.models.layout import Layout
from fedqa.models.patches import Patch, patched
from fedqa.runs import build, read_silo, run_setting
from fedqa.skills import make_skill
from fedqa.training import Local

PLAN = Plan(6, Local(batch=2))
# Of the tiny model (2 layers of 32, feed-forward 64): a layer has 4 x (32 x 32 + 32) for attention, 64 x 32 + 64 and
# 32 x 64 + 32 for the feed-forward, and two norms of 64. Words, positions and pooler are frozen; the head is one scale.
LINEAR, NORMS, HEAD = 4 * 1056 + 2112 + 2080, 128, 1


def stage_of(**options: Any) -> Stage:
    (stage,) = stages_of("fedmatch", PLAN, {"alone_first": False, **options})
    return stage


def layout_of(**options: Any) -> Layout:
    backbone = patched(load_backbone("tiny"), patches_of("fedmatch", options), seed=0)
    return compile_layout(make_skill("match", {}, "test").build(backbone, 0), stage_of(**options).sharing)


def low_rank(width: int) -> int:
    return 32 * width + width + width * 32 + 32


def test_patches_and_norms_stay_home_and_the_rest_is_shared() -> None:
    layout = layout_of(width=8)
    assert layout.n_private == 2 * low_rank(8) + 2 * NORMS
    assert layout.n_shared == 2 * LINEAR + HEAD


def test_norms_can_be_shared_and_the_head_kept() -> None:
    layout = layout_of(width=8, private_norms=False, private_head=True)
    assert layout.n_private == 2 * low_rank(8) + HEAD
    assert layout.n_shared == 2 * (LINEAR + NORMS)


@pytest.mark.parametrize(("k", "shared"), [(2, 2 * LINEAR), (1, LINEAR), (0, 0)])
def test_only_the_lowest_layers_are_shared_if_asked_for(k: int, shared: int) -> None:
    assert layout_of(share_layers=k).n_shared == shared + HEAD


def test_with_low_rank_sharing_the_backbone_stays_as_loaded_and_an_adapter_travels() -> None:
    options = {"share": "low_rank", "width": 8, "adapter_width": 4}
    layout = layout_of(**options)
    assert layout.n_shared == 4 * low_rank(4) + HEAD  # two places a layer
    assert layout.n_private == 2 * low_rank(8) + 2 * NORMS
    assert [patch.name for patch in patches_of("fedmatch", options)] == ["patch", "adapter"]


def test_by_default_silos_count_alike_and_the_patch_is_a_bypass_of_each_layer() -> None:
    assert stage_of().mixing.weigher == Choice("uniform")
    assert patches_of("fedmatch", {}) == (Patch("patch", "layer_parallel", "low_rank", 64),)


def test_options_choose_the_patch() -> None:
    (patch,) = patches_of("fedmatch", {"site": "stack_parallel", "patch": "pal", "merge": "own_norm", "width": 12})
    assert patch == Patch("patch", "stack_parallel", "pal", 12, "own_norm", heads=4)


@pytest.mark.parametrize(("every", "rounds"), [(1, 6), (2, 3), (3, 2), (4, 2)])
def test_rarer_rounds_have_more_epochs(every: int, rounds: int) -> None:
    stage = stage_of(aggregate_every=every)
    assert (stage.rounds, stage.local.epochs) == (rounds, every)


def test_silos_can_be_drawn_and_weighted() -> None:
    stage = stage_of(sample=2, weights="lorar")
    assert stage.participation.sample == 2
    assert stage.mixing.weigher == Choice("lorar")
    assert stage_of(weights="nearest").mixing.one_row is False


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aggregate_every": 0}, "aggregate_every must be at least 1 epoch, got 0"),
        ({"share_layers": -1}, "share_layers must be 0 or more, got -1"),
        ({"share_layers": 1, "share": "low_rank"}, 'share_layers goes with share = "full"'),
        ({"site": "roof"}, "roof"),
        ({"merge": "own_norm"}, "own_norm"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        stages_of("fedmatch", PLAN, options)
        patches_of("fedmatch", options)


# -- never worse than alone --------------------------------------------------------------------------------------


def state_of(folder: Path, silo: str) -> SiloState:
    return SiloState(folder / "silos" / silo / "state")


def best(folder: Path, silo: str) -> Best:
    found = state_of(folder, silo).best()
    assert found is not None
    return found


def test_training_alone_comes_first_and_the_federated_stage_starts_afresh() -> None:
    alone, federated = stages_of("fedmatch", PLAN, {})
    assert (alone.name, alone.rounds, alone.fresh) == ("alone", 6, False)
    assert (federated.name, federated.rounds, federated.fresh) == ("federate", 6, True)
    (isolated,) = stages_of("isolated", PLAN, {})
    assert isolated.local == alone.local


def test_the_first_stage_is_training_alone_bit_for_bit(tmp_path: Path) -> None:
    toy_run(toy_course("isolated"), tmp_path / "isolated")
    toy_run(toy_course("fedmatch"), tmp_path / "fedmatch")
    for silo in SIZES:
        isolated = SiloState(tmp_path / "isolated" / "silos" / silo / "state").newest("personal", 3, 4)
        # Of the two newest of six rounds none is of the first stage, but its end is kept.
        alone = SiloState(tmp_path / "fedmatch" / "silos" / silo / "state").newest("stage", 1, 2)
        assert alone.keys() == isolated.keys()
        assert all(torch.equal(alone[name], isolated[name]) for name in alone)


def test_the_federated_stage_starts_from_the_loaded_model_with_nothing_of_the_time_alone(tmp_path: Path) -> None:
    setting = toy_setting(toy_course("fedmatch"), tmp_path)
    toy_coordinator(setting).run()
    silo, loaded = setting.silos[0], setting.start_of(1).weights
    bench = setting.workshop.bench(silo.skill, 1)
    bench.model.buffer.fill_(7.0)  # whatever the silo before left
    silo._receive(bench, 1, before_round=4, weights=loaded)
    assert torch.equal(bench.model.buffer, bench.model.loaded)
    alone = silo.state.newest("stage", 1, 2)
    assert any(not torch.equal(value, bench.model.state()[name]) for name, value in alone.items())


def test_a_silo_that_was_away_while_the_others_trained_alone_can_still_take_part(tmp_path: Path) -> None:
    setting = toy_setting(toy_course("fedmatch"), tmp_path)
    silo, course = setting.silos[0], setting.course
    start = setting.start_of(1)
    reply = silo.handle(Train(course.fingerprint, 4, start.weights)).content
    assert isinstance(reply, Update)


def test_the_best_model_is_never_worse_on_dev_than_training_alone(tmp_path: Path) -> None:
    toy_run(toy_course("isolated"), tmp_path / "isolated")
    toy_run(toy_course("fedmatch"), tmp_path / "fedmatch")
    for silo in SIZES:
        assert best(tmp_path / "fedmatch", silo).score >= best(tmp_path / "isolated", silo).score


def test_a_silos_own_model_is_half_what_it_learnt_alone_and_half_what_it_learnt_together(tmp_path: Path) -> None:
    toy_run(toy_course("fedmatch"), tmp_path)
    rounds = toy_course("fedmatch").rounds
    for silo in SIZES:
        state = state_of(tmp_path, silo)
        alone, together = state.newest("stage", 1, 2), state.newest("personal", 0, rounds + 1)
        own = state.personal(rounds)
        assert not all(torch.equal(alone[name], together[name]) for name in alone)
        for name, value in own.items():
            expected = (alone[name] + together[name]) / 2 if name in alone else together[name]  # a patch is kept whole
            assert torch.allclose(value, expected, atol=1e-6)


def test_without_blending_a_silos_own_model_is_as_it_was_last_trained(tmp_path: Path) -> None:
    toy_run(toy_course("fedmatch", blend=0.0), tmp_path)
    state, rounds = state_of(tmp_path, "ash"), toy_course("fedmatch").rounds
    own, trained = state.personal(rounds), state.newest("personal", 0, rounds + 1)
    assert own.keys() == trained.keys() and all(torch.equal(own[name], trained[name]) for name in own)


def test_a_course_that_goes_on_leaves_the_mixture_behind(tmp_path: Path) -> None:
    toy_run(toy_course("fedmatch"), tmp_path)
    state, rounds = state_of(tmp_path, "ash"), toy_course("fedmatch").rounds
    trained = state.newest("personal", 0, rounds + 1)
    assert all(torch.equal(value, trained[name]) for name, value in state.personal(rounds + 1).items())


@pytest.mark.parametrize("blend", [-0.1, 1.0])
def test_a_blend_is_a_share(blend: float) -> None:
    with pytest.raises(ConfigError, match=f"blend must be a share from 0 to below 1, got {blend}"):
        stages_of("fedmatch", PLAN, {"blend": blend})


@pytest.mark.parametrize("share", ["full", "low_rank"])
def test_a_training_on_the_sample_alliance_runs_from_end_to_end(share: str, tmp_path: Path) -> None:
    options = {"share": share, "width": 8, "adapter_width": 4}
    alliance = sample_alliance("fedmatch", model="tiny", rounds=1, method_options=options)
    course = course_of(alliance)
    data = {entry.name: read_silo(entry.name, entry.silo_data(), Path(), 13) for entry in alliance.silo[:2]}
    setting = build(replace(course, silos=course.silos[:2]), data, tmp_path)
    result = run_setting(setting, processes=1)
    assert not result["refused"]
    for silo in data:
        assert result["silos"][silo]["best"]["dev"]["map"] >= result["silos"][silo]["personal"]["dev"]["map"]
