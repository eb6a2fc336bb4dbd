# SPDX-License-Identifier: Apache-2.0
"""Drawing and splitting questions."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fedqa.data.formats import read_format
from fedqa.data.records import SPLITS, Collection, Document, Example, Span, Split
from fedqa.data.splits import check_disjoint, limited, normalise, replayed, split, split_counts, with_checks
from fedqa.errors import ConfigError, DataError


def example(i: int, question: str = "", *, answerable: bool = True, split: Split | None = None) -> Example:
    evidence = (Span(f"d{i}", 0, 1),) if answerable else ()
    return Example(f"e{i}", question or f"Question {i}?", evidence, split=split)


def collection(*examples: Example, documents: int = 0) -> Collection:
    return Collection(tuple(Document(f"d{i}", f"Text {i}.") for i in range(documents)), examples)


def counts(found: Collection) -> Counter[str | None]:
    return Counter(example.split for example in found.examples)


@pytest.mark.parametrize(
    ("question", "same"),
    [
        ("  How LONG\tis it ?! ", "how long is it"),
        ("谁\N{FULLWIDTH QUESTION MARK}", "谁"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("What is C#?", "what is c#"),
        ("???", "???"),
        ("", ""),
    ],
)
def test_case_white_space_and_final_punctuation_make_no_other_question(question: str, same: str) -> None:
    assert normalise(question) == same


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (0, (0, 0, 0)),
        (1, (1, 0, 0)),
        (2, (1, 0, 1)),  # test is filled before dev
        (3, (1, 1, 1)),
        (4, (2, 1, 1)),  # 2.8, 0.4, 0.8: 3, 0, 1, and dev takes one of train's
        (5, (3, 1, 1)),
        (10, (7, 1, 2)),
        (15, (11, 1, 3)),  # 10.5, 1.5, 3.0: one is left over, and of equal remainders train's comes first
        (1_000, (700, 100, 200)),
    ],
)
def test_counts_by_largest_remainder_and_none_empty_while_there_are_enough(n: int, expected: tuple[int, ...]) -> None:
    found = split_counts(n, (0.7, 0.1, 0.2))
    assert tuple(found[name] for name in SPLITS) == expected


def test_a_share_of_zero_stays_empty() -> None:
    assert split_counts(10, (0.8, 0.0, 0.2)) == {"train": 8, "dev": 0, "test": 2}


def test_splits_are_in_shares_and_the_same_whatever_the_order() -> None:
    examples = [example(i) for i in range(100)]
    found = split(collection(*examples), seed=3)
    assert counts(found) == {"train": 70, "dev": 10, "test": 20}
    again = split(collection(*reversed(examples)), seed=3)
    assert {e.id: e.split for e in again.examples} == {e.id: e.split for e in found.examples}
    assert split(collection(*examples), seed=4) != found


def test_a_question_is_never_in_two_splits_however_often_it_is_asked() -> None:
    found = split(collection(*(example(i, f"Question {i % 10}{'?' * (i % 3)}") for i in range(100))), seed=1)
    check_disjoint(found)
    assert counts(found) == {"train": 70, "dev": 10, "test": 20}  # 7, 1 and 2 questions, ten examples each


def test_unanswerable_questions_are_spread_in_the_same_shares() -> None:
    found = split(collection(*(example(i, answerable=i % 5 > 0) for i in range(100))), seed=1)
    unanswerable = Counter(e.split for e in found.examples if not e.answerable)
    assert unanswerable == {"train": 14, "dev": 2, "test": 4}
    assert counts(found) == {"train": 70, "dev": 10, "test": 20}


@pytest.mark.parametrize(("n", "expected"), [(1, {"train"}), (2, {"train", "test"}), (3, {"train", "test", "dev"})])
def test_few_questions_fill_train_then_test_then_dev(n: int, expected: set[str]) -> None:
    assert set(counts(split(collection(*map(example, range(n))), seed=0))) == expected


def test_an_empty_collection_stays_empty() -> None:
    assert split(collection(), seed=0) == limited(collection(), 5, seed=0) == collection()
    check_disjoint(collection())


def test_a_source_with_all_three_splits_keeps_them() -> None:
    given = collection(example(0, split="train"), example(1, split="dev"), example(2, split="test"))
    assert split(given, seed=0) == given


def test_examples_without_split_join_their_question_or_train_where_the_source_has_splits() -> None:
    given = [example(0, split="train"), example(1, split="dev"), example(2, "Why?", split="test")]
    found = split(collection(*given, example(3, "why"), example(4, "New?")), seed=0)
    assert [e.split for e in found.examples] == ["train", "dev", "test", "test", "train"]


def test_a_source_with_two_splits_gets_new_ones() -> None:
    given = collection(*(example(i, split="dev" if i % 2 else "test") for i in range(10)))
    assert counts(split(given, seed=0)) == {"train": 7, "dev": 1, "test": 2}


@pytest.mark.parametrize("shares", [(0.7, 0.1), (0.7, 0.2, 0.2), (1.2, -0.4, 0.2), (float("nan"), 0.5, 0.5)])
def test_shares_must_be_three_that_sum_to_one(shares: tuple[float, float, float]) -> None:
    with pytest.raises(ConfigError, match="the shares of train, dev and test must be three numbers that sum to 1, got"):
        split(collection(example(0)), 0, shares)


def test_leaks_are_an_error_that_names_an_example_but_no_text() -> None:
    given = [example(0, "My secret?", split="train"), example(1, "my SECRET", split="test"), example(2, split="dev")]
    with pytest.raises(DataError, match="questions in more than one split: 1, among them that of example 'e0'") as e:
        check_disjoint(collection(*given))
    assert "secret" not in str(e.value).lower()


def test_a_limit_keeps_whole_questions_their_documents_and_ten_others_for_each() -> None:
    given = collection(*(example(i, f"Question {i // 2}?") for i in range(40)), documents=100)
    found = limited(given, 3, seed=1)
    assert len(found.examples) == 6 and len({e.question for e in found.examples}) == 3
    kept = {document.id for document in found.documents}
    assert {span.document for e in found.examples for span in e.evidence} <= kept
    assert len(kept) == 6 + 30


def test_a_limit_draws_the_same_whatever_the_order_and_a_larger_one_draws_more_of_the_same() -> None:
    given = collection(*map(example, range(40)), documents=40)
    turned = Collection(given.documents[::-1], given.examples[::-1])
    small, large = limited(given, 3, seed=1), limited(given, 6, seed=1)
    assert set(limited(turned, 3, seed=1).examples) == set(small.examples) < set(large.examples)
    assert set(limited(turned, 3, seed=1).documents) == set(small.documents)
    assert set(limited(given, 3, seed=2).examples) != set(small.examples)


def test_a_limit_above_what_is_there_keeps_all() -> None:
    given = collection(*map(example, range(4)), documents=9)
    assert limited(given, 100, seed=0) == given


def test_a_limit_is_at_least_one() -> None:
    with pytest.raises(ConfigError, match="a limit must be at least 1 question, got 0"):
        limited(collection(), 0, seed=0)


def test_policyqa_is_split_without_a_leak_though_its_files_share_questions(public_data: Callable[[str], Path]) -> None:
    given = read_format("policyqa", public_data("policyqa"), {})
    with pytest.raises(DataError, match="questions in more than one split: 507, among"):
        check_disjoint(given)
    check_disjoint(split(given, seed=1))


def test_a_checked_example_stands_in_its_split_and_among_the_checks() -> None:
    found = with_checks(collection(example(1, split="train"), replace(example(2, split="train"), check=True)))
    assert [(e.id, e.split, e.check) for e in found.examples] == [
        ("e1", "train", False),
        ("e2", "train", True),
        ("check/e2", "check", False),
    ]


def test_of_old_examples_some_are_replayed_for_each_new_one() -> None:
    many = collection(*(example(i, split="train") for i in range(10)), example(10, split="dev"))
    old = {f"e{i}" for i in range(8)}
    kept = [e.id for e in replayed(many, old, 3, seed=1).examples]
    assert len(kept) == 2 + 3 * 2 + 1  # the new, three old for each, and dev
    assert {"e8", "e9", "e10"} <= set(kept)
    assert kept == [e.id for e in replayed(many, old, 3, seed=1).examples]
    assert kept != [e.id for e in replayed(many, old, 3, seed=2).examples]


@pytest.mark.parametrize("n_checked", [2, 3, 6])
def test_of_what_is_replayed_up_to_half_is_what_must_not_be_forgotten(n_checked: int) -> None:
    checked = set(range(n_checked))
    many = collection(*(replace(example(i, split="train"), check=i in checked) for i in range(20)))
    known = {f"e{i}" for i in range(18)}
    drawn = [{int(e.id[1:]) for e in replayed(many, known, 3, seed).examples} - {18, 19} for seed in range(5)]
    assert all(len(one) == 6 for one in drawn)
    assert all(len(one & checked) >= min(n_checked, 3) for one in drawn)  # for certain; chance may add more
    assert any(len(one & checked) == min(n_checked, 3) for one in drawn)  # and the other half is of all


@pytest.mark.parametrize(("known", "share"), [(8, 0), (10, 3), (0, 3)])
def test_all_are_trained_on_without_a_share_or_without_anything_new_or_known(known: int, share: int) -> None:
    many = collection(*(example(i, split="train") for i in range(10)))
    assert replayed(many, {f"e{i}" for i in range(known)}, share, seed=1) == many
