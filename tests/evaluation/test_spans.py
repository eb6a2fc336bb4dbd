# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from fedqa.evaluation.spans import Refusals, answerable, exact_match, overlap, refusals, threshold, words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The  Cat, sat.", ["cat", "sat"]),
        ("an\u00a0apple a\tday", ["apple", "day"]),
        ("\u201cSeven\u201d days\u2026", ["seven", "days"]),  # punctuation that is not ASCII
        ("\u00bfCu\u00e1nto?", ["cu\u00e1nto"]),
        ("$5 + 10%", ["5", "10"]),
        ("co-operate", ["cooperate"]),  # as the official script: a hyphen joins
        ("another theme", ["another", "theme"]),  # articles are whole words
        ("\u5317\u4eac\u3002\u5927\u5b66 2", ["\u5317", "\u4eac", "\u5927", "\u5b66", "2"]),
        ("A", ["a"]),  # nothing would be left of it
        ("?", ["?"]),
        ("", []),
        (" \n", []),
    ],
)
def test_words_are_compared_in_lower_case_without_articles_and_punctuation(text: str, found: list[str]) -> None:
    assert words(text) == found


@pytest.mark.parametrize(
    ("answer", "accepted", "em", "f1"),
    [
        ("the seven days", ("Seven days.",), 1, 1),
        ("seven", ("seven days",), 0, 2 / 3),  # precision 1, recall 1/2
        ("at least seven days", ("seven days",), 0, 2 / 3),  # precision 1/2, recall 1
        ("six days", ("seven days",), 0, 1 / 2),  # one of two on both sides
        ("red red blue", ("red red green",), 0, 2 / 3),  # two of three: the same word counts as often as it stands
        ("red", ("red red",), 0, 2 / 3),
        ("noon", ("seven days",), 0, 0),
        ("1968", ("1968", "1968", "1968"), 1, 1),  # several golds are never joined
        ("in 1968", ("May 1968", "1968", "the year"), 0, 2 / 3),  # the best of 1/2, 2/3 and 0
        ("\u5317\u4eac\u5927\u5b66", ("\u5317\u4eac",), 0, 2 / 3),
        ("", ("seven days",), 0, 0),
        ("", (), 1, 1),
        ("seven days", (), 0, 0),
        ("", ("A",), 0, 0),  # the official script takes this gold for no answer
        ("the A", ("A",), 0, 2 / 3),  # where nothing would be left, articles are words
    ],
)
def test_an_answer_is_judged_by_the_best_of_all_accepted(
    answer: str, accepted: tuple[str, ...], em: float, f1: float
) -> None:
    assert exact_match(answer, accepted) == em
    assert overlap(answer, accepted) == pytest.approx(f1)


def test_precision_and_recall_of_no_answer_come_from_two_values_a_question() -> None:
    # Five questions; the last two have no answer. Refused: the second (wrong) and the fourth (right).
    refused, right = [0, 1, 0, 1, 0], [1, 0, 1, 1, 0]
    assert refusals(refused, right) == Refusals(precision=1 / 2, recall=1 / 2)
    assert answerable(refused, right).tolist() == [True, True, True, False, False]


def test_precision_and_recall_of_no_answer_may_not_exist() -> None:
    assert refusals([0, 0], [1, 1]) == Refusals(None, None)  # nothing refused, and all have an answer
    assert refusals([0, 1], [0, 0]) == Refusals(0.0, 0.0)
    assert refusals([], []) == Refusals(None, None)


def fitted(odds: list[float], answered: list[float], refused: list[float]) -> float:
    return threshold(np.array(odds), answered=np.array(answered), refused=np.array(refused))


def test_the_threshold_is_the_best_line_moved_towards_zero() -> None:
    # Refusing the first two (no answer) and answering the others scores 4 of 4, for any line from 3 to 5: the middle.
    # With four questions it is moved to 4 * 4 / (4 + 20).
    assert fitted([2, 3, 5, 6], [0, 0, 1, 1], [1, 1, 0, 0]) == pytest.approx(4 * 4 / 24)


def test_of_equally_good_lines_the_one_nearest_to_zero_is_taken() -> None:
    assert fitted([-2, 3], [0, 1], [1, 0]) == 0.0  # any line from -2 to 3 is perfect
    assert fitted([1, 2], [1, 1], [0, 0]) == 0.0  # any line below 1


def test_where_nothing_speaks_for_answering_the_line_is_above_all() -> None:
    assert fitted([1, 2], [0, 0], [1, 1]) == pytest.approx(3 * 2 / 22)


def test_without_questions_the_threshold_is_where_training_put_it() -> None:
    assert fitted([], [], []) == 0.0
