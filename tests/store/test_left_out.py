# SPDX-License-Identifier: Apache-2.0
"""Records that were left out when something was read into the store are kept until they are mended or forgotten."""

from fedqa.data.records import Collection, Document, Example, Quarantined, Span
from fedqa.store import LeftOut, Listing, Store

EMPTY = Quarantined("faq.csv:3", "the question is empty", "write one")
ODD = Quarantined("faq.csv:4", "the answer is 'a\0b\ud800'", "write it as UTF-8")
UNBASED = Example("q1", "Why?", (Span("nowhere", 0, 3),))


def add(store: Store, *quarantine: Quarantined, source: str = "faq.csv", examples: tuple[Example, ...] = ()) -> int:
    collection = Collection((Document("d1", "Six hours."),), examples, quarantine)
    return store.add_collection(collection, source=source, who="Ada").left_out


def test_what_a_reader_and_what_the_store_left_out_is_kept_with_who_and_whence(store: Store) -> None:
    assert add(store, EMPTY, examples=(UNBASED,)) == 2
    found = store.left_out()
    assert found.total == 2
    assert [one.record.place for one in found.items] == ["faq.csv:3", "example 'q1'"]
    assert found.items[1].record.reason == "it rests on document 'nowhere', which is not there"
    newest = store.history()[0]
    assert (newest.what, newest.which, newest.note, newest.who) == ("records left out", "", "2", "Ada")
    assert found.items[0] == LeftOut(EMPTY, "faq.csv", newest.at, "Ada")
    assert store.left_out(limit=1, offset=1) == Listing(found.items[1:], 2)
    assert store.collection().quarantine == ()  # no data to train on, nor to export


def test_the_same_file_again_changes_nothing_and_a_mended_one_takes_its_problems_away(store: Store) -> None:
    add(store, EMPTY, ODD)
    add(store, EMPTY, source="other.csv")
    before = store.version
    add(store, EMPTY, ODD)
    assert store.version == before
    assert [one.source for one in store.left_out().items] == ["other.csv", "faq.csv", "faq.csv"]
    add(store, ODD)
    assert [one.source for one in store.left_out().items] == ["faq.csv", "other.csv"]
    add(store)
    assert [one.source for one in store.left_out().items] == ["other.csv"]
    assert (store.history()[0].what, store.history()[0].note) == ("records left out", "0")


def test_what_no_database_holds_is_kept_in_other_letters(store: Store) -> None:
    add(store, ODD)
    assert store.left_out().items[0].record.reason == r"the answer is 'a\0b\ud800'"


def test_what_was_left_out_can_be_forgotten(store: Store) -> None:
    add(store, EMPTY)
    add(store, EMPTY, source="other.csv")
    store.forget_left_out("faq.csv", "Ben")
    assert [one.source for one in store.left_out().items] == ["other.csv"]
    assert (store.history()[0].who, store.history()[0].note) == ("Ben", "0")
    version = store.version
    store.forget_left_out("faq.csv", "Ben")  # somebody else was faster
    assert store.version == version


def test_with_a_document_goes_what_was_left_out_of_its_source(store: Store) -> None:
    add(store, EMPTY)
    add(store, EMPTY, source="other.csv")
    store.remove_document("d1", "Ada")  # it came with faq.csv
    assert [one.source for one in store.left_out().items] == ["other.csv"]
