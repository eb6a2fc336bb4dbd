# SPDX-License-Identifier: Apache-2.0
"""Answers that people give, and what becomes of earlier ones."""

import re
from dataclasses import replace

import pytest

from fedqa.data.records import Collection, Document, Example, Span
from fedqa.store import Correction, NewAsked, Store, StoreError, UnknownId

TEXT = "Nothing to eat for six hours before the scan."  # "six hours" stands at 19 to 28


@pytest.fixture
def document(store: Store) -> Document:
    return store.add_document(TEXT, "Fasting", source="", who="Ada")


def correction(document: Document, /, **values: object) -> Correction:
    given = Correction("How long?", "Ben", document.id, 19, 28, "six hours")
    return replace(given, **values)  # type: ignore[arg-type]


def test_a_correction_is_an_example_to_train_on_and_to_check(store: Store, document: Document) -> None:
    stored = store.correct(correction(document))
    span = Span(document.id, 19, 28)
    id = stored.example.id
    assert stored.example == Example(
        id, "How long?", (span,), ("six hours",), split="train", about=document.id, check=True
    )
    assert (stored.origin, stored.added_by, stored.asked) == ("annotated", "Ben", None)
    assert store.example(id) == store.verified("HOW  long") == stored
    assert store.collection().examples == (stored.example,)
    newest = store.history()[0]
    assert (newest.number, newest.who, newest.what, newest.which) == (2, "Ben", "example annotated", id)
    assert newest.at == stored.added_at


def test_the_correction_of_an_answer_names_what_was_asked(store: Store, document: Document) -> None:
    asked = store.note_asked(NewAsked("how long", "Ben", {"answer": "an hour"}))
    stored = store.correct(correction(document, asked=asked))
    assert (stored.origin, stored.asked) == ("corrected", asked)
    (listed,) = store.asked().items
    assert listed.example == stored.example.id


def test_no_answer_in_a_document_or_in_any_is_an_example_without_evidence(store: Store, document: Document) -> None:
    nowhere = store.correct(Correction("Why?", "Ben")).example
    assert (nowhere.evidence, nowhere.answers, nowhere.about, nowhere.answerable) == ((), (), "", False)
    not_there = store.correct(Correction("Who?", "Ben", document.id)).example
    assert (not_there.evidence, not_there.answers, not_there.about) == ((), (), document.id)


COUNT, LIST = "SELECT COUNT(*) FROM wards", "SELECT name FROM wards"


def test_sql_that_a_person_gives_is_an_example_beside_what_documents_say(store: Store, document: Document) -> None:
    said = store.correct(correction(document))
    stored = store.correct(Correction("How long?", "Ben", sql=f" {COUNT}\n"))
    assert stored.example == Example(stored.example.id, "How long?", sql=COUNT, split="train", check=True)
    assert (store.verified("how long"), store.verified_query("how long")) == (said, stored)
    assert store.correct(Correction("How long?", "Ada", sql=COUNT)) == stored
    newer = store.correct(Correction("How long?", "Ada", sql=LIST))
    assert (store.verified("how long"), store.verified_query("how long")) == (said, newer)
    assert set(store.collection().examples) == {said.example, newer.example}
    store.remove_example(newer.example.id, "Ada")
    assert store.verified_query("how long") is None and store.verified("how long") == said


@pytest.mark.parametrize("sql", [" ", "SELECT '\0'", "SELECT " + "1" * 10_000])
def test_sql_that_cannot_be_kept_is_refused(store: Store, sql: str) -> None:
    with pytest.raises(StoreError, match=r"the correction: the SQL .* is empty, .* write one query"):
        store.correct(Correction("How many?", "Ben", sql=sql))


def test_sql_and_a_place_in_a_document_are_not_one_answer(store: Store, document: Document) -> None:
    with pytest.raises(StoreError, match="has SQL and a place in a document; give one of them"):
        store.correct(correction(document, sql=COUNT))


def test_white_space_around_a_selection_is_not_part_of_the_answer(store: Store, document: Document) -> None:
    example = store.correct(correction(document, start=18, end=29, text=" six hours ")).example
    assert (example.evidence, example.answers) == ((Span(document.id, 19, 28),), ("six hours",))


def test_the_same_answer_again_changes_nothing(store: Store, document: Document) -> None:
    first = store.correct(correction(document))
    assert store.correct(correction(document, question="how long", who="Cy")) == first
    assert store.version == 2


