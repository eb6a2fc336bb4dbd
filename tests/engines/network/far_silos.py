# SPDX-License-Identifier: Apache-2.0
"""A coordinator and silos as processes of their own, forked from the test's, that die and come back as a test says.

The test's own process runs no threads, so it can fork whenever it likes.
"""

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import Tensor, nn
from toys import ToySkill

from fedqa.engines.network.engine import House, Network
from fedqa.engines.network.identities import COORDINATOR, Invitation, Pair, issue, make_authority, wire_name
from fedqa.engines.network.site import Site
from fedqa.evaluation.result import result_of
from fedqa.federation.coordinator import Coordinator
from fedqa.federation.messages import Envelope, Request
from fedqa.federation.run_folder import RoundRecord, RunFolder
from fedqa.federation.silo import Silo
from fedqa.files import read_tensors
from fedqa.presence import Log
from fedqa.runs import Setting

PATIENCE_S = 180.0  # before a test is given up
_PORTS = itertools.count(20_000)
AUTHORITY = make_authority(1)
OWN = issue(AUTHORITY, COORDINATOR, 1)


def free_address() -> str:
    """An address on this machine that no other process of these tests uses: its host has the process's number in it."""
    pid = os.getpid()
    return f"127.{1 + pid // 65536 % 250}.{pid // 256 % 256}.{pid % 256}:{next(_PORTS)}"


def pair_of(silo: str, days: float = 1) -> Pair:
    return issue(AUTHORITY, wire_name(silo), days)


def invitation_of(silo: str, address: str, pair: Pair, **changes: str) -> Invitation:
    made = Invitation(silo, address, OWN.digest, AUTHORITY.certificate, pair.certificate, pair.key)
    return replace(made, **changes)  # type: ignore[arg-type]


def house_of(pairs: Mapping[str, Pair], address: str) -> House:
    host, _, port = address.rpartition(":")
    return House((host, int(port)), OWN, AUTHORITY.certificate, {pair.digest: name for name, pair in pairs.items()})


@dataclass
class Dying:
    """An engine whose process is killed at a moment of its work: so many asks and envelopes after its start."""

    engine: Network
    moments: int | None

    def ask(self, requests: Mapping[str, Request], timeout_s: float) -> Iterator[Envelope]:
        self._pass()
        for envelope in self.engine.ask(requests, timeout_s):
            self._pass()
            yield envelope

    def _pass(self) -> None:
        if self.moments is not None:
            if self.moments == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self.moments -= 1


class Troubled(ToySkill):
    """Something happens in a silo's work, so many times; counted in files, for the process may not live to count."""

    def __init__(self, folder: Path, where: str, act: Callable[[], None], times: int = 1) -> None:
        self._folder, self._where, self._act, self._times = folder, where, act, times

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        self._perhaps("loss")
        return super().loss(model, batch)

    def score(self, model: nn.Module, features: object, split: object) -> object:  # type: ignore[override]
        self._perhaps("score")
        return super().score(model, features, split)  # type: ignore[arg-type]

    def _perhaps(self, where: str) -> None:
        before = len(list(self._folder.glob("trouble-*")))
        if where == self._where and before < self._times:
            (self._folder / f"trouble-{before}").touch()
            self._act()


def trouble(setting: Setting, silo: str, where: str, act: Callable[[], None], times: int = 1) -> None:
    folder = setting.folder.path
    folder.mkdir(parents=True, exist_ok=True)
    find(setting, silo).skill = Troubled(folder, where, act, times)  # type: ignore[assignment]


def find(setting: Setting, silo: str) -> Silo:
    return next(found for found in setting.silos if found.name == silo)


def kill_silo() -> None:
    """In the process that works for a silo: the silo itself ends, and with it this process."""
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(PATIENCE_S)


def stop_silo() -> None:
    os.kill(os.getppid(), signal.SIGSTOP)


def kill_work() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    time.sleep(PATIENCE_S)


