# SPDX-License-Identifier: Apache-2.0
"""A coordinator and two silos as real commands, each in a network namespace of its own where these can be made.

Coordinator and silo are killed in the middle of the course and started again with the same commands.
"""

import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from terminals import PATIENCE_S, Terminals, at_home, blocks, shared
from toys import differing

from fedqa.coordinating import course_in
from fedqa.federation.run_folder import RunFolder

SILOS = ("hospital", "insurer")
ROUNDS = 12
JOIN = "fedqa join {silo}/invitation.toml --data {silo}/data.toml --folder {silo}/kept --approve {fingerprint}"


@contextmanager
def machines() -> Iterator[tuple[str, Mapping[str, Sequence[str]]]]:
    """The coordinator's address, "" for loopback, and by name what starts a command on each machine."""
    names = {role: f"fedqa-{secrets.token_hex(3)}" for role in ("coordinator", *SILOS)}
    try:
        made = os.geteuid() == 0 and shutil.which("ip") is not None and all(map(_ip, _wiring(names)))
        address = "10.77.0.1:8765" if made else ""
        yield address, {role: ("ip", "netns", "exec", name) if made else () for role, name in names.items()}
    finally:
        for name in names.values():
            with suppress(OSError):
                _ip(f"netns del {name}")


def _wiring(names: Mapping[str, str]) -> Iterator[str]:
    """A bridge at the coordinator, to which every silo has a cable; no machine reaches anything else."""
    yield from (f"netns add {name}" for name in names.values())
    hub = names["coordinator"]
    yield f"-n {hub} link add bridge type bridge"
    yield f"-n {hub} addr add 10.77.0.1/24 dev bridge"
    yield f"-n {hub} link set bridge up"
    for number, silo in enumerate(SILOS, start=2):
        yield f"-n {hub} link add port{number} type veth peer name cable netns {names[silo]}"
        yield f"-n {hub} link set port{number} master bridge up"
        yield f"-n {names[silo]} addr add 10.77.0.{number}/24 dev cable"
        yield f"-n {names[silo]} link set cable up"


def _ip(words: str) -> bool:
    return subprocess.run(["ip", *words.split()], capture_output=True, check=False).returncode == 0


def waited(until: Callable[[], bool], terminals: Terminals) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < deadline, terminals.said()
        time.sleep(0.02)


@pytest.mark.slow
def test_commands_that_are_killed_and_started_again_end_with_the_same_weights(tmp_path: Path) -> None:
    home = tmp_path / "headquarters"
    rounds = RunFolder(home / "run").rounds_path
    with machines() as (address, where):
        terminals = Terminals(tmp_path, address)
        program = blocks()["terminal 1: the coordinator"].replace("127.0.0.1:8765", terminals.address)
        init, start = program.replace("rounds = 3", f"rounds = {ROUNDS}").rsplit("\n", 2)[:2]
        try:
            assert terminals.run(init).wait(PATIENCE_S) == 0, terminals.said()
            joins = {silo: _prepared(tmp_path, silo) for silo in SILOS}
            coordinator = terminals.run(start, where=where["coordinator"])
            working = {silo: terminals.run(join, where=where[silo]) for silo, join in joins.items()}
            waited(lambda: _lines(rounds) >= 2, terminals)
            os.killpg(working["insurer"].pid, signal.SIGKILL)
            working["insurer"] = terminals.run(joins["insurer"], where=where["insurer"])
            waited(lambda: _lines(rounds) >= 4, terminals)
            os.killpg(coordinator.pid, signal.SIGKILL)
            coordinator = terminals.run(start, where=where["coordinator"])
            for process in (coordinator, *working.values()):
                assert process.wait(PATIENCE_S) == 0, terminals.said()
        finally:
            terminals.close()
    records = RunFolder(home / "run").records()
    assert len(records) == ROUNDS and all(record.refused == () for record in records)
    assert differing(shared(RunFolder(home / "run")), shared(at_home(home, tmp_path / "local"))) == []


def _prepared(folder: Path, silo: str) -> str:
    """The silo's files as docs/network.md has them; the command that joins without asking."""
    program = next(
        text for name, text in blocks().items() if name.startswith("terminal") and f"mkdir -p {silo}" in text
    )
    subprocess.run(["bash", "-ec", program[: program.index("fedqa join")]], cwd=folder, check=True)
    course = (folder / "headquarters" / "course.toml").read_text(encoding="utf-8")
    return JOIN.format(silo=silo, fingerprint=course_in(course).fingerprint)


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
