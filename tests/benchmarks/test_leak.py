# SPDX-License-Identifier: Apache-2.0
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from benchmarks.leak import WAYS, Size, Study, guesses, measured, ordered, page, readings, write
from benchmarks.leak_attacks.guessing import (
    Confirmed,
    cosines,
    dictionary_recall,
    near_duplicates,
    nearest_words,
    ranks,
)
from benchmarks.leak_attacks.inversion import (
    Inverted,
    Search,
    Training,
    corrected,
    edited,
    frequent_words,
    trained_inverter,
    vocabulary,
)
from benchmarks.leak_attacks.sending import Encoder, Texts, Way, World
from benchmarks.leak_attacks.words import Overlap, content_words, pieces, precision, recall
from benchmarks.study.page import markdown, terminal

SECRET = (
    "The bank raised its interest rate in March.",
    "Patients with fever should drink plenty of water.",
    "A tenant may end the lease after two years.",
    "The river floods the old mill every spring.",
    "Our engine uses less fuel than last year's.",
)
OTHERS = (
    "Banks lend money at a fixed rate.",
    "Fever often follows an infection.",
    "The landlord must repair the roof.",
    "Rivers carry sand to the sea.",
    "Engines burn fuel to turn a wheel.",
    "Water boils at a hundred degrees.",
)
EXACT, DEAF = Way("exact", as_bytes=False), Way("deaf", noise=1000.0)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder("tiny")


def words(*texts: str) -> list[frozenset[str]]:
    return [frozenset(text.split()) for text in texts]


# -- metrics -----------------------------------------------------------------------------------------------------


def test_content_words_are_distinct_lower_cased_and_not_stop_words() -> None:
    assert content_words("The Cat and the cat's 9 lives") == {"cat", "9", "lives"}
    assert content_words("It is what it is.") == frozenset()


def test_pieces_are_words_and_marks_in_order() -> None:
    assert pieces("Don't stop, Ann!") == ("don", "'", "t", "stop", ",", "ann", "!")


def test_recall_is_of_the_true_words_and_precision_of_those_found() -> None:
    (found, true) = words("a b c", "b c d e")
    assert (recall(found, true), precision(found, true)) == (2 / 4, 2 / 3)
    assert precision(frozenset(), true) == 0
    # the second sentence: one of two true words, by one word found
    overlap = Overlap.of(words("a b c", "x"), words("b c d e", "x y"))
    assert overlap == Overlap(recall=(0.5 + 0.5) / 2, precision=(2 / 3 + 1) / 2)


def test_a_rank_counts_the_candidates_with_a_higher_score() -> None:
    scores = torch.tensor([[0.9, 0.5, 0.7], [0.1, 0.4, 0.4], [0.3, 0.2, 0.1]])
    assert ranks(scores, [1, 2, 0]) == [3, 1, 1]
    assert Confirmed.of([3, 1, 1, 4]) == Confirmed(exact=0.5, median_rank=2.0)
    assert Confirmed.by_chance(4) == Confirmed(0.25, 2.5)  # the mean of ranks 1, 2, 3, 4


def test_cosines_do_not_depend_on_lengths() -> None:
    found = cosines(torch.tensor([[3.0, 4.0]]), torch.tensor([[10.0, 0.0], [0.0, 0.1]]))
    assert found[0].tolist() == pytest.approx([0.6, 0.8])


def test_the_nearest_text_gives_its_words() -> None:
    others = Texts(["red apple", "blue sea"], torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    found = nearest_words(torch.tensor([[0.2, 0.9]]), others, words("blue sky sea wind"))
    assert found == Overlap(recall=2 / 4, precision=1.0)


def test_the_nearest_words_of_a_dictionary_are_named() -> None:
    dictionary = Texts(["apple", "blue", "sea"], torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]))
    # nearest to the vector are "sea" and "blue", of which one is true
    assert dictionary_recall(torch.tensor([[0.1, 0.9]]), dictionary, words("sea wind")) == 0.5


def test_a_dictionary_has_whole_content_words(encoder: Encoder) -> None:
    known = set(encoder.dictionary())
    assert {"river", "bank"} < known and not known & {"the", "##ing", "[CLS]", "!"}


def test_inversion_names_as_many_words_as_are_true() -> None:
    probabilities = torch.tensor([[0.9, 0.6, 0.2], [0.1, 0.7, 0.3]])
    # first: names a, b of {a, c}: one of two; second: names b of {b}: all. Above 0.5 are a, b, and b: two of three
    found = Inverted.of(probabilities, ["a", "b", "c"], words("a c", "b"))
    assert found == Inverted(recall=0.75, exact=0.5, sure_precision=2 / 3, sure_words=1.5)


def test_an_inversion_that_is_sure_of_nothing_has_no_precision() -> None:
    assert Inverted.of(torch.tensor([[0.4]]), ["a"], words("a")).sure_precision is None


def test_words_out_of_the_vocabulary_are_missed() -> None:
    # one word is all that can be named, of two that are true
    assert Inverted.of(torch.tensor([[0.9]]), ["a"], words("a z")).recall == 0.5


def test_the_vocabulary_has_the_most_frequent_words_with_their_shares() -> None:
    texts = ["red apple red", "red sea", "apple tree", "red sky"]
    assert vocabulary(texts, 2) == {"red": 0.75, "apple": 0.5}
    # "red" is named for both; right for the first
    assert frequent_words(texts, 2, words("red", "sea")).recall == 0.5


