# SPDX-License-Identifier: Apache-2.0
"""Texts made worse: how much of them, what is never touched, and that nothing is lost."""

import math
from functools import cache

import numpy as np
import pytest
from pair_toys import tiny

from fedqa.models.text_pair import Vocabulary
from fedqa.skills.corruption import damaged, infilled, masked, permuted, run_lengths, sentence_ends

MASK = 103


@cache
def vocabulary() -> Vocabulary:
    return Vocabulary.of(tiny())


def ids_of(text: str) -> np.ndarray:
    return np.array(tiny().tokenizer(text, add_special_tokens=False)["input_ids"], dtype=np.int64)


def text_of(ids: np.ndarray) -> str:
    text = tiny().tokenizer.decode(ids)
    assert isinstance(text, str)
    return text


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# -- hidden words ------------------------------------------------------------------------------------------------


def framed_rows(rows: int, words: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of words between special tokens, the last five places empty."""
    ids = np.full((rows, words + 7), 0)
    ids[:, 0], ids[:, words + 1] = 101, 102
    ids[:, 1 : words + 1] = rng(1).integers(2000, 3000, (rows, words))
    return ids, np.arange(words + 7) < np.full((rows, 1), words + 2)


def test_fifteen_of_a_hundred_words_are_chosen_and_never_a_special_token() -> None:
    ids, mask = framed_rows(200, 100)
    found = masked(ids, mask, vocabulary(), rng())
    assert found.chosen.sum(axis=1).tolist() == [15] * 200
    assert not found.chosen[ids < 2000].any()
    assert np.array_equal(found.ids[~found.chosen], ids[~found.chosen])
    assert found.chosen[:, 1:101].mean(axis=0).std() < 0.05  # every place alike


def test_of_those_eighty_are_hidden_ten_replaced_and_ten_kept() -> None:
    ids, mask = framed_rows(400, 100)
    found = masked(ids, mask, vocabulary(), rng())
    now, before = found.ids[found.chosen], ids[found.chosen]  # 6,000 words; a share of 0.1 varies by 0.004
    hidden, kept = now == MASK, now == before
    assert hidden.mean() == pytest.approx(0.8, abs=0.02)
    assert kept.mean() == pytest.approx(0.1, abs=0.015)
    others = now[~hidden & ~kept]
    assert len(others) / len(now) == pytest.approx(0.1, abs=0.015)
    assert not vocabulary().special[others].any()
    assert others.min() < 1000 and others.max() > 29000  # from all of the vocabulary


def test_short_texts_have_one_word_chosen_and_those_without_words_none() -> None:
    ids = np.array([[101, 2000, 2001, 102], [101, 100, 102, 0]])  # the second one is unknown
    mask = np.array([[True] * 4, [True, True, True, False]])
    for seed in range(20):
        found = masked(ids, mask, vocabulary(), rng(seed))
        assert found.chosen.sum(axis=1).tolist() == [1, 0]
        assert found.chosen[0, 1:3].any()


def test_the_same_generator_damages_alike_and_leaves_what_it_was_given() -> None:
    ids, mask = framed_rows(3, 40)
    given = ids.copy()
    one, same, other = (masked(ids, mask, vocabulary(), rng(seed)) for seed in (4, 4, 5))
    assert np.array_equal(one.ids, same.ids) and np.array_equal(one.chosen, same.chosen)
    assert not np.array_equal(one.chosen, other.chosen)
    assert np.array_equal(ids, given)


# -- sentences ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("it rained. we left! why? no", ["it rained.", "we left!", "why?", "no"]),
        ("it cost 3.5 pounds. cheap.", ["it cost 3. 5 pounds.", "cheap."]),  # as the tokenizer writes numbers
        ("wait... what?! nothing", ["wait...", "what?!", "nothing"]),
        ("no end", ["no end"]),
        ("one.", ["one."]),
    ],
)
def test_sentences_end_at_stops_but_not_within_a_number(text: str, sentences: list[str]) -> None:
    ids = ids_of(text)
    assert [text_of(part) for part in np.split(ids, sentence_ends(ids, vocabulary()))] == sentences


def test_sentences_are_all_there_in_every_order() -> None:
    ids = ids_of("it rained. we left. why")
    orders = {text_of(permuted(ids, vocabulary(), rng(seed))) for seed in range(60)}
    parts = ("it rained.", "we left.", "why")
    expected = {" ".join((a, b, c)) for a in parts for b in parts for c in parts if len({a, b, c}) == 3}
    assert orders == expected


# -- runs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 3, 7, 10, 64, 200])
def test_three_of_ten_tokens_are_hidden_and_the_others_keep_their_order(length: int) -> None:
    tokens = np.arange(2000, 2000 + length)
    for seed in range(25):
        found = infilled(tokens, MASK, rng(seed))
        left = found[found != MASK]
        assert len(left) == length - math.ceil(0.3 * length)
        assert np.array_equal(left, np.sort(left)) and set(left) <= set(tokens)
        gaps = np.diff(np.flatnonzero(found == MASK))
        assert (gaps > 1).all()  # each run has a mask of its own, and no run is empty
        assert (found == MASK).sum() >= 1


def test_runs_are_of_poisson_length_without_empty_ones() -> None:
    lengths = np.array(run_lengths(30_000, rng()))
    assert lengths.sum() == 30_000 and lengths.min() == 1
    # Poisson(3) without 0: P(k) = 3^k e^-3 / (k! (1 - e^-3)), its mean is 3 / (1 - e^-3) = 3.157
    assert lengths.mean() == pytest.approx(3 / (1 - math.exp(-3)), abs=0.06)
    for k in (1, 2, 3, 5):
        expected = 3**k * math.exp(-3) / (math.factorial(k) * (1 - math.exp(-3)))
        assert (lengths == k).mean() == pytest.approx(expected, abs=0.015)


def test_runs_stand_everywhere() -> None:
    hidden, tokens, draw = np.zeros(20), np.arange(20) + 2000, rng()
    for _ in range(2000):
        hidden += ~np.isin(tokens, infilled(tokens, MASK, draw))
    assert hidden.sum() == 2000 * 6
    # at either end less often than 0.3, since only a run that stands there itself reaches it
    assert (hidden / 2000 > 0.12).all() and (hidden / 2000 < 0.37).all()
    assert (hidden[2:-2] / 2000 > 0.27).all()


def test_nothing_comes_of_nothing() -> None:
    assert len(infilled(np.zeros(0, dtype=np.int64), MASK, rng())) == 0


def test_damage_is_both_and_the_same_for_the_same_generator() -> None:
    ids = ids_of("the cat sat in the garden. the dog ran into the house. it rained all day long.")
    one, same, other = (damaged(ids, vocabulary(), rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(one, same) and not np.array_equal(one, other)
    assert len(one[one != MASK]) == len(ids) - math.ceil(0.3 * len(ids))
    firsts = {text_of(damaged(ids, vocabulary(), rng(seed))[:1]) for seed in range(30)}
    assert firsts >= {"the", "it", "[MASK]"}
