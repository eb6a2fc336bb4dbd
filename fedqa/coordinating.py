# SPDX-License-Identifier: Apache-2.0
"""The coordinator of an alliance whose silos are on machines of their own: from an alliance file to a result.

coordinator.toml   address, and the silos with the digests of their certificates: a line taken out is a silo put out
course.toml        what silos are shown and approve
keys/              the authority and the coordinator's own key, for the owner's eyes only
invitations/       a file for each silo, to be handed over as a password would be
run/               the run folder
log.txt            who came, who went, who was refused      status.json   for `fedqa status`
"""

import threading
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from fedqa.config import Alliance, changed, course_of, read_toml
from fedqa.engines.network.engine import House, Network
from fedqa.engines.network.identities import (
    COORDINATOR,
    Invitation,
    Pair,
    address_of,
    ends_soon,
    issue,
    make_authority,
    wire_name,
    write_invitation,
    write_private,
)
from fedqa.errors import ConfigError, RunError, unknown
from fedqa.evaluation.result import result_of
from fedqa.federation.coordinator import Coordinator
from fedqa.federation.course import Course
from fedqa.federation.engine import Watcher
from fedqa.federation.run_folder import RoundRecord, RunFolder
from fedqa.files import write_text
from fedqa.presence import Log, Presence, claim, write_presence
from fedqa.runs import Setting, skills_of, workplace
from fedqa.tables import from_table, to_table

DAYS = 730  # that certificates are valid
_TICK_S = 0.1
_STATUS_S = 0.5  # between two notes of who has answered: each is a file that must reach the disk


@dataclass(frozen=True)
class HouseFile:
    """coordinator.toml"""

    address: str  # that silos call
    listen: str  # where the coordinator listens
    silos: Mapping[str, str]  # name -> digest of its certificate


@dataclass(frozen=True)
class _CourseText:
    course: Course
    data: Mapping[str, Any] = field(default_factory=dict)


def read_course(path: Path, changes: Sequence[str] = ()) -> Course:
    """The course of an alliance or course file. Where silos have their data is their own affair, and is not read."""
    table = changed(read_toml(path), changes)
    if "course" in table:
        return from_table(_CourseText, table, str(path)).course
    silos = [{"data": {}} | entry if isinstance(entry, dict) else entry for entry in table.get("silo", [])]
    if not silos:
        raise ConfigError(f"{path} names no silo; add a [[silo]] with a name for each")
    return course_of(from_table(Alliance, table | {"silo": silos}, str(path)))


def course_in(text: str) -> Course:
    """The course in the text that silos are shown."""
    return from_table(_CourseText, tomllib.loads(text), "the coordinator's course").course


def init(alliance: Path, out: Path, address: str, *, days: int = DAYS, changes: Sequence[str] = ()) -> list[Path]:
    """Make keys, certificates and invitations for the silos of an alliance; returns the invitations' paths."""
    course = read_course(alliance, changes)
    host, port = address_of(address)
    if port == 0:
        raise ConfigError(f"silos must know the port: give one from 1 to 65535, got {address!r}")
    if (out / "coordinator.toml").exists():
        raise RunError(f"{out} holds a coordinator already; start it, or choose another --out")
    authority = make_authority(days)
    own = issue(authority, COORDINATOR, days)
    write_private(out / "keys" / "authority.pem", authority.key + authority.certificate)
    write_private(out / "keys" / "coordinator.pem", own.key + own.certificate)
    (out / "keys").chmod(0o700)
    silos, paths = {}, []
    for plan in course.silos:
        pair = issue(authority, wire_name(plan.name), days)
        silos[plan.name] = pair.digest
        paths.append(out / "invitations" / f"{plan.name}.toml")
        told = (own.digest, authority.certificate, pair.certificate, pair.key)
        write_invitation(Invitation(plan.name, address, *told), paths[-1])
    listen = address if host == "localhost" or host.startswith("127.") else f"0.0.0.0:{port}"
    write_text(out / "course.toml", tomli_w.dumps({"course": to_table(course)}))
    write_text(out / "coordinator.toml", tomli_w.dumps(to_table(HouseFile(address, listen, silos))))
    return paths


def house_of(folder: Path, listen: str | None = None) -> House:
    path = folder / "coordinator.toml"
    if not path.exists():
        raise RunError(f"{folder} holds no coordinator; make one with `fedqa coordinator init`")
    file = from_table(HouseFile, read_toml(path), str(path))
    authority = _read_pair(folder / "keys" / "authority.pem").certificate
    own = _read_pair(folder / "keys" / "coordinator.pem")
    known = {digest: name for name, digest in file.silos.items()}
    return House(address_of(listen or file.listen), own, authority, known)


def _read_pair(path: Path) -> Pair:
    key, mark, certificate = path.read_text(encoding="utf-8").partition("-----BEGIN CERTIFICATE-----")
    if not mark:
        raise ConfigError(f"{path} holds no certificate; restore it from a copy, or begin anew with `coordinator init`")
    return Pair(key, mark + certificate)


