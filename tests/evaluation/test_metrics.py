# SPDX-License-Identifier: Apache-2.0
import math
from itertools import chain

import ir_measures
import numpy as np
import pytest
from ir_measures import AP, RR, P, Qrel, ScoredDoc

from fedqa.errors import ModelError
from fedqa.evaluation.metrics import (
    RANKING,
    Summary,
    average_precision,
    macro,
    micro,
    precision_at_1,
    reciprocal_rank,
    worst,
)

SCORES, IDS = [0.9, 0.2, 0.5, 0.7], ["a", "b", "c", "d"]  # ranked: a, d, c, b


def test_average_precision_is_the_mean_of_precisions_at_gold_ranks() -> None:
    # gold at ranks 1 and 3: (1/1 + 2/3) / 2
    assert average_precision(SCORES, IDS, ["a", "c"]) == pytest.approx(5 / 6)


def test_average_precision_divides_by_gold_that_was_never_ranked() -> None:
    # d at rank 2, the other gold id is missing: (1/2 + 0) / 2
    assert average_precision(SCORES, IDS, ["d", "elsewhere"]) == pytest.approx(1 / 4)


def test_reciprocal_rank_looks_at_the_first_gold_only() -> None:
    assert reciprocal_rank(SCORES, IDS, ["c", "b"]) == pytest.approx(1 / 3)


def test_gold_that_is_not_ranked_at_all_gives_zero() -> None:
    assert [metric(SCORES, IDS, ["elsewhere"]) for metric in RANKING.values()] == [0.0, 0.0, 0.0]


def test_precision_at_1_is_one_only_if_the_best_is_gold() -> None:
    assert precision_at_1(SCORES, IDS, ["a", "c"]) == 1.0
    assert precision_at_1(SCORES, IDS, ["d", "c"]) == 0.0


def test_equal_scores_are_ordered_by_descending_id() -> None:
    # All alike: d, c, b, a; so a stands last and d first, whatever the order of the input.
    assert reciprocal_rank([1.0] * 4, IDS, ["a"]) == pytest.approx(1 / 4)
    assert precision_at_1([1.0] * 4, IDS, ["d"]) == 1.0


def test_a_nan_score_is_an_error_that_names_the_likely_cause() -> None:
    with pytest.raises(ModelError, match=r"NaN.*lower learning rate"):
        average_precision([0.1, math.nan], ["a", "b"], ["a"])


def test_a_question_without_gold_has_no_value() -> None:
    with pytest.raises(ValueError, match="without gold"):
        reciprocal_rank(SCORES, IDS, [])


def test_all_metrics_agree_with_trec_eval_on_random_lists_with_ties() -> None:
    rng = np.random.default_rng(7)
    measures = {"map": AP, "mrr": RR, "p1": P @ 1}
    for trial in range(200):
        ids = [f"p{i}" for i in rng.permutation(12)]
        scores = rng.integers(0, 5, len(ids)) / 4  # few distinct values: many ties
        gold = rng.choice([*ids, "absent"], size=int(rng.integers(1, 6)), replace=False).tolist()
        qrels = [Qrel("q", id, 1) for id in gold]
        run = [ScoredDoc("q", id, float(score)) for id, score in zip(ids, scores, strict=True)]
        expected = ir_measures.calc_aggregate(list(measures.values()), qrels, run)
        for name, metric in RANKING.items():
            assert metric(scores, ids, gold) == pytest.approx(expected[measures[name]]), (trial, name)


def test_a_summary_holds_count_mean_and_sample_variance() -> None:
    # mean 2; squared distances 1 + 0 + 1 over n - 1 = 2
    assert Summary.of([1.0, 2.0, 3.0]) == Summary(3, 2.0, 1.0)
    assert Summary.of([5.0]) == Summary(1, 5.0, 0.0)
    assert Summary.of([]) == Summary(0, 0.0, 0.0)


def test_the_interval_is_students() -> None:
    # n = 3, so the 97.5 % quantile of t with 2 degrees is 4.302653; half width 4.302653 * sqrt(1 / 3) = 2.484138
    interval = Summary(3, 2.0, 1.0).interval()
    assert interval == pytest.approx((2 - 2.484138, 2 + 2.484138), abs=1e-5)


def test_one_value_has_no_interval() -> None:
    assert Summary.of([5.0]).interval() is None


def test_micro_is_what_pooling_the_values_would_give() -> None:
    parts = [[0.1, 0.9, 0.4], [], [0.3], [0.2, 0.2, 0.8, 1.0]]
    pooled, combined = Summary.of(chain(*parts)), micro(map(Summary.of, parts))
    assert combined.n == pooled.n
    assert (combined.mean, combined.variance) == pytest.approx((pooled.mean, pooled.variance))


def test_macro_counts_silos_and_leaves_out_those_without_questions() -> None:
    # means 0.2 and 0.6: mean 0.4, variance 2 * 0.2^2 / 1
    result = macro([Summary(10, 0.2, 0.1), Summary(1000, 0.6, 0.1), Summary(0, 0.0, 0.0)])
    assert (result.n, result.mean, result.variance) == (2, pytest.approx(0.4), pytest.approx(0.08))


def test_worst_is_the_lowest_silo_that_has_questions() -> None:
    assert worst([Summary(10, 0.7, 0.1), Summary(3, 0.6, 0.1), Summary(0, 0.0, 0.0)]) == Summary(3, 0.6, 0.1)
    assert worst([]) == Summary(0, 0.0, 0.0)
