# SPDX-License-Identifier: Apache-2.0
"""The new user's path in docs/network.md, as it stands there: separate processes, started by the real commands."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from far_silos import free_address
from toys import differing

from fedqa.config import load_project
from fedqa.coordinating import course_in
from fedqa.federation.run_folder import RunFolder
from fedqa.files import read_tensors
from fedqa.runs import train

PAGE = Path(__file__).parents[3] / "docs" / "network.md"
PATIENCE_S = 300.0


def blocks() -> dict[str, str]:
    """The programs of the page by the words of their first comment."""
    found = re.findall(r"^```bash\n# ([^\n]+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return dict(found)


class Terminals:
    """Programs of the page in one folder, each with a terminal of its own to be asked in."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.address = folder, free_address()
        shim = folder / "bin" / "fedqa"
        shim.parent.mkdir()
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fedqa "$@"\n', encoding="utf-8")
        shim.chmod(0o755)
        root = str(PAGE.parents[1])
        self.env = os.environ | {
            "PATH": f"{shim.parent}:{os.environ['PATH']}",
            "PYTHONPATH": root,
            "HF_HUB_OFFLINE": "1",
        }
        self.running: list[subprocess.Popen[bytes]] = []

    def open(self, name: str, typed: bytes = b"") -> subprocess.Popen[bytes]:
        program = blocks()[name].replace("127.0.0.1:8765", self.address)
        ours, theirs = pty.openpty()
        os.write(ours, typed)
        with (self.folder / f"{len(self.running)}.txt").open("wb") as said:
            process = subprocess.Popen(
                ["bash", "-ec", program],
                cwd=self.folder,
                env=self.env,
                stdin=theirs,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        os.close(theirs)
        self.running.append(process)
        return process

    def said(self) -> str:
        return "\n".join(path.read_text(encoding="utf-8") for path in sorted(self.folder.glob("*.txt")))

    def close(self) -> None:
        for process in self.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.mark.slow
def test_three_terminals_and_four_commands_make_a_trained_alliance(tmp_path: Path) -> None:
    terminals = Terminals(tmp_path)
    try:
        terminals.open("terminal 1: the coordinator")
        deadline = time.monotonic() + PATIENCE_S
        while not (tmp_path / "headquarters" / "invitations" / "insurer.toml").exists():
            assert time.monotonic() < deadline, terminals.said()
            time.sleep(0.05)
        terminals.open("terminal 2: the hospital", b"y\n")
        terminals.open("terminal 3: the insurer", b"y\n")
        for process in terminals.running:
            assert process.wait(deadline - time.monotonic()) == 0, terminals.said()
        assert terminals.open("afterwards, at the hospital").wait(PATIENCE_S) == 0, terminals.said()
    finally:
        terminals.close()
    said = terminals.said()
    for part in ("Approve course", "round 3/3  2 accepted", "The course is over", "finished"):
        assert part in said
    home = tmp_path / "headquarters"
    assert (home / "keys").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in home.glob("*/*.toml") if path.parent.name == "invitations"} == {
        0o600
    }
    assert differing(shared(RunFolder(home / "run")), shared(at_home(home, tmp_path / "local"))) == []


def shared(run: RunFolder) -> dict[str, object]:
    return dict(read_tensors(sorted((run.path / "checkpoints").glob("*.safetensors"))[-1]))


def at_home(home: Path, out: Path) -> RunFolder:
    """The same course with all silos on this machine."""
    course = course_in((home / "course.toml").read_text(encoding="utf-8"))
    text = (home / "course.toml").read_text(encoding="utf-8")
    data = "".join(f'[data.{plan.name}]\nsample = "{plan.name}"\nlimit = 40\n' for plan in course.silos)
    path = out.with_suffix(".toml")
    path.write_text(text + data, encoding="utf-8")
    train(load_project(path), out, processes=1)
    assert json.loads((out / "result.json").read_text(encoding="utf-8"))["course"] == course.fingerprint
    return RunFolder(out)
