# SPDX-License-Identifier: Apache-2.0
"""A run is killed at any moment, resumed, killed again; it ends with the same bits as one that was left alone.

Runs live in forked processes and are ended by SIGKILL: after a random time, or when they are about to touch a certain
file, which an audit hook of the process sees.
"""

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from toys import SIZES, ToySkill, differing, toy_coordinator, toy_course, toy_run, toy_setting

from fedqa.engines.local import InProcess, Processes
from fedqa.errors import RunError
from fedqa.federation.course import Course
from fedqa.federation.engine import Engine
from fedqa.federation.ledger import Ledger
from fedqa.federation.messages import Envelope, Request
from fedqa.federation.run_folder import RoundRecord, RunFolder
from fedqa.files import read_tensors, write_json
from fedqa.seeds import generator
from fedqa.training import Local

ROUNDS = 8
KEEPING = Local(batch=4, learning_rate=0.02, keep_optimiser=True, schedule="linear", warmup=0.2)
Event = Callable[[str, str], bool]  # an operation ("open", "os.rename" ...) and the file's path -> die now?


def two_stages() -> Course:
    """Everything shared, then the heads private: what a silo keeps changes in the middle."""
    first, second = toy_course("fedavg", rounds=4), toy_course("fedper", rounds=4, local=KEEPING)
    return replace(first, stages=(*first.stages, *second.stages))


COURSES: Mapping[str, Course] = {
    "fedavg": toy_course("fedavg", rounds=ROUNDS),
    "ditto with kept moments": toy_course("ditto", rounds=ROUNDS, local=KEEPING),
    "fedopt with adam": toy_course("fedopt", rounds=ROUNDS, optimiser="adam"),
    "two stages": two_stages(),
    "two silos a round": toy_course("fedbn", rounds=ROUNDS, sample=2, local=KEEPING),
    "isolated": toy_course("isolated", rounds=ROUNDS, local=KEEPING),
    "atc": toy_course("atc", rounds=4, local=KEEPING, clusters=2, neighbours=2, probe={"items": 6, "length": 6}),
}


UNCHOSEN = [name for name in COURSES if name != "atc"]  # it takes longer; its moments are chosen, below


class Slow(ToySkill):
    """Takes long enough for a kill to land anywhere."""

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        time.sleep(0.001)
        return super().loss(model, batch)


# -- lives of a run --------------------------------------------------------------------------------------------------


def begin(course: Course, folder: Path, n_processes: int = 0, die_at: Event | None = None) -> int:
    """Start or continue a run in a process of its own; returns its number."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            if die_at is not None:
                sys.addaudithook(_killer(folder, die_at))
            _live(course, folder, n_processes)
            code = 0
        except BaseException:
            (folder / "crash.txt").write_text(traceback.format_exc())
        finally:
            os._exit(code)
    return process


def _live(course: Course, folder: Path, n_processes: int) -> None:
    setting = toy_setting(course, folder, skill=Slow())
    engine = Processes(setting.silos, n_processes, 4096) if n_processes else InProcess(setting.silos)
    outcome = toy_coordinator(setting, engine).run()
    engine.close()
    write_json(folder / "outcome.json", asdict(outcome))


def _killer(folder: Path, die_at: Event) -> Callable[[str, Any], None]:
    process = os.getpid()

    def hook(event: str, arguments: Any) -> None:
        if event in ("open", "os.rename", "os.remove", "os.mkdir") and os.getpid() == process:
            path = str(arguments[1] if event == "os.rename" else arguments[0])
            if path.startswith(str(folder)) and die_at(event, path.removeprefix(str(folder))):
                os.kill(process, signal.SIGKILL)

    return hook


def killed_after(process: int, delay_s: float) -> bool:
    """Kill a run after some time; False if it had ended by itself."""
    time.sleep(delay_s)
    os.kill(process, signal.SIGKILL)
    return ended(process) == -signal.SIGKILL


def ended(process: int) -> int:
    """Wait for a run's end: 0, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def finish(course: Course, folder: Path, n_processes: int = 0) -> None:
    code = ended(begin(course, folder, n_processes))
    crash = folder / "crash.txt"
    assert code == 0, crash.read_text() if crash.exists() else code


