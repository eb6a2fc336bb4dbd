# SPDX-License-Identifier: Apache-2.0
"""The local engine: the same bits in one process or several, and silos that die, hang or fail cost only themselves."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from toys import (
    SIZES,
    ToySkill,
    differing,
    left_behind,
    toy_collection,
    toy_coordinator,
    toy_course,
    toy_run,
    toy_setting,
)

from fedqa.data.records import Document
from fedqa.engines.local import InProcess, Processes
from fedqa.federation.coordinator import Coordinator
from fedqa.federation.course import Course
from fedqa.federation.engine import Silent
from fedqa.federation.messages import Contribution, Exchange, Refusal, Train, Update
from fedqa.federation.run_folder import RoundRecord
from fedqa.federation.silo import Silo
from fedqa.runs import Setting

SECRET = "Ann has gout"
PATIENCE_S = 30.0


@dataclass
class Watched(Silent):
    """Remembers what a watcher was told."""

    seen: list[tuple[str, int, int]] = field(default_factory=list)

    def silo_works(self, silo: str, done: int, total: int) -> None:
        self.seen.append((silo, done, total))


@contextmanager
def processes(silos: list[Silo], n: int = 2, watcher: Silent | None = None) -> Iterator[Processes]:
    engine = Processes(silos, n, 1024, watcher or Silent())
    try:
        yield engine
    finally:
        engine.close()


def train(setting: Setting, number: int = 1, silos: tuple[str, ...] = tuple(SIZES)) -> dict[str, Train]:
    weights = setting.start_of(0).weights
    return {name: Train(setting.course.fingerprint, number, weights) for name in silos}


def run(setting: Setting, n: int) -> Coordinator:
    """Run a course to its end in so many processes besides this one; 0 = in this one."""
    engine = Processes(setting.silos, n, 1024) if n else InProcess(setting.silos)
    coordinator = toy_coordinator(setting, engine)
    try:
        coordinator.run()
    finally:
        engine.close()
    return coordinator


def story(records: list[RoundRecord]) -> list[RoundRecord]:
    return [replace(record, seconds=0.0) for record in records]


class Troubled(ToySkill):
    """Something happens at one silo's batches, so many times; the silo is known by its targets."""

    def __init__(self, trouble: Callable[[], None], folder: Path, silo: str = "birch", times: int = 1) -> None:
        self._trouble, self._folder, self._times = trouble, folder, times
        self._targets = set(prepared(silo).tolist())

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        if set(batch[1].tolist()) <= self._targets and self._once_more():
            self._trouble()
        return super().loss(model, batch)

    def _once_more(self) -> bool:
        """True so many times; counted in a file, for the process may not live to count."""
        before = len(list(self._folder.glob("trouble-*")))
        if before < self._times:
            (self._folder / f"trouble-{before}").touch()
        return before < self._times


def prepared(silo: str) -> Tensor:
    index = list(SIZES).index(silo)
    return ToySkill().prepare(toy_collection(SIZES[silo], index + 1), None, 0).targets


def troubled(course: Course, folder: Path, trouble: Callable[[], None], **options: Any) -> Setting:
    folder.mkdir(exist_ok=True)
    return toy_setting(course, folder / "run", skill=Troubled(trouble, folder, **options))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def leave() -> None:
    os._exit(0)


def hang() -> None:
    time.sleep(600)


def fail() -> None:
    raise RuntimeError(SECRET)


# -- the same bits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fedavg", "ditto"])
def test_one_process_or_several_give_the_same_bits(method: str, tmp_path: Path) -> None:
    course = toy_course(method, rounds=2)
    alone, _ = toy_run(course, tmp_path / "in process")
    for n in (1, 2, 3):
        coordinator = run(toy_setting(course, tmp_path / str(n)), n)
        assert differing(left_behind(coordinator), left_behind(alone)) == []
        assert story(coordinator.folder.records()) == story(alone.folder.records())


