# SPDX-License-Identifier: Apache-2.0
"""Who may be a negative of a question and who may not, source by source, on vectors of two numbers."""

from typing import Any

import numpy as np
import pytest

from fedqa.errors import ConfigError, DataError
from fedqa.skills.negatives import SOURCES, Found, Ground, Negatives, Question, Sampler, nearest

# Sentences 0 to 5 by how far they lie along the first axis; both questions look that way.
SENTENCES = np.array([[0.9, 0], [0.8, 0], [0.7, 0], [0.1, 0], [0, 0.5], [-0.5, 0]], dtype=np.float32)
TOWARDS = np.array([1, 0], dtype=np.float32)
AWAY = -TOWARDS
RNG = np.random.default_rng


def question(gold: tuple[int, ...], relevant: set[int]) -> Question:
    return Question("q", "?", np.array([1]), gold, frozenset(relevant), (0,), frozenset({0}))


QUESTIONS = (question((0,), {0, 1}), question((3,), {3}), question((1, 4), {1, 4}))


def ground(received: np.ndarray | None = None) -> Ground:
    return Ground(
        QUESTIONS,
        len(SENTENCES),
        keywords=lambda row, n: [i for i in (0, 5, 1, 4, 3, 2) if i not in QUESTIONS[row].relevant][:n],
        question_vectors=lambda: np.stack([TOWARDS] * 3),
        sentence_vectors=lambda: SENTENCES,
        received=received,
    )


def found(row: int, *, now: np.ndarray = TOWARDS, seed: int = 0, received: Any = None, **options: Any) -> Found:
    return Sampler(Negatives(**options), ground(received))(row, lambda: now, RNG(seed))


def ever(row: int, **options: Any) -> set[int]:
    """All that is drawn in fifty draws."""
    return {i for seed in range(50) for i in found(row, seed=seed, **options).positions}


def test_random_negatives_are_any_sentences_that_are_not_relevant() -> None:
    assert ever(0, sources=("random",), count=2) == {2, 3, 4, 5}
    drawn = found(0, sources=("random",), count=2).positions
    assert len(drawn) == len(set(drawn)) == 2


def test_keyword_negatives_are_the_best_that_are_not_relevant() -> None:
    assert found(0, sources=("bm25",), count=3).positions == [5, 4, 3]
    assert found(1, sources=("bm25",), count=3).positions == [0, 5, 1]


def test_gold_negatives_are_gold_of_other_questions_but_never_relevant_to_this_one() -> None:
    assert ever(0, sources=("gold",), count=1) == {3, 4}  # 1 is gold for the third question and relevant to the first
    assert ever(1, sources=("gold",), count=1) == {0, 1, 4}


def test_index_negatives_are_drawn_from_a_pool_of_the_nearest_and_not_the_nearest_themselves() -> None:
    # Of those not relevant to the second question, by nearness: 0, 1, 2, 4, 5.
    assert ever(1, sources=("index",), count=1, pool=1) == {0}
    assert ever(1, sources=("index",), count=1, pool=3) == {0, 1, 2}
    assert ever(1, sources=("index",), count=1, pool=300) == {0, 1, 2, 4, 5}


def test_a_pool_is_drawn_from_evenly() -> None:
    drawn = [found(1, sources=("index",), count=1, pool=3, seed=seed).positions[0] for seed in range(300)]
    # 100 each are expected, with a standard deviation of sqrt(300 * 1/3 * 2/3) = 8.2
    assert all(60 < drawn.count(i) < 140 for i in (0, 1, 2))


def test_index_negatives_do_not_follow_the_model_within_a_round_and_dynamic_ones_do() -> None:
    assert found(1, sources=("index",), count=2, pool=2, now=AWAY).positions in ([0, 1], [1, 0])
    assert found(1, sources=("dynamic",), count=2, now=TOWARDS).positions == [0, 1]
    assert found(1, sources=("dynamic",), count=2, now=AWAY).positions == [5, 4]
    assert found(0, sources=("dynamic",), count=2, now=TOWARDS).positions == [2, 3]  # 0 and 1 are relevant


def received(*vectors: tuple[float, float]) -> np.ndarray:
    """The same vectors for all three questions."""
    return np.array([vectors] * 3, dtype=np.float32)


def test_received_vectors_are_used_and_padding_is_not() -> None:
    one = found(0, sources=("fed",), count=3, received=received((0, 0.25), (0, 0), (0.5, 0.5), (0, 0)))
    assert one.positions == [] and one.vectors is not None
    assert one.vectors.tolist() == [[0, 0.25], [0.5, 0.5]]


