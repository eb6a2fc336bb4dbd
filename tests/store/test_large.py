# SPDX-License-Identifier: Apache-2.0
"""What a large store gives back is what was put into it."""

from fedqa.data.records import Collection, Document, Example, Span
from fedqa.store import Store

SENTENCE = "Nothing to eat for six hours before the scan, and water until two. "


def test_a_thousand_documents_and_five_thousand_examples_come_back_as_they_were(store: Store) -> None:
    documents = tuple(Document(f"d{k}", f"{k} {SENTENCE * 20}", f"Leaflet {k}") for k in range(1000))
    examples = tuple(
        Example(f"e{k}", f"How long before scan {k}?", (Span(f"d{k % 1000}", 0, 1),), ("six",), split="train")
        for k in range(5000)
    )
    store.add_collection(Collection(documents, examples), source="large", who="Ada")
    read = store.collection()
    assert (read.documents, read.examples) == (documents, examples)
    assert store.documents("SIX hours", limit=10).total == 1000
