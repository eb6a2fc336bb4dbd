# SPDX-License-Identifier: Apache-2.0
"""Trainings that an owner starts from the page: one at a time, each a process of its own.

The process is not the page's to take along: it goes on when the page is restarted, which finds it again by a file with
its number and the time it began. What it has done is read from the run folder, which a kill at any moment leaves
in order; the next training then goes on where it was.
"""

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from fedqa.config import Project, SiloData, load_project
from fedqa.errors import ConfigError, RunError, unknown
from fedqa.evaluation.words import duration, listed, plural, why_refused
from fedqa.federation.run_folder import RoundRecord, RunFolder
from fedqa.files import write_json
from fedqa.opening import load_course
from fedqa.presence import born
from fedqa.serving.approvals import Approvals
from fedqa.settings import Settings

State = Literal["idle", "running", "finished", "failed"]
_NICE = 10  # people who ask go first
_PATIENCE_S = 10.0  # for a process to end by itself before it is killed


@dataclass(frozen=True)
class TrainingStatus:
    """How the training stands, in words for people: no paths, no tracebacks."""

    state: State
    round: int  # that are done
    rounds: int  # that it will have
    silos: tuple[str, ...]
    seconds: float  # since it was started, until now or its end
    message: str
    who: str = ""  # started it
    at: str = ""  # ISO 8601, UTC
    first: int = 0  # rounds that were done before it


@dataclass(frozen=True)
class Plan:
    """What [training] comes to."""

    alliance: Path
    run: Path
    skill: str
    silos: tuple[str, ...]
    rounds: int  # of the alliance file, for the first training
    more: int  # for each later one


@dataclass(frozen=True)
class _Started:
    """What is kept of the training that was started last."""

    pid: int
    born: str  # what tells the process from a later one of the same number
    who: str
    at: str
    first: int  # rounds that were done before
    rounds: int
    stopped: str = ""  # by whom


