# SPDX-License-Identifier: Apache-2.0
"""The examination of a collection."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fedqa.data import doctor
from fedqa.data.doctor import Findings, Lengths, examine
from fedqa.data.formats import read_format
from fedqa.data.records import Collection, Document, Example, Quarantined, Span, Split
from fedqa.data.splits import split as assign


def example(id: str, question: str, split: Split | None = None, answers: tuple[str, ...] = ("word",)) -> Example:
    return Example(id, question, (Span("d", 0, 1),) if answers else (), answers, split=split)


def examined(
    *examples: Example, documents: tuple[Document, ...] = (), quarantine: tuple[Quarantined, ...] = ()
) -> Findings:
    return examine(Collection(documents, examples, quarantine))


def warnings(findings: Findings) -> str:
    assert all(advice.remedy.endswith(".") and advice.warning.endswith(".") for advice in findings.advice)
    return " ".join(advice.warning for advice in findings.advice)


def test_good_data_gets_no_advice() -> None:
    splits: tuple[Split, ...] = ("train", "dev", "test")
    subjects = [f"{a} {b}" for a in "abcdefgh" for b in "ijklmnop"]
    findings = examined(*(example(s, f"Where is {s} kept?", splits[i % 3]) for i, s in enumerate(subjects)))
    assert findings.advice == ()
    assert findings.splits == {"train": 22, "dev": 21, "test": 21, "none": 0}


def test_an_empty_silo_and_one_example_are_examined_too() -> None:
    assert warnings(examined()) == "There is no question."
    one = examined(example("a", "Where is it kept?"))
    assert warnings(one) == "There is only one question."
    assert (one.splits["none"], one.share_unanswerable) == (1, 0.0)


def test_lengths_are_in_words_by_nearest_rank() -> None:
    texts = [" ".join(["w"] * n) for n in range(1, 101)]
    findings = examined(*(example(str(i), text, answers=("one, two",)) for i, text in enumerate(texts)))
    assert findings.words["question"] == Lengths(median=50, p90=90, p99=99, longest=100)
    assert findings.words["answer"] == Lengths(2, 2, 2, 2)
    assert "passage" not in findings.words


def test_the_quarantine_is_counted_by_reason_without_values() -> None:
    records = [
        Quarantined("x:1", "answer_start 12 points to 'it\\'s' but the answer is 'six'", ""),
        Quarantined("x:2", "answer_start 1,345 points to \"it's\" but the answer is 'a'", ""),
        Quarantined("x:3", "the question is empty", ""),
    ]
    findings = examined(quarantine=tuple(records))
    assert findings.quarantine == {"answer_start N points to … but the answer is …": 2, "the question is empty": 1}
    assert "3 records were left out, most often: answer_start N points to … but" in warnings(findings)


def test_duplicates_are_found_among_questions_and_documents() -> None:
    documents = (Document("d1", "Same."), Document("d2", "Same."), Document("d3", "Other."))
    findings = examined(example("a", "Why?"), example("b", "why"), example("c", "How?"), documents=documents)
    assert findings.duplicate_questions == (("a", "b"),)
    assert findings.duplicate_documents == (("d1", "d2"),)
    assert findings.shared_questions == ()
    assert "One question is asked more than once (such as a, b)." in warnings(findings)
    assert "One document exists more than once (such as d1, d2)." in warnings(findings)


def test_leaks_between_splits_are_found() -> None:
    findings = examined(
        example("a", "Why?", "train"),
        example("b", "Why", "test"),
        example("c", "How long is the left luggage office open today?", "train"),
        example("d", "How long is the left luggage office open?", "test"),
        example("e", "How long is the left luggage office open now?", "train"),
        example("f", "How long is the ferry?", "dev"),
    )
    assert findings.shared_questions == (("a", "b"),)
    # c has 9 words and 8 pairs, d is c without "today": 15 of 17 alike. c and e differ in 2 + 2: 15 of 19, not near.
    assert findings.near_duplicates == (("c", "d"), ("d", "e"))
    assert findings.near_duplicates_complete
    assert "One question stands in more than one split (such as a, b)." in warnings(findings)
    assert "2 pairs of questions are nearly alike but in different splits (such as c, d)." in warnings(findings)


def test_near_duplicates_within_a_split_or_without_splits_do_not_matter() -> None:
    alike = [f"How long is the left luggage office open {day}?" for day in ("today", "")]
    assert examined(*(example(q, q, "train") for q in alike)).near_duplicates == ()
    assert examined(*(example(q, q) for q in alike)).near_duplicates == ()


def test_near_duplicates_are_found_in_scripts_without_spaces() -> None:
    findings = examined(
        example("a", "左侧行李寄存处今天开放多长时间", "train"),
        example("b", "左侧行李寄存处今天开放多长时间呢", "test"),
    )
    assert findings.near_duplicates == (("a", "b"),)


def test_the_search_for_near_duplicates_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "MAX_COMPARISONS", 1)
    alike = [f"How long is the left luggage office open {day}?" for day in ("", "today", "now")]
    findings = examined(*(example(q, q, "train" if i else "test") for i, q in enumerate(alike)))
    assert len(findings.near_duplicates) == 1 and not findings.near_duplicates_complete
    assert "there may be more, not all were compared" in warnings(findings)


def test_questions_that_contain_their_answer_are_found() -> None:
    findings = examined(
        example("a", "Is it true that six hours are enough?", answers=("Six hours",)),
        example("b", "Is it so? yes or no", answers=("yes",)),  # too short to tell
        example("c", "Are sixty hours enough?", answers=("sixt",)),  # part of a word
    )
    assert findings.revealing == ("a",)
    assert "One question contains its answer (such as a)." in warnings(findings)


def test_empty_splits_long_passages_and_many_unanswerable_questions_are_told() -> None:
    long = Document("d", "word " * 351 + "\n\n" + "word " * 350)
    findings = examined(
        example("a", "Why?", "train", ()),
        example("b", "How?", "train"),
        example("c", "Who?", "test", ()),
        documents=(long,),
    )
    assert findings.long_passages == 1
    assert findings.share_unanswerable == 2 / 3
    told = warnings(findings)
    assert "There are only 3 questions." in told
    assert "No question is in dev." in told
    assert "67% of the questions have no answer." in told
    assert "One passage has more than 350 words." in told


def test_findings_hold_no_text() -> None:
    secret = "xyzzy"
    quarantine = (Quarantined("x:1", f"the label is '{secret}'", f"not {secret}"),)
    documents = (Document("d", secret), Document("e", secret))
    findings = examined(example("a", secret), example("b", secret), documents=documents, quarantine=quarantine)
    assert secret not in repr(findings) + warnings(findings)


def test_public_data_is_examined_in_bounded_time(public_data: Callable[[str], Path]) -> None:
    given = read_format("policyqa", public_data("policyqa"), {})
    findings = examine(assign(given, seed=1))
    assert (findings.examples, findings.shared_questions) == (7_961, ())
    assert findings.near_duplicates_complete