def test_a_sentence_is_found_whatever_its_case_and_spacing() -> None:
    found = ordered(["the red sea .", "red apple"], ["The red sea.", "Apple red"])
    assert found.exact == 0.5 and found.words == Overlap(1.0, 1.0)


# -- parts of the attacks ----------------------------------------------------------------------------------------


def test_noise_is_added_before_bytes_and_repeats_with_its_seed() -> None:
    vectors = torch.tensor([[0.6, 0.8]])
    assert torch.equal(EXACT.sent(vectors, np.random.default_rng(0)), vectors)
    # in steps of 0.8 / 127, 0.6 is 95.25 steps: 95
    assert WAYS[1].sent(vectors, np.random.default_rng(0))[0].tolist() == pytest.approx([95 * 0.8 / 127, 0.8])
    noisy = [Way("x", 0.1).sent(vectors, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert torch.equal(noisy[0], noisy[1]) and not torch.equal(noisy[0], noisy[2])
    assert [way.noise for way in WAYS] == [0, 0, 0.01, 0.02, 0.05, 0.1]


def test_near_duplicates_lack_a_word_or_have_two_swapped(encoder: Encoder) -> None:
    made = near_duplicates("red old mill", 10, encoder, np.random.default_rng(0))
    assert sorted(made) == ["old mill", "old red mill", "red mill", "red mill old", "red old"]
    assert len(near_duplicates("red old mill", 2, encoder, np.random.default_rng(0))) == 2
    assert near_duplicates("mill", 2, encoder, np.random.default_rng(0)) == []
    # the encoder sees no case: swapping "The the" changes nothing
    assert near_duplicates("The the", 9, encoder, np.random.default_rng(0)) in (["The"], ["the"])


def test_no_sentence_is_on_both_sides(encoder: Encoder) -> None:
    world = World.of(["It is.", *SECRET], [*OTHERS, SECRET[0].upper()], encoder, attacked=9, seed=1)
    assert list(world.others.texts) == list(OTHERS)
    assert sorted(world.truth) == sorted(SECRET)  # "It is." has no content words


def test_an_edit_changes_one_piece_and_never_leaves_nothing() -> None:
    rng = np.random.default_rng(0)
    made = {edited(("a", "b"), ["x"], rng) for _ in range(200)}
    replaced, put_in = {("x", "b"), ("a", "x")}, {("x", "a", "b"), ("a", "x", "b")}
    assert made == replaced | put_in | {("b",), ("a",)} | {("b", "a"), ("a", "b")}
    assert all(edited(("a",), ["x"], rng) for _ in range(50))


def test_the_search_puts_a_missing_word_in(encoder: Encoder) -> None:
    (target,) = encoder(["red mill"])
    search = Search(steps=30, proposals=32, beam=2)
    found = corrected(target, ["old mill"], ["red", "sea"], encoder=encoder, search=search, seed=1)
    assert found == "red mill"


def test_an_inverter_learns_the_words_of_its_own_texts(encoder: Encoder) -> None:
    own = Texts(OTHERS, encoder(OTHERS))
    inverter = trained_inverter(EXACT, own, Training(hidden=64, epochs=150, learning_rate=0.01), seed=1)
    told = Inverted.of(inverter.probabilities(own.vectors), inverter.words, [content_words(text) for text in OTHERS])
    assert told.recall > 0.9


# -- all of it ---------------------------------------------------------------------------------------------------


def small(encoder: Encoder, ways: Sequence[Way]) -> Study:
    training, search = Training(vocabulary=20, hidden=8, epochs=2), Search(sentences=2, steps=2, proposals=4)
    return measured(
        SECRET, OTHERS, encoder, Size(5, duplicates=4, dictionary=50, training=training, search=search), ways
    )


def test_exact_vectors_are_confirmed_and_drowned_ones_are_not(encoder: Encoder) -> None:
    study = small(encoder, [EXACT, DEAF])
    exact, deaf = study.leaks
    assert (study.attacked, study.candidates, study.with_duplicates, study.searched) == (5, 11, 31, 2)
    assert exact.among_all == exact.among_duplicates == Confirmed(1.0, 1.0)
    assert deaf.among_all.exact < 1 and deaf.among_duplicates.exact < 1 and deaf.among_duplicates.median_rank > 1


def test_the_same_study_gives_the_same_figures(encoder: Encoder) -> None:
    assert small(encoder, [DEAF]) == small(encoder, [DEAF])


def test_tables_and_files_tell_every_way(encoder: Encoder, tmp_path: Path) -> None:
    study = small(encoder, [EXACT, DEAF])
    console = Console(width=80)
    with console.capture() as capture:
        console.print(terminal(guesses(study)), terminal(readings(study)))
    assert "…" not in capture.get()
    assert all(capture.get().count(f"\n {name} ") == 2 for name in ("exact", "deaf", "no vector"))
    write(study, tmp_path)
    assert [leak["way"] for leak in json.loads((tmp_path / "leak.json").read_text())["leaks"]] == ["exact", "deaf"]
    text = (tmp_path / "report.md").read_text()
    assert text == markdown(page(study))
    assert "as exact in 100.0" in text and "of 2 sentences word by word." in text
