# SPDX-License-Identifier: Apache-2.0
"""A coordinator or a silo that runs by itself: how it stands, for `fedqa status`, and a way to end it.

One file in its folder, rewritten whenever something changes. What tells a process from a later one of the same number
is the time it began.
"""

import json
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from fedqa.errors import RunError

FILE = "status.json"
_PATIENCE_S = 20.0  # for a process to end by itself


@dataclass(frozen=True)
class Presence:
    """What a process says of itself."""

    what: Literal["coordinator", "silo"]
    name: str
    state: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    pid: int = field(default_factory=os.getpid)
    born: str = field(default_factory=lambda: born(os.getpid()))
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @property
    def alive(self) -> bool:
        return bool(self.born) and born(self.pid) == self.born


def born(pid: int) -> str:
    """When a process began, in the system's own count; empty if there is none, or only its remains."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in "ZX" else fields[18]


def write_presence(folder: Path, presence: Presence) -> None:
    from fedqa.files import write_json  # brings PyTorch, which `fedqa status` need not wait for

    write_json(folder / FILE, asdict(presence))


def read_presence(folder: Path) -> Presence:
    path = folder / FILE
    try:
        return Presence(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise RunError(
            f"{path} is missing: nothing runs from {folder}; give a folder of `fedqa coordinator` or `fedqa join`"
        ) from None
    except (ValueError, TypeError):
        raise RunError(f"{path} cannot be read; start the process again, it writes the file anew") from None


def claim(folder: Path) -> None:
    """Raise RunError if another process runs from this folder."""
    if (folder / FILE).exists():
        before = read_presence(folder)
        if before.alive and before.pid != os.getpid():
            raise RunError(f"process {before.pid} runs from {folder} already; end it with: fedqa stop {folder}")


def end(folder: Path) -> bool:
    """Ask the process to end, and wait until it has; False if none was running."""
    presence = read_presence(folder)
    if not presence.alive:
        return False
    os.kill(presence.pid, signal.SIGTERM)
    deadline = time.monotonic() + _PATIENCE_S
    while presence.alive:
        if time.monotonic() > deadline:
            raise RunError(f"process {presence.pid} has not ended in {_PATIENCE_S:.0f} s; look at {folder / 'log.txt'}")
        time.sleep(0.05)
    return True


@dataclass(frozen=True)
class Log:
    """Sentences with their time. A full disk costs sentences, and not the process that says them."""

    path: Path

    def __call__(self, text: str) -> None:
        line = f"{datetime.now(UTC).isoformat(timespec='seconds')} {' '.join(text.split())}\n"
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line)
