# SPDX-License-Identifier: Apache-2.0
"""Metrics of written texts against values worked out by hand, and against another implementation."""

import math

import numpy as np
import pytest
from nltk.translate.bleu_score import corpus_bleu as other_corpus_bleu
from nltk.translate.meteor_score import single_meteor_score

from fedqa.evaluation.generation import (
    METRICS,
    bleu,
    corpus_bleu,
    fewest_chunks,
    generation_scores,
    meteor,
    rouge,
    text_scores,
    words,
)

MAT = "The cat sat on the mat."


def f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall)


# -- ROUGE -------------------------------------------------------------------------------------------------------


def test_rouge_by_hand() -> None:
    found = rouge("the cat lay on mat", [MAT])
    # words in common: the, cat, on, mat, of 5 and 6, in this order; pairs in common: the cat, of 4 and 5
    assert found["rouge_1"] == pytest.approx(f1(4 / 5, 4 / 6))
    assert found["rouge_2"] == pytest.approx(f1(1 / 4, 1 / 5))
    assert found["rouge_l"] == pytest.approx(f1(4 / 5, 4 / 6))


def test_rouge_l_is_of_the_longest_common_sequence() -> None:
    # "on the" or "the cat" of four words and six; "on the mat"
    assert rouge("mat on the cat", [MAT])["rouge_l"] == pytest.approx(f1(2 / 4, 2 / 6))
    assert rouge("on the old mat", [MAT])["rouge_l"] == pytest.approx(f1(3 / 4, 3 / 6))


def test_rouge_takes_stems_for_the_same_and_the_best_of_several_references() -> None:
    assert rouge("cats sitting", ["cat sits"])["rouge_1"] == 1.0
    assert rouge("the dog", ["a bird", "the dog"])["rouge_2"] == 1.0
    both = rouge("the dog ran", ["the dog", "a dog ran"])
    assert both["rouge_1"] == pytest.approx(f1(2 / 3, 1))
    assert both["rouge_2"] == pytest.approx(max(f1(1 / 2, 1), f1(1 / 2, 1 / 2)))


# -- BLEU --------------------------------------------------------------------------------------------------------


