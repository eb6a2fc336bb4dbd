# SPDX-License-Identifier: Apache-2.0
"""How long a silo's store takes on SQLite: ten thousand documents with five examples each, put in, read, searched."""

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from fedqa.data.records import Collection, Document, Example, Span
from fedqa.store import Store

DOCUMENTS, QUICK_DOCUMENTS, EXAMPLES_EACH = 10_000, 1_000, 5
SENTENCE = "Nothing to eat for six hours before the scan, and water until two. "


def main(quick: bool = False) -> None:
    n = QUICK_DOCUMENTS if quick else DOCUMENTS
    table = Table(title=f"{n:,} documents, {EXAMPLES_EACH * n:,} examples")
    table.add_column("")
    table.add_column("seconds", justify="right")
    with TemporaryDirectory() as folder, Store.open(Path(folder) / "silo.sqlite") as store:
        for what, seconds in measured(store, n).items():
            table.add_row(what, f"{seconds:.3f}")
    Console().print(table)


def measured(store: Store, n: int) -> dict[str, float]:
    collection = generated(n)
    work: dict[str, Callable[[], object]] = {
        "put all in": lambda: store.add_collection(collection, source="large", who="Ada"),
        "read all": store.collection,
        "add one document": lambda: store.add_document("Another one.", "", source="", who="Ada"),
        "search a word that all contain": lambda: store.documents("SIX hours", limit=10),
    }
    return {what: _seconds(do) for what, do in work.items()}


def generated(n: int) -> Collection:
    documents = tuple(Document(f"d{k}", f"{k} {SENTENCE * 20}", f"Leaflet {k}") for k in range(n))
    examples = tuple(
        Example(f"e{k}", f"How long before scan {k}?", (Span(f"d{k % n}", 0, 1),), ("six",), split="train")
        for k in range(EXAMPLES_EACH * n)
    )
    return Collection(documents, examples)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
