# SPDX-License-Identifier: Apache-2.0
"""A silo at work on its own machine: calls the coordinator, answers what it is asked, opens no port.

Requests are worked on in a process of their own, forked before any thread runs: work that hangs is ended by the silo
itself, and meanwhile the connection lives. A request that is asked again, by a coordinator that was killed and came
back, is answered with what is there already.
"""

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from fedqa.engines.local import Processes
from fedqa.engines.network.identities import COORDINATOR, Invitation, Pair, address_of, context, wire_name
from fedqa.engines.network.link import Came, Event, Link, Up
from fedqa.engines.network.transport import PASSING, Call, Refused
from fedqa.errors import BoundaryError, RunError
from fedqa.federation import wire
from fedqa.federation.engine import Silent
from fedqa.federation.messages import Refusal, Report, Request
from fedqa.federation.silo import Silo

_MAX_REQUEST = (1 << 30) + wire.MAX_HEADER
_MAX_COURSE = 1 << 20
_SMALL = 1024
_TICK_S = 0.5
_LIMITS = {"ask": _MAX_REQUEST, "course": _MAX_COURSE, "other_course": _SMALL, "bye": _SMALL}


class Line:
    """A silo's connection to its coordinator, made again whenever it breaks."""

    def __init__(self, invitation: Invitation, log: Callable[[str], None]) -> None:
        tls = context(Pair(invitation.key, invitation.certificate), invitation.authority, server=False)
        self.invitation, self._log, self._last = invitation, log, ""
        self.refused: Refused | None = None  # why it will not be made, however often one tries
        call = Call(tls, invitation.pin, wire_name(invitation.silo), self._report)
        self._link = Link(
            wire_name(invitation.silo),
            call,
            address_of(invitation.coordinator),
            limit=lambda peer, kind, number: _LIMITS.get(kind, 0),
            names={COORDINATOR: COORDINATOR},
        )
        self._link.start()

    def _report(self, problem: Refused | None) -> None:
        said = str(problem) if problem else "connected"
        if said != self._last:  # an outage of a day is one line, not thousands
            self._log(said if problem is None else f"{self.invitation.coordinator}: {said}")
        self._last = said
        if problem is not None and problem.code not in PASSING:
            self.refused = problem

    def next(self, timeout_s: float) -> Event | None:
        """What came; None if nothing did. Raises RunError once the coordinator has refused this silo."""
        if self.refused is not None:
            raise RunError(f"{self.invitation.coordinator}: {self.refused}")
        try:
            return self._link.events.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def send(self, kind: str, parts: list[memoryview] | list[bytes] | None = None, number: int | None = None) -> None:
        self._link.send(COORDINATOR, kind, parts or [], number=number)

    def close(self) -> None:
        self._link.flush(5.0)
        self._link.stop()


@contextmanager
def line_to(invitation: Invitation, log: Callable[[str], None]) -> Iterator[Line]:
    line = Line(invitation, log)
    try:
        yield line
    finally:
        line.close()


def fetch_course(invitation: Invitation, log: Callable[[str], None], timeout_s: float = 60.0) -> str:
    """The text of the course that the coordinator proposes. Nothing of the silo's is sent but its name."""
    deadline = time.monotonic() + timeout_s
    with line_to(invitation, log) as line:
        while time.monotonic() < deadline:
            event = line.next(_TICK_S)
            if isinstance(event, Up):
                line.send("course?")
            elif isinstance(event, Came) and event.kind == "course":
                return bytes(event.data).decode()
    raise RunError(
        f"{invitation.coordinator} did not answer in {timeout_s:.0f} s; is `fedqa coordinator start` running?"
    )


def decline(invitation: Invitation, log: Callable[[str], None]) -> None:
    """Tell the coordinator that the course is not approved here."""
    with line_to(invitation, log) as line:
        if isinstance(line.next(10.0), Up):
            line.send("declined")


class _Superseded(Exception):
    """The coordinator has asked something else, or the silo is to stop."""