def test_scores_and_bytes_are_the_same_too(tmp_path: Path) -> None:
    course = toy_course(rounds=1)
    _, alone = toy_run(course, tmp_path / "in process")
    setting = toy_setting(course, tmp_path / "processes")
    with processes(list(setting.silos)) as engine:
        assert toy_coordinator(setting, engine).run() == alone


def test_replies_are_those_of_the_silos_asked(tmp_path: Path) -> None:
    setting = toy_setting(toy_course(), tmp_path)
    with processes(list(setting.silos), 3) as engine:
        asked = ("dogwood", "ash")
        replies = {e.silo: e.content for e in engine.ask(train(setting, silos=asked), PATIENCE_S)}
    assert set(replies) == set(asked)
    for name, update in replies.items():
        assert isinstance(update, Update)
        assert (update.silo, update.n_examples) == (name, SIZES[name])


def test_in_this_process_silos_answer_in_the_order_they_are_asked(tmp_path: Path) -> None:
    setting = toy_setting(toy_course(), tmp_path)
    engine = InProcess(setting.silos)
    asked = ("dogwood", "ash", "cedar")
    assert [envelope.silo for envelope in engine.ask(train(setting, silos=asked), PATIENCE_S)] == list(asked)
    engine.close()


# -- silos in trouble ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [die, leave])
def test_a_silo_that_dies_is_named_and_is_back_in_the_next_round(trouble: Callable[[], None], tmp_path: Path) -> None:
    coordinator = run(troubled(toy_course(rounds=3), tmp_path / "dying", trouble), 2)
    records = coordinator.folder.records()
    assert [record.refused for record in records] == [(("birch", "died"),), (), ()]
    assert set(records[1].accepted) == set(SIZES)


def test_a_silo_that_died_is_as_good_as_absent(tmp_path: Path) -> None:
    course = toy_course(rounds=2)
    dead = run(troubled(course, tmp_path / "dying", die, times=2), 2)
    without, _ = toy_run(course.without("birch"), tmp_path / "without")
    assert differing(dead._weights, without._weights) == []


def test_a_process_that_dies_while_idle_is_replaced(tmp_path: Path) -> None:
    setting = toy_setting(toy_course(), tmp_path)
    with processes(list(setting.silos), 1) as engine:
        os.kill(engine._children[0]._pid, signal.SIGKILL)
        time.sleep(0.05)
        replies = [(e.silo, type(e.content)) for e in engine.ask(train(setting), PATIENCE_S)]
    assert replies == [("ash", Refusal), ("cedar", Update), ("dogwood", Update), ("birch", Update)]


def test_a_silo_that_hangs_is_late_and_the_next_rounds_work(tmp_path: Path) -> None:
    course = toy_course(rounds=3, timeout_s=2.5)
    coordinator = run(troubled(course, tmp_path / "hanging", hang), 2)
    records = coordinator.folder.records()
    assert [record.refused for record in records] == [(("birch", "late"),), (), ()]
    assert 2.5 <= records[0].seconds < PATIENCE_S


def test_silos_whose_turn_never_came_are_late_too(tmp_path: Path) -> None:
    setting = troubled(toy_course(), tmp_path / "hanging", hang, silo="ash")
    with processes(list(setting.silos), 1) as engine:
        began = time.monotonic()
        replies = {e.silo: e.content for e in engine.ask(train(setting), 0.3)}
        assert time.monotonic() - began < PATIENCE_S
        assert replies == {name: Refusal(name, "late") for name in SIZES}
        replies = {e.silo: e.content for e in engine.ask(train(setting), PATIENCE_S)}
    assert all(isinstance(reply, Update) for reply in replies.values())


@pytest.mark.parametrize("n", [0, 2])
def test_a_silo_that_fails_says_so_and_its_error_stays_at_home(n: int, tmp_path: Path) -> None:
    setting = troubled(toy_course(rounds=2), tmp_path / "failing", fail)
    coordinator = run(setting, n)
    assert [record.refused for record in coordinator.folder.records()] == [(("birch", "failed"),), ()]
    home = setting.folder.silo("birch")
    holding = [
        path for path in setting.folder.path.rglob("*") if path.is_file() and SECRET in path.read_text("latin-1")
    ]
    assert holding == [home / "errors.log"]


