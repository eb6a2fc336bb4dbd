# SPDX-License-Identifier: Apache-2.0
"""What people asked and were answered."""

import pytest

from fedqa.store import Correction, Listing, NewAsked, Store, StoreError, UnknownId


def test_a_question_is_kept_with_its_answer(store: Store) -> None:
    document = store.add_document("Six hours.", "", source="", who="Ada").id
    answer = {"answers": [{"document": document, "text": "Six \N{GRINNING FACE}\0", "score": 0.5}], "n": None}
    id = store.note_asked(NewAsked("How\nlong?", " Ben ", answer, 0.75, "fedqas, round 3"))
    (asked,) = store.asked().items
    assert (asked.id, asked.question, asked.who, asked.answer) == (id, "How long?", "Ben", answer)
    assert (asked.confidence, asked.model, asked.verdict, asked.judged_by) == (0.75, "fedqas, round 3", None, "")
    assert (asked.example, asked.answer_removed) == ("", False)
    assert store.version == 1, "asking changes neither documents nor examples"


def test_questions_are_listed_newest_first_all_or_one_persons(store: Store) -> None:
    ids = [store.note_asked(NewAsked(f"Question {k}?", "Ben" if k % 2 else "Ada")) for k in range(4)]
    assert [asked.id for asked in store.asked().items] == ids[::-1]
    page = store.asked(who="Ben", limit=1, offset=1)
    assert ([asked.id for asked in page.items], page.total) == ([ids[1]], 2)
    assert store.asked(who="Nobody") == Listing((), 0)


def test_an_answer_is_judged_and_the_last_word_counts(store: Store) -> None:
    id = store.note_asked(NewAsked("How long?", "Ben", {"text": "Six"}))
    store.judge(id, "right", "Ben")
    store.judge(id, "wrong", "Cy")
    asked = store.asked_question(id)
    assert (asked.verdict, asked.judged_by) == ("wrong", "Cy")
    assert store.asked().items == (asked,)


def test_another_answer_takes_the_place_of_one_that_nobody_has_judged(store: Store) -> None:
    first, second = (store.add_document(text, "", source="", who="Ada").id for text in ("Six hours.", "Ten hours."))
    id = store.note_asked(NewAsked("How long?", "Ben", {"document": first, "text": "Six"}, None, "keywords"))
    assert store.note_instead(id, NewAsked("How long?", "Ben", {"document": second, "text": "Ten"}, 0.5, "a model"))
    (asked,) = store.asked().items
    assert (asked.id, asked.who, asked.confidence, asked.model) == (id, "Ben", 0.5, "a model")
    store.remove_document(first, "Ada")  # which it no longer quotes
    assert store.asked_question(id).answer == {"document": second, "text": "Ten"}
    store.remove_document(second, "Ada")
    assert store.asked_question(id).answer_removed


def test_an_answer_that_was_judged_or_corrected_stays(store: Store) -> None:
    document = store.add_document("Six hours.", "", source="", who="Ada").id
    judged, corrected = (store.note_asked(NewAsked("How long?", "Ben", model="keywords")) for _ in range(2))
    store.judge(judged, "right", "Ben")
    store.correct(Correction("How long?", "Ada", document, 0, 3, "Six", asked=corrected))
    for id in (judged, corrected):
        assert not store.note_instead(id, NewAsked("How long?", "Ben", model="a model"))
        assert store.asked_question(id).model == "keywords"
    with pytest.raises(UnknownId, match="there is no asked question number"):
        store.note_instead(corrected + 1, NewAsked("How long?", "Ben"))


def test_what_cannot_be_is_refused(store: Store) -> None:
    id = store.note_asked(NewAsked("How long?", "Ben"))
    with pytest.raises(StoreError, match=r"unknown verdict 'rigth'; did you mean 'right'\? \(known: right, wrong\)"):
        store.judge(id, "rigth", "Ben")  # type: ignore[arg-type]
    for unknown in (id + 1, 0, -1, 2**80):
        with pytest.raises(UnknownId, match="there is no asked question number"):
            store.judge(unknown, "right", "Ben")
    with pytest.raises(StoreError, match="the question: the question is empty"):
        store.note_asked(NewAsked("", "Ben"))
    with pytest.raises(StoreError, match=r"the answer is not plain JSON: .*; give texts, numbers, lists and objects"):
        store.note_asked(NewAsked("Why?", "Ben", {"score": float("nan")}))
    with pytest.raises(StoreError, match="the answer is not plain JSON"):
        store.note_asked(NewAsked("Why?", "Ben", {"score": object()}))
    with pytest.raises(StoreError, match="the answer has 1,000,012 characters; at most 1,000,000 are kept: quote less"):
        store.note_asked(NewAsked("Why?", "Ben", {"text": "a" * 1_000_000}))
    with pytest.raises(StoreError, match="the confidence is inf; give a number or None"):
        store.note_asked(NewAsked("Why?", "Ben", confidence=float("inf")))
    with pytest.raises(StoreError, match=r"unknown origin 'import'; did you mean 'imported'\?"):
        store.examples(origin="import")  # type: ignore[arg-type]
    assert store.asked().total == 1
