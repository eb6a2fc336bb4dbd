# SPDX-License-Identifier: Apache-2.0
"""For a terminal: the SQL of a question, what it found, and the sentence about it."""

from typing import Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fedqa.answering.querying import QueryAnswer
from fedqa.answering.saying import printable, said
from fedqa.databases.records import Table as Found
from fedqa.evaluation.words import percent, plural
from fedqa.tables import plain

_MOST_ROWS = 20


def show_query(console: Console, answer: QueryAnswer) -> None:
    """Nothing of the database is read as markup or obeyed by the terminal."""
    if answer.sql:
        console.print(Padding(Text(printable(answer.sql), style="cyan"), (0, 0, 0, 3)))
        tried = f"tried {answer.tried} of {answer.written}" if answer.table else "not run"
        console.print(Padding(Text(tried, style="dim"), (0, 0, 0, 3)))
    if answer.table and answer.table.rows:
        console.print(_table(answer.table))
    console.print(Text(answer.sentence, style="bold"))
    if answer.record:
        right, of = percent(answer.record.right), plural(answer.record.questions, "dev question")
        console.print(Text(f"Of the silo's {of}, this model gets {right} right: look at the SQL.", style="dim"))


def query_document(answer: QueryAnswer, silo: str) -> dict[str, Any]:
    """The same for a program: cells as the database gave them."""
    found = answer.table
    return {
        "question": answer.question,
        "silo": silo,
        "answered": answer.answered,
        "sql": answer.sql or None,
        "columns": list(found.columns) if found else None,
        "rows": [list(row) for row in found.rows] if found else None,
        "truncated": found.truncated if found else None,
        "seconds": found.seconds if found else None,
        "sentence": answer.sentence,
        "tried": answer.tried,
        "written": answer.written,
        "score": answer.score,
        "record": plain(answer.record) if answer.record else None,
    }


def _table(found: Found) -> Table:
    shown = found.rows[:_MOST_ROWS]
    more = len(found.rows) - len(shown)
    caption = (
        f"and {plural(more, 'row')} more" + (", and there are others" if found.truncated else "") if more else None
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption=caption, caption_style="dim", caption_justify="left")
    for i, column in enumerate(found.columns):
        table.add_column(Text(printable(column)), justify="right" if found.is_numeric(i) else "left", overflow="fold")
    for row in shown:
        table.add_row(*(Text("\N{EN DASH}", style="dim") if cell is None else Text(said(cell)) for cell in row))
    return table