@dataclass
class FarAlliance:
    """The silos of a setting, each a process that calls its coordinator, which is a process too."""

    setting: Setting
    grace_s: float = 20.0
    restarted: bool = True  # whether silos that die are started again
    moments: Sequence[int] = ()  # at which the coordinator dies, one for each time it is started
    timeout_s: float = 60.0  # of a silo's own
    capacity: int = 4096
    after_round: Mapping[int, Callable[["FarAlliance"], None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = [silo.name for silo in self.setting.silos]
        self.address = free_address()
        self.pairs = {name: pair_of(name) for name in self.names}
        self.silos: dict[str, int] = {}  # name -> process
        self.starts = 0
        self._past: set[int] = set()
        self.setting.folder.path.mkdir(parents=True, exist_ok=True)

    @property
    def folder(self) -> RunFolder:
        return self.setting.folder

    def log(self, name: str) -> str:
        path = self.folder.path / f"{name}.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def run(self) -> list[RoundRecord]:
        """Until the coordinator has written its result; returns the rounds."""
        deadline = time.monotonic() + PATIENCE_S
        try:
            for name in self.names:
                self._start_silo(name)
            self._start_coordinator()
            while not self._over():
                assert time.monotonic() < deadline, (self.log("coordinator"), [self.log(name) for name in self.names])
                time.sleep(0.01)
        finally:
            for pid in [*self.silos.values(), self._coordinator]:
                _kill(pid)
        return self.folder.records()

    def _over(self) -> bool:
        for name, pid in list(self.silos.items()):
            status = _ended(pid)
            if status is not None:
                del self.silos[name]
                if os.WIFSIGNALED(status) and self.restarted:
                    self._start_silo(name)
        for number in sorted(set(self.after_round) - self._past):
            if len(self.folder.records()) >= number:
                self._past.add(number)
                self.after_round[number](self)
        status = _ended(self._coordinator)
        if status is not None and os.WIFSIGNALED(status):
            self._start_coordinator()
            return False
        return status is not None and (not self.silos or not self.restarted)

    def _start_silo(self, name: str) -> None:
        silo = find(self.setting, name)
        invitation = invitation_of(name, self.address, self.pairs[name])
        log = Log(self.folder.path / f"{name}.log")
        self.silos[name] = _forked(lambda: Site(silo, invitation, self.capacity, self.timeout_s, log).run())

    def _start_coordinator(self) -> None:
        self._coordinator = _forked(self._coordinate)
        self.starts += 1

    def _coordinate(self) -> None:
        course, before = self.setting.course, self.starts
        log = Log(self.folder.path / "coordinator.log")
        engine = Network(house_of(self.pairs, self.address), "", course.fingerprint, log, grace_s=self.grace_s)
        while len(engine.online()) < len(self.names) and not self.folder.records():
            time.sleep(0.01)
        dying = Dying(engine, self.moments[before] if before < len(self.moments) else None)
        coordinator = Coordinator(course, dying, self.folder, self.setting.start_of, self.setting.make_pool)
        outcome = coordinator.run()
        self.folder.write_result(result_of(course, self.folder.records(), outcome))
        engine.dismiss()
        engine.close()


def _forked(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def _ended(pid: int) -> int | None:
    """The exit status of a child that is no more; one that is not there any longer has ended before."""
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    return status if done else None


def _kill(pid: int) -> None:
    if _ended(pid) is None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def kept(folder: RunFolder) -> dict[str, Tensor]:
    """The coordinator's last checkpoint, and all that silos have kept."""
    last = sorted((folder.path / "checkpoints").glob("*.safetensors"))[-1]
    tensors = {f"coordinator/{name}": tensor for name, tensor in read_tensors(last).items()}
    for path in sorted(folder.path.glob("silos/*/state/*.safetensors")):
        tensors |= {f"{path.parent.parent.name}/{path.stem}/{name}": t for name, t in read_tensors(path).items()}
    return tensors


def story(records: Sequence[RoundRecord]) -> list[RoundRecord]:
    return [replace(record, seconds=0.0) for record in records]
