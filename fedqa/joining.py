# SPDX-License-Identifier: Apache-2.0
"""A silo joins an alliance: reads its invitation, looks at the course, checks its data, and works until the end.

approvals.jsonl    which courses were approved here      log.txt, status.json
<course>/          what the silo keeps of a course, by the first letters of its fingerprint: a run folder that
                   `fedqa ask`, `fedqa ledger` and `fedqa export` can open; its data and its models are in it alone
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedqa.checkup import Diagnosis, check_up
from fedqa.config import Project, SiloData, SiloEntry, load_project, read_toml, save_project
from fedqa.coordinating import course_in
from fedqa.engines.network.identities import Invitation, ends_soon
from fedqa.engines.network.site import Site, decline, fetch_course
from fedqa.errors import ConfigError, RunError, unknown
from fedqa.evaluation.result import result_of
from fedqa.federation.coordinator import Outcome
from fedqa.federation.course import Course, Participation
from fedqa.federation.messages import Report
from fedqa.federation.run_folder import RunFolder
from fedqa.federation.silo import Silo
from fedqa.presence import Log, Presence, claim, write_presence
from fedqa.runs import Setting, read_silo, skills_of, workplace, write_quarantine
from fedqa.serving.approvals import Approvals
from fedqa.settings import load_settings
from fedqa.tables import from_table

ELSEWHERE = SiloData(format="elsewhere", path="on its own machine")  # data of other silos, in a silo's course.toml
LEFT = "left"
_SHORTEST = 12  # letters of a fingerprint that stand for it


@dataclass(frozen=True)
class _SiloFile:
    """The file given with --data, where it is not a silo's own file with a store."""

    data: dict[str, Any]
    limit: int | None = None
    name: str = ""


def read_data(path: Path, silo: str) -> tuple[SiloData, Path]:
    """Where a silo's data are, and the folder that paths start from.

    The file is a silo's own, with a store; or has [data] as in an alliance file; or is an alliance file with this silo.
    """
    table = read_toml(path)
    if "store" in table:
        return SiloData(format="store", path=str(path.absolute())), path.parent
    if "silo" in table or "course" in table:
        data = load_project(path).data
        if silo not in data:
            raise ConfigError(unknown("silo", silo, data, str(path)))
        return data[silo], path.parent
    file = from_table(_SiloFile, table, str(path))
    return SiloEntry(name=silo, data=file.data, limit=file.limit).silo_data(), path.parent


@dataclass
class Joining:
    """A silo on its way into an alliance. The steps are taken in the order in which they stand here."""

    invitation: Invitation
    folder: Path
    data: Path
    say: Callable[[str], None]
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        if (self.folder / LEFT).exists():
            raise RunError(f"this silo has left the alliance; to join again, remove {self.folder / LEFT}")
        claim(self.folder)
        self._facts = {"coordinator": self.invitation.coordinator}
        self.approvals = Approvals(_decisions(self.data, self.folder))

    def look(self) -> Course:
        """The course that the coordinator proposes."""
        self._note("asking for the course")
        if soon := ends_soon(self.invitation.certificate):
            self._log(soon)
        self.course = course_in(fetch_course(self.invitation, self._log))
        names = [plan.name for plan in self.course.silos]
        if self.invitation.silo not in names:
            raise ConfigError(unknown("silo", self.invitation.silo, names, "the coordinator's course"))
        self._facts |= {"course": self.course.fingerprint, "run": str(self.run_folder.path)}
        entry, start = read_data(self.data, self.invitation.silo)
        self.project = Project(self.course, {name: ELSEWHERE for name in names} | {self.invitation.silo: entry}, start)
        return self.course

    def examine(self) -> Diagnosis:
        """The silo's data, with the course's model; nothing is written and nothing is sent."""
        return check_up(replace(self.project, course=_alone(self.course, self.invitation.silo)), self.say)

    def approved(self) -> bool:
        return self.approvals.approved(self.course.fingerprint)

    def decide(self, approved: bool, who: str) -> None:
        self.approvals.decide(self.course.fingerprint, approved, who)
        verdict = "approved" if approved else "refused"
        self._log(f"course {self.course.fingerprint[:_SHORTEST]} was {verdict} by {who}")
        if not approved:
            self._note("course not approved")
            decline(self.invitation, self._log)

    def decide_by(self, fingerprint: str, who: str) -> None:
        """Approve if this is the course's fingerprint, or its beginning; refuse otherwise."""
        right = len(fingerprint) >= _SHORTEST and self.course.fingerprint.startswith(fingerprint.lower())
        self.decide(right, who)
        if not right:
            raise RunError(
                f"the coordinator proposes course {self.course.fingerprint}, and {fingerprint!r} was approved; "
                "nothing has left this silo"
            )

    def work(self) -> bool:
        """Take part until the course is over (True) or somebody stops it (False)."""
        if not self.approved():
            raise RunError(f"course {self.course.fingerprint} has not been approved here")
        self.say("reading the data and preparing the model")
        silo, capacity = self._silo()
        timeouts = [stage.participation.timeout_s for stage in self.course.stages]
        site = Site(silo, self.invitation, capacity, max(timeouts, default=3600.0), self._log, self.stop, self._leaving)
        self._note("at work")
        try:
            over = site.run()
        except RunError as problem:
            self._log(str(problem))
            self._note("refused")
            raise
        if over and site.report is not None:
            self._write_result(site.report)
        self._note("finished" if over else "left" if self._leaving() else "stopped")
        return over

    @property
    def run_folder(self) -> RunFolder:
        return RunFolder(self.folder / self.course.fingerprint[:_SHORTEST])

    def _silo(self) -> tuple[Silo, int]:
        name, run = self.invitation.silo, self.run_folder
        collection = read_silo(name, self.project.data[name], self.project.folder, self.course.seed)
        run.path.mkdir(parents=True, exist_ok=True)
        run.write_environment()
        save_project(self.project, run.path / "course.toml")
        write_quarantine(run.silo(name) / "quarantine.tsv", collection.quarantine)
        database = self.project.data[name].database_from(self.project.folder)
        places = workplace(self.course)
        setting = Setting(self.course, *places, skills_of(self.course), [], run, {name: database})
        silo = setting.make_silo(name, collection)
        silo.approved = frozenset(d.course for d in self.approvals.all() if self.approvals.approved(d.course))
        models = [setting.workshop.bench(setting.skills[name], i).model for i in range(len(self.course.stages))]
        return silo, max((4 * model.received.numel() for model in models), default=0)

    def _write_result(self, report: Report) -> None:
        """What this silo knows of the end: its own scores. `fedqa ask` and `fedqa export` look for them."""
        result = result_of(self.course, [], Outcome({report.silo: report.metrics}, (), 0, 0))
        self.run_folder.write_result(result | {"rounds": self.course.rounds})

    def _leaving(self) -> bool:
        return (self.folder / LEFT).exists()

    def _log(self, text: str) -> None:
        Log(self.folder / "log.txt")(text)
        self.say(text)

    def _note(self, state: str) -> None:
        write_presence(self.folder, Presence("silo", self.invitation.silo, state, self._facts))


def _decisions(data: Path, folder: Path) -> Path:
    """Where decisions stand: with a silo's own file, where its page keeps them, so that one decision is enough."""
    own = "store" in read_toml(data)
    return (load_settings(data).kept if own else folder) / "approvals.jsonl"


def _alone(course: Course, silo: str) -> Course:
    """The course as if this silo were its only one, for an examination."""
    stages = tuple(replace(stage, participation=Participation()) for stage in course.stages)
    return replace(course, silos=(course.silo(silo),), stages=stages)
