# SPDX-License-Identifier: Apache-2.0
"""Records that were left out of what was read into the store. Every function works inside its caller's transaction.

They are kept by the source they came from, as it was read last: a file that is mended and read again has none any more.
Their reasons may quote the source, so they go when a document of it is removed; the history keeps how many there were.
"""

from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import Connection, delete, func, insert, select

from fedqa.data.records import Quarantined
from fedqa.store import tables
from fedqa.store.changes import Entry, record
from fedqa.store.checks import check_page
from fedqa.store.connection import Writing
from fedqa.store.records import LeftOut, Listing

_left_out, _history = tables.left_out, tables.history


def keep(writing: Writing, records: Sequence[Quarantined], *, source: str, who: str) -> None:
    """From now on these are what was left out of the source; nothing is done if they are so already."""
    new = [_storable(one) for one in records]
    if new == _of_source(writing.connection, source):
        return
    forget(writing, source)
    (number,) = record(writing, _history, who, [Entry("records left out", "", f"{len(new)}")])
    if new:
        rows = [{"number": number, "position": k, "source": source} | asdict(one) for k, one in enumerate(new)]
        writing.connection.execute(insert(_left_out), rows)


def forget(writing: Writing, source: str) -> None:
    writing.connection.execute(delete(_left_out).where(_left_out.c.source == source))


def listing(connection: Connection, *, limit: int, offset: int) -> Listing[LeftOut]:
    """The source that was read last comes first; within a source, in its own order."""
    check_page(limit=limit, offset=offset)
    total = connection.execute(select(func.count()).select_from(_left_out)).scalar_one()
    columns = _left_out.c
    query = (
        select(columns.place, columns.reason, columns.remedy, columns.source, _history.c.at, _history.c.who)
        .join(_history, _history.c.number == columns.number)
        .order_by(columns.number.desc(), columns.position)
        .limit(limit)
        .offset(offset)
    )
    items = (LeftOut(Quarantined(*one[:3]), one.source, one.at, one.who) for one in connection.execute(query))
    return Listing(tuple(items), total)


def _of_source(connection: Connection, source: str) -> list[Quarantined]:
    columns = _left_out.c
    query = select(columns.place, columns.reason, columns.remedy).where(columns.source == source)
    return [Quarantined(*row) for row in connection.execute(query.order_by(columns.position))]


def _storable(one: Quarantined) -> Quarantined:
    return Quarantined(*(_plain(text) for text in (one.place, one.reason, one.remedy)))


def _plain(text: str) -> str:
    """Readers quote what was wrong, which may be what no database holds."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
