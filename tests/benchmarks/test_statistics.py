# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from benchmarks.study.runner import Outcome
from benchmarks.study.statistics import (
    Cells,
    Results,
    by_seed,
    by_silo,
    compare,
    macro_bootstrap,
    overall,
)
from fedqa.errors import RunError
from fedqa.evaluation.significance import paired_bootstrap

POINTS = ("received", "personal", "best")


def cells(values: dict[tuple[int, str], list[float]]) -> Cells:
    return {cell: np.array(row) for cell, row in values.items()}


def outcome(arm: str, seed: int, test: dict[str, list[float]], dev: dict[str, list[float]] | None = None) -> Outcome:
    scored = {silo: {"map": values} for silo, values in test.items()}
    tuned = {silo: {"map": values} for silo, values in (dev or test).items()}
    every = dict.fromkeys(POINTS, scored)
    return Outcome(arm, seed, "key", 10.0 * (seed + 1), 4, 400 * (seed + 1), dict.fromkeys(POINTS, tuned), every)


# Silo a has four questions, silo b one or two; seed 0 and seed 1.
SMALL = cells({(0, "a"): [1, 1, 1, 0], (0, "b"): [0.25], (1, "a"): [0, 0, 1, 1], (1, "b"): [0.5, 1.0]})


def test_every_silo_and_seed_counts_the_same_whatever_its_number_of_questions() -> None:
    # means of cells 0.75, 0.25, 0.5, 0.75: together 2.25 / 4; all questions alike would give 6.75 / 11
    assert overall(SMALL).mean == pytest.approx(0.5625)
    assert by_silo(SMALL) == pytest.approx({"a": 0.625, "b": 0.5})
    assert by_seed(SMALL) == pytest.approx({0: 0.5, 1: 0.625})


def test_the_interval_of_the_mean_adds_up_the_errors_of_cells() -> None:
    # Cell a: variance 0.04 / 3, of its mean 0.0033333; cell b: none. The error of the mean of both is
    # sqrt(0.0033333) / 2 = 0.0288675, all from a's 3 degrees of freedom: times 3.182446 it is 0.0918693.
    estimate = overall(cells({(0, "a"): [0.4, 0.6, 0.4, 0.6], (0, "b"): [0.5, 0.5]}))
    assert (estimate.mean, estimate.low, estimate.high) == pytest.approx((0.5, 0.4081307, 0.5918693))
    assert overall(cells({(0, "a"): [0.5, 0.5], (0, "b"): [0.25, 0.25]})).low == 0.375


def test_a_difference_is_of_questions_then_of_cells() -> None:
    first = cells({(0, "a"): [1, 1, 0, 1], (0, "b"): [1.0, 0.5]})
    second = cells({(0, "a"): [0, 1, 0, 1], (0, "b"): [0.5, 0.5]})
    versus = compare({"x": (first, second)})["x"]
    # a: 1, 0, 0, 0 has mean 1/4; b: 1/2, 0 has mean 1/4
    assert versus.bootstrap.difference == pytest.approx(0.25)
    assert versus.by_silo == pytest.approx({"a": 0.25, "b": 0.25}) and versus.by_seed == pytest.approx({0: 0.25})
    # over all six questions alike: 1, 0, 0, 0, 1/2, 0 has mean 1/4 and variance (1 + 1/4 - 6/16) / 5 = 0.175, so
    # t = 0.25 / sqrt(0.175 / 6) = 1.46385 with 5 degrees of freedom
    assert (versus.t_test.n, versus.t_test.difference) == (6, 0.25)
    assert versus.t_test.p == pytest.approx(0.20313, abs=1e-4)


def test_the_bootstrap_resamples_within_cells_by_hand() -> None:
    # Cell a: differences 0 and 1, resampled means 0, 1/2, 1 with chances 1/4, 1/2, 1/4. Cell b: always 0. The mean of
    # both is 0, 1/4, 1/2, so it is 1/4 away from 1/4 half of the time. Mixing the cells' questions would reach 1.
    found = macro_bootstrap([cells({(0, "a"): [0, 1], (0, "b"): [0, 0, 0]})], resamples=20_000)[0]
    assert (found.n, found.difference, found.low, found.high) == (5, 0.25, 0.0, 0.5)
    assert found.p == pytest.approx(0.5, abs=0.02)


def test_of_a_single_cell_the_bootstrap_is_the_ordinary_one() -> None:
    rng = np.random.default_rng(4)
    first, second = rng.random(60), rng.random(60)
    ours = macro_bootstrap([cells({(3, "a"): list(first - second)})])[0]
    ordinary = paired_bootstrap(first, second, seed=1)
    assert ours.difference == pytest.approx(ordinary.difference)
    assert (ours.low, ours.high, ours.p) == pytest.approx((ordinary.low, ordinary.high, ordinary.p), abs=0.02)


def test_a_comparison_is_the_same_whatever_else_is_compared() -> None:
    rng = np.random.default_rng(5)
    one, two, three = (
        cells({(0, "a"): list(rng.normal(0, 1, n)), (1, "a"): list(rng.normal(0, 1, n))}) for n in (9, 9, 5)
    )
    alone, among = macro_bootstrap([one], 500)[0], macro_bootstrap([two, three, one], 500)[2]
    assert (alone.low, alone.high, alone.p) == pytest.approx((among.low, among.high, among.p))


def test_equal_arms_are_not_different_and_a_constant_gain_leaves_no_doubt() -> None:
    gain = {cell: values + 0.5 for cell, values in SMALL.items()}
    found = compare({"equal": (SMALL, SMALL), "gain": (gain, SMALL)}, resamples=999)
    assert (found["equal"].bootstrap.p, found["equal"].t_test.p) == (1.0, 1.0)
    assert found["gain"].bootstrap.p == pytest.approx(1 / 1000)
    # Holm: the smaller of two p-values counts twice
    assert (found["gain"].holm, found["equal"].holm) == pytest.approx((2 / 1000, 1.0))
    assert (found["gain"].bootstrap.low, found["gain"].bootstrap.high) == pytest.approx((0.5, 0.5))


def test_arms_are_compared_on_the_seeds_that_both_have() -> None:
    only_one = {cell: values + 0.1 for cell, values in SMALL.items() if cell[0] == 1}
    versus = compare({"x": (only_one, SMALL)}, resamples=10)["x"]
    assert list(versus.by_seed) == [1] and versus.bootstrap.n == 6
    none = {(7, silo): values for (_, silo), values in only_one.items()}
    assert compare({"x": (none, SMALL)}) == {}


def test_other_questions_cannot_be_compared() -> None:
    other = {**SMALL, (1, "b"): np.array([0.5])}
    with pytest.raises(RunError, match="x: silo 'b' with seed 1 has 1 test questions on one side and 2 on the other"):
        compare({"x": (other, SMALL)})


def test_costs_are_means_over_seeds() -> None:
    results = Results.of([outcome("x", seed, {"a": [1.0], "b": []}) for seed in (0, 1)])
    assert results.seconds("x") == 15.0  # 10 and 20
    assert results.bytes_a_round("x") == 150.0  # 400 / 4 and 800 / 4
    assert (results.seeds, results.silos) == ([0, 1], ["a", "b"])
    assert list(results.cells("x", "map")) == [(0, "a"), (1, "a")]  # b has no question


def test_nothing_and_doubles_are_refused() -> None:
    with pytest.raises(RunError, match="no outcome to report; run the study first"):
        Results.of([])
    with pytest.raises(RunError, match="'x' has two outcomes for seed 0"):
        Results.of([outcome("x", 0, {"a": [1.0]})] * 2)
