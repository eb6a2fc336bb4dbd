# SPDX-License-Identifier: Apache-2.0
"""Combiners on a few numbers, by hand."""

import pytest
import torch
from torch import Tensor

from fedqa.federation import combiners
from fedqa.federation.combiners import COMBINERS, Combiner, Krum, Mean, Median, TrimmedMean


def rows(*values: list[float]) -> list[Tensor]:
    return [torch.tensor(row) for row in values]


def test_the_mean_is_weighted() -> None:
    # (1 * 0 + 3 * 4) / 4 = 3 and (1 * 8 + 3 * 0) / 4 = 2
    assert Mean().combine(rows([0.0, 8.0], [4.0, 0.0]), [1.0, 3.0]).tolist() == [3, 2]


def test_the_median_of_an_odd_number_is_the_middle_one() -> None:
    deltas = rows([1.0, 9.0], [2.0, -1.0], [100.0, 0.0])
    assert Median().combine(deltas, [1.0, 1.0, 1.0]).tolist() == [2, 0]


def test_the_median_of_an_even_number_is_the_mean_of_the_middle_two() -> None:
    deltas = rows([1.0], [4.0], [-50.0], [2.0])  # sorted: -50, 1, 2, 4
    assert Median().combine(deltas, [1.0] * 4).tolist() == [1.5]


def test_the_trimmed_mean_leaves_out_both_ends() -> None:
    deltas = rows([0.0], [1.0], [2.0], [6.0], [1000.0])
    assert TrimmedMean(0.2).combine(deltas, [1.0] * 5).tolist() == [3]  # (1 + 2 + 6) / 3
    assert TrimmedMean(0.4).combine(deltas, [1.0] * 5).tolist() == [2]
    assert TrimmedMean(0.0).combine(deltas[:4], [1.0] * 4).tolist() == [2.25]


def test_the_trimmed_mean_always_keeps_somebody() -> None:
    assert TrimmedMean(0.49).combine(rows([1.0], [3.0]), [1.0, 1.0]).tolist() == [2]
    assert TrimmedMean(0.49).combine(rows([7.0]), [1.0]).tolist() == [7]


def test_krum_picks_an_honest_update() -> None:
    # Of five, one bad: a score is the sum of the two nearest squared distances. Points 0, 1, 2, 4 and 100:
    # 0: 1 + 4 = 5, 1: 1 + 1 = 2, 2: 1 + 4 = 5, 4: 4 + 9 = 13, 100: far
    deltas = rows([0.0], [1.0], [2.0], [4.0], [100.0])
    assert Krum(bad=1).combine(deltas, [1.0] * 5).tolist() == [1]
    assert Krum(bad=1, keep=3).combine(deltas, [1.0] * 5).tolist() == [1]  # 0, 1 and 2


def test_krum_does_not_go_by_who_came_first() -> None:
    # Of four, one neighbour counts, and the nearest two always tie: the shorter update is taken.
    deltas = rows([5.0], [4.0], [9.0], [-20.0])
    assert Krum(bad=1).combine(deltas, [1.0] * 4).tolist() == [4]
    assert Krum(bad=1).combine(deltas[::-1], [1.0] * 4).tolist() == [4]


def test_krum_works_with_fewer_silos_than_it_likes() -> None:
    assert Krum().combine(rows([3.0]), [1.0]).tolist() == [3]
    assert Krum(bad=5, keep=9).combine(rows([3.0], [5.0]), [1.0, 1.0]).tolist() == [4]


@pytest.mark.parametrize("combiner", [Median(), TrimmedMean(), Krum(bad=0)])
def test_a_silo_of_weight_zero_is_not_there(combiner: Combiner) -> None:
    deltas = rows([1.0], [2.0], [4.0], [-99.0])
    without = combiner.combine(deltas[:3], [1.0] * 3)
    assert torch.equal(combiner.combine(deltas, [1.0, 1.0, 1.0, 0.0]), without)


@pytest.mark.parametrize("make", COMBINERS.values())
def test_deltas_are_left_as_they_were(make: type[Combiner]) -> None:
    deltas = rows([1.0, 2.0], [3.0, 5.0], [4.0, 1.0])
    before = [delta.clone() for delta in deltas]
    make().combine(deltas, [0.2, 0.3, 0.5])
    assert all(torch.equal(now, then) for now, then in zip(deltas, before, strict=True))


def test_slabs_give_what_the_whole_would(monkeypatch: pytest.MonkeyPatch) -> None:
    deltas = list(torch.randn(5, 10, generator=torch.Generator().manual_seed(1)))
    whole = Median().combine(deltas, [1.0] * 5)
    monkeypatch.setattr(combiners, "SLAB", 3)
    assert torch.equal(Median().combine(deltas, [1.0] * 5), whole)
    assert torch.equal(whole, torch.stack(deltas).median(dim=0).values)
