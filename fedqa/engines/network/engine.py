# SPDX-License-Identifier: Apache-2.0
"""The coordinator's engine: asks silos that call in from other machines. It carries bytes, and knows no learning.

A silo that goes is given some seconds to come back, and is then asked again; one that stays away costs a round nothing
more. A reply that comes after its time, or to a question of an earlier process, is not looked at.
"""

import itertools
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from fedqa.engines.network.identities import COORDINATOR, Known, Pair, context, wire_name
from fedqa.engines.network.link import Bad, Came, Down, Event, Link, Up
from fedqa.engines.network.transport import Gate
from fedqa.engines.replies import refusal, reply_in
from fedqa.errors import ConfigError
from fedqa.federation import wire
from fedqa.federation.messages import Envelope, Exchange, Finish, Request

GRACE_S = 20.0  # to come back in, before a silo that went away counts as gone
_SMALL = 1024  # bytes of what silos say besides replies
_SAID = frozenset({"ready", "course?", "declined", "leave"})
_MAX_EXCHANGE = 1 << 30
_TICK_S = 0.5
_FAREWELL_S = 5.0


@dataclass(frozen=True)
class House:
    """Where a coordinator is reached and how it is known."""

    address: tuple[str, int]
    own: Pair
    authority: str
    silos: Known


@dataclass
class _Asked:
    number: int
    parts: list[memoryview]
    limit: int
    sent: bool = False
    done: bool = False

    def wanted(self) -> bool:
        return not self.done


