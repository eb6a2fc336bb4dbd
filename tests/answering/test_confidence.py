# SPDX-License-Identifier: Apache-2.0
import math

import pytest

from fedqa.answering.confidence import CANDIDATES, MAX_REFUSED, Asked, Confidence, calibrated

SURE = Asked([9.0, 2.0, 1.0], [True, False, False])
UNSURE = Asked([3.0, 2.9, 2.8], [False, True, False])
UNANSWERABLE = Asked([2.5, 2.4, 2.0], [False, False, False])


def test_confidence_is_a_share_among_the_passages_and_nothing() -> None:
    # exp(log 2) : exp(0) : exp(0) for nothing = 2 : 1 : 1
    assert Confidence(temperature=1, nothing=0.0).of([math.log(2), 0.0]) == pytest.approx([0.5, 0.25])


def test_a_higher_temperature_makes_shares_more_equal() -> None:
    # Twice the temperature takes the square root: sqrt(4) : 1 : 1
    assert Confidence(temperature=2, nothing=0.0).of([math.log(4), 0.0]) == pytest.approx([0.5, 0.25])


def test_large_scores_do_not_overflow() -> None:
    assert Confidence().of([1e4, 0.0]) == pytest.approx([1.0, 0.0])


def test_without_passages_there_is_no_confidence() -> None:
    assert Confidence().of([]) == []


def test_without_dev_questions_everything_is_answered() -> None:
    plain = calibrated([])
    assert (plain.threshold, plain.questions) == (0.0, 0)
    assert plain.of([0.0, 0.0]) == pytest.approx([0.5, 0.5])  # nothing has no share
    assert calibrated([Asked([], [])]).threshold == 0.0


def test_unanswerable_dev_questions_set_the_threshold() -> None:
    found = calibrated([SURE] * 8 + [UNANSWERABLE] * 4)
    assert found.questions == 12
    assert found.of(SURE.scores)[0] >= found.threshold
    assert found.of(UNANSWERABLE.scores)[0] < found.threshold
    assert found.of(SURE.scores)[0] > 0.9
    assert found.of(UNANSWERABLE.scores)[0] < 0.3


def test_questions_without_their_gold_stand_in_for_unanswerable_ones() -> None:
    found = calibrated([SURE] * 8)
    assert found.of(SURE.scores)[0] >= found.threshold
    assert found.of([2.0, 1.0])[0] < found.threshold  # what is left of SURE without its gold


def test_silence_costs_few_of_the_answerable_questions() -> None:
    dev = [SURE] * 10 + [UNSURE] * 10 + [UNANSWERABLE] * 10
    found = calibrated(dev)
    refused = sum(found.of(asked.scores)[0] < found.threshold for asked in dev[:20])
    assert refused / 20 <= MAX_REFUSED


def test_sure_but_wrong_rankings_lower_confidence() -> None:
    wrong = Asked(SURE.scores, [False, True, False])
    always, half = calibrated([SURE] * 8), calibrated([SURE] * 4 + [wrong] * 4)
    assert half.temperature > always.temperature
    assert half.of(SURE.scores)[0] < always.of(SURE.scores)[0]


def test_only_the_best_passages_share() -> None:
    many = Asked([5.0] + [0.0] * 50, [True] + [False] * 50)
    assert len(calibrated([many]).of([5.0] + [0.0] * (CANDIDATES - 1))) == CANDIDATES
