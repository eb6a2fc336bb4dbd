# SPDX-License-Identifier: Apache-2.0
"""The commands without the machines: files, decisions, and what is said when something is missing."""

import json
import os
import stat
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from far_silos import free_address
from toy_alliance import write_alliance
from typer.testing import CliRunner

import fedqa
from fedqa.cli import app
from fedqa.coordinating import Desk, course_in, house_of, init, read_course
from fedqa.engines.network.engine import Network
from fedqa.engines.network.identities import read_invitation
from fedqa.errors import ConfigError, RunError
from fedqa.federation.engine import Silent
from fedqa.joining import LEFT, Joining, read_data
from fedqa.presence import Presence, born, claim, end, read_presence, write_presence
from fedqa.serving.approvals import Approvals

WITHOUT_DATA = """\
name = "toys"
method = "fedavg"
model = "tiny"

[[silo]]
name = "north"

[[silo]]
name = "south"
"""


def said(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A coordinator's folder; its silos are north and south, whose data lie beside it."""
    write_alliance(tmp_path)
    init(tmp_path / "alliance.toml", tmp_path / "home", free_address())
    return tmp_path / "home"


# -- the coordinator -------------------------------------------------------------------------------------------------


def test_init_writes_keys_that_only_the_owner_reads_and_an_invitation_for_each_silo(tmp_path: Path) -> None:
    alliance = tmp_path / "alliance.toml"
    alliance.write_text(WITHOUT_DATA, encoding="utf-8")
    output = said("coordinator", "init", alliance, "--out", tmp_path / "home", "--address", "hub.example.org:8765")
    assert "invitations/north.toml" in output and "fedqa coordinator start" in output
    home = tmp_path / "home"
    secret = [*(home / "keys").iterdir(), *(home / "invitations").iterdir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}
    invitation = read_invitation(home / "invitations" / "south.toml")
    assert (invitation.silo, invitation.coordinator) == ("south", "hub.example.org:8765")
    assert tomllib.loads((home / "coordinator.toml").read_text(encoding="utf-8"))["listen"] == "0.0.0.0:8765"
    assert invitation.pin == house_of(home).own.digest
    assert sorted(house_of(home).silos.values()) == ["north", "south"]


def test_the_course_is_the_same_with_and_without_data_in_the_file(tmp_path: Path, home: Path) -> None:
    text = (home / "course.toml").read_text(encoding="utf-8")
    assert course_in(text) == read_course(tmp_path / "alliance.toml")
    assert "north.csv" not in text
    assert read_course(home / "course.toml").fingerprint == course_in(text).fingerprint


def test_what_init_cannot_use_is_refused(tmp_path: Path, home: Path) -> None:
    alliance = tmp_path / "alliance.toml"
    with pytest.raises(RunError, match="holds a coordinator already"):
        init(alliance, home, "host:1")
    with pytest.raises(ConfigError, match="silos must know the port"):
        init(alliance, tmp_path / "new", "host:0")
    with pytest.raises(ConfigError, match="an address is host:port"):
        init(alliance, tmp_path / "new", "host")
    (tmp_path / "empty.toml").write_text('name = "x"\nmethod = "fedavg"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="names no silo; add a"):
        init(tmp_path / "empty.toml", tmp_path / "new", "host:1")
    assert not (tmp_path / "new").exists()


def test_a_coordinator_is_made_before_it_is_started(tmp_path: Path) -> None:
    assert "make one with `fedqa coordinator init`" in said("coordinator", "start", tmp_path, code=2)


def test_too_few_silos_end_the_waiting_with_their_names(home: Path) -> None:
    told: list[str] = []
    with pytest.raises(RunError, match="fewer silos than the quorum of 1 have joined in 0 s; missing: north, south"):
        Desk(home, Silent(), told.append).run(wait_s=0.0)
    assert any(text.startswith("listening at 127.") for text in told)
    assert read_presence(home).state == "waiting for silos"


def test_a_silo_that_the_course_does_not_have_is_found_at_the_start(home: Path) -> None:
    path = home / "coordinator.toml"
    path.write_text(path.read_text(encoding="utf-8") + f'east = "{"0" * 64}"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="unknown silo 'east'"):
        Desk(home, Silent(), print).run()


# -- a silo ----------------------------------------------------------------------------------------------------------


def test_data_are_named_by_a_silos_own_file_a_short_one_or_an_alliance(tmp_path: Path) -> None:
    write_alliance(tmp_path)
    own, short = tmp_path / "own.toml", tmp_path / "short.toml"
    own.write_text('name = "north"\nstore = "north.sqlite"\n', encoding="utf-8")
    short.write_text('limit = 7\n[data]\nformat = "csv"\npath = "north.csv"\n', encoding="utf-8")
    assert read_data(own, "north")[0].format == "store"
    assert read_data(short, "north")[0].limit == 7
    assert read_data(tmp_path / "alliance.toml", "south")[0].path == "south.csv"
    with pytest.raises(ConfigError, match="unknown silo 'east'"):
        read_data(tmp_path / "alliance.toml", "east")
    short.write_text('[data]\nformat = "csv"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="data needs both format and path"):
        read_data(short, "north")


@pytest.fixture
def waiting(home: Path) -> Iterator[tuple[Joining, list[str]]]:
    """A silo that is about to join, and what its coordinator logs."""
    text, told = (home / "course.toml").read_text(encoding="utf-8"), []
    engine = Network(house_of(home), text, course_in(text).fingerprint, told.append)
    invitation = read_invitation(home / "invitations" / "north.toml")
    try:
        yield Joining(invitation, home.parent / "kept", home.parent / "alliance.toml", lambda text: None), told
    finally:
        engine.close()


def test_a_course_is_looked_at_examined_and_approved_by_its_fingerprint(waiting: tuple[Joining, list[str]]) -> None:
    joining, _ = waiting
    course = joining.look()
    found = joining.examine()
    assert found.can_train and [checkup.silo for checkup in found.checkups] == ["north"]
    assert not joining.approved()
    with pytest.raises(RunError, match="has not been approved here"):
        joining.work()
    joining.decide_by(course.fingerprint[:12].upper(), "Ann")
    assert joining.approved()
    assert joining.approvals.all()[0].who == "Ann"
    assert not joining.run_folder.path.exists()


def test_what_was_approved_on_the_silos_page_is_approved(home: Path, tmp_path: Path) -> None:
    own = tmp_path / "north.toml"
    own.write_text('name = "north"\nstore = "north.sqlite"\n', encoding="utf-8")
    Approvals(tmp_path / "north.page" / "approvals.jsonl").decide("c" * 64, True, "Ann")
    joining = Joining(read_invitation(home / "invitations" / "north.toml"), tmp_path / "kept", own, print)
    assert joining.approvals.approved("c" * 64)


@pytest.mark.parametrize("given", ["0" * 64, "", "abc"])
def test_another_fingerprint_is_a_refusal_that_the_coordinator_hears_of(
    given: str, waiting: tuple[Joining, list[str]]
) -> None:
    joining, told = waiting
    joining.look()
    with pytest.raises(RunError, match="was approved; nothing has left this silo"):
        joining.decide_by(given, "Ann")
    deadline = time.monotonic() + 20
    while not any("north has not approved course" in text for text in told):
        assert time.monotonic() < deadline, told
        time.sleep(0.01)
    assert not joining.approved()
    assert "was refused by Ann" in (joining.folder / "log.txt").read_text(encoding="utf-8")


def test_where_nobody_can_be_asked_the_fingerprint_is_said(waiting: tuple[Joining, list[str]]) -> None:
    home = waiting[0].folder.parent
    invitation, data = home / "home" / "invitations" / "north.toml", home / "alliance.toml"
    output = said("join", invitation, "--data", data, "--folder", home / "other", code=2)
    fingerprint = read_course(home / "alliance.toml").fingerprint
    assert f"nobody can be asked here; approve with --approve {fingerprint}" in output
    for part in ("Nothing would stop the training", "Stage train, 2 rounds", "enc.0 to enc.1"):
        assert part in output


def test_a_silo_that_has_left_does_not_join_by_itself(home: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    write_presence(kept, Presence("silo", "north", "stopped", pid=0, born=""))
    assert "north has left: its process was not running" in said("leave", kept)
    assert (kept / LEFT).exists()
    words = ("join", home / "invitations" / "north.toml", "--data", tmp_path / "alliance.toml", "--folder", kept)
    assert "this silo has left the alliance; to join again, remove" in said(*words, code=2)


# -- status and stop -------------------------------------------------------------------------------------------------


def test_status_of_a_coordinator_says_who_is_there(tmp_path: Path) -> None:
    facts = {"silos": ["north", "south"], "online": ["north"], "answered": ["north"], "round": 1, "rounds": 3}
    facts |= {"quorum": 2, "bytes_up": 2000, "bytes_down": 3000}
    write_presence(tmp_path, Presence("coordinator", "toys", "round 2 of 3", facts))
    output = said("status", tmp_path)
    for part in ("coordinator toys: round 2 of 3", "north: online, has answered", "south: away", "1 of 3", "quorum 2"):
        assert part in output
    assert json.loads(said("status", tmp_path, "--json"))["alive"] is True


def test_status_of_a_process_that_is_no_more_is_exit_code_1_unless_it_had_finished(tmp_path: Path) -> None:
    write_presence(tmp_path, Presence("silo", "north", "at work", {"course": "c"}, pid=2**22 + 1, born="1"))
    assert "no process" in said("status", tmp_path, code=1)
    write_presence(tmp_path, Presence("silo", "north", "finished", pid=2**22 + 1, born="1"))
    assert "finished" in said("status", tmp_path)
    assert "nothing was running" in said("stop", tmp_path)


def test_what_is_no_folder_of_a_process_is_said_so(tmp_path: Path) -> None:
    for command in ("status", "stop", "leave"):
        assert "nothing runs from" in said(command, tmp_path, code=2)
    (tmp_path / "status.json").write_text("{", encoding="utf-8")
    assert "cannot be read" in said("status", tmp_path, code=2)
    write_presence(tmp_path, Presence("coordinator", "toys", "waiting"))
    assert "a coordinator is ended with `fedqa stop`" in said("leave", tmp_path, code=2)


def test_a_running_process_is_ended_and_its_folder_is_free_again(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        write_presence(tmp_path, Presence("silo", "north", "at work", pid=process.pid, born=born(process.pid)))
        with pytest.raises(RunError, match=f"process {process.pid} runs from .* already; end it with: fedqa stop"):
            claim(tmp_path)
        assert end(tmp_path)
        claim(tmp_path)
    finally:
        process.kill()
        process.wait()


def test_a_later_process_of_the_same_number_is_another(tmp_path: Path) -> None:
    write_presence(tmp_path, Presence("silo", "north", "at work", pid=os.getpid(), born="1"))
    assert not read_presence(tmp_path).alive
    assert not end(tmp_path)


def test_only_the_network_engine_knows_flare() -> None:
    package = Path(fedqa.__file__).parent
    users = {path.parent for path in package.rglob("*.py") if "nvflare" in path.read_text(encoding="utf-8")}
    assert users == {package / "engines" / "network"}