def test_bleu_by_hand() -> None:
    # 5 of 6 words, 3 of 5 pairs, 2 of 4 triples, 1 of 3 runs of four; equally long
    expected = (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
    assert bleu("the cat sat on a mat", ["the cat sat on the mat"]) == pytest.approx(expected)
    # all runs match, but four words stand for six
    assert bleu("the cat sat on", ["the cat sat on the mat"]) == pytest.approx(math.exp(1 - 6 / 4))


def test_bleu_of_one_text_is_smoothed() -> None:
    # 3 of 4 words, 1 of 3 pairs; none of 2 triples, taken for half a one; none of 1 run of four, taken for a quarter
    expected = (3 / 4 * 1 / 3 * (1 / 2) / 2 * (1 / 4) / 1) ** 0.25
    assert bleu("a b c d", ["a b x d"]) == pytest.approx(expected)
    assert bleu("a b", ["a b"]) == pytest.approx(1.0)  # there are no longer runs
    assert bleu("x y", ["a b"]) == bleu("", ["a b"]) == 0.0


def test_bleu_of_a_set_sums_its_counts_and_is_not_smoothed() -> None:
    written = {"one": "the cat sat on a mat", "two": "it rained"}
    references = {"two": ["it rained all day"], "one": ["the cat sat on the mat"]}
    # words 5 + 2 of 6 + 2, pairs 3 + 1 of 5 + 1, triples 2 of 4, runs of four 1 of 3; eight words stand for ten
    expected = (7 / 8 * 4 / 6 * 2 / 4 * 1 / 3) ** 0.25 * math.exp(1 - 10 / 8)
    assert corpus_bleu(written, references) == pytest.approx(expected)
    assert corpus_bleu({"x": "a b c d"}, {"x": ["a b x d"]}) == 0.0
    assert corpus_bleu({}, {}) == 0.0


def test_bleu_of_a_set_is_that_of_another_implementation() -> None:
    rng = np.random.default_rng(0)

    def text() -> str:
        return " ".join(rng.choice(list("abcd"), size=int(rng.integers(5, 12))))

    written = {str(i): text() for i in range(40)}
    references = {str(i): [text() for _ in range(int(rng.integers(1, 4)))] for i in range(40)}
    expected = other_corpus_bleu(
        [[one.split() for one in references[id]] for id in references], [written[id].split() for id in references]
    )
    assert corpus_bleu(written, references) == pytest.approx(expected)


# -- METEOR ------------------------------------------------------------------------------------------------------


def meteor_by_hand(matches: int, written: int, reference: int, chunks: int) -> float:
    precision, recall = matches / written, matches / reference
    mean = precision * recall / (0.9 * precision + 0.1 * recall)
    return mean * (1 - 0.5 * (chunks / matches) ** 3)


def test_meteor_by_hand() -> None:
    assert meteor("the cat sat", ["the cat sat on the mat"]) == pytest.approx(meteor_by_hand(3, 3, 6, 1))
    assert meteor("on the mat sat the cat", ["the cat sat on the mat"]) == pytest.approx(meteor_by_hand(6, 6, 6, 3))
    assert meteor("it rained", ["the cat"]) == meteor("", ["the cat"]) == 0.0


def test_of_repeated_words_those_are_matched_that_make_the_fewest_chunks() -> None:
    # "the" could be matched with either one; only with the first there is one chunk
    assert fewest_chunks(["the", "cat"], ["the", "cat", "sat", "on", "the", "mat"]) == 1
    assert fewest_chunks(["the", "mat"], ["the", "cat", "sat", "on", "the", "mat"]) == 1
    assert fewest_chunks(["the", "the"], ["the", "cat", "the"]) == 2
    assert fewest_chunks(["a", "b", "a", "c"], ["a", "c", "a", "b"]) == 2
    assert fewest_chunks(["x", "a", "x", "b"], ["x", "b"]) == 1  # the first x is left over
    rng = np.random.default_rng(0)
    for _ in range(150):
        one, other = (rng.choice(list("abc"), size=int(rng.integers(1, 7))).tolist() for _ in (0, 1))
        assert fewest_chunks(one, other) == chunks_by_trying_all(one, other)


def chunks_by_trying_all(one: list[str], other: list[str]) -> int:
    """Over all ways to match as many words as possible."""
    found: list[tuple[int, int]] = []

    def go_on(at: int, pairs: list[tuple[int, int]]) -> None:
        if at == len(one):
            chunks = sum((i - 1, j - 1) not in pairs for i, j in pairs)
            found.append((-len(pairs), chunks))
            return
        go_on(at + 1, pairs)
        for j, word in enumerate(other):
            if word == one[at] and all(j != used for _, used in pairs):
                go_on(at + 1, [*pairs, (at, j)])

    go_on(0, [])
    return min(found)[1]


def test_meteor_is_that_of_another_implementation_where_no_word_stands_twice() -> None:
    class NoSynonyms:
        def synsets(self, word: str) -> list[str]:
            return []

    rng, some = (
        np.random.default_rng(1),
        ["cat", "dogs", "dog", "sat", "sitting", "mat", "on", "old", "house", "houses", "ran"],
    )
    for _ in range(60):
        one, other = (rng.permutation(some)[: int(rng.integers(1, 9))].tolist() for _ in (0, 1))
        one, other = (list({word.rstrip("s"): word for word in text}.values()) for text in (one, other))
        expected = single_meteor_score(other, one, wordnet=NoSynonyms())
        assert meteor(" ".join(one), [" ".join(other)]) == pytest.approx(expected)


def test_meteor_matches_stems_but_no_synonyms() -> None:
    assert meteor("the cats sat", ["the cat sat"]) == pytest.approx(meteor_by_hand(3, 3, 3, 1))
    assert meteor("the automobile stopped", ["the car stopped"]) == pytest.approx(meteor_by_hand(2, 3, 3, 2))


def test_meteor_takes_the_best_reference() -> None:
    assert meteor("the dog ran", ["a bird", "the dog ran"]) == pytest.approx(meteor_by_hand(3, 3, 3, 1))


# -- all of them -------------------------------------------------------------------------------------------------


def test_spaces_around_punctuation_and_capitals_do_not_count() -> None:
    assert words("Levi 's STADIUM?") == ["levi", "'", "s", "stadium", "?"]
    assert text_scores("levi ' s stadium ?", ["Levi's Stadium?"])["bleu_4"] == pytest.approx(1.0)
    assert text_scores("levi ' s stadium ?", ["Levi's Stadium?"])["meteor"] == pytest.approx(meteor_by_hand(5, 5, 5, 1))


def test_values_are_found_by_id_and_stand_in_the_order_of_the_references() -> None:
    written = {"b": "the dog", "a": "the cat"}
    scores = generation_scores(written, {"a": ["the cat"], "b": ["a bird", "no dog"]})
    assert tuple(scores) == METRICS
    assert scores["em"].tolist() == [1.0, 0.0]
    assert scores["rouge_1"].tolist() == [1.0, 0.5]
    assert scores["bleu_4"][0] == pytest.approx(1.0) and 0 < scores["bleu_4"][1] < 1
    assert {name: values.tolist() for name, values in generation_scores({}, {}).items()} == {n: [] for n in METRICS}


def test_two_examples_with_the_same_source_are_kept_apart() -> None:
    scores = generation_scores({"a": "x", "b": "y"}, {"a": ["x"], "b": ["x"]})
    assert scores["em"].tolist() == [1.0, 0.0]


def test_texts_of_other_examples_are_an_error() -> None:
    for check in (generation_scores, corpus_bleu):
        with pytest.raises(ValueError, match="not of the same examples: 'b' is in one of them alone"):
            check({"a": "x", "b": "y"}, {"a": ["x"]})
        with pytest.raises(ValueError, match="the example 'a' has no reference"):
            check({"a": "x"}, {"a": []})
