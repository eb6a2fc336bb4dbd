# SPDX-License-Identifier: Apache-2.0
"""Which of several queries for one question it is to be: the first that a database can run and that finds something."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fedqa.databases.records import QueryError, Table


@dataclass(frozen=True)
class Choice:
    """Which query it is, if any, and what it found; `why` is what was wrong with the first that failed."""

    chosen: int | None
    table: Table | None
    tried: int
    why: QueryError | None


def first_that_runs(queries: Iterable[str], run: Callable[[str], Table | None], *, prefer_rows: bool = True) -> Choice:
    """The first query that `run` takes without QueryError; if `prefer_rows`, the first that also finds something.

    Where none finds anything, it is again the first that could be run.
    """
    first: tuple[int | None, Table | None] = (None, None)
    tried, why = 0, None
    for i, sql in enumerate(queries):
        tried += 1
        try:
            table = run(sql)
        except QueryError as problem:
            why = why or problem
            continue
        if table is None or not prefer_rows or not is_empty(table):
            return Choice(i, table, tried, why)
        first = (i, table) if first[0] is None else first
    return Choice(*first, tried, why)


def is_empty(table: Table) -> bool:
    """No rows, or one of nulls, as a maximum over nothing gives. A count of zero is an answer."""
    return not table.rows or (len(table.rows) == 1 and all(value is None for value in table.rows[0]))
