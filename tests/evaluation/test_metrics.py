# SPDX-License-Identifier: Apache-2.0
import math
from itertools import chain

import ir_measures
import numpy as np
import pytest
from ir_measures import AP, RR, P, Qrel, R, ScoredDoc

from fedqa.errors import ModelError
from fedqa.evaluation.metrics import (
    RANKING,
    RETRIEVAL,
    Summary,
    average_precision,
    macro,
    micro,
    precision_at_1,
    ranks_of,
    recall_at,
    reciprocal_rank,
    reciprocal_rank_at,
    tie_order,
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


def test_ranks_are_counted_among_all_texts_with_ties_by_descending_id() -> None:
    # 0.9 a, then 0.7 d and c (d first), then 0.2 b
    scores, order = np.array([0.9, 0.2, 0.7, 0.7]), tie_order(IDS)
    assert ranks_of(scores, order, [0]).tolist() == [1]
    assert ranks_of(scores, order, [2]).tolist() == [3]
    assert ranks_of(scores, order, [1, 3]).tolist() == [2, 4]


def test_ranks_need_gold_and_scores_that_are_numbers() -> None:
    with pytest.raises(ValueError, match="without gold"):
        ranks_of(np.ones(4), tie_order(IDS), [])
    with pytest.raises(ModelError, match=r"NaN.*lower learning rate"):
        ranks_of(np.array([1, np.nan, 0, 0]), tie_order(IDS), [0])


def test_a_cut_off_counts_what_stands_up_to_it() -> None:
    ranks = np.array([3, 10, 11, 40])
    assert [reciprocal_rank_at(k, ranks) for k in (2, 3, 10)] == [0.0, pytest.approx(1 / 3), pytest.approx(1 / 3)]
    assert [recall_at(k, ranks) for k in (1, 3, 10, 40)] == [0.0, 0.25, 0.5, 1.0]


def test_retrieval_metrics_agree_with_ir_measures_on_random_rankings_with_ties() -> None:
    rng = np.random.default_rng(11)
    measures = {"mrr10": RR @ 10, "r1": R @ 1, "r20": R @ 20, "r100": R @ 100}
    for trial in range(60):
        ids = [f"s{i}" for i in rng.permutation(150)]
        scores = rng.integers(0, 40, len(ids)) / 8  # each about four times
        gold = rng.choice(len(ids), size=int(rng.integers(1, 5)), replace=False).tolist()
        qrels = [Qrel("q", ids[i], 1) for i in gold]
        # RR @ 10 is MS MARCO's script and orders ties otherwise: it is given places in place of scores.
        order = np.lexsort((tie_order(ids), -scores))
        by_place = [ScoredDoc("q", ids[i], float(len(ids) - place)) for place, i in enumerate(order)]
        run = [ScoredDoc("q", id, float(score)) for id, score in zip(ids, scores, strict=True)]
        expected = ir_measures.calc_aggregate([R @ 1, R @ 20, R @ 100], qrels, run)
        expected |= ir_measures.calc_aggregate([RR @ 10], qrels, by_place)
        ranks = ranks_of(scores, tie_order(ids), gold)
        for name, metric in RETRIEVAL.items():
            assert metric(ranks) == pytest.approx(expected[measures[name]]), (trial, name)


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
