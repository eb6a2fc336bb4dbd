# SPDX-License-Identifier: Apache-2.0
"""The histories of a store, of its documents and examples and of its people: rows that can only be added."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from sqlalchemy import Connection, Table, func, insert, select

from fedqa.store import tables
from fedqa.store.checks import check_page
from fedqa.store.connection import Writing
from fedqa.store.records import Change, What

History = Table[tables.HistoryColumns]


@dataclass(frozen=True)
class Entry:
    """What is about to be written into a history."""

    what: What
    which: str
    note: str = ""


def newest(connection: Connection, history: History) -> int:
    """The number of the newest row; 0 if there is none."""
    return connection.execute(select(func.coalesce(func.max(history.c.number), 0))).scalar_one()


def record(writing: Writing, history: History, who: str, entries: Sequence[Entry]) -> range:
    """Add rows and return their numbers."""
    first = newest(writing.connection, history) + 1
    rows = [
        {"number": number, "at": writing.at, "who": who, "what": entry.what, "which": entry.which, "note": entry.note}
        for number, entry in enumerate(entries, start=first)
    ]
    if rows:
        writing.connection.execute(insert(history), rows)
    return range(first, first + len(rows))


def changes(connection: Connection, history: History, *, since: int, limit: int, newest_first: bool) -> list[Change]:
    """The rows numbered above `since`."""
    check_page(since=since, limit=limit)
    order = history.c.number.desc() if newest_first else history.c.number
    query = (
        select(history.c.number, history.c.at, history.c.who, history.c.what, history.c.which, history.c.note)
        .where(history.c.number > since)
        .order_by(order)
        .limit(limit)
    )
    return [
        Change(number, at, who, cast(What, what), which, note)
        for number, at, who, what, which, note in connection.execute(query)
    ]
