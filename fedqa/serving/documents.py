# SPDX-License-Identifier: Apache-2.0
"""The documents of a silo's store from the command line; what the page does too, without the page."""

import getpass
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedqa.errors import ConfigError, FedQAError
from fedqa.intake import extract, safe_name
from fedqa.intake.names import title_from
from fedqa.settings import load_settings
from fedqa.store import Store, StoredDocument

_PAGE = 500  # documents that are listed at a time


@dataclass(frozen=True)
class Handled:
    """What became of a file or of an id."""

    what: str  # the file or id as it was given
    document: str = ""  # id; empty: it was not done
    title: str = ""
    notes: tuple[str, ...] = ()  # for a file: what was left out or guessed
    problem: str = ""


@dataclass(frozen=True)
class Done:
    """What became of each that was given; those that can be done are done."""

    handled: Sequence[Handled]
    verb: str

    @property
    def failed(self) -> bool:
        return any(one.problem for one in self.handled)

    def lines(self) -> Iterator[str]:
        for one in self.handled:
            yield f"{one.what}: {one.problem}" if one.problem else f"{self.verb} {one.document}  {one.title}"
            yield from (f"  {note}" for note in one.notes)

    def table(self) -> list[dict[str, Any]]:
        return [
            {"given": one.what, "document": one.document or None, "title": one.title, "notes": list(one.notes)}
            | ({"problem": one.problem} if one.problem else {})
            for one in self.handled
        ]


@dataclass(frozen=True)
class Listed:
    """The documents that were looked for, newest first."""

    documents: Sequence[StoredDocument]
    failed: bool = False

    def lines(self) -> Iterator[str]:
        width = max((len(one.document.id) for one in self.documents), default=0)
        for one in self.documents:
            yield f"{one.document.id:<{width}}  {one.added_at:%Y-%m-%d}  {one.document.title}  ({one.source})"
        if not self.documents:
            yield "No documents."

    def table(self) -> list[dict[str, Any]]:
        return [
            {
                "document": one.document.id,
                "title": one.document.title,
                "source": one.source,
                "added_at": one.added_at.isoformat(),
                "added_by": one.added_by,
                "characters": len(one.document.text),
            }
            for one in self.documents
        ]


def add(silo_file: Path, files: Sequence[str]) -> Done:
    """Take in files; one that cannot be read does not stop the others."""
    if not files:
        raise ConfigError("documents add needs at least one file: fedqa documents SILO.toml add handbook.pdf")
    with _store(silo_file) as store:
        return Done([_done(file, lambda file: _added(store, Path(file))) for file in files], "added")


def remove(silo_file: Path, ids: Sequence[str]) -> Done:
    """Remove documents by their ids."""
    if not ids:
        raise ConfigError("documents remove needs at least one id, as `fedqa documents SILO.toml list` shows them")
    with _store(silo_file) as store:
        return Done([_done(id, lambda id: _removed(store, id)) for id in ids], "removed")


def listed(silo_file: Path, words: Sequence[str]) -> Listed:
    """All documents, or those that contain the words."""
    found: list[StoredDocument] = []
    with _store(silo_file) as store:
        while page := store.documents(" ".join(words), limit=_PAGE, offset=len(found)).items:
            found += page
    return Listed(found)


ACTIONS: Mapping[str, Callable[[Path, Sequence[str]], Done | Listed]] = {"add": add, "list": listed, "remove": remove}


@contextmanager
def _store(silo_file: Path) -> Iterator[Store]:
    store = Store.open(load_settings(silo_file).store)
    try:
        yield store
    finally:
        store.close()


def _done(what: str, work: Callable[[str], Handled]) -> Handled:
    try:
        return work(what)
    except FedQAError as problem:
        return Handled(what, problem=str(problem))
    except OSError as problem:
        return Handled(what, problem=f"{problem.strerror}; name a file that you may read")


def _added(store: Store, path: Path) -> Handled:
    extracted = extract(path.name, path.read_bytes())
    title = extracted.title or title_from(path.name)
    document = store.add_document(extracted.text, title, source=safe_name(path.name), who=_who())
    return Handled(str(path), document.id, document.title, extracted.notes)


def _removed(store: Store, id: str) -> Handled:
    title = store.document(id).document.title
    store.remove_document(id, _who())
    return Handled(id, id, title)


def _who() -> str:
    try:
        return f"{getpass.getuser()} (command line)"
    except (KeyError, OSError):  # a process without a name of its own
        return "the command line"
