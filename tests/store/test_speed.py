# SPDX-License-Identifier: Apache-2.0
"""The time of this process (not of others on the machine) that a silo's store of full size takes."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from fedqa.data.records import Collection, Document, Example, Span
from fedqa.store import Store

SENTENCE = "Nothing to eat for six hours before the scan, and water until two. "
T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


@pytest.mark.slow
def test_ten_thousand_documents_and_fifty_thousand_examples_are_read_in_seconds(tmp_path: Path) -> None:
    with Store.open(tmp_path / "silo.sqlite") as store:
        check(store, 10_000)


def test_a_smaller_store_is_as_fast_on_either_database(store: Store) -> None:
    check(store, 1_000)


def check(store: Store, size: int) -> None:
    """`size` documents, five examples on each; the seconds are for ten thousand and leave room for slow machines."""
    documents = tuple(Document(f"d{k}", f"{k} {SENTENCE * 20}", f"Leaflet {k}") for k in range(size))
    examples = tuple(
        Example(f"e{k}", f"How long before scan {k}?", (Span(f"d{k % size}", 0, 1),), ("six",), split="train")
        for k in range(5 * size)
    )
    collection = Collection(documents, examples)
    storing, _ = timed(lambda: store.add_collection(collection, source="large", who="Ada"))
    reading, read = timed(store.collection)
    adding, _ = timed(lambda: store.add_document("Another one.", "", source="", who="Ada"))
    searching, found = timed(lambda: store.documents("SIX hours", limit=10))
    assert (read.documents, read.examples) == (documents, examples)
    assert found.total == size
    assert storing < 30 * size / 10_000
    assert reading < 5 * size / 10_000
    assert adding < 0.1
    assert searching < 2