@dataclass
class Desk:
    """A coordinator at work. `say` is told what people who watch should know; the log has everything."""

    folder: Path
    watcher: Watcher
    say: Callable[[str], None]

    def run(self, *, listen: str | None = None, wait_s: float = 600.0) -> dict[str, Any]:
        """Run or continue the course; returns what result.json holds."""
        house = house_of(self.folder, listen)
        claim(self.folder)
        text = (self.folder / "course.toml").read_text(encoding="utf-8")
        course = course_in(text)
        self._check_silos(course, house)
        run = RunFolder(self.folder / "run")
        if (run.path / "result.json").exists():
            return run.result()
        self.say(f"preparing the model {course.model!r}")
        setting = Setting(course, *workplace(course), skills_of(course), [], run)
        self._claim(run, text, setting)
        self._status = _Status(self.folder, course, self.watcher, {})
        engine = Network(house, text, course.fingerprint, self._log)
        self._status.online = engine.online
        if soon := ends_soon(house.own.certificate):
            self._log(soon)
        self.say(f"listening at {house.address[0]}:{engine.port}, course {course.fingerprint[:12]}")
        try:
            self._gather(engine, course, set(house.silos.values()), wait_s)
            outcome = Coordinator(course, engine, run, setting.start_of, setting.make_pool, watcher=self._status).run()
            result = result_of(course, run.records(), outcome)
            run.write_result(result)
            engine.dismiss()
            self._status.note("finished")
        finally:
            engine.close()
        return result

    def _log(self, text: str) -> None:
        Log(self.folder / "log.txt")(text)
        self.say(text)
        with suppress(OSError):
            self._status.note()

    def _claim(self, run: RunFolder, text: str, setting: Setting) -> None:
        """Write the run folder's beginning, once the course is known to work."""
        for index in range(len(setting.course.stages)):
            setting.start_of(index)
        run.path.mkdir(parents=True, exist_ok=True)
        run.write_environment()
        write_text(run.path / "course.toml", text)

    def _check_silos(self, course: Course, house: House) -> None:
        names = [plan.name for plan in course.silos]
        for name in house.silos.values():
            if name not in names:
                raise ConfigError(f"{self.folder / 'coordinator.toml'}: " + unknown("silo", name, names))

    def _gather(self, engine: Network, course: Course, wanted: set[str], wait_s: float) -> None:
        """Wait for the silos: for all that are invited, or for the quorum once the time is up."""
        quorum = course.stages[0].participation.quorum if course.stages else 1
        deadline = time.monotonic() + wait_s
        while wanted - set(engine.online()):
            if time.monotonic() > deadline:
                missing = ", ".join(sorted(wanted - set(engine.online())))
                if len(engine.online()) >= quorum:
                    self._log(f"beginning without {missing}")
                    return
                raise RunError(
                    f"fewer silos than the quorum of {quorum} have joined in {wait_s:.0f} s; missing: {missing}; "
                    "log.txt says who was refused and why"
                )
            time.sleep(_TICK_S)


@dataclass
class _Status:
    """A watcher that keeps status.json up to date and passes on what it is told."""

    folder: Path
    course: Course
    inner: Watcher
    facts: dict[str, Any]
    online: Callable[[], list[str]] = list

    def __post_init__(self) -> None:
        self._state, self._turn = "waiting for silos", threading.Lock()
        self.facts |= {"round": 0, "rounds": self.course.rounds, "bytes_up": 0, "bytes_down": 0}
        self.note()

    def note(self, state: str = "") -> None:
        with self._turn:
            self._state, self._noted = state or self._state, time.monotonic()
            facts = self.facts | {"silos": [plan.name for plan in self.course.silos], "online": self.online()}
            write_presence(self.folder, Presence("coordinator", self.course.name, self._state, facts))

    def round_begins(self, number: int, of: int, stage: str, silos: Sequence[str]) -> None:
        quorum = self.course.stages[self.course.stage_of(number)].participation.quorum
        self.facts |= {"stage": stage, "asked": list(silos), "answered": [], "quorum": quorum}
        self.note(f"round {number} of {of}")
        self.inner.round_begins(number, of, stage, silos)

    def silo_works(self, silo: str, done: int, total: int) -> None:
        self.inner.silo_works(silo, done, total)

    def silo_answered(self, silo: str) -> None:
        if silo not in self.facts.setdefault("answered", []):
            self.facts["answered"].append(silo)
        if time.monotonic() - self._noted > _STATUS_S:
            self.note()
        self.inner.silo_answered(silo)

    def round_ends(self, record: RoundRecord) -> None:
        self.facts["round"] = record.round
        self.facts["bytes_up"] += record.bytes_up
        self.facts["bytes_down"] += record.bytes_down
        self.note()
        self.inner.round_ends(record)

    def scoring_begins(self, silos: Sequence[str]) -> None:
        self.facts |= {"answered": []}
        self.note("scoring")
        self.inner.scoring_begins(silos)