@dataclass
class Site(Silent):
    """A silo and its line. `leaving` says, once `stop` is set, whether it goes for good."""

    silo: Silo
    invitation: Invitation
    capacity: int  # bytes of the largest vector that travels
    timeout_s: float  # for one request, by the silo's own clock
    log: Callable[[str], None]
    stop: threading.Event = field(default_factory=threading.Event)
    leaving: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        self._asked: Came | None = None  # the newest request that has not been answered
        self._answered: tuple[bytearray, list[memoryview]] | None = None
        self._over = False
        self.report: Report | None = None  # the silo's scores, once it has told them

    def run(self) -> bool:
        """Until the course is over (True) or somebody stops it (False). Raises RunError if the silo is refused."""
        engine = Processes([self.silo], 1, self.capacity, self)
        try:
            with line_to(self.invitation, self.log) as self._line:
                while not self._over and not self.stop.is_set():
                    self._take(_TICK_S)
                    if self._asked is not None:
                        engine = self._work(engine, self._asked)
                if self.leaving():
                    self._line.send("leave")
        finally:
            engine.close()
            self.silo.ledger.close()
        return self._over

    def silo_works(self, silo: str, done: int, total: int) -> None:
        """Called several times a second while the silo works: is this work still wanted?"""
        before = self._asked
        self._take(0.0)
        if self.stop.is_set() or self._over:
            raise _Superseded
        if before is not None and self._asked is not None and before.data != self._asked.data:
            raise _Superseded

    def _take(self, timeout_s: float) -> None:
        event = self._line.next(timeout_s)
        if isinstance(event, Up):
            self._line.send("ready", [self.silo.course.fingerprint.encode()])
        elif isinstance(event, Came) and event.kind == "ask":
            self._asked = event
        elif isinstance(event, Came) and event.kind == "bye":
            self._over = True
        elif isinstance(event, Came) and event.kind == "other_course":
            raise RunError(
                f"the coordinator now runs another course ({bytes(event.data).decode(errors='replace')[:12]}), which "
                "this silo has not approved; look at it and approve it with `fedqa join`"
            )

    def _work(self, engine: Processes, asked: Came) -> Processes:
        """Answer a request; returns the engine for the next one, a new one if this work was broken off."""
        if self._answered is None or self._answered[0] != asked.data:
            try:
                self._answered = (asked.data, self._reply(engine, asked))
            except _Superseded:
                engine.close()
                return Processes([self.silo], 1, self.capacity, self)
        assert self._asked is not None
        self._line.send("reply", self._answered[1], self._asked.number)
        self._asked = None
        return engine

    def _reply(self, engine: Processes, asked: Came) -> list[memoryview]:
        try:
            request = wire.decode(asked.data, _MAX_REQUEST)
            if not isinstance(request, Request):
                raise BoundaryError("bad_request")
        except BoundaryError:
            return self._refuse("bad_request", "", 0)
        (envelope,) = engine.ask({self.silo.name: request}, self.timeout_s)
        if envelope.n_bytes == 0:  # the process died or hung, so it cannot have written this into the ledger
            assert isinstance(envelope.content, Refusal)
            self.log(f"the work on a request was given up: {envelope.content.code}")
            return self._refuse(envelope.content.code, request.course, getattr(request, "round", 0))
        assert not isinstance(envelope.content, bytes)
        if isinstance(envelope.content, Report):
            self.report = envelope.content
        return wire.encode(envelope.content)

    def _refuse(self, code: str, course: str, round_number: int) -> list[memoryview]:
        refusal = Refusal(self.silo.name, code)
        try:
            self.silo.ledger.record(refusal, course, round_number)
        except sqlite3.Error as problem:  # the disk is full, perhaps
            raise RunError(
                f"the ledger in {self.silo.folder} cannot be written ({problem}), and what is not in it may not leave; "
                "mend that and join again"
            ) from None
        return wire.encode(refusal)
