# SPDX-License-Identifier: Apache-2.0
"""Clusters, halves and neighbours of updates, by hand and against independent computations."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.cluster import AgglomerativeClustering
from toys import toy_update

from fedqa.errors import ConfigError
from fedqa.federation.course import Choice, Mixing
from fedqa.federation.messages import Update
from fedqa.federation.mixing import Mixer
from fedqa.federation.neighbour_weighers import Bipartition, Clusters, Nearest, Similarity
from fedqa.federation.weighers import WEIGHERS
from fedqa.tables import from_table

NAMES = list("abcd")


def moved(*deltas: Sequence[float]) -> list[Update]:
    """Updates of the silos a, b, c, d with 2, 6, 4 and 1 examples."""
    return [toy_update(name, delta, n) for name, delta, n in zip("abcd", deltas, (2, 6, 4, 1), strict=False)]


EAST, NORTH, WEST = [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]


# -- clusters ----------------------------------------------------------------------------------------------------


def test_silos_that_went_the_same_way_share_a_model_by_size() -> None:
    updates = moved(EAST, [5.0, 0.5], NORTH, [0.1, 2.0])  # a and b to the east, c and d to the north
    expected = [[2 / 8, 6 / 8, 0, 0]] * 2 + [[0, 0, 4 / 5, 1 / 5]] * 2
    assert Clusters(n=2).matrix(NAMES, updates, {}).tolist() == expected


def test_linkage_is_the_mean_over_all_pairs() -> None:
    # Degrees 0, 40, 75 and 180. First 40 and 75 join (35 apart). Then 0 is, in 1 - cosine, (0.234 + 0.741) / 2 = 0.488
    # from these two on average, and 180 is 1.52 from them: with two clusters 180 is alone.
    angles = np.radians([0, 40, 75, 180])
    rows = Clusters(n=2).matrix(NAMES, moved(*np.stack([np.cos(angles), np.sin(angles)], 1).tolist()), {})
    assert (rows > 0).tolist() == [[True, True, True, False]] * 3 + [[False, False, False, True]]
    assert (
        Clusters(n=3).matrix(NAMES, moved(*np.stack([np.cos(angles), np.sin(angles)], 1).tolist()), {}) > 0
    ).tolist() == [
        [True, False, False, False],
        [False, True, True, False],
        [False, True, True, False],
        [False, False, False, True],
    ]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 9])
def test_clusters_are_those_of_scikit_learn(n: int) -> None:
    rng = np.random.default_rng(n)
    vectors = rng.normal(size=(9, 6)).astype(np.float32)
    updates = [toy_update(f"s{i}", row.tolist()) for i, row in enumerate(vectors)]
    rows = Clusters(n=n).matrix([update.silo for update in updates], updates, {})
    labels = AgglomerativeClustering(n_clusters=n, metric="cosine", linkage="average").fit_predict(vectors)
    assert (rows > 0).tolist() == (labels[:, None] == labels).tolist()


@pytest.mark.parametrize("n", [4, 5, 100])
def test_with_as_many_clusters_as_silos_everybody_is_alone(n: int) -> None:
    updates = moved(EAST, EAST, NORTH, WEST)
    assert Clusters(n=n).matrix(NAMES, updates, {}).tolist() == np.eye(4).tolist()


def test_the_order_of_updates_does_not_choose_between_clusters_that_are_equally_near() -> None:
    updates = moved(EAST, NORTH, WEST, [0.0, -1.0])  # every neighbour is a quarter turn away
    rows = Clusters(n=3).matrix(NAMES, updates, {})
    turned = Clusters(n=3).matrix(NAMES, updates[::-1], {})
    assert turned[:, ::-1].tolist() == rows.tolist()


def test_a_silo_that_did_not_move_is_alone_and_one_that_sent_nothing_keeps_its_model() -> None:
    rows = Clusters(n=1).matrix([*NAMES, "x"], moved(EAST, [0.0, 0.0], WEST), {})
    assert rows.tolist() == [[2 / 6, 0, 4 / 6], [0, 1, 0], [2 / 6, 0, 4 / 6], [0, 0, 0], [0, 0, 0]]
    assert Clusters().matrix(["a"], [], {}).tolist() == [[]]


def test_a_silo_may_count_by_what_it_saw_in_the_round() -> None:
    updates = [replace(update, n_seen=seen) for update, seen in zip(moved(EAST, EAST), (30, 10), strict=True)]
    assert Clusters(n=1, count="seen").matrix(["a"], updates, {}).tolist() == [[0.75, 0.25]]
    assert Nearest(k=1, count="seen").matrix(["b"], updates, {}).tolist() == [[0.75, 0.25]]


# -- parting -----------------------------------------------------------------------------------------------------

TOGETHER = dict.fromkeys("abcdx", "")


def test_silos_that_pull_in_different_ways_part() -> None:
    # Weighted by 2, 6, 4 and 1 of 13 the mean is ((2 + 6 - 4 - 1) / 13, 0): 0.23 long, and the longest is 1.
    updates = moved(EAST, EAST, WEST, WEST)
    expected = [[2 / 8, 6 / 8, 0, 0]] * 2 + [[0, 0, 4 / 5, 1 / 5]] * 2
    assert Bipartition(mean_below=0.24).matrix(NAMES, updates, TOGETHER).tolist() == expected
    stay = [[2 / 13, 6 / 13, 4 / 13, 1 / 13]] * 4
    assert Bipartition(mean_below=0.22).matrix(NAMES, updates, TOGETHER).tolist() == stay


def test_they_stay_together_while_everybodys_update_is_short() -> None:
    updates = moved(EAST, EAST, WEST, WEST)
    assert len({tuple(row) for row in Bipartition(one_above=1.0).matrix(NAMES, updates, TOGETHER).tolist()}) == 1
    assert len({tuple(row) for row in Bipartition(one_above=0.9).matrix(NAMES, updates, TOGETHER).tolist()}) == 2


def test_groups_that_have_parted_do_not_mix_and_may_part_again() -> None:
    groups = {"a": "one", "b": "one", "c": "two", "d": "two"}
    rows = Bipartition(mean_below=0.9, smallest=1).matrix(NAMES, moved(EAST, WEST, NORTH, NORTH), groups)
    assert rows.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 4 / 5, 1 / 5], [0, 0, 4 / 5, 1 / 5]]


def test_a_group_is_not_parted_into_groups_that_are_too_small() -> None:
    updates = moved(EAST, EAST, EAST, WEST)
    assert (Bipartition(mean_below=9).matrix(NAMES, updates, TOGETHER) > 0).all()
    assert not (Bipartition(mean_below=9, smallest=1).matrix(NAMES, updates, TOGETHER) > 0).all()


def test_a_silo_that_is_away_goes_with_most_of_its_group() -> None:
    rows = Bipartition(mean_below=9, smallest=1).matrix([*NAMES, "x"], moved(EAST, EAST, EAST, WEST), TOGETHER)
    assert rows[4].tolist() == rows[0].tolist() == [2 / 12, 6 / 12, 4 / 12, 0]


@pytest.mark.parametrize("seed", range(5))
def test_no_other_way_to_part_leaves_the_halves_less_alike(seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(6, 3))
    updates = [toy_update(f"s{i}", row.tolist()) for i, row in enumerate(vectors)]
    rows = Bipartition(mean_below=9, smallest=1).matrix(
        [u.silo for u in updates], updates, TOGETHER | {u.silo: "" for u in updates}
    )
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    near = unit @ unit.T

    def worst(half: Sequence[int]) -> float:
        other = [i for i in range(6) if i not in half]
        return float(near[np.ix_(half, other)].max())

    found = np.flatnonzero(rows[0] > 0).tolist()
    every = [half for size in range(1, 6) for half in combinations(range(6), size)]
    assert worst(found) == pytest.approx(min(map(worst, every)), abs=1e-6)


def parting_mixer() -> Mixer:
    return Mixer(
        Mixing(Choice("bipartition", {"mean_below": 0.5, "smallest": 1})), NAMES, dict.fromkeys(NAMES, "skill")
    )


def applied(mixer: Mixer, updates: Sequence[Update]) -> dict[str, list[float]]:
    weights = {name: torch.zeros(2) for name in NAMES}
    mixed = mixer.mix(updates)
    mixer.apply(mixed, weights, {}, 1)
    return {name: list(row.values()) for name, row in mixed.weights.items()}


def test_those_who_have_parted_stay_apart_whatever_they_do_later() -> None:
    mixer = parting_mixer()
    applied(mixer, moved(EAST, EAST, WEST, WEST))
    later = applied(mixer, moved(EAST, EAST, EAST, EAST))
    assert later["a"] == later["b"] == [2 / 8, 6 / 8, 0, 0]
    assert later["c"] == later["d"] == [0, 0, 4 / 5, 1 / 5]


def test_a_round_that_does_not_count_parts_nobody() -> None:
    mixer = parting_mixer()
    mixer.mix(moved(EAST, EAST, WEST, WEST))  # not applied: the quorum was missed
    assert applied(mixer, moved(EAST, EAST, EAST, EAST))["a"] == [2 / 13, 6 / 13, 4 / 13, 1 / 13]


def test_who_has_parted_can_be_told_from_what_was_written_down() -> None:
    first = parting_mixer()
    written = first.mix(moved(EAST, EAST, WEST, WEST)).weights
    later = parting_mixer()
    later.remember(written)
    later.remember({name: {"a": 0.0} for name in NAMES})  # a round of which nobody got anything changes nothing
    assert applied(later, moved(EAST, EAST, EAST, EAST))["d"] == [0, 0, 4 / 5, 1 / 5]


# -- similarity --------------------------------------------------------------------------------------------------


def test_every_update_counts_as_much_as_it_goes_the_silos_way() -> None:
    half = 2**-0.5  # the cosine of 45 degrees
    rows = Similarity().matrix(["a", "b", "c"], moved(EAST, [3.0, 3.0], NORTH), {})
    assert np.allclose(
        rows, [[1, half, 0], [half, 1, half], [0, half, 1]] / np.array([[1 + half], [1 + 2 * half], [1 + half]])
    )


def test_what_goes_against_a_silo_does_not_count() -> None:
    assert Similarity().matrix(["a", "b"], moved(EAST, WEST), {}).tolist() == [[1, 0], [0, 1]]


def test_sharper_similarity_prefers_the_nearest() -> None:
    rows = Similarity(sharpness=2).matrix(["a"], moved(EAST, [3.0, 3.0]), {})
    assert np.allclose(rows, [[1 / 1.5, 0.5 / 1.5]])


def test_without_a_direction_or_an_update_there_is_nothing_to_compare() -> None:
    rows = Similarity().matrix(["a", "b", "x"], moved(EAST, [0.0, 0.0]), {})
    assert rows.tolist() == [[1, 0], [0, 1], [0, 0]]
    assert Similarity().matrix(["a"], [], {}).tolist() == [[]]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("clusters", {"n": 0}, "clusters: n must be at least 1, got 0"),
        ("clusters", {"count": "batches"}, "count: unknown value 'batches'"),
        ("bipartition", {"mean_below": -1.0}, "bipartition: mean_below must be a number from 0, got -1.0"),
        ("bipartition", {"one_above": -1.0}, "bipartition: one_above must be a number from 0, got -1.0"),
        ("bipartition", {"smallest": 0}, "bipartition: smallest must be at least 1, got 0"),
        ("similarity", {"sharpness": 0.0}, "similarity: sharpness must be above 0, got 0.0"),
    ],
)
def test_an_option_that_cannot_be_is_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_table(WEIGHERS[name], options, "weigher")
