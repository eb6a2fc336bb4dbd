# SPDX-License-Identifier: Apache-2.0
"""The programs of docs/network.md, and terminals to run them in."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from far_silos import free_address

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

    def __init__(self, folder: Path, address: str = "") -> None:
        self.folder, self.address = folder, address or free_address()
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
        return self.run(blocks()[name].replace("127.0.0.1:8765", self.address), typed)

    def run(self, program: str, typed: bytes = b"", where: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """`where` is a command that starts another one, on a machine of its own."""
        ours, theirs = pty.openpty()
        os.write(ours, typed)
        with (self.folder / f"{len(self.running)}.txt").open("wb") as said:
            process = subprocess.Popen(
                [*where, "bash", "-ec", program],
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