class Trainings:
    """See the module's text. Safe to use from several threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.plan = plan_of(settings) if settings.training else None
        self.approvals = Approvals(settings.kept / "approvals.jsonl")
        self._turn = threading.Lock()

    @property
    def log(self) -> Path:
        """All that the last training has printed."""
        return self._settings.kept / "training.log"

    def start(self, who: str) -> TrainingStatus:
        """Begin a training, or go on with one that was broken off. Raises ConfigError if there is nothing to start,
        NotApproved if no owner has approved its course as it is now, RunError if one is running."""
        plan = self._planned()
        self.approvals.check(load_project(plan.alliance).course.fingerprint)
        with self._turn:
            if self._running(self._last()):
                raise RunError("a training is running already; wait for its end, or stop it first")
            done, rounds, more = _goal(plan)
            pid, at = self._spawn(plan, more), datetime.now(UTC).isoformat(timespec="seconds")
            self._keep(_Started(pid, born(pid), who, at, done, rounds))
        return self.status()

    def stop(self, who: str = "") -> TrainingStatus:
        """End the training that is running, if there is one; the rounds it has done stay done."""
        with self._turn:
            last = self._last()
            if last is not None and self._running(last):
                self._keep(_Started(**asdict(last) | {"stopped": who or "somebody"}))
                self._end(last)
        return self.status()

    def status(self) -> TrainingStatus:
        """How the last training stands; "idle" if there was none, or it was stopped."""
        with self._turn:
            last = self._last()
            running = self._running(last)
        if self.plan is None or last is None:
            what = "No training has been started from this page." if self.plan else "No training is set up here."
            return TrainingStatus("idle", 0, 0, self.plan.silos if self.plan else (), 0.0, what)
        records, ended = RunFolder(self.plan.run).records(), _ended(self.plan.run, last.rounds)
        done, seconds = len(records), self._seconds(last, running)
        state: State = "running" if running else "finished" if ended else "idle" if last.stopped else "failed"
        message = self._message(state, last, done, seconds)
        if state == "finished" and all(record.void for record in records[last.first :]):
            state, message = "failed", _nothing_counted(records[last.first :])
        told = (message, last.who, last.at, last.first)
        return TrainingStatus(state, done, last.rounds, self.plan.silos, seconds, *told)

    def _planned(self) -> Plan:
        if self.plan is None:
            raise ConfigError(
                f"no training is set up for {self._settings.name!r}; add [training] with an alliance to its file"
            )
        return self.plan

    # -- the process -------------------------------------------------------------------------------------------------

    def _spawn(self, plan: Plan, more: bool) -> int:
        """A process in a session of its own, which no Ctrl-C in the page's terminal reaches; its number."""
        words = ["train", str(plan.alliance), "--out", str(plan.run), "--resume"]
        words += ["--more", str(plan.more)] if more else []
        self.log.parent.mkdir(parents=True, exist_ok=True)
        # Not subprocess: it holds that whoever starts a process waits for its end.
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "fedqa", *words],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self.log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        os.setpriority(os.PRIO_PROCESS, pid, _NICE)
        return pid

    def _running(self, last: _Started | None) -> bool:
        if last is None:
            return False
        with suppress(ChildProcessError):  # it is no child of this process if the page was restarted
            os.waitpid(last.pid, os.WNOHANG)
        return bool(last.born) and born(last.pid) == last.born

    def _end(self, last: _Started) -> None:
        """The whole session: a training has processes of its own."""
        for number, patience_s in ((signal.SIGTERM, _PATIENCE_S), (signal.SIGKILL, _PATIENCE_S)):
            try:
                os.killpg(last.pid, number)
            except ProcessLookupError:
                return
            until = time.monotonic() + patience_s
            while time.monotonic() < until:
                if not self._running(last):
                    return
                time.sleep(0.02)

    # -- what is kept and told ---------------------------------------------------------------------------------------

    @property
    def _file(self) -> Path:
        return self._settings.kept / "training.json"

    def _keep(self, started: _Started) -> None:
        write_json(self._file, asdict(started))

    def _last(self) -> _Started | None:
        if not self._file.exists():
            return None
        try:
            return _Started(**json.loads(self._file.read_text(encoding="utf-8")))
        except (ValueError, TypeError):  # of another version, or edited: as if nothing had been started
            return None

    def _seconds(self, last: _Started, running: bool) -> float:
        end = time.time() if running or not self.log.exists() else self.log.stat().st_mtime
        return max(0.0, end - datetime.fromisoformat(last.at).timestamp())

    def _message(self, state: State, last: _Started, done: int, seconds: float) -> str:
        if state == "running":
            began = done > last.first
            return f"Round {done} of {last.rounds} is done." if began else "Reading examples and preparing the model."
        if state == "finished":
            return f"Finished: {plural(done - last.first, 'round')} in {duration(seconds)}."
        if state == "idle":
            return f"Stopped by {last.stopped} after round {done}; the next training goes on from there."
        return f"The training broke off after round {done}: {self._reason()} Started again, it goes on from there."

    def _reason(self) -> str:
        """What the command said last; paths in it are shortened to their last part."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        said = [line.removeprefix("fedqa: ") for line in text.splitlines() if line.startswith("fedqa: ")]
        if not said:
            return "it was ended from outside, or failed in a way that only its log tells."
        return re.sub(r"(?:\.{0,2}/[^\s/:;,'\"]+)*/(?=[^\s/])", "", said[-1]).rstrip(".") + "."


def _nothing_counted(records: Sequence[RoundRecord]) -> str:
    why = dict.fromkeys(f"{silo} ({why_refused(code)})" for record in records for silo, code in record.refused)
    blame = f"the updates of {listed(list(why))} could not be used" if why else "too few silos answered"
    return f"No round counted: {blame}. The models are as they were before."


def plan_of(settings: Settings) -> Plan:
    """What [training] comes to; raises ConfigError unless the alliance trains this silo on its store."""
    assert settings.training
    project = load_project(settings.training.alliance)
    entry = project.data.get(settings.name)
    if entry is None:
        raise ConfigError(unknown("silo", settings.name, project.data, str(settings.training.alliance)))
    if not _is_the_store(entry, project, settings):
        raise ConfigError(
            f"silo {settings.name!r} of {settings.training.alliance} would not be trained on its store; give it "
            f'data = {{ format = "store", path = "{settings.path.name}" }}, with the way to that file'
        )
    skill = next(silo.skill for silo in project.course.silos if silo.name == settings.name)
    if skill not in settings.runs:
        raise ConfigError(f'{settings.path}: [runs] needs {skill} = "…", the folder in which the training is kept')
    silos = tuple(silo.name for silo in project.course.silos)
    training = settings.training
    return Plan(training.alliance, settings.runs[skill], skill, silos, project.course.rounds, training.rounds)


def _is_the_store(entry: SiloData, project: Project, settings: Settings) -> bool:
    if entry.format != "store":
        return False
    path = (project.folder / entry.path).resolve()
    return path == settings.path.resolve() or (isinstance(settings.store, Path) and path == settings.store.resolve())


def _goal(plan: Plan) -> tuple[int, int, bool]:
    """Rounds that are done, rounds there will be, and whether the run has ended and is to go on."""
    if not (plan.run / "course.toml").exists():
        return 0, plan.rounds, False
    rounds = load_course(plan.run).course.rounds
    done, ended = len(RunFolder(plan.run).records()), _ended(plan.run, rounds)
    return done, rounds + plan.more if ended else rounds, ended


def _ended(run: Path, rounds: int) -> bool:
    return (run / "result.json").exists() and RunFolder(run).result()["rounds"] >= rounds
