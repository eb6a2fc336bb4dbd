# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from fedqa.answering.blending import PARTS, USUAL, Blend, Measured, confidences, fitted
from fedqa.answering.confidence import CANDIDATES, Confidence


def measured(rows: list[list[float]], right: list[bool], gold: list[bool] | None = None) -> Measured:
    return Measured(np.array(rows, dtype=float), right, right if gold is None else gold)


def test_a_score_is_the_weighted_sum_of_the_parts() -> None:
    blend = Blend({"vectors": 1.0, "words": 0.5, "match": 2.0, "read": 0.0})
    assert blend.scores(np.array([[3.0, 4.0, 1.0, 9.0], [0.0, 1.0, 0.0, 0.0]])).tolist() == [7.0, 0.5]
    assert Blend().scores(np.zeros((0, len(PARTS)))).tolist() == []


def test_parts_that_mislead_lose_weight_and_parts_that_lead_gain_it() -> None:
    # The right passage is always the second; words point to the first, reading to the second.
    dev = [measured([[5, 4, 0, 0], [5, 0, 0, 1 + n / 10], [2, 0, 0, 0]], [False, True, False]) for n in range(10)]
    weights = fitted(dev, ("vectors", "words", "read")).weights
    assert weights["words"] == 0.25 and weights["read"] == 2.0
    assert weights["vectors"] == weights["match"] == 1.0


def test_without_vectors_only_the_confidence_is_fitted() -> None:
    dev = [measured([[0, 9, 0, 0], [0, 1, 0, 0]], [True, False])] * 10
    blend = fitted(dev, ("words",))
    assert set(blend.weights.values()) == {1.0} and blend.confidence.questions == 10


def test_of_too_few_questions_nothing_is_learnt() -> None:
    assert fitted([measured([[5, 0, 0, 0]], [True])] * 7, ("vectors", "words")) is USUAL


def test_a_wrong_answer_from_the_right_passage_is_wrong_and_does_not_stand_in_for_a_missing_one() -> None:
    """Ten questions whose passage is right; of five, the answer read in it is not."""
    read_wrong = measured([[9, 0, 0, 0], [1, 0, 0, 0]], [False, False], [True, False])
    read_right = measured([[9, 0, 0, 0], [1, 0, 0, 0]], [True, False])
    sure = fitted([read_right] * 10, ("vectors",)).confidence.of([9.0, 1.0])[0]
    unsure = fitted([read_right, read_wrong] * 5, ("vectors",)).confidence.of([9.0, 1.0])[0]
    assert unsure == pytest.approx(0.5, abs=0.15) and sure > 0.9


def test_passages_beyond_the_candidates_have_no_confidence() -> None:
    blend = Blend(confidence=Confidence(nothing=0.0))
    shares = confidences(blend, [0.0] * (CANDIDATES + 2))
    assert shares == pytest.approx([1 / (CANDIDATES + 1)] * CANDIDATES + [0, 0])
    assert confidences(blend, []) == []
