# SPDX-License-Identifier: Apache-2.0
"""A choice among the queries of one question."""

from collections.abc import Sequence
from typing import Any

import pytest

from fedqa.databases.records import Cell, QueryFailed, Table
from fedqa.skills.sql.choosing import Choice, first_that_runs

EMPTY, NULLS, FULL = (), ((None, None),), ((0,),)


def choice(found: Sequence[tuple[tuple[Cell, ...], ...] | None], *, prefer_rows: bool = True) -> Choice:
    """What is chosen where the queries, 0 and so on, find this; None stands for one that fails."""

    def run(sql: str) -> Table:
        rows = found[int(sql)]
        if rows is None:
            raise QueryFailed(f"reason {sql}", "remedy")
        return Table(("a",), rows, truncated=False, seconds=0.0)

    return first_that_runs(map(str, range(len(found))), run, prefer_rows=prefer_rows)


@pytest.mark.parametrize(
    ("found", "chosen", "tried", "plainly", "then_tried"),
    [
        ([FULL, FULL], 0, 1, 0, 1),
        ([None, FULL, FULL], 1, 2, 1, 2),
        ([EMPTY, NULLS, FULL, FULL], 2, 3, 0, 1),  # a count of zero is an answer, nothing is none
        ([None, NULLS, EMPTY, None], 1, 4, 1, 2),  # where none finds anything, the first that runs
    ],
)
def test_the_first_query_that_runs_and_finds_something_is_chosen(
    found: list[Any], chosen: int, tried: int, plainly: int, then_tried: int
) -> None:
    for prefer_rows, which, count in ((True, chosen, tried), (False, plainly, then_tried)):
        made = choice(found, prefer_rows=prefer_rows)
        assert (made.chosen, made.tried) == (which, count)
        assert made.table is not None and made.table.rows == found[which]


def test_where_none_runs_none_is_chosen_and_the_first_reason_is_told() -> None:
    made = choice([None, None])
    assert (made.chosen, made.table, made.tried) == (None, None, 2)
    assert made.why is not None and made.why.reason == "reason 0"


def test_where_there_is_no_query_there_is_no_choice() -> None:
    assert choice([]) == Choice(None, None, 0, None)
