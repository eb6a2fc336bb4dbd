# SPDX-License-Identifier: Apache-2.0
"""Courses: what is refused, where rounds belong, and fingerprints that mean what they say."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from toys import toy_course, with_stage

from fedqa.errors import ConfigError
from fedqa.federation.course import (
    POOL,
    Choice,
    Course,
    Evaluation,
    Mixing,
    Participation,
    Replica,
    SiloPlan,
    Stage,
)
from fedqa.tables import from_table, to_table
from fedqa.training import Local, Term

SHARED = (("*", "shared"),)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mixing(Choice("sise")), "unknown weigher 'sise' in mixing; did you mean 'size'"),
        (lambda: Mixing(combiner=Choice("mode")), "unknown combiner 'mode' in mixing"),
        (lambda: Mixing(optimiser=Choice("adamw")), "unknown server optimiser 'adamw' in mixing; did you mean 'adam'"),
        (lambda: Mixing(Choice("size", {"power": 2})), "unknown key 'power' in options of weigher 'size'"),
        (lambda: Mixing(combiner=Choice("trimmed_mean", {"share": 0.5})), "share from 0 to below 0.5, got 0.5"),
        (lambda: Mixing(combiner=Choice("krum", {"keep": 0})), "krum needs bad >= 0 and keep >= 1, got bad = 1"),
        (lambda: Mixing(optimiser=Choice("sgd", {"momentum": 1})), "'sgd': momentum must be from 0 to below 1, got 1"),
        (lambda: Mixing(optimiser=Choice("adam", {"learning_rate": 0})), "'adam': learning_rate must be above 0"),
        (lambda: Mixing(optimiser=Choice("yogi", {"floor": -1.0})), "'yogi': floor must be above 0, got -1.0"),
        (lambda: Participation(sample=0), "participation: sample must be at least 1, got 0"),
        (lambda: Participation(quorum=0), "participation: quorum must be at least 1, got 0"),
        (lambda: Participation(timeout_s=0.0), "participation: timeout_s must be above 0, got 0.0"),
        (lambda: Participation(timeout_s=float("inf")), "participation: timeout_s must be above 0, got inf"),
        (lambda: Replica(-0.1), "replica: proximal_weight must be a number from 0, got -0.1"),
        (lambda: Stage(0, SHARED), "stage 'train' needs at least 1 round, got 0"),
        (lambda: Stage(1, SHARED, loss_window=0), "stage 'train': loss_window must be at least 1 step, got 0"),
        (lambda: Stage(1, SHARED, loss_probe=-1), "stage 'train': loss_probe must be 0 or more examples, got -1"),
        (lambda: Stage(1, (("hed", "shared"),)), "unknown selector 'hed' in stage 'train'"),
        (lambda: Stage(1, SHARED, channels=("gossip",)), "unknown channel 'gossip' in stage 'train'"),
        (lambda: SiloPlan("two words"), "silo name 'two words' cannot be used"),
        (lambda: SiloPlan("../up"), "silo name '../up' cannot be used"),
        (lambda: SiloPlan("a" * 65), "1 to 64 letters"),
        (lambda: SiloPlan(POOL), "silo name 'pool' cannot be used"),
        (lambda: Evaluation(every=-1), "evaluation: every must be 0 or more, got -1"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_made(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"silos": ()}, r"a course needs at least one silo \(\[\[silo\]\]"),
        ({"silos": (SiloPlan("ash"), SiloPlan("ash"))}, "silo names must differ, ash stands more than once"),
        ({"stages": (Stage(1, SHARED, participation=Participation(5)),)}, "samples 5 silos, but there are only 4"),
        ({"stages": (Stage(1, SHARED, participation=Participation(2, 3)),)}, "a quorum of 3 cannot be reached, only 2"),
        ({"silos": (SiloPlan("ash", local={"epoch": 2}),)}, "unknown key 'epoch' in local settings of silo 'ash'"),
        ({"silos": (SiloPlan("ash", local={"batch": 0}),)}, "batch must be at least 1, got 0"),
    ],
)
def test_a_course_that_cannot_run_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(toy_course(), **change)


def of_two_stages() -> Course:
    course = toy_course(rounds=2)
    return replace(course, stages=(course.stages[0], replace(course.stages[0], name="second", rounds=3)))


def test_rounds_count_from_1_over_all_stages() -> None:
    course = of_two_stages()
    assert course.rounds == 5
    assert [course.stage_of(number) for number in range(1, 6)] == [0, 0, 1, 1, 1]
    assert [course.first_round(stage) for stage in (-1, 0, 1, 2)] == [1, 1, 3, 6]
    for number in (0, 6):
        with pytest.raises(ConfigError, match=f"round {number} is not in this course of 5 rounds"):
            course.stage_of(number)


def test_a_silo_may_work_otherwise_than_the_stage_says() -> None:
    course = replace(toy_course(), silos=(SiloPlan("ash", local={"epochs": 3, "learning_rate": 1}), SiloPlan("birch")))
    stage = course.stages[0]
    assert course.local_of("ash", stage) == replace(stage.local, epochs=3, learning_rate=1.0)
    assert course.local_of("birch", stage) == stage.local
    assert course.local_of(POOL, stage) == stage.local


def test_the_pool_draws_as_the_first_silo_by_name() -> None:
    course = toy_course()
    assert course.draws_as("cedar") == "cedar"
    assert course.draws_as(POOL) == "ash"
    assert replace(course, silos=course.silos[::-1]).draws_as(POOL) == "ash"


def test_without_takes_one_silo_out() -> None:
    assert [silo.name for silo in toy_course().without("birch").silos] == ["ash", "cedar", "dogwood"]


def test_a_course_is_a_table_and_back() -> None:
    course = replace(of_two_stages(), silos=(SiloPlan("ash", "toy", {"a": 1}, {"batch": 2}, "g"), SiloPlan("birch")))
    course = with_stage(course, replica=Replica(0.5), objective=(Term("task"), Term("prox", 0.1)))
    again = from_table(Course, to_table(course), "here")
    assert again == course
    assert again.fingerprint == course.fingerprint


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 8},
        {"model": "other"},
        {"evaluation": Evaluation(2)},
        {"silos": toy_course().silos[:3]},
        {"stages": (replace(toy_course().stages[0], rounds=4),)},
        {"stages": (replace(toy_course().stages[0], sharing=SHARED),)},
        {"stages": (replace(toy_course().stages[0], channels=("examples",)),)},
        {"stages": (replace(toy_course().stages[0], local=Local(batch=4, learning_rate=0.021)),)},
        {"stages": (replace(toy_course().stages[0], mixing=Mixing(optimiser=Choice("sgd", {"momentum": 0.8}))),)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_part_of_a_course_is_in_its_fingerprint(change: dict[str, Any]) -> None:
    assert replace(toy_course(), **change).fingerprint != toy_course().fingerprint


def test_a_whole_number_where_a_number_is_meant_does_not_change_the_fingerprint() -> None:
    one = toy_course(local=Local(batch=4, learning_rate=1))
    assert one.fingerprint == toy_course(local=Local(batch=4, learning_rate=1.0)).fingerprint
    assert from_table(Course, to_table(one), "here").fingerprint == one.fingerprint
