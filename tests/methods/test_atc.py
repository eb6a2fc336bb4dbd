# SPDX-License-Identifier: Apache-2.0
"""The two stages of ATC, what travels in each, and a course of silos whose skills differ."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from toys import SIZES, toy_course, toy_run

from fedqa.config import course_of, sample_alliance
from fedqa.errors import ConfigError
from fedqa.evaluation.report_text import stage_facts
from fedqa.federation.course import Assignment, Choice, Course, Mixing
from fedqa.federation.ledger import Ledger, Row
from fedqa.federation.probe import STATES, TOKENS
from fedqa.federation.representations import FAR, NEAR
from fedqa.federation.sharing import compile_layout, matches
from fedqa.inspection import preview
from fedqa.methods import stages_of
from fedqa.methods.method import Plan
from fedqa.models.backbones import load_backbone
from fedqa.models.contrast import with_contrast_head
from fedqa.models.tagged import TaggedModel
from fedqa.runs import Setting, build, read_silo, run_setting
from fedqa.skills import make_skill
from fedqa.training import Local, Term

PLAN = Plan(3, Local(batch=4))
SKILLS = {"classify": {"classes": 4}, "generate": {}, "read": {"pair": True}, "mlm": {}}


@cache
def model_of(skill: str) -> TaggedModel:
    return with_contrast_head(make_skill(skill, SKILLS[skill], "test").build(load_backbone("tiny"), 0), 0)


# -- the stages --------------------------------------------------------------------------------------------------


def test_assigned_tasks_come_first_and_then_a_silos_own_with_contrast() -> None:
    assign, contrast = stages_of("atc", PLAN, {})
    assert (assign.name, assign.rounds, contrast.name, contrast.rounds) == ("assign", 3, "contrast", 3)
    assert assign.assign == Assignment(("mlm", "denoise"), 128)
    assert assign.mixing == Mixing(Choice("clusters", {"n": 5, "count": "examples"}))
    assert (assign.objective, assign.channels) == ((Term("task"),), ())
    assert contrast.assign is None
    assert contrast.mixing == Mixing(Choice("nearest", {"k": 7, "count": "examples"}))  # eight with the silo itself
    assert contrast.objective == (Term("task"), Term("contrast", 1.0))
    assert contrast.channels == ("probe", "representations")


def test_either_stage_can_be_left_out() -> None:
    (contrast,) = stages_of("atc", PLAN, {"assign": False})
    assert contrast == stages_of("atc", PLAN, {})[1]
    assign, own = stages_of("atc", PLAN, {"contrast": False})
    assert assign == stages_of("atc", PLAN, {})[0]
    assert (own.channels, own.objective, own.mixing) == ((), (Term("task"),), Mixing())
    assert own.sharing == contrast.sharing


def test_the_first_stage_may_be_of_another_length_and_pace() -> None:
    options = {
        "assign_rounds": 7,
        "assign_steps": 50,
        "assign_learning_rate": 1e-3,
        "tasks": ["mlm"],
        "text_length": 64,
    }
    assign, contrast = stages_of("atc", PLAN, options)
    assert (assign.rounds, assign.local) == (7, replace(PLAN.local, steps=50, learning_rate=1e-3))
    assert assign.assign == Assignment(("mlm",), 64)
    assert (contrast.rounds, contrast.local) == (3, PLAN.local)


def test_silos_may_first_train_alone_and_start_afresh_after_it() -> None:
    alone, assign, contrast = stages_of("atc", PLAN, {"alone_first": True})
    assert (alone.name, alone.fresh, assign.fresh, contrast.fresh) == ("alone", False, True, False)
    assert compile_layout(model_of("classify"), alone.sharing).n_received == 0
    assert alone.rounds == assign.rounds + contrast.rounds  # as much training as with the others
    alone, own = stages_of("atc", PLAN, {"alone_first": True, "assign": False, "contrast": False})
    assert (own.name, own.fresh) == ("own", True)


def test_options_reach_the_stage_that_they_are_for() -> None:
    options = {"neighbours": 4, "contrast_weight": 0.3, "count": "seen", "sample": 5, "quorum": 2}
    assign, contrast = stages_of("atc", PLAN, {**options, "probe": {"items": 9}, "representations": {"coordinates": 7}})
    assert contrast.mixing.weigher == Choice("nearest", {"k": 3, "count": "seen"})
    assert contrast.objective[1] == Term("contrast", 0.3)
    assert contrast.options_of("probe").items == 9
    assert contrast.options_of("representations").coordinates == 7
    assert assign.participation == contrast.participation
    assert (assign.participation.sample, assign.participation.quorum) == (5, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clusters": 0}, "clusters must be at least 1, got 0"),
        ({"neighbours": 1}, "neighbours must be at least 2, got 1"),
        ({"assign_rounds": 0}, "assign_rounds must be at least 1, got 0"),
        ({"tasks": []}, "an assignment needs at least one task"),
        ({"tasks": ["read"]}, "unknown value 'read'"),
        ({"contrast_weight": -1.0}, "objective term 'contrast' needs a weight of at least 0"),
        ({"probe": {"items": 0}}, "probe: items must be from 1"),
        ({"representations": {"temperature": 0}}, "representations: temperature must be above 0"),
        ({"weights": "size"}, "unknown key 'weights'"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        stages_of("atc", PLAN, options)


# -- what travels ------------------------------------------------------------------------------------------------


def test_silos_of_different_skills_send_the_same_parameters() -> None:
    for stage in stages_of("atc", PLAN, {}):
        assert len({compile_layout(model_of(skill), stage.sharing).fingerprint for skill in SKILLS}) == 1


@pytest.mark.parametrize("skill", SKILLS)
def test_heads_stay_home_and_in_the_second_stage_all_but_the_encoder(skill: str) -> None:
    model = model_of(skill)
    assign, contrast = (compile_layout(model, stage.sharing) for stage in stages_of("atc", PLAN, {}))
    sent = {entry.name: model.tags[entry.name] for entry in assign.received}
    assert all(matches("enc|dec|lm_head", tags) for tags in sent.values())
    assert any(matches("dec", tags) for tags in sent.values())
    assert assign.private == ()
    assert all(matches("enc", model.tags[entry.name]) for entry in contrast.received)
    private = {entry.name for entry in contrast.private}
    assert any(name.startswith("contrast.") for name in private)
    assert any(matches("dec", model.tags[name]) for name in private)
    assert not any(matches("enc|lm_head", model.tags[name]) for name in private)


# -- with toys ---------------------------------------------------------------------------------------------------


def test_who_trains_alone_first_is_never_worse_than_alone_on_its_own_dev_questions(tmp_path: Path) -> None:
    options = {"clusters": 2, "neighbours": 2, "probe": {"items": 6, "length": 6}}
    course = toy_course("atc", rounds=2, alone_first=True, **options)
    _, outcome = toy_run(course, tmp_path / "atc")
    _, alone = toy_run(toy_course("isolated", rounds=2), tmp_path / "alone")
    for silo in SIZES:
        assert outcome.scores[silo]["best/dev/fit"].mean >= alone.scores[silo]["best/dev/fit"].mean - 1e-12


# -- a whole course ----------------------------------------------------------------------------------------------


def course_of_four(**options: Any) -> tuple[Course, dict[str, Any]]:
    """Silos of the sample alliance: two read, one tells hidden words, one writes texts again."""
    small = {"neighbours": 2, "clusters": 2, "text_length": 24, "probe": {"items": 8, "length": 12}}
    skills = {
        "read": {"pair": True, "window": 64, "overlap": 32, "max_question": 16},
        "mlm": {"max_length": 24},
        "denoise": {"max_length": 24},
    }
    local = {"steps": 2, "batch": 4, "learning_rate": 1e-3}
    alliance = sample_alliance("atc", model="tiny", rounds=2, method_options={**small, **options}, local=local)
    kinds = zip(alliance.silo, ("read", "mlm", "denoise", "read"), strict=False)
    entries = tuple(replace(entry, skill=skill, limit=12) for entry, skill in kinds)
    return course_of(replace(alliance, silo=entries, skills=skills)), {entry.name: entry for entry in entries}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Setting, dict[str, Any]]:
    course, entries = course_of_four()
    data = {name: read_silo(name, entry.silo_data(), Path(), course.seed) for name, entry in entries.items()}
    setting = build(course, data, tmp_path_factory.mktemp("atc"))
    return setting, run_setting(setting, processes=1)


def rows_of(setting: Setting, silo: str) -> list[Row]:
    ledger = Ledger(setting.folder.silo(silo) / "ledger.sqlite")
    rows = list(ledger.rows())
    ledger.close()
    return rows


def test_silos_of_three_skills_learn_together_to_the_end(finished: tuple[Setting, dict[str, Any]]) -> None:
    setting, result = finished
    assert not result["refused"]
    records = setting.folder.records()
    assert [record.refused for record in records] == [()] * 4
    assert all(len(record.accepted) == 4 for record in records)
    assert {"f1", "accuracy"} <= {metric for silo in result["silos"].values() for metric in silo["best"]["test"]}


def test_all_that_left_a_silo_is_in_its_ledger(finished: tuple[Setting, dict[str, Any]]) -> None:
    setting, _ = finished
    width = 32
    for plan in setting.course.silos:
        told = [(row.round, row.kind, json.loads(row.tensors)) for row in rows_of(setting, plan.name)]
        sent = [entry for entry in told if entry[1] not in ("update", "report")]
        assert sent == [
            (3, "probe", {"key": [32]}),
            (3, "probe", {"masked": [8, 12, width]}),
            (3, "probe", {"tokens": [8, 12]}),
            (3, "probe", {}),
            (4, "representations", {"scale": [8], "places": [8, width // 8], "bytes": [8, 32]}),
            (4, "representations", {}),
        ]


def test_everybody_has_the_same_probe_set_and_others_to_compare_with(finished: tuple[Setting, dict[str, Any]]) -> None:
    setting, _ = finished
    inboxes = [silo.received(4) for silo in setting.silos]
    for inbox in inboxes:
        assert torch.equal(inbox[TOKENS], inboxes[0][TOKENS])
        assert torch.equal(inbox[STATES], inboxes[0][STATES])
        assert inbox[NEAR].shape == (8, 32)
        assert inbox[FAR].shape == (2, 8, 32)  # of three others one is near


def test_the_words_of_the_probe_set_are_no_window_of_anybodys_text(finished: tuple[Setting, dict[str, Any]]) -> None:
    setting, _ = finished
    for row in setting.silos[0].received(4)[TOKENS].tolist():
        for silo in setting.silos:
            for text in silo.texts.texts:
                assert not _holds(text.tokens.tolist(), row[1:9])


def _holds(text: list[int], part: list[int]) -> bool:
    return any(text[start : start + len(part)] == part for start in range(len(text)))


def test_what_would_leave_a_silo_is_shown_before(finished: tuple[Setting, dict[str, Any]]) -> None:
    setting, _ = finished
    shown = preview(setting.course)
    assign, contrast = shown.stages
    assert assign.channels == ()
    assert [name for name, _ in contrast.channels] == ["probe", "representations"]
    assert contrast.bytes_up < assign.bytes_up
    assert assign.warnings == contrast.warnings == ()
    sent = {(part.group.partition(".")[0], part.mode) for part in contrast.parts if part.mode == "shared"}
    assert sent == {("enc", "shared"), ("norm", "shared")}


def test_what_silos_are_assigned_is_told_with_a_stage() -> None:
    course, _ = course_of_four()
    assign, contrast = (dict(stage_facts(course, stage)) for stage in course.stages)
    assert assign["Task"] == ["mlm, denoise: one a round, the same for all silos, on texts without labels"]
    assert "Task" not in contrast
    assert contrast["Objective"] == ["task + contrast"]


def test_a_probe_set_that_gives_texts_away_is_warned_of() -> None:
    course, _ = course_of_four(probe={"items": 8, "length": 12, "noise": 0.0})
    assign, contrast = preview(course).stages
    assert assign.warnings == ()
    assert ["may give whole sentences of one silo away" in warning for warning in contrast.warnings] == [True]


def test_a_skill_without_a_pair_is_refused_with_a_remedy() -> None:
    course, _ = course_of_four()
    plan = replace(course.silos[0], skill="match", skill_options={})
    with pytest.raises(
        ConfigError, match=r"skill 'match' has a model without the encoder-decoder .* or another method"
    ):
        preview(replace(course, silos=(plan, *course.silos[1:])))


def test_texts_longer_than_the_model_reads_are_refused(tmp_path: Path) -> None:
    course, entries = course_of_four(text_length=4096)
    name, entry = next(iter(entries.items()))
    with pytest.raises(ConfigError, match=r"stage 'assign': assign\.length must be at most \d+"):
        build(replace(course, silos=course.silos[:1]), {name: read_silo(name, entry.silo_data(), Path(), 13)}, tmp_path)
