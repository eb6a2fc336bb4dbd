# SPDX-License-Identifier: Apache-2.0
"""The result of a run from its records, with numbers by hand."""

import json
from dataclasses import replace

import pytest
from toys import toy_course

from fedqa.evaluation.metrics import Summary
from fedqa.evaluation.result import result_of
from fedqa.federation.coordinator import Outcome
from fedqa.federation.run_folder import RoundRecord

RECORD = RoundRecord(
    round=1,
    stage="train",
    asked=("ash", "birch"),
    accepted={},
    refused=(),
    void=False,
    weights={},
    metrics={},
    bytes_up=10,
    bytes_down=100,
    seconds=0.5,
)
RECORDS = [RECORD, replace(RECORD, round=2, refused=(("birch", "late"),), bytes_up=5, seconds=0.25)]
SCORES = {
    "ash": {"personal/test/map": Summary(3, 0.9, 0.01), "personal/dev/map": Summary(1, 0.5, 0.0)},
    "birch": {"personal/test/map": Summary(1, 0.5, 0.0), "personal/dev/map": Summary(0, 0.0, 0.0)},
    "cedar": {"received/test/map": Summary(2, 0.25, 0.0)},
}
OUTCOME = Outcome(SCORES, (("dogwood", "died"),), 1, 2)


@pytest.fixture
def result() -> dict[str, object]:
    return result_of(toy_course(rounds=2), RECORDS, OUTCOME)


def test_a_result_says_which_course_it_is_of(result: dict[str, object]) -> None:
    course = toy_course(rounds=2)
    assert result["course"] == course.fingerprint
    assert [result[key] for key in ("name", "method", "model", "seed", "rounds")] == ["toys", "fedavg", "toy", 7, 2]


def test_a_result_says_what_it_cost(result: dict[str, object]) -> None:
    assert (result["seconds"], result["bytes_up"], result["bytes_down"]) == (0.75, 16, 202)


def test_who_was_refused_is_in_the_result_and_after_the_last_round_too(result: dict[str, object]) -> None:
    assert result["refused"] == [[2, "birch", "late"], [3, "dogwood", "died"]]


def test_scores_stand_by_silo_point_split_and_metric(result: dict[str, object]) -> None:
    assert result["silos"] == {
        "ash": {"personal": {"test": {"map": 0.9}, "dev": {"map": 0.5}}},
        "birch": {"personal": {"test": {"map": 0.5}}},  # a split without questions has no score
        "cedar": {"received": {"test": {"map": 0.25}}},
    }
    assert result["questions"]["birch"] == {"personal": {"test": {"map": 1}, "dev": {"map": 0}}}  # type: ignore[index]


def test_roll_ups_are_over_silos_over_questions_and_the_worst(result: dict[str, object]) -> None:
    assert result["macro"] == {
        "personal": {"test": {"map": pytest.approx(0.7)}, "dev": {"map": 0.5}},
        "received": {"test": {"map": 0.25}},
    }
    # (3 * 0.9 + 1 * 0.5) / 4
    assert result["micro"]["personal"]["test"] == {"map": pytest.approx(0.8)}  # type: ignore[index]
    assert result["worst"]["personal"]["test"] == {"map": 0.5}  # type: ignore[index]


def test_intervals_are_given_where_there_are_two_questions(result: dict[str, object]) -> None:
    intervals = result["intervals"]
    # t of 2 degrees at 97.5 % is 4.3027, times the root of 0.01 / 3
    half = 4.302652729911275 * (0.01 / 3) ** 0.5
    assert intervals["ash"] == {"personal": {"test": {"map": pytest.approx([0.9 - half, 0.9 + half])}}}  # type: ignore[index]
    assert intervals["birch"] == {}  # type: ignore[index]


def test_a_result_is_what_its_file_holds(result: dict[str, object]) -> None:
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_a_run_of_which_nobody_reports_has_a_result() -> None:
    result = result_of(toy_course(), [], Outcome({}, (), 0, 0))
    assert result["silos"] == result["macro"] == result["micro"] == result["worst"] == {}
