# SPDX-License-Identifier: Apache-2.0
"""Whole collections into the store: what is new is added, what is there stays, what contradicts it is told."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sqlalchemy import Connection, select

from fedqa.data.door import Refused, shown, storable, usable_answer, usable_question, usable_text, usable_title
from fedqa.data.records import SPLITS, Collection, Document, Example, Quarantined
from fedqa.store import documents, examples, left_out, tables
from fedqa.store.checks import MAX_ID, digest, known_form
from fedqa.store.connection import Writing
from fedqa.store.examples import NewExample, chunks
from fedqa.store.records import Imported

_OTHER_ID = "give one of them another id, or remove the one that is there"
Record = TypeVar("Record", Document, Example)


@dataclass(frozen=True)
class Checked:
    """The records of a collection that are usable in themselves, by id."""

    documents: Mapping[str, Document]
    examples: Mapping[str, Example]
    named: frozenset[str]  # ids of all its documents, usable or not
    problems: tuple[Quarantined, ...]  # its reader's among them


def check(collection: Collection) -> Checked:
    """What can be found out without the store, and so before taking a turn to write."""
    problems = list(collection.quarantine)
    return Checked(
        _by_id(_passing(_usable_document, collection.documents, problems), problems),
        _by_id(_passing(_usable_example, collection.examples, problems), problems),
        frozenset(document.id for document in collection.documents),
        tuple(problems),
    )


def add(writing: Writing, checked: Checked, *, source: str, who: str) -> Imported:
    """Add what is new, and keep what was left out."""
    connection, problems = writing.connection, list(checked.problems)
    known = _known_documents(connection, list(checked.documents))
    new_documents, old_documents = _sorted_out(checked.documents.values(), known, problems)
    documents.insert_all(writing, new_documents, source=source, who=who)

    lengths = _lengths(connection, checked, [*new_documents, *old_documents])
    resting = _passing(lambda example: _resting(example, lengths), checked.examples.values(), problems)
    new_examples, old_examples = _sorted_out(resting, _known_examples(connection, list(checked.examples)), problems)
    examples.insert_all(writing, [NewExample(example, "imported", source) for example in new_examples], who)

    left_out.keep(writing, problems, source=source, who=who)
    already_there = len(old_documents) + len(old_examples)
    return Imported(len(new_documents), len(new_examples), already_there, len(problems), tuple(problems))


def _passing(gate: Callable[[Record], Record], records: Iterable[Record], problems: list[Quarantined]) -> list[Record]:
    """The records as a gate lets them through; those it refuses become problems."""
    passed = []
    for record in records:
        try:
            passed.append(gate(record))
        except Refused as refused:
            problems.append(Quarantined(_place(record), refused.reason, refused.remedy))
    return passed


def _by_id(records: Iterable[Record], problems: list[Quarantined]) -> dict[str, Record]:
    found: dict[str, Record] = {}
    for record in records:
        if found.setdefault(record.id, record) != record:
            problems.append(Quarantined(_place(record), "this id stands twice in the collection", _OTHER_ID))
    return found


def _sorted_out(
    records: Iterable[Record], known: Mapping[str, object], problems: list[Quarantined]
) -> tuple[list[Record], list[Record]]:
    """The records that are new, and those that are there and the same. One that is there and another is a problem."""
    new, old = [], []
    for record in records:
        if record.id not in known:
            new.append(record)
        elif known[record.id] == _content(record):
            old.append(record)
        else:
            problems.append(Quarantined(_place(record), "the store has another one with this id", _OTHER_ID))
    return new, old


def _place(record: Document | Example) -> str:
    return f"{'document' if isinstance(record, Document) else 'example'} {shown(record.id)}"


def _content(record: Document | Example) -> object:
    """What must be equal for two records of one id to be the same."""
    if isinstance(record, Document):
        return record.title, digest(record.text)
    return replace(record, check=False)  # not every format tells what is checked


def _known_documents(connection: Connection, ids: Sequence[str]) -> dict[str, object]:
    columns = tables.documents.c
    query = select(columns.id, columns.title, columns.digest)
    rows = (row for part in chunks(ids) for row in connection.execute(query.where(columns.id.in_(part))))
    return {id: (title, digest) for id, title, digest in rows}


def _known_examples(connection: Connection, ids: Sequence[str]) -> dict[str, object]:
    return {id: _content(stored.example) for id, stored in examples.of_ids(connection, ids).items()}


def _lengths(connection: Connection, checked: Checked, good: Iterable[Document]) -> dict[str, int]:
    """Of the texts that examples may rest on: documents of the collection, or others in the store."""
    lengths = {document.id: len(document.text) for document in good}
    needed = {id for example in checked.examples.values() for id in example.documents}
    columns = tables.documents.c
    for part in chunks(sorted(filter(known_form, needed - checked.named))):
        rows = connection.execute(select(columns.id, columns.text).where(columns.id.in_(part)))
        lengths |= {id: len(text) for id, text in rows}
    return lengths


def _usable_document(document: Document) -> Document:
    _check_id(document.id)
    return replace(document, text=usable_text(document.text), title=usable_title(document.title))


def _usable_example(example: Example) -> Example:
    _check_id(example.id)
    if example.split is not None and example.split not in SPLITS:
        raise Refused(f"its split is {example.split!r}", f"give it one of {', '.join(SPLITS)}, or none")
    if not (storable(example.key) and storable(example.sql)):
        raise Refused("its key or SQL holds a NUL character or half of a surrogate pair", "write them as UTF-8")
    return replace(
        example,
        question=usable_question(example.question),
        answers=tuple(dict.fromkeys(map(usable_answer, example.answers))),
        evidence=tuple(dict.fromkeys(example.evidence)),
    )


def _check_id(id: str) -> None:
    if not known_form(id):
        raise Refused(
            f"the id {shown(id)} cannot be stored",
            f"give it an id of 1 to {MAX_ID} characters, not all white space, that UTF-8 can write, without NUL",
        )


def _resting(example: Example, lengths: Mapping[str, int]) -> Example:
    for id in example.documents:
        if id not in lengths:
            raise Refused(f"it rests on document {shown(id)}, which is not there", "add the document with it")
    for span in example.evidence:
        if not 0 <= span.start < span.end <= lengths[span.document]:
            reason = f"its evidence is from {span.start} to {span.end} of {lengths[span.document]} characters"
            raise Refused(reason, "offsets count characters from 0: correct them")
    return example
