# SPDX-License-Identifier: Apache-2.0
"""Files are parsed in a process of their own, with limits on time and memory, that cannot harm this one."""

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import asdict

from fedqa.intake.records import Extracted, IntakeError, Kind, Limits

TOO_MUCH_MEMORY = 3  # the child's exit status: there may be no memory left for a message
PLACES = 2  # files that are parsed at the same time; others wait
_places = threading.BoundedSemaphore(PLACES)
_SMALLER = "split it into smaller files, or upload it as plain text"
_SAVE_AGAIN = "open it in its own program, save it again and upload that, or upload it as plain text"


def read_apart(kind: Kind, content: bytes, limits: Limits) -> Extracted:
    """What `fedqa.intake.<kind>.read` returns or refuses, from a child process."""
    if not _places.acquire(timeout=limits.patience):
        raise IntakeError("other files are still being read", "try again in a minute")
    try:
        status, output = _run(kind, content, limits)
    except subprocess.TimeoutExpired:
        raise IntakeError(f"reading it takes longer than {limits.patience} s", _SMALLER) from None
    finally:
        _places.release()
    _check(status, limits)
    return _result(output, kind)


def _run(kind: Kind, content: bytes, limits: Limits) -> tuple[int, bytes]:
    """The exit status and the output of the child, which is dead when this returns or raises."""
    command = [sys.executable, "-P", "-m", "fedqa.intake.child", kind, json.dumps(asdict(limits))]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=_environment()) as child:
        try:
            output, _ = child.communicate(content, timeout=limits.patience)
        finally:
            child.kill()
    return child.returncode, output


def _environment() -> dict[str, str]:
    """Only what finding the package needs: passwords in the environment are no business of a parser."""
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH") if name in os.environ}
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUTF8": "1"}


def _check(status: int, limits: Limits) -> None:
    """Refuse a file at which the child died of a limit. A system short of memory kills it outright."""
    if status == TOO_MUCH_MEMORY or _died_of(status, "SIGKILL"):
        raise IntakeError(f"reading it takes more than {limits.memory_bytes // 1_000_000:,} MB of memory", _SMALLER)
    if _died_of(status, "SIGXCPU"):
        raise IntakeError(f"reading it takes longer than {limits.seconds} s of processor time", _SMALLER)


def _died_of(status: int, name: str) -> bool:
    return name in signal.Signals.__members__ and status == -signal.Signals[name]


def _result(output: bytes, kind: Kind) -> Extracted:
    """The answer of the child, checked like any message from outside."""
    try:
        answer = json.loads(output)
    except ValueError:
        answer = None  # it died
    match answer:
        case {"title": str(title), "text": str(text), "notes": list(notes)}:
            return Extracted(title, text, kind, tuple(map(str, notes)))
        case {"reason": str(reason), "remedy": str(remedy)} if reason:
            raise IntakeError(reason, remedy)
    raise IntakeError("it is damaged or not built as its kind should be", _SAVE_AGAIN)
