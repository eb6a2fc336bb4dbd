# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from scipy import stats

from fedqa.evaluation.significance import holm, paired_bootstrap, paired_t_test


def test_the_t_test_of_four_differences_by_hand() -> None:
    # differences 1, 2, 3, 2: mean 2, variance 2/3, error sqrt(2/3/4) = 0.408248, t = 4.898979 with 3 degrees
    result = paired_t_test([2, 4, 6, 5], [1, 2, 3, 3])
    assert (result.n, result.difference) == (4, 2.0)
    assert result.p == pytest.approx(0.016277, abs=1e-5)
    # the 97.5 % quantile of t with 3 degrees is 3.182446; half width 3.182446 * 0.408248 = 1.299228
    assert (result.low, result.high) == pytest.approx((2 - 1.299228, 2 + 1.299228), abs=1e-5)


def test_the_t_test_agrees_with_scipy_on_random_numbers() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.random(40), rng.random(40)
    assert paired_t_test(first, second).p == pytest.approx(stats.ttest_rel(first, second).pvalue)


def test_exchanging_the_models_changes_the_sign_and_nothing_else() -> None:
    there, back = paired_t_test([3, 1, 4], [1, 2, 1]), paired_t_test([1, 2, 1], [3, 1, 4])
    assert (there.difference, there.low, there.high) == pytest.approx((-back.difference, -back.high, -back.low))
    assert there.p == pytest.approx(back.p)


def test_equal_models_are_not_different() -> None:
    assert paired_t_test([0.5, 0.2], [0.5, 0.2]).p == 1.0
    assert paired_bootstrap([0.5, 0.2], [0.5, 0.2], seed=1, resamples=100).p == 1.0


def test_the_same_gain_on_every_question_leaves_no_doubt() -> None:
    assert paired_t_test([2.0, 3.0, 4.0], [1.0, 2.0, 3.0]).p == 0.0


def test_the_bootstrap_of_two_questions_by_hand() -> None:
    # Differences 0 and 1, mean 0.5. Resampled means are 0, 0.5, 1 with chances 1/4, 1/2, 1/4, so |mean - 0.5| >= 0.5
    # half of the time, and the interval runs from 0 to 1.
    result = paired_bootstrap([0, 1], [0, 0], seed=5, resamples=20_000)
    assert result.p == pytest.approx(0.5, abs=0.02)
    assert (result.difference, result.low, result.high) == (0.5, 0.0, 1.0)


def test_the_bootstrap_depends_on_its_seed_alone() -> None:
    first, second = [0.1, 0.5, 0.9, 0.3], [0.2, 0.1, 0.4, 0.3]
    assert paired_bootstrap(first, second, seed=1) == paired_bootstrap(first, second, seed=1)
    assert paired_bootstrap(first, second, seed=1) != paired_bootstrap(first, second, seed=2)


def test_the_bootstrap_comes_close_to_the_t_test_on_many_questions() -> None:
    rng = np.random.default_rng(11)
    first = rng.random(200)
    second = first + rng.normal(-0.02, 0.15, 200)
    t, bootstrap = paired_t_test(first, second), paired_bootstrap(first, second, seed=0, resamples=4000)
    assert bootstrap.p == pytest.approx(t.p, abs=0.02)
    assert (bootstrap.low, bootstrap.high) == pytest.approx((t.low, t.high), abs=0.004)


def test_holm_multiplies_the_smallest_most_and_never_turns_the_order() -> None:
    # sorted 0.01 * 4, 0.02 * 3, then max(0.06, 0.03 * 2), then max(0.06, 0.5 * 1)
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])


def test_holm_stops_at_one() -> None:
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_unpaired_values_are_refused() -> None:
    with pytest.raises(ValueError, match="3 and 2 values"):
        paired_t_test([1, 2, 3], [1, 2])


def test_one_question_is_too_few() -> None:
    with pytest.raises(ValueError, match="at least two questions, got 1"):
        paired_bootstrap([1], [0], seed=0)