def test_nothing_in_a_failed_silos_reply_tells_why(tmp_path: Path) -> None:
    setting = troubled(toy_course(), tmp_path / "failing", fail)
    with processes(list(setting.silos)) as engine:
        replies = {e.silo: e.content for e in engine.ask(train(setting), PATIENCE_S)}
    assert replies["birch"] == Refusal("birch", "failed")


class Diverging(ToySkill):
    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return super().loss(model, batch) * float("nan")


@pytest.mark.parametrize("n", [0, 2])
def test_a_silo_that_diverges_says_so_and_keeps_nothing_of_it(n: int, tmp_path: Path) -> None:
    setting = toy_setting(toy_course("fedper", rounds=2), tmp_path, skill=Diverging())
    for record in run(setting, n).folder.records():
        assert record.refused == tuple((name, "diverged") for name in SIZES)
    assert list(setting.folder.path.glob("silos/*/state/round-*")) == []


@dataclass
class Babbling:
    """A silo whose process answers with a request, or with a number that JSON has not."""

    silo: Silo
    content: Any

    @property
    def name(self) -> str:
        return self.silo.name

    @property
    def features(self) -> Any:
        return self.silo.features

    def handle(self, request: Any, progress: Any) -> Any:
        return replace(self.silo.handle(request, progress), content=self.content)


@pytest.mark.parametrize("bad", ["a request", "a diverged loss"])
def test_what_is_no_reply_is_left_to_the_guard(bad: str, tmp_path: Path) -> None:
    setting = toy_setting(toy_course(rounds=1), tmp_path)
    good = next(InProcess(setting.silos).ask(train(setting, silos=("birch",)), PATIENCE_S)).content
    setting.silos[1].ledger.close()
    assert isinstance(good, Update)
    content = (
        replace(good, loss=replace(good.loss, last=float("nan"))) if bad == "a diverged loss" else train(setting)["ash"]
    )
    silos: list[Any] = [setting.silos[0], Babbling(setting.silos[1], content), *setting.silos[2:]]
    with processes(silos) as engine:
        coordinator = toy_coordinator(setting, engine)
        coordinator.run()
    (record,) = coordinator.folder.records()
    assert record.refused == (("birch", "wrong_kind" if bad == "a request" else "malformed"),)


# -- messages and processes ------------------------------------------------------------------------------------------


def test_messages_larger_than_the_shared_memory_go_through(tmp_path: Path) -> None:
    course = toy_course("central", rounds=1)
    data = {name: toy_collection(SIZES[name], i + 1) for i, name in enumerate(SIZES)}
    long = Document("long", "1 2 3|" + "0" * 3_000_000 + "1")
    data["birch"] = replace(data["birch"], documents=(*data["birch"].documents, long))
    setting = toy_setting(course, tmp_path, data)
    down = {"ballast": torch.ones(500_000)}
    request = Exchange(course.fingerprint, 1, "examples", "collect", down)
    with processes(list(setting.silos)) as engine:
        for _ in range(3):
            replies = {e.silo: e for e in engine.ask(dict.fromkeys(SIZES, request), PATIENCE_S)}
            large = replies["birch"].content
            assert isinstance(large, Contribution)
            assert b"0" * 3_000_000 in large.tensors["examples"].numpy().tobytes()
            assert replies["birch"].n_bytes > 3_000_000
            assert all(isinstance(reply.content, Contribution) for reply in replies.values())