_left_alone: dict[str, tuple[Path, float]] = {}


def left_alone(name: str, factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """The folder of a run that was not disturbed, and how long it took."""
    if name not in _left_alone:
        folder, began = factory.mktemp("undisturbed"), time.monotonic()
        finish(COURSES[name], folder)
        _left_alone[name] = folder, time.monotonic() - began
    return _left_alone[name]


# -- what is compared ------------------------------------------------------------------------------------------------


def story(folder: Path) -> list[RoundRecord]:
    return [replace(record, seconds=0.0) for record in RunFolder(folder).records()]


def kept(folder: Path) -> dict[str, Tensor]:
    """The coordinator's last checkpoint, and all that the silos keep."""
    last = f"checkpoints/round-{ROUNDS:06d}.safetensors"
    paths = [folder / last, *sorted(folder.glob("silos/*/state/*.safetensors"))]
    return {f"{path.relative_to(folder)} {n}": t for path in paths for n, t in read_tensors(path).items()}


def assert_same_end(folder: Path, undisturbed: Path) -> None:
    assert story(folder) == story(undisturbed)
    expected = kept(undisturbed)
    found = {name: tensor for name, tensor in kept(folder).items() if name in expected}  # older files may be left
    assert differing(found, expected) == []
    for name in ("outcome.json", *(f"silos/{silo}/state/best.json" for silo in SIZES)):
        assert json.loads((folder / name).read_text()) == json.loads((undisturbed / name).read_text())
    for silo in SIZES:
        ledger = Ledger(folder / "silos" / silo / "ledger.sqlite")
        assert ledger.first_broken() is None
        ledger.close()


# -- killed at a random moment ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UNCHOSEN)
def test_ten_kills_at_random_moments_change_nothing(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    undisturbed, duration_s = left_alone(name, tmp_path_factory)
    delays = generator(1, "kills", name).uniform(0, duration_s / 4, size=10)
    kills = [killed_after(begin(COURSES[name], tmp_path), delay) for delay in delays]
    finish(COURSES[name], tmp_path)
    assert any(kills)  # on a busy machine a run may be through before all ten have come
    assert_same_end(tmp_path, undisturbed)


@pytest.mark.parametrize("name", ["fedavg", "ditto with kept moments"])
def test_ten_kills_change_nothing_with_two_processes(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    undisturbed, duration_s = left_alone(name, tmp_path_factory)
    for delay in generator(2, "kills", name).uniform(0, duration_s / 4, size=10):
        killed_after(begin(COURSES[name], tmp_path, n_processes=2), delay)
    finish(COURSES[name], tmp_path, n_processes=2)
    assert_same_end(tmp_path, undisturbed)


@pytest.mark.parametrize("name", UNCHOSEN)
def test_kills_before_random_file_operations_change_nothing(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    undisturbed, _ = left_alone(name, tmp_path_factory)
    for count in generator(3, "operations", name).integers(1, 400, size=6).tolist():
        left = iter(range(count, -1, -1))
        code = ended(begin(COURSES[name], tmp_path, die_at=lambda event, path: next(left) == 0))  # noqa: B023
        assert code in (0, -signal.SIGKILL), (tmp_path / "crash.txt").read_text()
    finish(COURSES[name], tmp_path)
    assert_same_end(tmp_path, undisturbed)


# -- killed at chosen moments ----------------------------------------------------------------------------------------

MOMENTS: Mapping[str, tuple[str, str]] = {
    "before the first checkpoint": ("os.rename", "/checkpoints/round-000001.safetensors"),
    "before a checkpoint": ("os.rename", "/checkpoints/round-000003.safetensors"),
    "between checkpoint and line": ("open", "/rounds.jsonl"),
    "between line and tidying up": ("os.remove", "/checkpoints/round-000002.safetensors"),
    "before the last checkpoint": ("os.rename", f"/checkpoints/round-{ROUNDS:06d}.safetensors"),
    "after the last line": ("os.remove", f"/checkpoints/round-{ROUNDS - 2:06d}.safetensors"),
    "before a silo keeps its private part": ("os.rename", "/silos/birch/state/round-000004.safetensors"),
    "before a silo forgets an old private part": ("os.remove", "/silos/cedar/state/round-000002.safetensors"),
    "before a silo keeps its personal model": ("os.rename", "/silos/ash/state/personal-000005.safetensors"),
    "before the best model counts": ("os.rename", "/silos/dogwood/state/best.json"),
    "before scores are written": ("os.rename", "/silos/birch/scores/personal-dev.json"),
    "before the first test score": ("os.rename", "/silos/ash/scores/received-test.json"),
    "before the last test score": ("os.rename", "/silos/dogwood/scores/best-test.json"),
}


ATC_MOMENTS: Mapping[str, tuple[str, str]] = {  # rounds 1 to 4 are assigned, 5 to 8 a silo's own
    "in an assigned round": ("os.rename", "/silos/cedar/state/round-000003.safetensors"),
    "before a silo keeps its key": ("os.rename", "/silos/birch/state/probe_key-000005.safetensors"),
    "between keys and sums": ("os.rename", "/silos/ash/state/spent-probe.json"),
    "before a silo keeps the probe set": ("os.rename", "/silos/dogwood/state/stage_inbox-000005.safetensors"),
    "before a silo forgets its key": ("os.remove", "/silos/cedar/state/probe_key-000005.safetensors"),
    "before the first of its own rounds counts": ("os.rename", "/checkpoints/round-000005.safetensors"),
    "between representations and a round": ("os.rename", "/silos/birch/state/inbox-000007.safetensors"),
}


@pytest.mark.parametrize(
    ("name", "moment"),
    [*(("ditto with kept moments", moment) for moment in MOMENTS), *(("atc", moment) for moment in ATC_MOMENTS)],
)
def test_a_kill_at_the_worst_moment_changes_nothing(
    name: str, moment: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chosen = {**MOMENTS, **ATC_MOMENTS}[moment]
    undisturbed, _ = left_alone(name, tmp_path_factory)
    for attempt in range(2):  # the second time the moment may not come again, and the run goes to its end
        process = begin(COURSES[name], tmp_path, die_at=lambda event, path: (event, path) == chosen)
        if ended(process) == 0:
            assert attempt == 1  # the moment did come
            break
        assert not (tmp_path / "crash.txt").exists()
        assert not (tmp_path / "outcome.json").exists()
    else:
        finish(COURSES[name], tmp_path)
    assert_same_end(tmp_path, undisturbed)


# -- a run folder that was cut -----------------------------------------------------------------------------------------


def short_run(folder: Path, rounds: int = 3) -> Course:
    course = toy_course("ditto", rounds=rounds, local=KEEPING)
    toy_run(course, folder)
    return course


def cut_last_line(path: Path, keep: int) -> None:
    """Leave so many bytes of the last line, counted from its end if below zero."""
    *before, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(before) + last[:keep])


@pytest.mark.parametrize("keep", [0, 1, 100, -1])
def test_a_half_written_last_line_did_not_happen(keep: int, tmp_path: Path) -> None:
    course = short_run(tmp_path)
    lines, checkpoint = story(tmp_path), RunFolder(tmp_path).checkpoint(3)
    cut_last_line(tmp_path / "rounds.jsonl", keep)
    assert story(tmp_path) == lines[:2]
    toy_run(course, tmp_path)
    assert story(tmp_path) == lines
    assert differing(RunFolder(tmp_path).checkpoint(3), checkpoint) == []


def test_reading_the_records_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    short_run(tmp_path)
    cut_last_line(tmp_path / "rounds.jsonl", 50)
    before = (tmp_path / "rounds.jsonl").read_bytes()
    assert len(RunFolder(tmp_path).records()) == 2
    assert (tmp_path / "rounds.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "damage", [b"", b"{}", b"7", b"null", b'{"round": 2', b"\xff\xfe", b'{"round": 2, "stage": "train"}']
)
def test_a_damaged_line_in_the_middle_is_an_error(damage: bytes, tmp_path: Path) -> None:
    course = short_run(tmp_path)
    path = tmp_path / "rounds.jsonl"
    first, _, third = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([first, damage, third, b""]))
    with pytest.raises(RunError, match=r"rounds\.jsonl, line 2 cannot be read .*; start a new run"):
        toy_run(course, tmp_path)


def test_a_line_that_is_missing_is_an_error(tmp_path: Path) -> None:
    course = short_run(tmp_path)
    path = tmp_path / "rounds.jsonl"
    first, _, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + third)
    with pytest.raises(RunError, match=r"line 2 cannot be read \(round 3 stands where round 2 belongs\)"):
        toy_run(course, tmp_path)


def test_a_missing_checkpoint_is_an_error(tmp_path: Path) -> None:
    course = short_run(tmp_path)
    (tmp_path / "checkpoints" / "round-000003.safetensors").unlink()
    with pytest.raises(RunError, match="is missing, so round 3 cannot be continued from; start a new run"):
        toy_run(course, tmp_path)


@pytest.mark.parametrize("content", [b"", b"half a check", bytes(1000)])
def test_a_damaged_checkpoint_is_an_error(content: bytes, tmp_path: Path) -> None:
    course = short_run(tmp_path)
    (tmp_path / "checkpoints" / "round-000003.safetensors").write_bytes(content)
    with pytest.raises(RunError, match=r"round-000003\.safetensors cannot be read .*; start a new run"):
        toy_run(course, tmp_path)


def test_drafts_left_behind_do_no_harm(tmp_path: Path) -> None:
    course = short_run(tmp_path / "clean")
    for folder in ("checkpoints", "silos/ash/state", "silos/birch/scores"):
        (tmp_path / "dirty" / folder).mkdir(parents=True)
        for name in ("round-000002.safetensors", "best.json", "personal-dev.json", "rounds.jsonl"):
            (tmp_path / "dirty" / folder / f".{name}.{os.getpid()}").write_bytes(b"half a fi")
            (tmp_path / "dirty" / folder / f".{name}.1").write_bytes(b"half a fi")
    toy_run(course, tmp_path / "dirty")
    assert story(tmp_path / "dirty") == story(tmp_path / "clean")
    one, other = (RunFolder(tmp_path / name).checkpoint(3) for name in ("dirty", "clean"))
    assert differing(one, other) == []


def test_a_run_that_has_ended_ends_again_with_the_same_scores(tmp_path: Path) -> None:
    course = toy_course("ditto", rounds=2)
    coordinator, outcome = toy_run(course, tmp_path)
    again, same = toy_run(course, tmp_path)
    assert (same.scores, same.refused) == (outcome.scores, outcome.refused)
    assert torch.equal(again._weights["*"], coordinator._weights["*"])


@dataclass
class WithoutBirch:
    """One silo says nothing in the last round."""

    engine: Engine

    def ask(self, requests: Mapping[str, Request], timeout_s: float) -> Iterator[Envelope]:
        for envelope in self.engine.ask(requests, timeout_s):
            if envelope.silo != "birch" or getattr(envelope.content, "round", 0) != 3:
                yield envelope


@pytest.mark.parametrize("quorum", [1, 4])
def test_what_the_guard_remembers_outlasts_a_kill(quorum: int, tmp_path: Path) -> None:
    setting = toy_setting(toy_course(rounds=3, quorum=quorum), tmp_path)
    engine = InProcess(setting.silos)
    coordinator = toy_coordinator(setting, WithoutBirch(engine))
    coordinator.run()
    engine.close()
    records, remembered = coordinator.folder.records(), coordinator._guard.history
    # A void round leaves nothing behind: with a quorum of four, the last that count are those of round 2.
    assert records[2].void == (quorum == 4)
    assert remembered["ash"].norm == records[1 if quorum == 4 else 2].accepted["ash"].norm
    resumed = toy_coordinator(setting)
    assert resumed._resume() == 3
    assert resumed._guard.history == remembered
