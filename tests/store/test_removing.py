# SPDX-License-Identifier: Apache-2.0
"""What is removed is gone for good; the history keeps that it was removed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from fedqa.data.records import Collection, Example, Span
from fedqa.store import Correction, NewAsked, Store, UnknownId

SECRET = "Mrs Quillfeather was treated for gout"
FOLDED = SECRET.casefold()


def fill(store: Store) -> str:
    """A document with the secret, and all that may be made of it; another one beside it."""
    secret = store.add_document(f"{SECRET}.", f"On {SECRET}", source=f"{SECRET}.pdf", who="Ada").id
    other = store.add_document("Six hours.", "Fasting", source="", who="Ada").id
    imported = (
        Example("both", "Who and when?", (Span(other, 0, 3), Span(secret, 0, 16)), ("Six", "Mrs Quillfeather")),
        Example("about", "Why?", about=secret),
        Example("other", "When?", (Span(other, 0, 3),), ("Six",), about=other),
    )
    store.add_collection(Collection((), imported), source="", who="Ada")
    store.correct(Correction("Who?", "Ben", secret, 0, len(SECRET), SECRET))
    store.correct(Correction("Who?", "Ben", other, 0, 3, "Six"))  # the one before is superseded but still there
    store.correct(Correction("What?", "Ben", secret, 33, 37, "gout"))
    store.note_asked(NewAsked("Who?", "Cy", {"answers": [{"document": secret, "text": SECRET}, {"document": other}]}))
    store.note_asked(NewAsked("When?", "Cy", {"document": other, "text": "Six"}))
    return secret


def test_removing_a_document_removes_all_that_rests_on_it_or_quotes_it(store: Store) -> None:
    secret = fill(store)
    before = store.version
    assert store.examples(document=secret).total == 3, "superseded ones are not counted"
    store.remove_document(secret, "Dora")
    assert store.examples(document=secret).total == store.examples(document="\0").total == 0
    with pytest.raises(UnknownId):
        store.document(secret)
    assert store.documents(SECRET).total == store.examples(search="gout").total == 0
    assert sorted(example.question for example in store.collection().examples) == ["When?", "Who?"]
    when, who = store.asked().items
    assert (when.answer, when.answer_removed) == ({"document": store.all_documents()[0].id, "text": "Six"}, False)
    assert (who.question, who.answer, who.answer_removed) == ("Who?", None, True)
    changes = store.history(since=before, newest_first=False)
    assert [(change.who, change.what) for change in changes] == [("Dora", "example removed")] * 4 + [
        ("Dora", "document removed")
    ]
    assert [change.note for change in changes] == [f"with document {secret}"] * 4 + [""]
    assert {change.which for change in changes} >= {"both", "about", secret}


def test_a_removed_text_may_come_again_as_a_new_document(store: Store) -> None:
    first = store.add_document(SECRET, "", source="", who="Ada").id
    store.remove_document(first, "Ada")
    assert store.add_document(SECRET, "", source="", who="Ada").id != first
    assert store.version == 3


def holding(folder: Path) -> set[str]:
    """The store's files with the secret in them, as it was written or as it is searched."""
    wanted = (SECRET.encode(), FOLDED.encode(), b"Quillfeather", b"quillfeather")
    return {file.name for file in folder.iterdir() if any(text in file.read_bytes() for text in wanted)}


def test_no_file_of_sqlite_holds_a_removed_text(tmp_path: Path) -> None:
    with Store.open(tmp_path / "silo.sqlite") as store:
        secret = fill(store)
        assert holding(tmp_path)
        store.remove_document(secret, "Ada")
        assert holding(tmp_path) == set()


def test_a_text_removed_while_somebody_reads_is_gone_from_sqlite_after_the_next_change(tmp_path: Path) -> None:
    with Store.open(tmp_path / "silo.sqlite") as store, Store.open(tmp_path / "silo.sqlite") as other:
        secret = fill(store)
        with somebody_reading(other):
            store.remove_document(secret, "Ada")
        assert holding(tmp_path) == {"silo.sqlite-wal"} or holding(tmp_path) == {"silo.sqlite", "silo.sqlite-wal"}
        store.note_asked(NewAsked("When?", "Ben"))
        assert holding(tmp_path) == set()


@contextmanager
def somebody_reading(store: Store) -> Iterator[None]:
    with store._database.reading() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM documents").scalar_one()
        yield


def test_no_row_of_postgresql_holds_a_removed_text(database: str) -> None:
    with Store.open(database) as store:
        secret = fill(store)
        assert rows_holding_it(database)
        store.remove_document(secret, "Ada")
        assert rows_holding_it(database) == []


def rows_holding_it(database: str) -> list[str]:
    with psycopg.connect(database.replace("+psycopg", "")) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        query = "SELECT count(*) FROM {0} WHERE strpos(lower({0}::text), 'quillfeather') > 0"
        counts = {table: connection.execute(query.format(table)).fetchone() for (table,) in tables}
    return [table for table, count in counts.items() if count != (0,)]


def test_removing_an_example_removes_those_it_superseded(store: Store) -> None:
    document = store.add_document("Six hours.", "", source="", who="Ada")
    old = store.correct(Correction("Who?", "Ben", document.id, 0, 3, "Six")).example.id
    new = store.correct(Correction("Who?", "Ben", document.id, 4, 9, "hours")).example.id
    kept = store.correct(Correction("When?", "Ben", document.id, 4, 9, "hours")).example
    before = store.version
    store.remove_example(new, "Ada")
    assert [(change.what, change.which) for change in store.history(since=before, newest_first=False)] == [
        ("example removed", old),
        ("example removed", new),
    ]
    assert store.verified("Who?") is None
    assert store.collection() == Collection((document,), (kept,), version=str(before + 2))
    for gone in (old, new, "", "\0"):
        with pytest.raises(UnknownId, match=r"there is no example .* choose one of the list"):
            store.remove_example(gone, "Ada")


def test_an_answer_that_quotes_a_document_removed_meanwhile_is_not_kept(store: Store) -> None:
    id = store.add_document(SECRET, "", source="", who="Ada").id
    store.remove_document(id, "Ada")
    store.note_asked(NewAsked("Who?", "Ben", {"best": {"document": id, "text": SECRET}}))
    (asked,) = store.asked().items
    assert (asked.question, asked.answer, asked.answer_removed) == ("Who?", None, True)


def test_removing_while_others_add_leaves_nothing_that_rests_on_nothing(store: Store) -> None:
    documents = [store.add_document(f"Text {k}", "", source="", who="Ada") for k in range(8)]

    def correct() -> None:
        for k, document in enumerate(documents * 2):
            with suppress(UnknownId):
                store.correct(Correction(f"Which {k}?", "Ben", document.id, 0, 4, "Text"))

    threads = [threading.Thread(target=correct) for _ in range(4)]
    for thread in threads:
        thread.start()
    for document in documents[::2]:
        store.remove_document(document.id, "Ada")
    for thread in threads:
        thread.join()
    there = {document.id for document in store.all_documents()}
    assert there == {document.id for document in documents[1::2]}
    assert all(example.documents <= there for example in store.collection().examples)
