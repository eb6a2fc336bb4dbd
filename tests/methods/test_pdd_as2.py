# SPDX-License-Identifier: Apache-2.0
"""The three stages of PDD-AS2, what moves in each, and a whole course from silo to silo."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fedqa.config import course_of, sample_alliance
from fedqa.errors import ConfigError
from fedqa.federation.course import Course
from fedqa.federation.ledger import Ledger
from fedqa.federation.sharing import compile_layout
from fedqa.methods import stages_of
from fedqa.methods.method import Plan
from fedqa.models.backbones import load_backbone
from fedqa.runs import Setting, build, read_silo, run_setting
from fedqa.skills import make_skill
from fedqa.training import Local

PLAN = Plan(3, Local(batch=4))


def test_the_stages_follow_one_another() -> None:
    warm, hard, customise = stages_of("pdd_as2", PLAN, {})
    assert [(stage.name, stage.rounds) for stage in (warm, hard, customise)] == [
        ("warm", 2),
        ("hard", 3),
        ("customise", 2),
    ]
    assert warm.draws["sources"] == ["bm25", "gold"]
    assert (hard.draws["sources"], hard.draws["pool"]) == (["index"], 300)
    assert customise.draws["sources"] == ["dynamic", "fed"]
    assert [stage.channels for stage in (warm, hard, customise)] == [(), (), ("fed_negative",)]


def test_both_towers_travel_and_then_only_the_question_tower_learns_at_home() -> None:
    model = make_skill("retrieve", {}, "test").build(load_backbone("tiny"), 0)
    warm, hard, customise = (compile_layout(model, stage.sharing) for stage in stages_of("pdd_as2", PLAN, {}))
    assert warm.n_private == hard.n_private == 0
    assert customise.n_shared == 0
    assert 2 * customise.n_private == warm.n_shared  # two towers alike
    assert all("tower.query" in model.tags[entry.name] for entry in customise.private)


def test_negatives_of_other_silos_can_be_left_out_or_used_earlier() -> None:
    *_, customise = stages_of("pdd_as2", PLAN, {"customise_with": "own"})
    assert (customise.channels, customise.draws["sources"]) == ((), ["dynamic"])
    _, hard, _ = stages_of("pdd_as2", PLAN, {"fed_negative_in_hard": True})
    assert (hard.channels, hard.draws["sources"]) == (("fed_negative",), ["index", "fed"])


def test_stages_without_rounds_are_left_out() -> None:
    (hard,) = stages_of("pdd_as2", PLAN, {"warm_rounds": 0, "customise_rounds": 0})
    assert (hard.name, hard.rounds) == ("hard", 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"warm_rounds": -1}, "warm_rounds must be at least 0, got -1"),
        ({"hard_rounds": -1}, "hard_rounds must be at least 0, got -1"),
        ({"warm_rounds": 0, "hard_rounds": 0, "customise_rounds": 0}, "has no rounds at all"),
        ({"pool": 3}, "pool must be at least negatives = 8, got 3"),
        ({"fed_negative": {"noise": -1}}, "noise must be a number from 0"),
        ({"fed_negative": {"loudness": 1}}, "loudness"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        stages_of("pdd_as2", PLAN, options)


@pytest.mark.parametrize(("source", "stages"), [("random", 1), ("bm25", 1), ("index", 2)])
def test_dense_alone_shares_nothing(source: str, stages: int) -> None:
    found = stages_of("dense", PLAN, {"negatives_from": source})
    assert len(found) == stages
    assert found[-1].draws["sources"] == [source]
    model = make_skill("retrieve", {}, "test").build(load_backbone("tiny"), 0)
    assert all(compile_layout(model, stage.sharing).n_shared == 0 for stage in found)


def test_dense_can_be_trained_on_all_examples_pooled() -> None:
    found = stages_of("dense", PLAN, {"pooled": True})
    assert [stage.channels for stage in found] == [("examples",), ("examples",)]
    model = make_skill("retrieve", {}, "test").build(load_backbone("tiny"), 0)
    assert all(compile_layout(model, stage.sharing).n_private == 0 for stage in found)


# -- a whole course ----------------------------------------------------------------------------------------------


def course_on_two_silos(**options: Any) -> tuple[Course, Setting | None]:
    alliance = sample_alliance("pdd_as2", model="tiny", rounds=1, method_options=options)
    entries = tuple(replace(entry, skill="retrieve") for entry in alliance.silo[:2])
    return course_of(replace(alliance, silo=entries)), None


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Setting, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("pdd")
    options = {"warm_rounds": 1, "customise_rounds": 1, "customise_negatives": 10}
    course, _ = course_on_two_silos(**options, fed_negative={"questions": 12, "sentences": 3})
    entries = {entry.name: entry for entry in sample_alliance("pdd_as2").silo}
    data = {
        plan.name: read_silo(plan.name, entries[plan.name].silo_data(), Path(), course.seed) for plan in course.silos
    }
    setting = build(course, data, folder)
    return setting, run_setting(setting, processes=1)


def test_a_course_on_the_sample_alliance_runs_to_its_end(finished: tuple[Setting, dict[str, Any]]) -> None:
    setting, result = finished
    assert not result["refused"]
    for plan in setting.course.silos:
        assert 0 <= result["silos"][plan.name]["personal"]["test"]["mrr10"] <= 1


def test_every_exchange_is_in_the_ledger_and_none_has_text(finished: tuple[Setting, dict[str, Any]]) -> None:
    setting, _ = finished
    for plan in setting.course.silos:
        ledger = Ledger(setting.folder.silo(plan.name) / "ledger.sqlite")
        sent = [row for row in ledger.rows() if row.kind not in ("update", "report")]
        assert {row.kind for row in sent} == {"fed_negative"}
        ledger.close()
        assert len(sent) == 3  # ask, search, deliver
        width, asked, others = 32, 12, 12
        assert [json.loads(row.tensors) for row in sent] == [
            {"bytes": [asked, 1, width], "scale": [asked, 1]},
            {"bytes": [others, 3, width], "scale": [others, 3]},
            {},
        ]


def test_the_vectors_of_the_other_silo_arrive(finished: tuple[Setting, dict[str, Any]]) -> None:
    setting, _ = finished
    for silo in setting.silos:
        inbox = silo.state.newest("inbox", 3, 4)["negatives"]
        assert inbox.shape[:2] == (silo.features.n_train, 3)
        asked = inbox.abs().sum(dim=(1, 2)) > 0
        assert int(asked.sum()) == min(12, silo.features.n_train)


def test_after_customising_the_sentence_towers_are_still_the_same(finished: tuple[Setting, dict[str, Any]]) -> None:
    setting, _ = finished
    first, second = (silo.state.newest("stage", 3, 4) for silo in setting.silos)
    tags = setting.workshop.bench(setting.silos[0].skill, 2).model.model.tags
    for name in first:
        same = torch.equal(first[name], second[name])
        assert same or "tower.query" in tags[name]
    assert any(not torch.equal(first[name], second[name]) for name in first)
