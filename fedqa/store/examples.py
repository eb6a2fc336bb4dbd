# SPDX-License-Identifier: Apache-2.0
"""The examples of a store. Every function works inside its caller's transaction.

People's examples are one a question, of documents and of a database each: a newer supersedes the older, which stays in
the table, unseen, until its document or the newer one is removed.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, case, delete, false, func, insert, or_, select, true, update

from fedqa.data.door import shown
from fedqa.data.records import Example, Span
from fedqa.store import tables
from fedqa.store.changes import Entry, record
from fedqa.store.checks import asks, check_page, containing, folded, known_form
from fedqa.store.connection import Writing
from fedqa.store.records import Listing, Origin, StoredExample, UnknownId, What

T = TypeVar("T")
_examples, _evidence, _history = tables.examples, tables.evidence, tables.history
_CHUNK = 500  # values in one statement
_FEW = 5_000  # examples whose evidence is looked up; of more it is read as a whole

LIVE = ~_examples.c.superseded
MADE_HERE = _examples.c.origin != "imported"
_WHAT: Mapping[Origin, What] = {
    "imported": "example imported",
    "annotated": "example annotated",
    "corrected": "example corrected",
}


@dataclass(frozen=True)
class NewExample:
    """An example about to be stored."""

    example: Example
    origin: Origin
    source: str
    asked: int | None = None


def insert_all(writing: Writing, new: Sequence[NewExample], who: str) -> None:
    """Examples whose ids are new and whose documents are there."""
    numbers = record(writing, _history, who, [Entry(_WHAT[one.origin], one.example.id) for one in new])
    rows = [_row(number, one) for number, one in zip(numbers, new, strict=True)]
    spans = [
        {"example": number, "position": k, "document": span.document, "start": span.start, "stop": span.end}
        for number, one in zip(numbers, new, strict=True)
        for k, span in enumerate(one.example.evidence)
    ]
    if rows:
        writing.connection.execute(insert(_examples), rows)
    if spans:
        writing.connection.execute(insert(_evidence), spans)


def supersede(writing: Writing, old: Example, by: str, who: str) -> None:
    writing.connection.execute(update(_examples).where(_examples.c.id == old.id).values(superseded=True))
    record(writing, _history, who, [Entry("example superseded", old.id, f"by {by}")])


def delete_one(writing: Writing, id: str, who: str) -> None:
    """Delete an example; of one that people made, also those it superseded: nobody could find them any more."""
    found = get(writing.connection, id)
    doomed = [_examples.c.id == id]
    if found.origin != "imported":
        same = _made_here(found.example.question, of_database=bool(found.example.sql))
        doomed.append(same & _examples.c.superseded)
    _delete(writing, or_(*doomed), who, note="")


def delete_of_document(writing: Writing, document: str, who: str) -> None:
    """Delete all examples that rest on a document, superseded ones too."""
    _delete(writing, _resting_on(document), who, note=f"with document {document}")


def get(connection: Connection, id: str) -> StoredExample:
    found = _loaded(connection, LIVE, _examples.c.id == id) if known_form(id) else []
    if not found:
        raise UnknownId(f"there is no example {shown(id)} in the store; choose one of the list, it may be removed")
    return found[0]


def newest_made_here(connection: Connection, question: str, *, of_database: bool) -> StoredExample | None:
    """What people gave last as the answer to a question, as SQL or from documents."""
    found = _loaded(connection, LIVE, _made_here(question, of_database=of_database), limit=1)
    return found[0] if found else None


def matching(search: str, origin: Origin | None, document: str | None) -> list[ColumnElement[bool]]:
    """The conditions of a listing."""
    conditions = [LIVE, *containing(_examples.c.folded, search)]
    if origin is not None:
        conditions.append(_examples.c.origin == origin)
    if document is not None:
        conditions.append(_resting_on(document) if known_form(document) else false())
    return conditions


def listing(
    connection: Connection, conditions: Sequence[ColumnElement[bool]], *, limit: int, offset: int
) -> Listing[StoredExample]:
    """Newest first."""
    check_page(limit=limit, offset=offset)
    total = connection.execute(select(func.count()).select_from(_examples).where(*conditions)).scalar_one()
    return Listing(tuple(_loaded(connection, *conditions, limit=limit, offset=offset)), total)


def all_of(connection: Connection) -> list[Example]:
    """In the order of their coming."""
    return [stored.example for stored in reversed(_loaded(connection, LIVE))]


def of_ids(connection: Connection, ids: Sequence[str]) -> dict[str, StoredExample]:
    """Those of the ids that are taken, superseded ones too."""
    found = (stored for part in chunks(ids) for stored in _loaded(connection, _examples.c.id.in_(part)))
    return {stored.example.id: stored for stored in found}


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return (values[first : first + _CHUNK] for first in range(0, len(values), _CHUNK))


def _made_here(question: str, *, of_database: bool) -> ColumnElement[bool]:
    kind = _examples.c.sql != "" if of_database else _examples.c.sql == ""
    return MADE_HERE & kind & (_examples.c.asks == asks(question))


def _resting_on(document: str) -> ColumnElement[bool]:
    evident = select(_evidence.c.example).where(_evidence.c.document == document)
    return or_(_examples.c.about == document, _examples.c.number.in_(evident))


def _row(number: int, new: NewExample) -> dict[str, object]:
    example = new.example
    return {
        "number": number,
        "id": example.id,
        "origin": new.origin,
        "asks": asks(example.question),
        "question": example.question,
        "answers": json.dumps(example.answers),
        "sql": example.sql,
        "split": example.split if new.origin == "imported" else None,
        "key": example.key,
        "about": example.about or None,
        "checked": example.check,
        "asked": new.asked,
        "source": new.source,
        "folded": folded("\n".join((example.question, *example.answers))),
    }


def _delete(writing: Writing, doomed: ColumnElement[bool], who: str, note: str) -> None:
    query = select(_examples.c.number, _examples.c.id).where(doomed).order_by(_examples.c.number)
    found = writing.connection.execute(query).all()
    for part in chunks([number for number, _ in found]):
        writing.connection.execute(delete(_evidence).where(_evidence.c.example.in_(part)))
        writing.connection.execute(delete(_examples).where(_examples.c.number.in_(part)))
    record(writing, _history, who, [Entry("example removed", id, note) for _, id in found])


# People's examples are to be learned, but a question that is tested must not be: it stays where it is tested.
_others = _examples.alias("others")
_tested = (
    select(func.min(_others.c.split))
    .where(_others.c.asks == _examples.c.asks, _others.c.origin == "imported", _others.c.split.in_(("dev", "test")))
    .scalar_subquery()
)
_COLUMNS = (
    _examples.c.number,
    _examples.c.id,
    _examples.c.question,
    _examples.c.answers,
    _examples.c.sql,
    case((MADE_HERE, func.coalesce(_tested, "train")), else_=_examples.c.split).label("split"),
    _examples.c.key,
    _examples.c.about,
    _examples.c.checked,
    _examples.c.origin,
    _examples.c.source,
    _examples.c.asked,
    _history.c.at,
    _history.c.who,
)


def _loaded(
    connection: Connection, *conditions: ColumnElement[bool], limit: int | None = None, offset: int = 0
) -> list[StoredExample]:
    """Newest first."""
    query = (
        select(*_COLUMNS)
        .join(_history, _history.c.number == _examples.c.number)
        .where(*conditions)
        .order_by(_examples.c.number.desc())
        .limit(limit)
        .offset(offset)
    )
    rows = connection.execute(query).all()
    spans = _spans(connection, [row.number for row in rows])
    return [_stored(row, tuple(spans[row.number])) for row in rows]


def _spans(connection: Connection, numbers: Sequence[int]) -> dict[int, list[Span]]:
    columns = _evidence.c
    query = select(columns.example, columns.document, columns.start, columns.stop)
    found: dict[int, list[Span]] = defaultdict(list)
    parts = [columns.example.in_(part) for part in chunks(numbers)] if len(numbers) <= _FEW else [true()]
    for part in parts:
        wanted = query.where(part).order_by(columns.example, columns.position)
        for number, document, start, stop in connection.execute(wanted):
            found[number].append(Span(document, start, stop))
    return found


def _stored(row: Row[*tuple[Any, ...]], evidence: tuple[Span, ...]) -> StoredExample:
    example = Example(
        row.id,
        row.question,
        evidence,
        tuple(json.loads(row.answers)),
        sql=row.sql,
        split=row.split,
        key=row.key,
        about=row.about or "",
        check=row.checked,
    )
    return StoredExample(example, row.origin, row.source, row.at, row.who, row.asked)
