# SPDX-License-Identifier: Apache-2.0
"""Whole collections into the store."""

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedqa.data.records import Collection, Document, Example, Span
from fedqa.data.sample import sample_silo
from fedqa.store import Correction, Imported, Store

DOCUMENTS = (Document("notes/a b.md", "six or six", "Fasting"), Document("d2", "six or six"))
EXAMPLES = (
    Example("q/1", "How long?", (Span("d2", 7, 10), Span("d2", 0, 3)), ("six", "6"), split="test", key="k", about="d2"),
    Example("q2", "How many wards?", sql="SELECT count(*) FROM wards", split="train", check=True),
    Example("q3", "Why?", about="notes/a b.md"),
)
COLLECTION = Collection(DOCUMENTS, EXAMPLES)


def add(store: Store, collection: Collection) -> Imported:
    return store.add_collection(collection, source="faq.jsonl", who="Ada")


def test_a_collection_comes_back_equal_and_in_order(store: Store) -> None:
    assert add(store, COLLECTION) == Imported(documents=2, examples=3, already_there=0, left_out=0)
    assert store.collection() == replace(COLLECTION, version="5")
    (listed,) = store.examples(search="WHY").items
    assert (listed.example, listed.origin, listed.source, listed.added_by) == (
        EXAMPLES[2],
        "imported",
        "faq.jsonl",
        "Ada",
    )
    assert [change.what for change in store.history()] == ["example imported"] * 3 + ["document added"] * 2


def test_the_same_collection_again_changes_nothing(store: Store) -> None:
    add(store, COLLECTION)
    assert add(store, COLLECTION) == Imported(0, 0, already_there=5, left_out=0)
    assert store.version == 5


def test_what_the_store_gave_changes_nothing_when_it_comes_back(store: Store) -> None:
    add(store, COLLECTION)
    store.correct(Correction("Who?", "Ben", "d2", 0, 3, "six"))
    assert add(store, store.collection()) == Imported(0, 0, already_there=6, left_out=0)
    unflagged = tuple(replace(example, check=False) for example in store.collection().examples)
    assert add(store, Collection((), unflagged)) == Imported(0, 0, already_there=4, left_out=0)


def test_a_later_collection_may_rest_on_documents_that_are_there(store: Store) -> None:
    add(store, COLLECTION)
    example = Example("q4", "How?", (Span("d2", 4, 6),), ("or",))
    assert add(store, Collection((), (example,))) == Imported(0, 1, 0, 0)
    assert store.example("q4").example == example


def test_another_content_under_an_id_that_is_there_is_told_and_nothing_is_overwritten(store: Store) -> None:
    add(store, COLLECTION)
    other = Collection(
        (replace(DOCUMENTS[0], text="another"), replace(DOCUMENTS[1], title="Another")),
        (Example("q3", "Why not?"), Example("q5", "Why?", about="d2"), Example("q6", "Fine?")),
    )
    done = add(store, other)
    assert (done.documents, done.examples, done.already_there, done.left_out) == (0, 1, 0, 4)
    assert [(problem.place, problem.reason) for problem in done.problems] == [
        ("document 'notes/a b.md'", "the store has another one with this id"),
        ("document 'd2'", "the store has another one with this id"),
        ("example 'q5'", "it rests on document 'd2', which is not there"),
        ("example 'q3'", "the store has another one with this id"),
    ]
    assert done.problems[0].remedy == "give one of them another id, or remove the one that is there"
    assert store.collection().documents == DOCUMENTS
    assert store.collection().examples == (*EXAMPLES, Example("q6", "Fine?"))


def test_what_is_not_usable_is_left_out_and_told(store: Store) -> None:
    bad = Collection(
        (Document("e", " "), Document("\0", "x"), Document("x" * 501, "x"), Document("t", "a"), Document("t", "b")),
        (
            Example("a", " "),
            Example("b", "Why?", (Span("t", 0, 2),)),
            Example("c", "Why?", answers=("",)),
            Example("d", "Why?", key="\ud800"),
            Example("e", "Why?", split="check"),
            Example("f", "Why?", about="e"),
        ),
    )
    done = add(store, bad)
    assert [problem.reason.split(" '")[0] for problem in done.problems] == [
        "the text is empty",
        "the id",
        "the id",
        "this id stands twice in the collection",
        "the question is empty",
        "an answer is empty",
        "its key or SQL holds a NUL character or half of a surrogate pair",
        "its split is",
        "its evidence is from 0 to 2 of 1 characters",
        "it rests on document",
    ]
    assert (done.documents, done.examples, done.left_out) == (1, 0, 10)


def test_the_sample_silo_comes_back_equal(store: Store) -> None:
    sample = sample_silo("hospital")
    done = add(store, sample)
    assert (done.documents, done.examples, done.left_out) == (len(sample.documents), len(sample.examples), 0)
    assert (store.collection().documents, store.collection().examples) == (sample.documents, sample.examples)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip), data=st.data())
def test_any_text_and_span_comes_back_equal(store: Store, text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    id = f"x{store.version}"
    example = Example(id, "Why?", (Span(id, start, end),), about=id)
    assert add(store, Collection((Document(id, text),), (example,))).left_out == 0
    assert store.document(id).document.text == text
    assert store.example(id).example == example


def test_examples_are_found_by_question_answers_origin_and_document(store: Store) -> None:
    add(store, COLLECTION)
    made = store.correct(Correction("Since when?", "Ben", "d2", 0, 3, "six")).example.id

    def found(**wanted: str) -> set[str]:
        page = store.examples(**wanted)  # type: ignore[arg-type]
        assert page.total == len(page.items)
        return {item.example.id for item in page.items}

    assert found(search="6") == found(search="HOW long") == {"q/1"}
    assert found(search="SIX") == found(document="d2") == {"q/1", made}
    assert found(document="notes/a b.md") == {"q3"}
    assert found(origin="annotated") == {made}
    assert found(origin="corrected") == found(search="six", document="notes/a b.md") == set()