def test_a_process_that_dies_in_the_middle_of_a_message_has_died(tmp_path: Path) -> None:
    setting = toy_setting(toy_course(), tmp_path)
    with processes(list(setting.silos), 1) as engine:
        child = engine._children[0]
        child.connection.close()
        reading, writing = os.pipe()
        os.write(writing, (1000).to_bytes(4, "big") + b"half a message")  # a message begins with its length
        os.close(writing)
        child.silo, child.connection = "birch", Connection(reading, writable=False)
        assert child.take().content == Refusal("birch", "died")
        replies = [type(e.content) for e in engine.ask(train(setting), PATIENCE_S)]
    assert replies == [Update] * 4


def running(pids: list[int]) -> list[int]:
    """Those of the processes that still run; one that has ended but was not waited for does not."""
    states = {}
    for pid in pids:
        try:
            states[pid] = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
    return [pid for pid, state in states.items() if state not in "ZX"]


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")


@needs_proc
@pytest.mark.parametrize("trouble", [hang, lambda: None])
def test_when_the_coordinator_is_killed_its_processes_die(trouble: Callable[[], None], tmp_path: Path) -> None:
    setting = troubled(toy_course(), tmp_path / "orphans", trouble)
    reading, writing = os.pipe()
    coordinator = os.fork()
    if coordinator == 0:
        try:
            engine = Processes(setting.silos, 3, 1024)
            os.write(writing, " ".join(str(child._pid) for child in engine._children).encode())
            list(engine.ask(train(setting), PATIENCE_S))
            time.sleep(60)
        finally:
            os._exit(1)
    children = [int(pid) for pid in os.read(reading, 100).split()]
    os.close(reading)
    os.close(writing)
    time.sleep(0.2)
    assert running(children) == children
    os.kill(coordinator, signal.SIGKILL)
    os.waitpid(coordinator, 0)
    deadline = time.monotonic() + 5
    while running(children) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(children) == 3
    assert running(children) == []


@needs_proc
def test_closing_ends_all_processes_and_may_be_done_twice(tmp_path: Path) -> None:
    setting = toy_setting(toy_course(), tmp_path)
    engine = Processes(setting.silos, 3, 1024)
    children = [child._pid for child in engine._children]
    engine.close()
    engine.close()
    assert running(children) == []


@needs_proc
def test_file_descriptors_and_processes_do_not_pile_up(tmp_path: Path) -> None:
    setting = troubled(toy_course(), tmp_path / "dying", die, times=10)
    before = len(os.listdir("/proc/self/fd"))
    with processes(list(setting.silos)) as engine:
        during = len(os.listdir("/proc/self/fd"))
        codes = [
            e.content.code
            for _ in range(50)
            for e in engine.ask(train(setting, 1, ("birch", "cedar")), 60)
            if isinstance(e.content, Refusal)
        ]
        assert codes == ["died"] * 10
        assert len(os.listdir("/proc/self/fd")) == during == before + 2
    assert len(os.listdir("/proc/self/fd")) == before


# -- progress --------------------------------------------------------------------------------------------------------


def test_in_this_process_every_step_is_told(tmp_path: Path) -> None:
    setting, watched = toy_setting(toy_course(), tmp_path), Watched()
    engine = InProcess(setting.silos, watched)
    list(engine.ask(train(setting, silos=("ash", "birch")), PATIENCE_S))
    engine.close()
    # batches of 4: 12 examples make three steps, 5 make two
    assert watched.seen == [("ash", 1, 3), ("ash", 2, 3), ("ash", 3, 3), ("birch", 1, 2), ("birch", 2, 2)]


def test_from_other_processes_progress_is_told_too(tmp_path: Path) -> None:
    setting, watched = troubled(toy_course(), tmp_path / "slow", lambda: time.sleep(0.3), times=2), Watched()
    with processes(list(setting.silos), 2, watched) as engine:
        list(engine.ask(train(setting, silos=("birch",)), PATIENCE_S))
    told = [(done, total) for silo, done, total in watched.seen if silo == "birch"]
    assert told == sorted(told)
    assert (1, 2) in told  # it waits before each of its two steps
    assert {total for _, total in told} <= {0, 2}
