# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import replace
from pathlib import Path

import pytest
from written_runs import VALUES, course, write_run

from fedqa.errors import RunError
from fedqa.evaluation.metrics import Summary
from fedqa.evaluation.run_scores import (
    Estimate,
    best_of_both,
    check_comparable,
    differences,
    evidence_of,
    load_run,
    macro_gain,
    macro_score,
    personal_and_received,
    score,
    worst_score,
)
from fedqa.federation.course import SiloPlan


def test_summaries_are_recovered_from_means_and_intervals(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "run"))
    found = run.summaries("personal", "test", run.deciding)
    for silo, points in VALUES.items():
        expected = Summary.of(points["personal"])
        assert (found[silo].n, found[silo].mean) == (expected.n, expected.mean)
        assert found[silo].variance == pytest.approx(expected.variance)


def test_the_interval_of_the_mean_of_silos_by_hand() -> None:
    # Two silos with the values 0 and 1: variance 0.5, squared error 0.25 each. The mean of both has the error
    # sqrt(0.5) / 2 = 0.353553, with 0.5^2 / (0.25^2 / 1 + 0.25^2 / 1) = 2 degrees of freedom: t = 4.302653.
    halves = {"ash": Summary(2, 0.5, 0.5), "birch": Summary(2, 0.5, 0.5)}
    estimate = macro_gain(halves)
    assert (estimate.low, estimate.high) == pytest.approx((0.5 - 1.521217, 0.5 + 1.521217), abs=1e-5)
    assert macro_score(halves) == Estimate(0.5, 0.0, 1.0)


def test_silos_without_spread_have_an_interval_without_width() -> None:
    assert macro_score({"ash": Summary(3, 1.0, 0.0), "birch": Summary(3, 0.5, 0.0)}) == Estimate(0.75, 0.75, 0.75)


def test_a_silo_with_one_question_leaves_the_mean_without_interval() -> None:
    assert macro_score({"ash": Summary(3, 1.0, 0.0), "birch": Summary(1, 0.5, 0.0)}) == Estimate(0.75)
    assert score(Summary(1, 0.5, 0.0)) == Estimate(0.5)


def test_scores_beyond_one_are_no_shares_and_their_interval_is_not_cut() -> None:
    # 97.5 % quantile of t with 1 degree: 12.706205; error sqrt(50 / 2) = 5
    estimate = score(Summary(2, 40.0, 50.0))
    assert (estimate.low, estimate.high) == pytest.approx((40 - 63.531025, 40 + 63.531025))


def test_the_worst_silo_is_named() -> None:
    assert worst_score({"ash": Summary(1, 0.7, 0.0), "birch": Summary(1, 0.2, 0.0)}) == Estimate(0.2, of="birch")


def test_the_skill_says_which_metric_decides_and_an_unknown_skill_leaves_it_to_the_order(tmp_path: Path) -> None:
    plans = (SiloPlan("ash"), SiloPlan("birch", "juggle"))
    metrics = {"ash": "map", "birch": "balls"}
    run = load_run(write_run(tmp_path / "run", replace(course(), silos=plans), metrics=metrics))
    assert run.deciding == {"ash": "map", "birch": "balls"}


def test_a_folder_without_a_course_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"is not a run folder: it has no course\.toml; give what `fedqa train --out`"):
        load_run(tmp_path)


def test_a_run_that_has_not_ended_has_no_scores(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "result.json").unlink()
    with pytest.raises(RunError, match="the run has not ended"):
        load_run(folder)


def test_differences_are_taken_question_by_question(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "run"))
    # ash: 0, 0, 1, 0, with mean 1/4 and variance 1/4; birch: 1, -1, with mean 0 and variance 2
    found = differences(personal_and_received(run, run.deciding))
    assert found == {"ash": Summary(4, 0.25, 0.25), "birch": Summary(2, 0.0, 2.0)}


def test_both_tests_pool_the_questions_of_all_silos(tmp_path: Path) -> None:
    isolated = {silo: {**points, "best": [0] * len(points["best"])} for silo, points in VALUES.items()}
    run = load_run(write_run(tmp_path / "run"))
    reference = load_run(write_run(tmp_path / "reference", course("isolated"), isolated))
    tests = evidence_of(best_of_both(run, reference), seed=7)
    # differences 0 1 1 1 and 1 1: mean 5/6, variance 1/6, error 1/6, t = 5 with 5 degrees
    assert tests is not None
    assert (tests.t_test.n, tests.t_test.difference) == (6, pytest.approx(5 / 6))
    assert tests.t_test.p == pytest.approx(0.004105, abs=1e-5)
    assert (tests.bootstrap.n, tests.bootstrap.difference) == (6, pytest.approx(5 / 6))


def test_one_question_cannot_be_tested() -> None:
    assert evidence_of({"ash": ([1.0], [0.0])}, seed=7) is None
    assert evidence_of({}, seed=7) is None


def test_runs_of_another_seed_or_alliance_are_not_compared(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "run"))
    other_seed = load_run(write_run(tmp_path / "seed", course(seed=8)))
    with pytest.raises(RunError, match="seed 8 is not 7, so the test questions differ; compare runs of one alliance"):
        check_comparable(run, other_seed)
    with pytest.raises(RunError, match=r"silos .*'ash': 'match'"):
        check_comparable(run, load_run(write_run(tmp_path / "silos", course(silos=["ash"]), {"ash": VALUES["ash"]})))
    with pytest.raises(RunError, match=r"data .*limit"):
        check_comparable(run, replace(run, data={"ash": {"limit": 3}}))


def test_runs_with_other_questions_are_not_compared(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "run"))
    longer = {**VALUES, "ash": {**VALUES["ash"], "best": [0, 1, 1, 1, 1]}}
    other = load_run(write_run(tmp_path / "other", values=longer))
    with pytest.raises(
        RunError, match=r"'ash' has 4 test questions in .*run and 5 in .*other; compare runs of the same"
    ):
        best_of_both(run, other)


def test_silos_whose_folders_are_elsewhere_are_left_out_of_tests(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path / "run"))
    other = load_run(write_run(tmp_path / "other", keep_values=False))
    (tmp_path / "other/silos/ash/scores").mkdir(parents=True)
    (tmp_path / "other/silos/ash/scores/best-test.json").write_text(json.dumps({"map": [0, 0, 0, 0]}))
    assert list(best_of_both(run, other)) == ["ash"]
