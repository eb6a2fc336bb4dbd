# SPDX-License-Identifier: Apache-2.0
"""What a silo had before it had a store: read into it once."""

from pathlib import Path

from fedqa.evaluation.words import plural
from fedqa.settings import Settings
from fedqa.store import Imported, Store

IMPORTER = "fedqa serve"  # who did it, in the store's history


def fill(settings: Settings, store: Store) -> Imported | None:
    """Read [data] into a store that is new, split as a training would split it; None if there is nothing to do."""
    if not settings.data or store.version:
        return None
    # Only here: they bring PyTorch, for which a page whose store is full need not wait.
    from fedqa.config import SiloEntry
    from fedqa.runs import read_silo

    data = SiloEntry(settings.name, settings.data).silo_data()
    collection = read_silo(settings.name, data, settings.folder, _seed(settings))
    return store.add_collection(collection, source=data.sample or Path(data.path).name, who=IMPORTER)


def filled_words(imported: Imported) -> str:
    """What `fill` did, for people."""
    text = f"Read {plural(imported.documents, 'document')} and {plural(imported.examples, 'example')} into the store"
    return text + (f"; {plural(imported.left_out, 'record')} could not be used." if imported.left_out else ".")


def _seed(settings: Settings) -> int:
    """What decides which questions are for testing: models must not have been trained on them elsewhere."""
    from fedqa.config import Alliance, load_project  # as above
    from fedqa.opening import load_course

    if settings.training:
        return load_project(settings.training.alliance).course.seed
    for run in settings.runs.values():
        return load_course(run).course.seed
    return Alliance.seed
