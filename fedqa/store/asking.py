# SPDX-License-Identifier: Apache-2.0
"""What people asked and were answered. Every function works inside its caller's transaction."""

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select, update

from fedqa.data.door import usable_question, usable_title
from fedqa.store import tables
from fedqa.store.checks import LARGEST, at_the_door, check_page, known_form
from fedqa.store.connection import Writing
from fedqa.store.examples import LIVE, chunks
from fedqa.store.records import Asked, Listing, NewAsked, StoreError, UnknownId, Verdict

_asked = tables.asked
MAX_ANSWER = 1_000_000  # characters of JSON


def add(writing: Writing, new: NewAsked, who: str) -> int:
    values = _values(writing, new) | {"who": who, "judged_by": ""}
    id: int = writing.connection.execute(insert(_asked).values(values).returning(_asked.c.id)).scalar_one()
    _note_quotes(writing, id, new, removed=values["answer_removed"])
    return id


def replace(writing: Writing, id: int, new: NewAsked) -> bool:
    """Keep another answer in the place of the one a question had; False if that was judged or corrected."""
    before = get(writing.connection, id)
    if before.verdict or before.example:
        return False
    values = _values(writing, new)
    writing.connection.execute(update(_asked).where(_asked.c.id == id).values(values))
    writing.connection.execute(delete(tables.quotes).where(tables.quotes.c.asked == id))
    _note_quotes(writing, id, new, removed=values["answer_removed"])
    return True


def _values(writing: Writing, new: NewAsked) -> dict[str, Any]:
    """An answer that quotes what is not in the store, because it was removed meanwhile, is not kept."""
    with at_the_door("the question"):
        question, model = usable_question(new.question), usable_title(new.model)
    answer, removed = _as_json(new.answer), not _all_there(writing.connection, _quotes(new))
    return {
        "at": writing.at,
        "question": question,
        "answer": None if removed else answer,
        "confidence": _confidence(new.confidence),
        "model": model,
        "answer_removed": removed,
    }


def _note_quotes(writing: Writing, id: int, new: NewAsked, *, removed: bool) -> None:
    rows = [{"document": document, "asked": id} for document in _quotes(new)]
    if rows and not removed:
        writing.connection.execute(insert(tables.quotes), rows)


def _quotes(new: NewAsked) -> list[str]:
    return sorted(set(_quoted(new.answer)))


def judge(writing: Writing, id: int, verdict: Verdict, who: str) -> None:
    get(writing.connection, id)
    values = update(_asked).where(_asked.c.id == id).values(verdict=verdict, judged_by=who)
    writing.connection.execute(values)


def get(connection: Connection, id: int) -> Asked:
    found = _listed(connection, _asked.c.id == id) if 0 < id <= LARGEST else []
    if not found:
        raise UnknownId(f"there is no asked question number {id} in the store; choose one of the list")
    return found[0]


def listing(connection: Connection, who: str | None, *, limit: int, offset: int) -> Listing[Asked]:
    """Newest first; with `who`, those of one person."""
    check_page(limit=limit, offset=offset)
    conditions = [] if who is None else [_asked.c.who == who]
    total = connection.execute(select(func.count()).select_from(_asked).where(*conditions)).scalar_one()
    return Listing(tuple(_listed(connection, *conditions, limit=limit, offset=offset)), total)


def _listed(connection: Connection, *conditions: ColumnElement[bool], limit: int = 1, offset: int = 0) -> list[Asked]:
    example = select(tables.examples.c.id).where(LIVE, tables.examples.c.asked == _asked.c.id)
    query = (
        select(_asked, example.limit(1).scalar_subquery().label("example"))
        .where(*conditions)
        .order_by(_asked.c.id.desc())
        .limit(limit)
        .offset(offset)
    )
    return [_record(row) for row in connection.execute(query)]


def _record(row: Row[*tuple[Any, ...]]) -> Asked:
    return Asked(
        row.id,
        row.question,
        row.who,
        row.at,
        None if row.answer is None else json.loads(row.answer),
        row.confidence,
        row.model,
        row.verdict,
        row.judged_by,
        row.example or "",
        row.answer_removed,
    )


def _as_json(answer: Mapping[str, object] | None) -> str | None:
    if answer is None:
        return None
    try:
        text = json.dumps(dict(answer), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as problem:
        raise StoreError(f"the answer is not plain JSON: {problem}; give texts, numbers, lists and objects") from None
    if len(text) > MAX_ANSWER:
        raise StoreError(f"the answer has {len(text):,} characters; at most {MAX_ANSWER:,} are kept: quote less")
    return text


def _quoted(value: object) -> Iterator[str]:
    """The ids under "document", at any depth."""
    if isinstance(value, Mapping):
        document = value.get("document")
        if isinstance(document, str) and document:
            yield document
        for inner in value.values():
            yield from _quoted(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _quoted(inner)


def _all_there(connection: Connection, ids: list[str]) -> bool:
    if not all(map(known_form, ids)):
        return False
    documents = tables.documents
    found = sum(
        connection.execute(select(func.count()).select_from(documents).where(documents.c.id.in_(part))).scalar_one()
        for part in chunks(ids)
    )
    return found == len(ids)


def _confidence(value: float | None) -> float | None:
    if value is not None and not isfinite(value):
        raise StoreError(f"the confidence is {value}; give a number or None")
    return value
