# SPDX-License-Identifier: Apache-2.0
"""A study trains what is missing, keeps it, and goes on after an interruption without training again."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.study.runner import Arm, Study
from fedqa.data.records import Collection
from fedqa.data.sample import sample_silo
from fedqa.data.splits import limited, split
from fedqa.errors import RunError

SETTINGS = {"model": "tiny", "method": "zero_shot", "rounds": 1}


def data(seed: int, train: int | None) -> Mapping[str, Collection]:
    """Two organisations of the sample with a few questions each."""
    return {name: split(limited(sample_silo(name), train or 12, seed), seed) for name in ("hospital", "bank")}


def study(folder: Path, *arms: Arm, seeds: tuple[int, ...] = (1, 2)) -> Study:
    return Study("toy", arms, seeds, data, folder)


def test_outcomes_come_in_the_order_of_arms_and_seeds_with_every_question(tmp_path: Path) -> None:
    arms = (Arm("none", SETTINGS), Arm("none of ten", SETTINGS, train=10))
    outcomes = study(tmp_path, *arms).run()
    assert [(o.arm, o.seed) for o in outcomes] == [("none", 1), ("none", 2), ("none of ten", 1), ("none of ten", 2)]
    expected = len(list(data(1, None)["bank"].of_split("test")))
    assert len(outcomes[0].test["personal"]["bank"]["map"]) == expected
    assert outcomes[0].rounds == 0
    assert outcomes[0].test["received"] == outcomes[0].test["best"]


def test_an_arm_may_have_fewer_seeds_than_its_study(tmp_path: Path) -> None:
    outcomes = study(tmp_path, Arm("none", SETTINGS), Arm("once", SETTINGS, seeds=(2,))).run()
    assert [(o.arm, o.seed) for o in outcomes] == [("none", 1), ("none", 2), ("once", 2)]


def test_what_is_there_is_not_trained_again(tmp_path: Path) -> None:
    first = study(tmp_path, Arm("none", SETTINGS)).run()
    files = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert study(tmp_path, Arm("none", SETTINGS)).run() == first
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == files


def test_an_arm_whose_settings_changed_is_trained_again(tmp_path: Path) -> None:
    (first,) = study(tmp_path, Arm("none", SETTINGS), seeds=(1,)).run()
    changed = Arm("none", {**SETTINGS, "skills": {"match": {"max_passage": 32}}})
    (second,) = study(tmp_path, changed, seeds=(1,)).run()
    assert first.key != second.key


def test_other_questions_make_another_key(tmp_path: Path) -> None:
    one, two = study(tmp_path, Arm("none", SETTINGS)).run()
    assert one.key != two.key


def test_a_training_that_fails_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    arms = (Arm("none", SETTINGS), Arm("broken", {**SETTINGS, "model": "no-such-model"}))
    with pytest.raises(RunError, match="1 of 2 trainings failed; first 'broken', seed 1: model 'no-such-model'"):
        study(tmp_path, *arms, seeds=(1,)).run()
    assert [path.name for path in tmp_path.iterdir()] == ["none-1.json"]
