# SPDX-License-Identifier: Apache-2.0
"""The course that would be trained from this page: what it would make leave the silo, and whether that is approved."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from fedqa.config import load_project
from fedqa.errors import FedQAError
from fedqa.federation.course import Course
from fedqa.inspection import Preview, preview
from fedqa.methods import METHODS
from fedqa.serving.approvals import Approvals, Decision, NotApproved
from fedqa.web.plain_words import StageSaid, course_said

UNREADABLE = (
    "The course cannot be shown: its alliance file or its model cannot be read. "
    "Whoever runs this page learns why from `fedqa inspect`."
)


@dataclass(frozen=True)
class Shown:
    """A course as people read it before they decide."""

    name: str
    method: str
    model: str
    silos: Sequence[str]
    rounds: int
    fingerprint: str
    bytes_up: int  # of one silo, in all rounds
    stages: Sequence[StageSaid]


class Courses:
    """The course in an alliance file, which may be edited at any time. Looking into its model is done once."""

    def __init__(self, alliance: Path, approvals: Approvals) -> None:
        self._alliance = alliance
        self._approvals = approvals
        self._seen: dict[str, Shown] = {}
        self._turn = Lock()

    def course(self) -> Course:
        try:
            return load_project(self._alliance).course
        except (FedQAError, OSError):
            raise NotApproved(UNREADABLE) from None

    def shown(self) -> Shown:
        course = self.course()
        with self._turn:
            if course.fingerprint not in self._seen:
                self._seen = {course.fingerprint: _shown(course)}
            return self._seen[course.fingerprint]

    def decision(self) -> Decision | None:
        return self._approvals.of(self.course().fingerprint)

    def decide(self, fingerprint: str, approved: bool, who: str) -> Decision:
        """Approve or refuse the course that was read; raises NotApproved if the file has changed since."""
        if fingerprint != self.course().fingerprint:
            raise NotApproved("the course has changed since this page was shown; read it again, then decide")
        return self._approvals.decide(fingerprint, approved, who)


def _shown(course: Course) -> Shown:
    try:
        found = preview(course)
    except (FedQAError, OSError, ValueError):  # a model that is not here is an OSError or a ValueError
        raise NotApproved(UNREADABLE) from None
    method = METHODS.get(course.method)
    return Shown(
        name=course.name,
        method=f"{course.method}: {method.summary}" if method else course.method,
        model=course.model,
        silos=found.silos,
        rounds=course.rounds,
        fingerprint=course.fingerprint,
        bytes_up=_bytes_up(found),
        stages=course_said(found),
    )


def _bytes_up(found: Preview) -> int:
    return sum(stage.rounds * stage.bytes_up for stage in found.stages)