@dataclass
class Network:
    """Silos on other machines. `course` is the text that silos are shown, `fingerprint` what they approve."""

    house: House
    course: str
    fingerprint: str
    log: Callable[[str], None] = lambda text: None
    grace_s: float = GRACE_S

    def __post_init__(self) -> None:
        listener = _listening(self.house.address)
        self.port: int = listener.getsockname()[1]
        names = sorted(self.house.silos.values())
        tls = context(self.house.own, self.house.authority, server=True)
        gate = Gate(listener, tls, self.house.silos, lambda silo: self._link.connected(silo), self.log)
        self._link = Link(
            COORDINATOR,
            gate,
            (self.house.address[0], self.port),
            limit=self._limit,
            names={wire_name(name): name for name in names},
        )
        self._ready: set[str] = set()  # have approved this course and wait for requests
        self._left: set[str] = set()  # for good
        self._away = dict.fromkeys(names, time.monotonic())  # since when
        self._asked: dict[str, _Asked] = {}
        self._numbers = itertools.count(time.time_ns())  # later processes have higher ones
        self._replies: queue.SimpleQueue[Came | Bad | None] = queue.SimpleQueue()
        self._turn = threading.Lock()
        self._link.start()
        threading.Thread(target=self._listen, name="fedqa engine", daemon=True).start()

    # -- what the coordinator calls ------------------------------------------------------------------------------------

    def ask(self, requests: Mapping[str, Request], timeout_s: float) -> Iterator[Envelope]:
        deadline = time.monotonic() + timeout_s
        for name, request in requests.items():
            self._asked[name] = _Asked(next(self._numbers), wire.encode(request), _most(request))
        try:
            self._send_waiting()
            open_ = set(requests)
            while open_:
                for envelope in self._answers(open_, deadline):
                    open_.discard(envelope.silo)
                    yield envelope
                    del envelope
        finally:
            for name in requests:
                self._asked.pop(name).done = True

    def online(self) -> list[str]:
        """Silos that wait for requests."""
        with self._turn:
            return sorted(self._ready)

    def gone(self, silo: str) -> bool:
        """Whether a silo has left, was put out, or has been away for longer than it is waited for."""
        with self._turn:
            if silo in self._ready:
                return False
            invited = silo in self._away
            return not invited or silo in self._left or time.monotonic() - self._away[silo] > self.grace_s

    def dismiss(self) -> None:
        """Tell the silos that the course is over, and wait a moment until they have hung up."""
        for name in self.online():
            self._link.send(name, "bye")
        deadline = time.monotonic() + _FAREWELL_S
        while self.online() and time.monotonic() < deadline:
            time.sleep(0.01)

    def close(self) -> None:
        self._link.stop()
        self._replies.put(None)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _answers(self, open_: set[str], deadline: float) -> list[Envelope]:
        """What can be said now of silos that have not answered: replies that came, else those who cannot come."""
        left = deadline - time.monotonic()
        try:
            came = self._replies.get(timeout=max(0.0, min(_TICK_S, left)))
        except queue.Empty:
            if left <= 0:
                return [refusal(name, "late") for name in sorted(open_)]
            self._send_waiting()
            return [refusal(name, "died") for name in sorted(open_) if self.gone(name)]
        asked = self._asked.get(came.peer) if came else None
        if came is None or asked is None or came.peer not in open_:
            return []
        if isinstance(came, Bad):  # there is no second try: asked again, it might do the same until the deadline
            asked.done = True
            return [refusal(came.peer, "refused")]
        if came.number != asked.number:
            return []
        asked.done = True
        return [Envelope(came.peer, reply_in(came.data), len(came.data))]

    def _send_waiting(self) -> None:
        with self._turn:
            waiting = {name: self._asked[name] for name in self._ready if name in self._asked}
            due = {name: asked for name, asked in waiting.items() if not asked.sent and not asked.done}
            for asked in due.values():
                asked.sent = True
        for name, asked in due.items():
            self._link.send(name, "ask", asked.parts, number=asked.number, wanted=asked.wanted)

    def _limit(self, peer: str, kind: str, number: int) -> int:
        if kind in _SAID:
            return _SMALL
        if kind != "reply":
            return 0
        asked = self._asked.get(peer)
        return asked.limit if asked is not None and asked.number == number else 0

    def _listen(self) -> None:
        while (event := self._link.events.get()) is not None:
            with suppress(UnicodeDecodeError):  # nothing a silo sends may end this thread
                self._note(event)

    def _note(self, event: Event) -> None:
        if isinstance(event, Up):
            self.log(f"{event.peer} has connected")
        elif isinstance(event, Down):
            self._note_down(event.peer)
        elif isinstance(event, Bad):
            self.log(f"{event.peer} was cut off: {event.why}")
            self._replies.put(event)
        elif event.kind == "reply":
            self._replies.put(event)
        elif event.kind == "ready":
            self._note_ready(event.peer, bytes(event.data).decode())
        elif event.kind == "course?":
            self._link.send(event.peer, "course", [self.course.encode()])
        elif event.kind == "declined":
            self.log(f"{event.peer} has not approved course {self.fingerprint[:12]}")
        elif event.kind == "leave":
            self._left.add(event.peer)
            self.log(f"{event.peer} has left the alliance")

    def _note_ready(self, silo: str, fingerprint: str) -> None:
        if fingerprint != self.fingerprint:
            self._link.send(silo, "other_course", [self.fingerprint.encode()])
            self.log(f"{silo} has approved course {fingerprint[:12]!r}, not this one ({self.fingerprint[:12]})")
            return
        with self._turn:
            self._ready.add(silo)
            self._left.discard(silo)
            if silo in self._asked:
                self._asked[silo].sent = False  # whatever was sent before went to a process that is no more
        self.log(f"{silo} is ready")
        self._send_waiting()

    def _note_down(self, silo: str) -> None:
        with self._turn:
            was_ready = silo in self._ready
            self._ready.discard(silo)
            self._away[silo] = time.monotonic()
        if was_ready:
            self.log(f"{silo} is gone")


def _listening(address: tuple[str, int]) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        return socket.create_server(address, family=family, backlog=128)
    except OSError as problem:
        where = f"{address[0]}:{address[1]}"
        raise ConfigError(f"cannot listen at {where}: {problem.strerror or problem}; choose another --listen") from None


def _most(request: Request) -> int:
    """Bytes that an answer may have: an update is no larger than the weights it answers."""
    if isinstance(request, Exchange):
        return _MAX_EXCHANGE
    return wire.MAX_HEADER + 64 + (0 if isinstance(request, Finish) else wire.size(request))
