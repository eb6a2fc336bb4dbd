# SPDX-License-Identifier: Apache-2.0
"""Trainings as the page starts them: real processes on the toy alliance."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from toy_alliance import ALLIANCE
from toy_silo import FROM_STORE, TRAINED, filled, write_silo
from written_runs import course, record, write_run

from fedqa.config import load_project
from fedqa.errors import ConfigError, RunError
from fedqa.federation.run_folder import RunFolder
from fedqa.serving.approvals import NotApproved
from fedqa.serving.training import Trainings, TrainingStatus
from fedqa.settings import Settings

LONG = FROM_STORE.replace("rounds = 2", "rounds = 200")  # more than any test waits for


def waited(trainings: Trainings, until: Callable[[TrainingStatus], bool]) -> TrainingStatus:
    end = time.monotonic() + 300
    while time.monotonic() < end:
        status = trainings.status()
        if until(status):
            return status
        time.sleep(0.05)
    raise AssertionError(status)


def ended(status: TrainingStatus) -> bool:
    return status.state != "running"


def silo(folder: Path, alliance: str = FROM_STORE) -> Settings:
    settings = write_silo(folder, TRAINED, alliance)
    filled(settings).close()
    decide(settings, True)
    return settings


def decide(settings: Settings, approved: bool) -> None:
    """What an owner says about the alliance's course as it is now."""
    course = load_project(settings.folder / "alliance.toml").course
    Trainings(settings).approvals.decide(course.fingerprint, approved, "Ann")


def pid_of(settings: Settings) -> int:
    return int(json.loads((settings.kept / "training.json").read_text())["pid"])


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_training_runs_to_its_end_and_the_next_goes_on(tmp_path: Path) -> None:
    settings = silo(tmp_path)
    trainings = Trainings(settings)
    assert trainings.status() == TrainingStatus(
        "idle", 0, 0, ("north", "south"), 0.0, "No training has been started from this page."
    )
    status = trainings.start("Ann")
    assert (status.state, status.round, status.rounds, status.who) == ("running", 0, 2, "Ann")
    assert status.message == "Reading examples and preparing the model."
    with pytest.raises(RunError, match="a training is running already; wait for its end, or stop it first"):
        trainings.start("Bob")
    status = waited(trainings, ended)
    assert (status.state, status.round, status.silos) == ("finished", 2, ("north", "south"))
    assert status.message.startswith("Finished: 2 rounds in ") and status.seconds > 0
    trainings.start("Ann")
    status = waited(trainings, ended)
    assert (status.state, status.round, status.rounds) == ("finished", 3, 3)
    assert status.message.startswith("Finished: 1 round in ")
    assert len(RunFolder(tmp_path / "run").records()) == 3
    assert "round 3/3" in trainings.log.read_text()


def test_a_training_outlives_the_page_and_can_be_stopped_by_the_next(tmp_path: Path) -> None:
    settings = silo(tmp_path, LONG)
    first = Trainings(settings)
    first.start("Ann")
    waited(first, lambda status: status.round > 0)
    pid = pid_of(settings)
    assert os.getpgid(pid) == pid != os.getpgid(0)  # a session of its own: Ctrl-C in the page's terminal spares it
    again = Trainings(settings)
    status = again.status()
    assert (status.state, status.who, status.rounds) == ("running", "Ann", 200)
    assert status.message == f"Round {status.round} of 200 is done."
    status = again.stop("Bob")
    assert status.state == "idle"
    assert status.message == f"Stopped by Bob after round {status.round}; the next training goes on from there."
    assert not alive(pid)
    assert again.stop("Bob") == again.status()  # nothing to stop
    assert first.status().state == "idle"


def test_a_training_that_is_killed_has_failed_and_goes_on_when_started_again(tmp_path: Path) -> None:
    settings = silo(tmp_path)
    trainings = Trainings(settings)
    trainings.start("Ann")
    waited(trainings, lambda status: status.round > 0 or ended(status))
    if trainings.status().state == "running":
        os.killpg(pid_of(settings), signal.SIGKILL)
        status = waited(trainings, ended)
        assert status.state == "failed"
        assert "it was ended from outside, or failed in a way that only its log tells." in status.message
        assert Trainings(settings).status().state == "failed"
        trainings.start("Ann")
    assert waited(trainings, ended).state == "finished"


