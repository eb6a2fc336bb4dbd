# SPDX-License-Identifier: Apache-2.0
"""Methods with a model for each silo or group, and baselines that share an encoder among skills that differ."""

from functools import cache
from typing import Any

import pytest
from toys import toy_model

from fedqa.errors import ConfigError
from fedqa.federation.course import Choice, Mixing, Stage
from fedqa.federation.sharing import compile_layout
from fedqa.methods import stages_of
from fedqa.methods.method import Plan
from fedqa.models.backbones import load_backbone
from fedqa.models.tagged import TaggedModel
from fedqa.skills import make_skill
from fedqa.training import Local

PLAN = Plan(4, Local(batch=2))


def stage_of(method: str, **options: Any) -> Stage:
    (stage,) = stages_of(method, PLAN, options)
    return stage


@cache
def models_of_three_skills() -> list[TaggedModel]:
    skills = {"classify": {"classes": 3}, "generate": {}, "read": {"pair": True}}
    return [make_skill(name, options, "test").build(load_backbone("tiny"), 0) for name, options in skills.items()]


def test_silos_of_one_task_share_all_but_their_heads() -> None:
    stage = stage_of("fedavg_st")
    assert stage.mixing == Mixing(Choice("groups"))
    layout = compile_layout(toy_model(), stage.sharing)
    assert {entry.name for entry in layout.private} == {"head.weight", "head.bias"}
    assert compile_layout(toy_model(), stage_of("fedavg_st", private_head=False).sharing).n_private == 0


def test_percfl_parts_by_its_two_norms() -> None:
    stage = stage_of("percfl", mean_below=0.2, one_above=0.5, smallest=3)
    assert stage.mixing == Mixing(Choice("bipartition", {"mean_below": 0.2, "one_above": 0.5, "smallest": 3}))


def test_spfl_weighs_by_similarity() -> None:
    assert stage_of("spfl", sharpness=2.0).mixing == Mixing(Choice("similarity", {"sharpness": 2.0}))


@pytest.mark.parametrize("method", ["fedavg", "fedprox", "fedopt", "ditto", "percfl", "spfl"])
def test_with_skills_that_differ_the_encoder_is_what_all_have(method: str) -> None:
    stage = stage_of(method, part="encoder")
    models = models_of_three_skills()
    layouts = [compile_layout(model, stage.sharing) for model in models]
    assert len({layout.fingerprint for layout in layouts}) == 1
    assert all("enc." in "".join(sorted(models[0].tags[entry.name])) for entry in layouts[0].shared)
    assert layouts[0].n_private > 0


def test_fedbn_keeps_norms_at_home_in_the_shared_part_too() -> None:
    layout = compile_layout(toy_model(), stage_of("fedbn", part="encoder").sharing)
    assert {entry.name.split(".")[0] for entry in layout.private} == {"norm", "head"}


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("fedavg", {"part": "decoder"}, "part: unknown value 'decoder'"),
        ("percfl", {"smallest": 0}, "bipartition: smallest must be at least 1, got 0"),
        ("spfl", {"sharpness": -1.0}, "similarity: sharpness must be above 0, got -1.0"),
        ("spfl", {"weights": "size"}, "unknown key 'weights'"),
        ("fedavg_st", {"part": "encoder"}, "unknown key 'part'"),
    ],
)
def test_an_option_that_cannot_be_is_refused(method: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        stages_of(method, PLAN, options)
