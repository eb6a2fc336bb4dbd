# SPDX-License-Identifier: Apache-2.0
"""Which courses a silo's owners have approved or refused, by fingerprint: a line of JSON for each decision.

Lines are only ever added, so the file is also the history; the newest line about a course decides.
"""

import json
import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from fedqa.errors import ConfigError, FedQAError
from fedqa.tables import from_table


class NotApproved(FedQAError):
    """A course was to be trained that no owner has approved, or decided about that is not the one that was read."""


@dataclass(frozen=True)
class Decision:
    """What an owner said about a course."""

    course: str  # fingerprint
    approved: bool
    who: str
    at: str  # ISO 8601, UTC

    @property
    def when(self) -> datetime:
        return datetime.fromisoformat(self.at)


@dataclass(frozen=True)
class Approvals:
    """The decisions in a file of the silo's folder."""

    path: Path

    def decide(self, course: str, approved: bool, who: str) -> Decision:
        decision = Decision(course, approved, who, datetime.now(UTC).isoformat(timespec="seconds"))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.truncate(len(self._whole_lines()))
            file.write(json.dumps(asdict(decision)).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        return decision

    def of(self, course: str) -> Decision | None:
        """The newest decision about a course."""
        return next((decision for decision in reversed(self.all()) if decision.course == course), None)

    def approved(self, course: str) -> bool:
        decision = self.of(course)
        return decision is not None and decision.approved

    def check(self, course: str) -> None:
        """Raise NotApproved unless an owner has approved the course, and none has refused it since."""
        if not self.approved(course):
            what = "has been refused" if self.of(course) else "has not been approved"
            raise NotApproved(f"this course {what} here, so it cannot be trained; read it and approve it first")

    def all(self) -> list[Decision]:
        """Oldest first."""
        return [self._read(line, number) for number, line in enumerate(self._whole_lines().splitlines(), start=1)]

    def _whole_lines(self) -> bytes:
        """Half a line, left by a power cut, is a decision that nobody saw confirmed: it does not count."""
        content = self.path.read_bytes() if self.path.exists() else b""
        return content[: content.rfind(b"\n") + 1]

    def _read(self, line: bytes, number: int) -> Decision:
        where = f"line {number} of {self.path.name}"
        try:
            table = json.loads(line)
            datetime.fromisoformat(table["at"])
            return from_table(Decision, table, where)
        except (ValueError, TypeError, KeyError) as problem:
            raise ConfigError(f"{where} cannot be read ({problem}); mend it or take the line out") from None
