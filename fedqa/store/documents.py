# SPDX-License-Identifier: Apache-2.0
"""The documents of a store. Every function works inside its caller's transaction."""

import secrets
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from fedqa.data.door import shown
from fedqa.data.records import Document
from fedqa.store import tables
from fedqa.store.changes import Entry, record
from fedqa.store.checks import check_page, containing, digest, folded, known_form
from fedqa.store.connection import Writing
from fedqa.store.records import Listing, StoredDocument, UnknownId

_documents, _history, _quotes = tables.documents, tables.history, tables.quotes


def add(writing: Writing, text: str, title: str, *, source: str, who: str) -> Document:
    """A new document; if its text is there already, the document that has it."""
    known = _of_text(writing.connection, text)
    if known:
        return known
    # The history keeps ids for good, so an id tells nothing of title or text.
    document = Document(f"d-{secrets.token_hex(8)}", text, title)
    insert_all(writing, [document], source=source, who=who)
    return document


def insert_all(writing: Writing, documents: Sequence[Document], *, source: str, who: str) -> None:
    """Documents whose ids are new."""
    numbers = record(writing, _history, who, [Entry("document added", document.id) for document in documents])
    rows = [
        {
            "number": number,
            "id": document.id,
            "title": document.title,
            "digest": digest(document.text),
            "source": source,
            "text": document.text,
            "folded": folded(f"{document.title}\n{document.text}"),
        }
        for number, document in zip(numbers, documents, strict=True)
    ]
    if rows:
        writing.connection.execute(insert(_documents), rows)


def delete_one(writing: Writing, id: str, who: str) -> None:
    """Delete a document that no example rests on, and the answers to asked questions that quote it."""
    quoting = select(_quotes.c.asked).where(_quotes.c.document == id)
    answers = update(tables.asked).where(tables.asked.c.id.in_(quoting)).values(answer=None, answer_removed=True)
    writing.connection.execute(answers)
    writing.connection.execute(delete(_quotes).where(_quotes.c.asked.in_(quoting)))
    writing.connection.execute(delete(_documents).where(_documents.c.id == id))
    record(writing, _history, who, [Entry("document removed", id)])


def get(connection: Connection, id: str) -> StoredDocument:
    found = _listed(connection, _documents.c.id == id) if known_form(id) else []
    if not found:
        raise UnknownId(f"there is no document {shown(id)} in the store; choose one of the list, it may be removed")
    return found[0]


def listing(connection: Connection, search: str, *, limit: int, offset: int) -> Listing[StoredDocument]:
    """The documents whose title or text contains what is searched, newest first."""
    check_page(limit=limit, offset=offset)
    conditions = containing(_documents.c.folded, search)
    total = connection.execute(select(func.count()).select_from(_documents).where(*conditions)).scalar_one()
    return Listing(tuple(_listed(connection, *conditions, limit=limit, offset=offset)), total)


def all_of(connection: Connection) -> list[Document]:
    """In the order of their coming."""
    query = select(_documents.c.id, _documents.c.text, _documents.c.title).order_by(_documents.c.number)
    return [Document(id, text, title) for id, text, title in connection.execute(query)]


def _listed(
    connection: Connection, *conditions: ColumnElement[bool], limit: int = 1, offset: int = 0
) -> list[StoredDocument]:
    query = (
        select(
            _documents.c.id,
            _documents.c.text,
            _documents.c.title,
            _documents.c.source,
            _history.c.at,
            _history.c.who,
        )
        .join(_history, _history.c.number == _documents.c.number)
        .where(*conditions)
        .order_by(_documents.c.number.desc())
        .limit(limit)
        .offset(offset)
    )
    return [
        StoredDocument(Document(id, text, title), source, at, who)
        for id, text, title, source, at, who in connection.execute(query)
    ]


def _of_text(connection: Connection, text: str) -> Document | None:
    query = (
        select(_documents.c.id, _documents.c.title)
        .where(_documents.c.digest == digest(text), _documents.c.text == text)
        .order_by(_documents.c.number)
        .limit(1)
    )
    found = connection.execute(query).one_or_none()
    return Document(found.id, text, found.title) if found else None