def test_a_new_answer_supersedes_the_old_one_and_the_history_keeps_both(store: Store, document: Document) -> None:
    old = store.correct(correction(document)).example
    new = store.correct(correction(document, start=19, end=22, text="six", who="Cy")).example
    assert store.collection().examples == (new,)
    assert store.examples().total == 1
    verified = store.verified("How long?")
    assert verified and verified.example == new
    assert [(change.number, change.who, change.what, change.which, change.note) for change in store.history()] == [
        (4, "Cy", "example annotated", new.id, ""),
        (3, "Cy", "example superseded", old.id, f"by {new.id}"),
        (2, "Ben", "example annotated", old.id, ""),
        (1, "Ada", "document added", document.id, ""),
    ]
    with pytest.raises(UnknownId):
        store.example(old.id)


def test_an_answer_that_was_superseded_may_be_given_again(store: Store, document: Document) -> None:
    first = store.correct(correction(document)).example
    store.correct(Correction("How long?", "Ben"))
    again = store.correct(correction(document)).example
    assert again.evidence == first.evidence
    assert store.collection().examples == (again,)


@pytest.mark.parametrize("tested", ["dev", "test"])
def test_a_question_that_is_tested_is_not_trained_on(store: Store, document: Document, tested: str) -> None:
    before = store.correct(correction(document)).example
    assert before.split == "train"
    imported = Example("i", "how long", split=tested, about=document.id)  # type: ignore[arg-type]
    store.add_collection(Collection((), (imported,)), source="", who="Ada")
    verified = store.verified("How long?")
    assert verified and verified.example == replace(before, split=tested)  # type: ignore[arg-type]
    after = store.correct(correction(document, start=19, end=22, text="six")).example
    assert after.split == tested
    assert {example.split for example in store.collection().examples} == {tested}


def test_an_imported_example_is_not_verified_by_people_here(store: Store, document: Document) -> None:
    store.add_collection(Collection((), (Example("i", "How long?"),)), source="", who="Ada")
    assert store.verified("How long?") is None
    assert store.verified("\ud800?") is None


WRONG: list[tuple[dict[str, object], str]] = [
    (
        {"start": 18},
        "in document 'ID' the text from 18 to 28 is ' six hours', not 'six hours'; offsets count characters "
        "(code points) from 0: select the answer again",
    ),
    ({"start": -1}, "the correction in document 'ID' is from -1 to 28; offsets count characters from 0 to 45"),
    ({"start": 28, "end": 28, "text": ""}, "is from 28 to 28; offsets count characters"),
    ({"end": 46}, "is from 19 to 46; offsets count characters from 0 to 45, the start before the end"),
    ({"text": ""}, "the text from 19 to 28 is 'six hours', not ''"),
    ({"start": 18, "end": 19, "text": " "}, "the correction in document 'ID': an answer is empty; write the answer"),
    ({"end": None}, "the correction names document 'ID', start 19, end None and the text 'six hours'; give all four"),
    ({"document": None}, "names document None, start 19, end 28 and the text 'six hours'; give all four"),
    ({"start": None, "end": None}, "start None, end None and the text 'six hours'; give all four, or leave out"),
    ({"document": "nowhere"}, "there is no document 'nowhere' in the store"),
    ({"question": " "}, "the correction: the question is empty; write the question"),
    ({"who": ""}, "who does this is ''"),
    ({"asked": 9}, "there is no asked question number 9 in the store; choose one of the list"),
    ({"asked": 2**70}, "there is no asked question number"),
    ({"asked": 1}, "the correction is to 'How long?', but the question asked (number 1) was 'Why?'; correct that"),
]


def test_a_wrong_correction_is_refused_with_what_stands_there(store: Store, document: Document) -> None:
    assert store.note_asked(NewAsked("Why?", "Ben")) == 1
    for values, message in WRONG:
        with pytest.raises(StoreError, match=re.escape(message.replace("ID", document.id))):
            store.correct(correction(document, **values))
    assert store.version == 1


def test_offsets_are_code_points_and_those_of_a_browser_are_recognised(store: Store) -> None:
    document = store.add_document("\N{GRINNING FACE} six cafe\N{COMBINING ACUTE ACCENT}s", "", source="", who="Ada")
    assert store.correct(Correction("How many?", "Ben", document.id, 2, 5, "six")).example.answers == ("six",)
    with pytest.raises(StoreError, match=r"it begins at 2: offsets count characters \(code points\), not UTF-16 units"):
        store.correct(Correction("How many?", "Ben", document.id, 3, 6, "six"))
    with pytest.raises(StoreError, match="the span 6 to 10 cuts a character in two"):
        store.correct(Correction("Where?", "Ben", document.id, 6, 10, "cafe"))
