# SPDX-License-Identifier: Apache-2.0
"""The process of a database, as seen from outside: asked, waited for so long and no longer, and ended if it must be.

A query may be inside one call of a library that looks at no clock. Nothing in the same process could end it; the end of
its own process always does.
"""

import json
import os
import selectors
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import fedqa
from fedqa.databases.child import LENGTH, framed

_START = "import sys; sys.path.insert(0, sys.argv[1]); from fedqa.databases.child import main; main(sys.argv[2])"
_ROOT = Path(fedqa.__file__).resolve().parents[1]
_END_S = 1.0  # a system that is kept waiting by a disk ends nothing at once
_ENDING: list[subprocess.Popen[bytes]] = []  # those, until the system is done with them
_MAX_ANSWER = 256_000_000  # bytes
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG")
_FOR_POSTGRES = ("HOME",)  # where passwords and certificates are looked up


class Late(Exception):
    """No answer in time; the process was ended."""


class Gone(Exception):
    """The process ended before it answered."""


class Enclosure:
    """A running process. Not to be shared between threads, nor with a forked process."""

    def __init__(self, kind: str) -> None:
        _ENDING[:] = [process for process in _ENDING if process.poll() is None]
        isolated = ["-I", "-S"] if kind == "sqlite" else ["-I"]
        self._process = subprocess.Popen(
            [sys.executable, *isolated, "-c", _START, str(_ROOT), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(kind),
            cwd="/",
            start_new_session=True,  # Ctrl-C is for us; we tell it
        )
        self.pid = os.getpid()
        self.end = weakref.finalize(self, _end, self._process, self.pid)

    @property
    def alive(self) -> bool:
        """Whether it may be asked, by this process."""
        return self.end.alive and self.pid == os.getpid() and self._process.poll() is None

    def ask(self, message: Mapping[str, object], seconds: float) -> Any:
        """The answer. Raises Late or Gone, and then it cannot be asked again."""
        deadline = time.monotonic() + seconds
        assert self._process.stdin
        try:
            self._process.stdin.write(framed(message))
            self._process.stdin.flush()
            (length,) = LENGTH.unpack(self._read(LENGTH.size, deadline))
            if length > _MAX_ANSWER:
                raise Gone
            return json.loads(self._read(length, deadline))
        except OSError:
            self.end()
            raise Gone from None
        except BaseException:
            self.end()  # also when interrupted: an answer that comes later would be taken for that of the next query
            raise

    def _read(self, n: int, deadline: float) -> bytes:
        assert self._process.stdout
        source, data = self._process.stdout.fileno(), bytearray()
        with selectors.DefaultSelector() as waiting:
            waiting.register(source, selectors.EVENT_READ)
            while len(data) < n:
                left = deadline - time.monotonic()
                if left <= 0 or not waiting.select(left):
                    raise Late
                part = os.read(source, min(n - len(data), 1 << 16))
                if not part:
                    raise Gone
                data += part
        return bytes(data)


def _end(process: subprocess.Popen[bytes], pid: int) -> None:
    if os.getpid() == pid:
        process.kill()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            _ENDING.append(process)
    else:
        process.returncode = 0  # it is the child of another process, which ends it
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            assert pipe
            pipe.close()


def _environment(kind: str) -> dict[str, str]:
    """Only what programs and libraries are found by: the process needs nobody's secrets but its own."""
    passed_on = _PASSED_ON if kind == "sqlite" else _PASSED_ON + _FOR_POSTGRES
    mine = os.environ.items()
    return {name: value for name, value in mine if name in passed_on or (kind != "sqlite" and name.startswith("PG"))}
