# SPDX-License-Identifier: Apache-2.0
"""Answers that people give: from a document, against which they are checked, or as SQL, which its giver has run.

Each is an example to learn from and never to forget.
"""

import secrets

from sqlalchemy import Connection

from fedqa.data.door import shown, span_at, usable_question, usable_sql
from fedqa.data.records import Document, Example, Span
from fedqa.store import asking, documents, examples
from fedqa.store.checks import asks, at_the_door
from fedqa.store.connection import Writing
from fedqa.store.examples import NewExample
from fedqa.store.records import Correction, Origin, StoredExample, StoreError


def correct(writing: Writing, correction: Correction, who: str) -> StoredExample:
    """The example made of a correction; if people here gave the same answer before, that one."""
    example = _example(writing.connection, correction)
    before = examples.newest_made_here(writing.connection, example.question, of_database=bool(example.sql))
    if before and _same_answer(before.example, example):
        return before
    if before:
        examples.supersede(writing, before.example, by=example.id, who=who)
    origin = _origin(correction)
    examples.insert_all(writing, [NewExample(example, origin, "people", correction.asked)], who)
    return examples.get(writing.connection, example.id)


def _origin(correction: Correction) -> Origin:
    return "annotated" if correction.asked is None else "corrected"


def _same_answer(one: Example, other: Example) -> bool:
    return (one.evidence, one.about, one.sql) == (other.evidence, other.about, other.sql)


def _example(connection: Connection, correction: Correction) -> Example:
    with at_the_door("the correction"):
        question = usable_question(correction.question)
    if correction.asked is not None:
        _check_asked(connection, correction.asked, question)
    id = f"{_origin(correction)}-{secrets.token_hex(8)}"
    if correction.sql:
        return Example(id, question, sql=_sql(correction), check=True)
    document = documents.get(connection, correction.document).document if correction.document is not None else None
    span = _span(document, correction)
    return Example(
        id,
        question,
        (span,) if span else (),
        (document.text[span.start : span.end],) if document and span else (),
        about=document.id if document else "",
        check=True,
    )


def _sql(correction: Correction) -> str:
    if correction.document is not None or correction.text:
        raise StoreError("the correction has SQL and a place in a document; give one of them")
    with at_the_door("the correction"):
        return usable_sql(correction.sql)


def _check_asked(connection: Connection, id: int, question: str) -> None:
    asked = asking.get(connection, id)
    if asks(asked.question) != asks(question):
        raise StoreError(
            f"the correction is to {shown(question)}, but the question asked (number {id}) was "
            f"{shown(asked.question)}; correct that question, or give the answer without the number of an asked one"
        )


def _span(document: Document | None, correction: Correction) -> Span | None:
    start, end = correction.start, correction.end
    if start is None and end is None and not correction.text:
        return None
    if document is None or start is None or end is None:
        raise StoreError(
            f"the correction names document {correction.document!r}, start {start}, end {end} and the text "
            f"{shown(correction.text)}; give all four, or leave out start, end and text if there is no answer"
        )
    _check_place(document, start, end, correction.text)
    with at_the_door(f"the correction in document {document.id!r}"):
        blank = len(correction.text) - len(correction.text.lstrip())
        return span_at(document, start + blank, correction.text.strip())


def _check_place(document: Document, start: int, end: int, text: str) -> None:
    if not 0 <= start < end <= len(document.text):
        raise StoreError(
            f"the correction in document {document.id!r} is from {start} to {end}; offsets count characters from 0 "
            f"to {len(document.text)}, the start before the end: select the answer again"
        )
    found = document.text[start:end]
    if found != text:
        raise StoreError(
            f"in document {document.id!r} the text from {start} to {end} is {shown(found)}, not {shown(text)}; "
            f"{_remedy(document.text, start, text)}"
        )


def _remedy(document: str, start: int, text: str) -> str:
    before = document.encode("utf-16-le")[: 2 * start].decode("utf-16-le", "ignore")
    if len(before) != start and document.startswith(text, len(before)):
        return f"it begins at {len(before)}: offsets count characters (code points), not UTF-16 units as browsers do"
    return "offsets count characters (code points) from 0: select the answer again"
