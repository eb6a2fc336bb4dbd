# SPDX-License-Identifier: Apache-2.0
"""Weights by hand: three silos of 2, 6 and 4 examples."""

from typing import Any

import numpy as np
import pytest
from toys import toy_update

from fedqa.federation.weighers import WEIGHERS, Groups, Identity, Size, Uniform, normalised

UPDATES = [toy_update("a", [0.0], 2), toy_update("b", [0.0], 6), toy_update("c", [0.0], 4)]
NAMES = ["a", "b", "c"]
GROUPS = {"a": "law", "b": "bank", "c": "law", "d": "hospital"}


def test_uniform_counts_every_silo_the_same() -> None:
    assert [Uniform().share(update) for update in UPDATES] == [1, 1, 1]


def test_size_counts_examples() -> None:
    assert [Size().share(update) for update in UPDATES] == [2, 6, 4]


def test_identity_gives_every_silo_its_own_update() -> None:
    assert Identity().matrix(NAMES, UPDATES, GROUPS).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_a_silo_whose_update_is_missing_keeps_its_model() -> None:
    assert Identity().matrix(NAMES, [UPDATES[2], UPDATES[0]], GROUPS).tolist() == [[0, 1], [0, 0], [1, 0]]
    assert Groups().matrix(["b", "d"], [UPDATES[0], UPDATES[2]], GROUPS).tolist() == [[0, 0], [0, 0]]


def test_groups_share_by_size_and_do_not_mix() -> None:
    # a and c are in one group, of 2 + 4 examples; b is alone
    expected = [[2 / 6, 0, 4 / 6], [0, 1, 0], [2 / 6, 0, 4 / 6]]
    assert np.allclose(Groups().matrix(NAMES, UPDATES, GROUPS), expected, atol=1e-15)


def test_a_silo_that_sent_nothing_receives_its_group_all_the_same() -> None:
    assert Groups().matrix(["a"], [UPDATES[1], UPDATES[2]], GROUPS).tolist() == [[0, 1]]


def test_rows_are_divided_by_their_sums_and_empty_rows_stay() -> None:
    assert normalised(np.array([[1.0, 3.0], [0.0, 0.0]])).tolist() == [[0.25, 0.75], [0, 0]]


@pytest.mark.parametrize("weigher", WEIGHERS.values())
def test_every_weigher_says_how_many_models_it_makes(weigher: Any) -> None:
    assert hasattr(weigher, "share" if weigher.one_row else "matrix")
