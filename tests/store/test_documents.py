# SPDX-License-Identifier: Apache-2.0
"""Documents in the store."""

from datetime import UTC, datetime

import pytest

from fedqa.data.records import Document
from fedqa.store import Store, StoreError, UnknownId


def add(store: Store, text: str, title: str = "") -> Document:
    return store.add_document(text, title, source="leaflet.txt", who="Ada")


def test_a_document_comes_back_as_it_went_in_with_when_and_by_whom(store: Store) -> None:
    before = datetime.now(UTC)
    text = "Cafe\N{COMBINING ACUTE ACCENT} \N{GRINNING FACE}\n\nSix hours.  "
    document = add(store, text, " Fasting\nrules ")
    stored = store.document(document.id)
    assert stored.document == document == Document(document.id, text, "Fasting rules")
    assert (stored.source, stored.added_by) == ("leaflet.txt", "Ada")
    assert before <= stored.added_at <= datetime.now(UTC)
    assert stored.added_at.utcoffset() is not None
    assert store.all_documents() == [document]


def test_an_id_is_safe_in_addresses_and_tells_nothing_of_the_document(store: Store) -> None:
    id = add(store, "Six hours.", "Letter to Mrs Smith").id
    assert id.isascii() and id.replace("-", "").isalnum() and "smith" not in id


def test_the_same_text_again_is_the_document_that_is_there(store: Store) -> None:
    first = add(store, "Six hours.", "Fasting")
    version = store.version
    assert add(store, "Six hours.", "Another title") == first
    assert store.version == version == 1
    assert add(store, "Six hours. ") != first


REFUSED = {
    "": "the document: the text is empty; add the text",
    "a\0b": "the document: the text holds a NUL character at character 1; write the file again as UTF-8",
    "\ud800": "half of a surrogate pair",
    "a" * 1_000_001: "has 1,000,001 characters; at most 1,000,000 are taken; split it",
}


def test_the_door_is_the_same_as_for_files(store: Store) -> None:
    for text, reason in REFUSED.items():
        with pytest.raises(StoreError, match=reason):
            add(store, text)
    assert store.version == 0


def test_a_change_needs_somebody_who_makes_it(store: Store) -> None:
    with pytest.raises(StoreError, match="who does this is '  '; write a name of 1 to 200 characters"):
        store.add_document("Six hours.", "", source="", who="  ")


def test_an_unknown_document_is_told_whatever_its_id(store: Store) -> None:
    for id in ("d-1", "", "a\0b", "\ud800", "x" * 10_000):
        with pytest.raises(UnknownId, match=r"there is no document .* choose one of the list"):
            store.document(id)
        with pytest.raises(UnknownId, match="there is no document"):
            store.remove_document(id, "Ada")


def test_documents_are_listed_newest_first_in_pages_with_their_number(store: Store) -> None:
    ids = [add(store, f"Text {number}").id for number in range(5)]
    assert [item.document.id for item in store.documents(limit=2).items] == [ids[4], ids[3]]
    page = store.documents(limit=2, offset=4)
    assert ([item.document.id for item in page.items], page.total) == ([ids[0]], 5)
    assert store.documents(limit=0).total == 5
    assert store.documents(offset=9).items == ()
    assert [document.id for document in store.all_documents()] == ids


def test_a_page_that_cannot_be_is_refused(store: Store) -> None:
    for limit, offset in ((-1, 0), (1, -1), (2**40, 0)):
        with pytest.raises(StoreError, match=r"(limit|offset) is -?\d+; write a whole number from 0"):
            store.documents(limit=limit, offset=offset)


FOUND = {
    "": "abc",
    "FASTING": "a",
    "six\nHOURS": "a",
    "100%": "b",
    "%": "b",
    "_": "b",
    "/": "b",
    "\\": "b",
    "straße": "c",
    "STRASSE": "c",
    "Éclair": "c",
    "file": "c",
    "' OR 1=1 --": "",
    "six hours six": "",
}


def test_searching_finds_title_and_text_whatever_the_case_and_wildcards_mean_themselves(store: Store) -> None:
    names = {
        add(store, "Nothing for six  hours.", "Fasting").id: "a",
        add(store, "Take 100% of part_1/2 or a\\b.").id: "b",
        add(store, "Straße, e\N{COMBINING ACUTE ACCENT}clair, \N{LATIN SMALL LIGATURE FI}le").id: "c",
    }
    for search, found in FOUND.items():
        page = store.documents(search)
        assert "".join(sorted(names[item.document.id] for item in page.items)) == found, search
        assert page.total == len(found)


def test_a_search_that_cannot_be_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="the search has 1,001 characters; search for at most 1,000"):
        store.documents("a" * 1_001)
    with pytest.raises(StoreError, match=r"the search: .* NUL character"):
        store.documents("a\0")
