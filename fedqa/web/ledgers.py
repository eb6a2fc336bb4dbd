# SPDX-License-Identifier: Apache-2.0
"""All that left this silo, from the ledgers of all its runs, and whether those are complete and unaltered."""

import csv
import io
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, fields
from datetime import datetime
from functools import cached_property
from pathlib import Path

from fedqa.data.complete_rows import marked
from fedqa.errors import FedQAError
from fedqa.evaluation.words import TIMES
from fedqa.federation.ledger import Ledger, Row
from fedqa.federation.run_folder import RunFolder
from fedqa.settings import Settings
from fedqa.tables import from_table
from fedqa.web.plain_words import Said, said

UNREADABLE = "The ledger of this run cannot be read: it is no database, or was damaged or changed by another program."


@dataclass(frozen=True)
class Told:
    """A message as programs are told of it, and the columns of a file."""

    run: str
    number: int
    time: str
    round: int
    kind: str
    words: str
    text_left: bool  # whether it carried text in clear
    bytes: int
    tensors: str
    digest: str
    privacy_budget: float | None
    course: str


@dataclass(frozen=True)
class RunTold:
    run: str
    messages: int
    bytes: int
    text_left: int  # messages with text in clear
    complete_and_unaltered: bool
    first_broken_row: int | None
    missing_rounds: Sequence[int]
    problem: str


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

    @property
    def told(self) -> Told:
        words, text_left = self.said.sentence, self.said.in_clear
        return Told(run=self.run, number=self.number, words=words, text_left=text_left, **asdict(self.row))


@dataclass(frozen=True)
class RunLedger:
    """The ledger of one run. A chain of digests shows what was altered or taken out, but not what was cut off its end:
    hence `missing`."""

    run: str
    messages: Sequence[Message] = ()
    broken: int | None = None  # the first row that does not fit the chain
    missing: Sequence[int] = ()  # rounds for which an update of this silo was used, and none is written down
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
        return self.broken is None and not self.missing and not self.problem

    @property
    def told(self) -> RunTold:
        return RunTold(
            run=self.run,
            messages=len(self.messages),
            bytes=self.bytes,
            text_left=self.in_clear,
            complete_and_unaltered=self.whole,
            first_broken_row=self.broken,
            missing_rounds=self.missing,
            problem=self.problem,
        )


def ledgers(settings: Settings) -> list[RunLedger]:
    """One for each run that has a ledger of this silo."""
    found: dict[Path, str] = {}
    for skill, run in settings.runs.items():
        found.setdefault(run, f"{run.name} ({skill})")
    runs = {name: RunFolder(run) for run, name in found.items()}
    paths = {name: run.silo(settings.name) / "ledger.sqlite" for name, run in runs.items()}
    return [_read(path, name, _used(runs[name], settings.name)) for name, path in paths.items() if path.exists()]


def _read(path: Path, run: str, used: set[int]) -> RunLedger:
    ledger = Ledger(path)
    try:
        rows = [_checked(row) for row in ledger.rows()]
        messages = [Message(run, number, row) for number, row in enumerate(rows, start=1)]
        missing = sorted(used - {row.round for row in rows if row.kind == "update"})
        return RunLedger(run, messages, ledger.first_broken(), missing)
    except (sqlite3.Error, FedQAError):
        return RunLedger(run, problem=UNREADABLE)
    finally:
        ledger.close()


def _used(run: RunFolder, silo: str) -> set[int]:
    """The rounds in which an update of this silo was used; none if that cannot be read."""
    try:
        return {record.round for record in run.records() if silo in record.accepted}
    except FedQAError:
        return set()


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


def to_csv(messages: Sequence[Message]) -> bytes:
    """A line for each message, in UTF-8 with the mark by which spreadsheets know it; none of them runs a cell."""
    target = io.StringIO(newline="")
    writer = csv.writer(target, quoting=csv.QUOTE_ALL)
    writer.writerow(field.name for field in fields(Told))
    for message in messages:
        writer.writerow("" if value is None else marked(str(value)) for value in astuple(message.told))
    return target.getvalue().encode("utf-8-sig")
