# SPDX-License-Identifier: Apache-2.0
"""The local engine: all silos on this machine, in this process or in forked resident processes, one a core.

Local work runs on one thread, so two processes finish sooner than one. Between processes, messages lie in
shared memory in their wire format; nothing is pickled.
"""

import ctypes
import mmap
import os
import signal
import struct
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, Pipe, wait

from fedqa.engines.replies import refusal, reply_in
from fedqa.federation import wire
from fedqa.federation.engine import Silent, Watcher
from fedqa.federation.messages import Envelope, Reply, Request
from fedqa.federation.silo import Silo

_POLL_S = 0.1
_SPARE = 1 << 20  # beyond the largest vector: headers, metrics, small channel messages
_LENGTH = struct.Struct("<Q")


@dataclass
class InProcess:
    """Silos one after the other, in this process, in the order they are asked."""

    silos: Sequence[Silo]
    watcher: Watcher = field(default_factory=Silent)

    def __post_init__(self) -> None:
        for silo in self.silos:
            silo.ledger.open()

    def ask(self, requests: Mapping[str, Request], timeout_s: float) -> Iterator[Envelope]:
        """Nobody can interrupt a silo that runs in this process, so the deadline is not enforced here."""
        by_name = {silo.name: silo for silo in self.silos}
        for name, request in requests.items():
            yield by_name[name].handle(request, partial(self.watcher.silo_works, name))

    def close(self) -> None:
        for silo in self.silos:
            silo.ledger.close()


@dataclass
class Processes:
    """Silos in `n` forked processes that stay for the whole run; the silo with most examples is asked first."""

    silos: Sequence[Silo]
    n: int
    capacity: int  # bytes of the largest vector that travels
    watcher: Watcher = field(default_factory=Silent)

    def __post_init__(self) -> None:
        self._children = [_Child(self.silos, self.capacity + _SPARE) for _ in range(self.n)]

    def ask(self, requests: Mapping[str, Request], timeout_s: float) -> Iterator[Envelope]:
        examples = {silo.name: silo.features.n_train for silo in self.silos}
        waiting = sorted(requests, key=lambda name: -examples[name])
        idle, deadline = list(self._children), time.monotonic() + timeout_s
        busy: dict[Connection[bytes, bytes], _Child] = {}
        while waiting or busy:
            while waiting and idle:
                child = idle.pop(0)
                child.give(waiting[0], requests[waiting.pop(0)])
                busy[child.connection] = child
            answered = wait(list(busy), timeout=_POLL_S)
            ready = [connection for connection in busy if connection in answered]
            for child in busy.values():
                self.watcher.silo_works(child.silo, *child.progress())
            late = time.monotonic() > deadline
            for connection in list(busy) if late else ready:
                child = busy.pop(connection)
                envelope = child.take() if connection in ready else child.give_up("late")
                idle.append(child)
                yield envelope
            if late:
                yield from (refusal(name, "late") for name in waiting)
                waiting = []

    def close(self) -> None:
        while self._children:  # closing twice must not end a process that has got an old number since
            self._children.pop().stop()


class _Child:
    """One forked process, with a pipe for lengths and shared memory for messages."""

    def __init__(self, silos: Sequence[Silo], capacity: int) -> None:
        self._silos, self._capacity = silos, capacity
        self.silo = ""
        self._start()

    def _start(self) -> None:
        self._down, self._up = mmap.mmap(-1, self._capacity), mmap.mmap(-1, self._capacity)
        self._progress = mmap.mmap(-1, 16)
        self.connection, theirs = Pipe()
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                self.connection.close()
                _die_with(parent)
                _serve(self._silos, theirs, self._down, self._up, self._progress)
            finally:  # whatever it is, the parent sees an ended process; falling through would run its code
                os._exit(1)
        theirs.close()

    def give(self, silo: str, request: Request) -> None:
        self.silo = silo
        self._progress[:16] = bytes(16)
        with suppress(BrokenPipeError, ConnectionResetError):  # it died while idle; `take` finds out
            _put(self.connection, self._down, silo.encode(), request)

    def take(self) -> Envelope:
        try:
            _, data = _get(self.connection, self._up)
        except (EOFError, OSError):  # at once, or in the middle of a message
            return self.give_up("died")
        return Envelope(self.silo, reply_in(data), len(data))

    def give_up(self, code: str) -> Envelope:
        """End the process, whatever it is doing, and start a fresh one."""
        self.stop()
        self._start()
        return refusal(self.silo, code)

    def progress(self) -> tuple[int, int]:
        done, total = struct.unpack("<QQ", self._progress[:16])
        return done, total

    def stop(self) -> None:
        self.connection.close()
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        for area in (self._down, self._up, self._progress):
            area.close()


def _serve(
    silos: Sequence[Silo], connection: "Connection[bytes, bytes]", down: mmap.mmap, up: mmap.mmap, progress: mmap.mmap
) -> None:
    """The child's life: answer requests until the parent is gone."""
    by_name = {silo.name: silo for silo in silos}

    def report(done: int, total: int) -> None:
        progress[:16] = struct.pack("<QQ", done, total)

    while True:
        name, data = _get(connection, down)
        request = wire.decode(data, len(data))
        envelope = by_name[name.decode()].handle(_as_request(request), report)
        assert not isinstance(envelope.content, bytes)
        _put(connection, up, name, envelope.content)


def _put(connection: "Connection[bytes, bytes]", area: mmap.mmap, name: bytes, message: Request | Reply) -> None:
    """A message into shared memory and its length into the pipe; one that does not fit goes through the pipe whole."""
    parts = wire.encode(message)
    length = sum(len(part) for part in parts)
    if length > len(area):
        connection.send_bytes(_LENGTH.pack(0) + name)
        connection.send_bytes(b"".join(parts))
        return
    start = 0
    for part in parts:
        area[start : start + len(part)] = part
        start += len(part)
    connection.send_bytes(_LENGTH.pack(length) + name)


def _get(connection: "Connection[bytes, bytes]", area: mmap.mmap) -> tuple[bytes, memoryview]:
    head = connection.recv_bytes()
    (length,) = _LENGTH.unpack(head[:8])
    data = memoryview(area)[:length] if length else memoryview(connection.recv_bytes())
    return head[8:], data


def _die_with(parent: int) -> None:
    """A coordinator that is killed takes its silos' processes with it, even before this line."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _as_request(message: Request | Reply) -> Request:
    assert isinstance(message, Request)
    return message
