# SPDX-License-Identifier: Apache-2.0
"""All that left this silo, from the ledgers of all its runs, and whether those are complete and unaltered."""

import csv
import io
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from fedqa.data.complete_rows import marked
from fedqa.errors import FedQAError
from fedqa.evaluation.words import TIMES
from fedqa.federation.ledger import Ledger, Row
from fedqa.federation.run_folder import RunFolder
from fedqa.serving.settings import Settings
from fedqa.tables import from_table
from fedqa.web.plain_words import Said, said

UNREADABLE = "The ledger of this run cannot be read: it is no database, or was damaged or changed by another program."


@dataclass(frozen=True)
class Message:
    """One message that left the silo."""

    run: str
    number: int  # in the ledger of its run, from 1
    row: Row

    @cached_property
    def said(self) -> Said:
        return said(self.row)

    @property
    def at(self) -> datetime | None:
        try:
            return datetime.fromisoformat(self.row.time)
        except ValueError:
            return None

    @property
    def tensors(self) -> str:
        """The shapes of what it carried: delta 1344."""
        try:
            shapes = json.loads(self.row.tensors).items()
            return ", ".join(f"{name} {f' {TIMES} '.join(map(str, shape))}" for name, shape in shapes) or "none"
        except (ValueError, TypeError, AttributeError):
            return self.row.tensors

    def table(self) -> dict[str, object]:
        """For programs."""
        fields = {"run": self.run, "number": self.number, **asdict(self.row)}
        return fields | {"words": self.said.sentence, "text_left": self.said.in_clear}


@dataclass(frozen=True)
class RunLedger:
    """The ledger of one run. `broken` is the first row that does not fit the chain."""

    run: str
    messages: Sequence[Message] = ()
    broken: int | None = None
    problem: str = ""

    @property
    def bytes(self) -> int:
        return sum(message.row.bytes for message in self.messages)

    @property
    def in_clear(self) -> int:
        """How many messages carried text."""
        return sum(message.said.in_clear for message in self.messages)

    @property
    def whole(self) -> bool:
        return self.broken is None and not self.problem

    def table(self) -> dict[str, object]:
        found = {"run": self.run, "messages": len(self.messages), "bytes": self.bytes, "text_left": self.in_clear}
        return found | {"complete_and_unaltered": self.whole, "first_broken_row": self.broken, "problem": self.problem}


def ledgers(settings: Settings) -> list[RunLedger]:
    """One for each run that has a ledger of this silo."""
    found: dict[Path, str] = {}
    for skill, run in settings.runs.items():
        found.setdefault(run, f"{run.name} ({skill})")
    paths = {run: RunFolder(run).silo(settings.name) / "ledger.sqlite" for run in found}
    return [_read(path, found[run]) for run, path in paths.items() if path.exists()]


def _read(path: Path, run: str) -> RunLedger:
    ledger = Ledger(path)
    try:
        rows = [_checked(row) for row in ledger.rows()]
        messages = [Message(run, number, row) for number, row in enumerate(rows, start=1)]
        return RunLedger(run, messages, ledger.first_broken())
    except (sqlite3.Error, FedQAError):
        return RunLedger(run, problem=UNREADABLE)
    finally:
        ledger.close()


def _checked(row: Row) -> Row:
    """SQLite keeps whatever a program writes into a column, whatever the column is for."""
    return from_table(Row, asdict(row), "a row of the ledger")


@dataclass(frozen=True)
class Wanted:
    """What to show of all messages."""

    run: str = ""
    kind: str = ""
    digest: str = ""  # how it begins

    def of(self, found: Sequence[RunLedger]) -> list[Message]:
        """Newest first."""
        messages = [message for ledger in found for message in ledger.messages if self._fits(message)]
        return sorted(messages, key=lambda message: (message.row.time, message.number), reverse=True)

    def _fits(self, message: Message) -> bool:
        row, digest = message.row, self.digest.strip().lower()
        return self.run in ("", message.run) and self.kind in ("", row.kind) and row.digest.startswith(digest)


def kinds(found: Sequence[RunLedger]) -> list[str]:
    return sorted({message.row.kind for ledger in found for message in ledger.messages})


COLUMNS = ("run", "number", "time", "round", "kind", "words", "bytes", "tensors", "digest", "privacy_budget", "course")


def to_csv(messages: Sequence[Message]) -> bytes:
    """A line for each message, in UTF-8 with the mark by which spreadsheets know it; none of them runs a cell."""
    target = io.StringIO(newline="")
    writer = csv.writer(target, quoting=csv.QUOTE_ALL)
    writer.writerow(COLUMNS)
    for table in (message.table() for message in messages):
        writer.writerow(["" if table[column] is None else marked(str(table[column])) for column in COLUMNS])
    return target.getvalue().encode("utf-8-sig")