def test_why_a_training_failed_is_told_without_paths(tmp_path: Path) -> None:
    settings = silo(tmp_path)
    (tmp_path / "south.csv").unlink()
    trainings = Trainings(settings)
    trainings.start("Ann")
    status = waited(trainings, ended)
    assert status.state == "failed"
    assert "The training broke off after round 0: silo 'south': there is no file " in status.message
    assert "south.csv" in status.message and str(tmp_path) not in status.message


def test_a_number_that_another_process_has_by_now_is_not_ours(tmp_path: Path) -> None:
    settings = silo(tmp_path)
    started = {"who": "Ann", "at": "2026-01-01T00:00:00+00:00", "first": 0, "rounds": 2}
    (settings.kept / "training.json").write_text(json.dumps({"pid": os.getpid(), "born": "1"} | started))
    assert Trainings(settings).status().state == "failed"
    (settings.kept / "training.json").write_text("half a fi")
    assert Trainings(settings).status().state == "idle"


def test_a_training_without_a_round_that_counts_has_failed(tmp_path: Path) -> None:
    settings = silo(tmp_path)
    nothing: dict[str, Any] = {"void": True, "accepted": {}, "metrics": {}, "weights": {}}
    refused = (("north", "diverged"), ("south", "diverged"))
    rounds = [record(1, ["ash"]), *(record(k, ["ash"], refused=refused, **nothing) for k in (2, 3))]
    write_run(tmp_path / "run", course(rounds=3), records=rounds)
    started = {"pid": os.getpid(), "born": "", "who": "Ann", "at": "2026-01-01T00:00:00+00:00", "rounds": 3}
    (settings.kept / "training.json").write_text(json.dumps(started | {"first": 1}))
    status = Trainings(settings).status()
    assert status.state == "failed"
    assert status.message.startswith("No round counted: the updates of north (") and " and south (" in status.message
    (settings.kept / "training.json").write_text(json.dumps(started | {"first": 0}))
    assert Trainings(settings).status().state == "finished"  # the first round counted


def test_nothing_starts_without_an_approval_of_the_course_as_it_is_now(tmp_path: Path) -> None:
    settings = write_silo(tmp_path, TRAINED)
    trainings = Trainings(settings)
    with pytest.raises(NotApproved, match="this course has not been approved here, so it cannot be trained; read it"):
        trainings.start("Ann")
    decide(settings, False)
    with pytest.raises(NotApproved, match="this course has been refused here"):
        trainings.start("Ann")
    decide(settings, True)
    alliance = settings.folder / "alliance.toml"
    alliance.write_text(alliance.read_text().replace("batch = 4", "batch = 5"))
    with pytest.raises(NotApproved, match="has not been approved"):
        trainings.start("Ann")
    assert trainings.status().state == "idle" and not trainings.log.exists()


def test_without_settings_there_is_nothing_to_start(tmp_path: Path) -> None:
    trainings = Trainings(write_silo(tmp_path))
    assert trainings.status().message == "No training is set up here."
    with pytest.raises(ConfigError, match=r"no training is set up for 'north'; add \[training\] with an alliance"):
        trainings.start("Ann")


@pytest.mark.parametrize(
    ("alliance", "runs", "message"),
    [
        (FROM_STORE.replace('"north"', '"nord"'), "match", r"unknown silo 'north' in .*alliance\.toml; did you mean"),
        (ALLIANCE, "match", r"would not be trained on its store; give it data = \{ format = \"store\", path = \"north"),
        (FROM_STORE.replace("north.sqlite", "other.sqlite"), "match", "would not be trained on its store"),
        (FROM_STORE, "read", r"north\.toml: \[runs\] needs match = \"…\", the folder in which the training is kept"),
    ],
)
def test_an_alliance_that_does_not_train_this_silo(tmp_path: Path, alliance: str, runs: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Trainings(write_silo(tmp_path, TRAINED.replace("match =", f"{runs} ="), alliance))


def test_the_silos_file_stands_for_its_store(tmp_path: Path) -> None:
    plan = Trainings(write_silo(tmp_path, TRAINED, FROM_STORE.replace("north.sqlite", "north.toml"))).plan
    assert plan is not None
    assert (plan.run, plan.skill, plan.rounds, plan.more) == (tmp_path / "run", "match", 2, 1)