def test_of_more_received_vectors_than_asked_for_the_nearest_now_are_taken() -> None:
    given = received((0.1, 0.25), (-0.5, 0.75), (0.5, 0.5))
    for now, expected in ((TOWARDS, [[0.5, 0.5], [0.1, 0.25]]), (AWAY, [[-0.5, 0.75], [0.1, 0.25]])):
        one = found(0, sources=("fed",), count=2, received=given, now=now)
        assert one.vectors is not None
        assert one.vectors == pytest.approx(np.array(expected))


def test_a_received_vector_of_a_relevant_sentence_is_no_negative() -> None:
    # (0, 0.5) is sentence 4, which answers the third question, and not the first; with noise it is still known.
    for vector in ((0, 0.5), (0.001, 0.51)):
        given = received(vector, (0.3, 0.3))
        first, third = (found(row, sources=("fed",), count=2, received=given).vectors for row in (0, 2))
        assert first is not None and len(first) == 2
        assert third is not None and third.tolist() == pytest.approx(np.array([[0.3, 0.3]]))


def test_fed_and_dynamic_together_are_the_nearest_of_both() -> None:
    # Own by nearness 0.9, 0.8, 0.7 ...; received 0.85 and 0.2: the best three of all are 0.9, 0.85, 0.8.
    given = received((0.85, 0.5), (0.2, 0.5))
    one = found(1, sources=("fed", "dynamic"), count=3, received=given)
    assert one.positions == [0, 1] and one.vectors is not None
    assert one.vectors == pytest.approx(np.array([[0.85, 0.5]]))
    # The other way, sentence 5 (0.5) is nearer than anything received (-0.85, -0.2) and 4 (0) is next.
    one = found(1, sources=("fed", "dynamic"), count=2, received=given, now=AWAY)
    assert one.positions == [5, 4] and one.vectors is not None and len(one.vectors) == 0


def test_the_question_is_encoded_anew_only_if_something_is_searched_with_it() -> None:
    def never() -> np.ndarray:
        raise AssertionError

    for options in ({"sources": ("random", "bm25", "gold", "index")}, {"sources": ("fed",), "count": 2}):
        sampler = Sampler(Negatives(**options), ground(received((0.1, 0.5), (0.2, 0.5))))
        sampler(0, never, RNG(0))


def test_the_count_is_shared_equally_and_the_first_sources_get_the_rest() -> None:
    assert Negatives(sources=("bm25", "gold", "random"), count=8).shares() == {"bm25": 3, "gold": 3, "random": 2}
    assert Negatives().shares() == {"bm25": 4, "gold": 4}


def test_no_sentence_is_drawn_twice_whatever_the_sources() -> None:
    for seed in range(30):
        sources = ("bm25", "random", "gold", "index", "dynamic")
        drawn = found(1, seed=seed, sources=sources, count=5, received=None).positions
        assert sorted(drawn) == [0, 1, 2, 4, 5]  # all five that are not relevant


def test_a_small_silo_gives_fewer_than_asked_for() -> None:
    assert sorted(found(0, sources=("random", "dynamic"), count=40).positions) == [2, 3, 4, 5]


def test_equal_scores_are_taken_in_the_order_of_the_sentences() -> None:
    scores = np.array([1, 2, 2, 0, 2], dtype=np.float32)
    assert nearest(scores, 3).tolist() == [1, 2, 4]
    assert nearest(scores, 9, barred={1, 3}).tolist() == [2, 4, 0]
    assert nearest(scores, 2, barred=range(5)).tolist() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sources": ("bm52",)}, r"unknown source of negatives 'bm52'; did you mean 'bm25'.*known: bm25, dynamic, fed"),
        ({"sources": ()}, r"sources must be one or more different names, got \[\]"),
        ({"sources": ("gold", "gold")}, "sources must be one or more different names"),
        ({"count": 1}, "count must be at least 1 for each of 2 sources, got 1"),
        ({"sources": ("index",), "pool": 7}, "pool must be at least count, which is 8, got 7"),
    ],
)
def test_a_wrong_option_is_an_error_that_says_what_is_accepted(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Negatives(**options)


def test_fed_without_vectors_is_an_error() -> None:
    with pytest.raises(ConfigError, match="'fed' draws from vectors that a channel brings, and none came"):
        found(0, sources=("fed",))


@pytest.mark.parametrize("shape", [(2, 4, 2), (3, 4, 5), (3, 2)])
def test_received_vectors_of_another_shape_are_an_error(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"the shape \[.*\], where \[3, any number, 2\] is expected"):
        found(0, sources=("fed",), received=np.zeros(shape, dtype=np.float32))


def test_what_the_sources_are_called() -> None:
    assert set(SOURCES) == {"random", "bm25", "gold", "index", "dynamic", "fed"}
