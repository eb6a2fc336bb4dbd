# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from pair_toys import tiny

from fedqa.models.text_pair import text_pair
from fedqa.skills.word_losses import smoothed, told, writing_loss


def test_smoothing_is_the_divergence_from_the_smoothed_targets() -> None:
    scores = torch.randn(6, 11, generator=torch.Generator().manual_seed(0))
    gold = torch.tensor([0, 3, 10, 3, 5, 7])
    target = torch.full((6, 11), 0.1 / 10)
    target[range(6), gold] = 0.9
    expected = F.kl_div(scores.log_softmax(dim=1), target, reduction="sum") / 6
    assert smoothed(scores, gold, 0.1).item() == pytest.approx(expected.item(), rel=1e-5)


def test_by_hand_on_two_words() -> None:
    # Probabilities 3/4 and 1/4, the first one gold, smoothed to 0.9 and 0.1.
    scores, gold = torch.tensor([[math.log(3.0), 0.0]]), torch.tensor([0])
    assert smoothed(scores, gold).item() == pytest.approx(math.log(4 / 3))
    expected = 0.9 * math.log(0.9 / 0.75) + 0.1 * math.log(0.1 / 0.25)
    assert smoothed(scores, gold, 0.1).item() == pytest.approx(expected, abs=1e-6)


def test_what_is_as_sure_as_the_smoothed_target_has_no_loss() -> None:
    scores = torch.tensor([[0.9, 0.05, 0.05]]).log()
    assert smoothed(scores, torch.tensor([0]), 0.1).item() == pytest.approx(0.0, abs=1e-6)


def test_of_no_words_the_loss_is_nothing_and_can_be_trained_on() -> None:
    scores = torch.zeros(0, 5, requires_grad=True)
    for smoothing in (0.0, 0.1):
        loss = smoothed(scores, torch.zeros(0, dtype=torch.long), smoothing)
        loss.backward()  # type: ignore[no-untyped-call]
        assert loss.item() == 0.0


def test_a_text_is_told_word_by_word_with_its_end() -> None:
    pair = text_pair(tiny(), 0).eval()
    texts = [np.array([2000, 2001, 2002]), np.array([2003])]
    memory, mask = pair.read([np.array([3000, 3001]), np.array([3002])])
    states, gold = told(pair, memory, mask, texts)
    assert gold.tolist() == [[2000, 2001, 2002, 102], [2003, 102, -1, -1]]
    alone = pair.decode(torch.tensor([[101, 2003]]), memory[1:], mask[1:])
    assert torch.allclose(states[1:, :2], alone, atol=1e-5)
    likely = [pair.write(states)[row].log_softmax(dim=-1) for row in (0, 1)]
    by_hand = [likely[0][step, word] for step, word in enumerate((2000, 2001, 2002, 102))]
    by_hand += [likely[1][step, word] for step, word in enumerate((2003, 102))]
    assert writing_loss(pair, memory, mask, texts).item() == pytest.approx(
        -torch.stack(by_hand).mean().item(), rel=1e-5
    )
