# SPDX-License-Identifier: Apache-2.0
import math

import pytest
import torch

from fedqa.skills.losses import cross_entropy, hinge, listwise

SCORES = torch.tensor([[2.0, 1.5, 9.0], [0.0, 1.0, 3.0]])
GOLD = torch.tensor([[True, False, False], [False, True, False]])
NEGATIVES = torch.tensor([[False, True, False], [True, False, True]])  # the 9.0 counts for nobody


def test_hinge_is_the_mean_over_pairs_of_gold_and_negative() -> None:
    # pairs: 1 - 2 + 1.5 = 0.5; 1 - 1 + 0 = 0; 1 - 1 + 3 = 3
    assert hinge(SCORES, GOLD, NEGATIVES, 1.0).item() == pytest.approx(3.5 / 3)


def test_hinge_is_zero_where_the_margin_is_kept() -> None:
    assert hinge(torch.tensor([[5.0, 1.0]]), GOLD[:1, :2], NEGATIVES[:1, :2], 1.0).item() == 0.0


def test_cross_entropy_is_the_mean_over_single_passages() -> None:
    def softplus(x: float) -> float:
        return math.log1p(math.exp(x))

    # gold costs softplus(-score), a negative softplus(score)
    expected = (softplus(-2) + softplus(1.5) + softplus(0) + softplus(-1) + softplus(3)) / 5
    assert cross_entropy(SCORES, GOLD, NEGATIVES).item() == pytest.approx(expected)


def test_listwise_is_the_mean_over_questions_of_the_softmax_cross_entropy() -> None:
    first = -math.log(math.exp(2) / (math.exp(2) + math.exp(1.5)))
    second = -math.log(math.exp(1) / (math.exp(0) + math.exp(1) + math.exp(3)))
    assert listwise(SCORES, GOLD, NEGATIVES).item() == pytest.approx((first + second) / 2)


def test_a_question_without_negatives_teaches_nothing() -> None:
    scores = SCORES.clone().requires_grad_()
    none = torch.zeros_like(NEGATIVES)
    for loss in (hinge(scores, GOLD, none, 1.0), listwise(scores, GOLD, none)):
        assert loss.item() == 0.0
        (gradient,) = torch.autograd.grad(loss, scores)
        assert (gradient == 0).all()
