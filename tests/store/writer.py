# SPDX-License-Identifier: Apache-2.0
"""A process that writes into a store, for tests: `python writer.py WHERE NAME THREADS CHANGES`.

Each thread adds documents and corrects answers, and prints the id of each example after the store has taken it.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice

from fedqa.store import Correction, Store


def write(store: Store, name: str, changes: int) -> None:
    """Add a document and correct a question about it, again and again; 0 changes: until killed."""
    for number in islice(count(), changes or None):
        document = store.add_document(f"Text {number} of {name}.", "", source="writer", who=name)
        made = store.correct(Correction(f"Which of {name}, {number}?", name, document.id, 0, 4, "Text"))
        sys.stdout.write(f"{made.example.id}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    where, name, threads, changes = sys.argv[1:]
    with Store.open(where) as store, ThreadPoolExecutor(int(threads)) as pool:
        for future in [pool.submit(write, store, f"{name}{k}", int(changes)) for k in range(int(threads))]:
            future.result()
