# SPDX-License-Identifier: Apache-2.0
"""Messages between the coordinator and its silos, over FLARE's communicator: what came, who is there, who is gone.

A message has a kind, a number and bytes. Bytes travel in pieces, so that a vector of any size neither blocks the beats
that show a side is alive nor needs a second copy. Each peer has a thread that sends: a slow one delays nobody else.
"""

import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.communicator import Communicator
from nvflare.fuel.f3.drivers.connector_info import Mode
from nvflare.fuel.f3.endpoint import Endpoint, EndpointMonitor, EndpointState
from nvflare.fuel.f3.message import Message, MessageReceiver
from nvflare.fuel.utils.config_service import ConfigService

from fedqa.engines.network.pieces import Assembly, cut
from fedqa.engines.network.transport import Call, Gate
from fedqa.errors import BoundaryError

BEAT_S = 2.0
SILENT_S = 15.0  # a peer of which nothing has been heard for so long is gone
_FIRST_BEATS_S = 0.05
_APP = 8765  # any number: it tells this program's messages from FLARE's own
_BEAT = "beat"

# Unless told where to look, FLARE searches the working directory and all below it for settings, and obeys them.
ConfigService.initialize(section_files={}, config_path=[str(Path(__file__).parent)])
logging.getLogger("nvflare").setLevel(logging.CRITICAL + 1)  # what matters is said in our own log, in sentences


@dataclass(frozen=True)
class Came:
    """A message that is whole."""

    peer: str
    kind: str
    number: int
    data: bytearray


@dataclass(frozen=True)
class Up:
    peer: str


@dataclass(frozen=True)
class Down:
    peer: str


@dataclass(frozen=True)
class Bad:
    """A peer has sent more than it may, or pieces that make no message; its connection is ended."""

    peer: str
    why: str


Event = Came | Up | Down | Bad


class Link(EndpointMonitor, MessageReceiver):  # type: ignore[misc]
    """One side of the connections. `limit` says how many bytes a message may have; 0 = it is not wanted."""

    def __init__(
        self,
        name: str,
        driver: Gate | Call,
        address: tuple[str, int],
        *,
        limit: Callable[[str, str, int], int],
        names: Mapping[str, str],
    ) -> None:
        """`names` gives what a peer is called here for its name on the wire."""
        self.events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()  # None: no more will come
        self._limit, self._names = limit, names
        self._calls = isinstance(driver, Call)
        self._peers: dict[str, _Peer] = {}
        self._numbers = itertools.count(1)
        self._turn = threading.Lock()
        self._stopped, self._new = threading.Event(), threading.Event()
        self._communicator = Communicator(Endpoint(name))
        self._communicator.register_monitor(self)
        self._communicator.register_message_receiver(_APP, self)
        mode = Mode.ACTIVE if self._calls else Mode.PASSIVE
        params: dict[str, Any] = {"scheme": "stcp", "host": address[0], "port": address[1], "path": ""}
        self._communicator.add_connector_advanced(driver, mode, params, True)

    def start(self) -> None:
        self._communicator.start()
        threading.Thread(target=self._watch, name="fedqa beats", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        self._new.set()
        with self._turn:
            peers, self._peers = self._peers, {}
        for peer in peers.values():
            peer.close()
        self._communicator.stop()
        self.events.put(None)

    def connected(self, peer: str) -> bool:
        return peer in self._peers

    def send(
        self,
        peer: str,
        kind: str,
        parts: Iterable[memoryview | bytes] = (),
        *,
        number: int | None = None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Send when those before it are sent. Nothing happens if the peer goes, or `wanted` is no longer true.

        Numbers of a kind must rise: pieces of an older message may come late.
        """
        found = self._peers.get(peer)
        if found is not None:
            number = next(self._numbers) if number is None else number
            found.put(_Letter(kind, number, [memoryview(part) for part in parts], wanted))

    def flush(self, timeout_s: float) -> None:
        """Wait until all that was given to `send` is on its way."""
        deadline = time.monotonic() + timeout_s
        while any(peer.busy for peer in list(self._peers.values())) and time.monotonic() < deadline:
            time.sleep(0.01)

    # -- called by FLARE's threads -----------------------------------------------------------------------------------

    def state_change(self, endpoint: Endpoint) -> None:
        name = self._names.get(endpoint.name)
        if name is None:
            return
        with self._turn:
            known = self._peers.pop(name, None)
            if endpoint.state == EndpointState.READY:
                self._peers[name] = _Peer(endpoint.name, self._post)
        if known is not None:
            known.close()
            self.events.put(Down(name))
        if endpoint.state == EndpointState.READY and not self._calls:
            self.events.put(Up(name))
        self._new.set()

    def process_message(self, endpoint: Endpoint, connection: object, app_id: int, message: Message) -> None:
        name = self._names.get(endpoint.name, "")
        peer = self._peers.get(name)
        if peer is None or peer.dropped:
            return
        peer.heard = time.monotonic()
        try:
            kind, number, size, start = _checked(message.headers)
            if kind == _BEAT:
                self._note_beat(name, peer)
                return
            whole = peer.collect(kind, number, start, message.payload or b"", self._bounded(name, kind, number, size))
        except BoundaryError as problem:
            if self._drop(peer):
                self.events.put(Bad(name, str(problem)))
            return
        if whole is not None:
            self.events.put(Came(name, kind, number, whole))

    # -- inside ------------------------------------------------------------------------------------------------------

    def _bounded(self, peer: str, kind: str, number: int, size: int) -> int | None:
        """The size, None if the message is not wanted; more than is allowed ends the connection."""
        most = self._limit(peer, kind, number)
        if not most:
            return None
        if size > most:
            raise BoundaryError("too_large", f"{kind} of {size} bytes, at most {most} are accepted")
        return size

    def _note_beat(self, name: str, peer: "_Peer") -> None:
        """The called side answers; for the caller, the first answer is the sign that the other side knows it."""
        if not self._calls:
            self._beat(peer)
        elif not peer.answered:
            peer.answered = True
            self.events.put(Up(name))

    def _beat(self, peer: "_Peer") -> None:
        if not peer.busy:  # what is being sent shows as well that this side is alive
            peer.put(_Letter(_BEAT, 0, [], lambda: True))

    def _watch(self) -> None:
        """Beats, and an end to connections of which nothing is heard."""
        while not self._stopped.is_set():
            peers = list(self._peers.values())
            for peer in peers:
                if time.monotonic() - peer.heard > SILENT_S:
                    self._drop(peer)
                elif self._calls:
                    self._beat(peer)
            # What is sent before the other side has put this one on its list is lost, so the first beats come fast.
            fresh = self._calls and any(not peer.answered for peer in peers)
            self._new.wait(_FIRST_BEATS_S if fresh else BEAT_S)
            self._new.clear()

    def _drop(self, peer: "_Peer") -> bool:
        """End a connection, once: the next one of that peer is another. True the first time."""
        with self._turn:
            first, peer.dropped = not peer.dropped and not peer.closed, True
        if first:
            with suppress(KeyError, CommError, OSError):
                self._communicator.remove_endpoint(peer.wire_name)
        return first

    def _post(self, peer: "_Peer", letter: "_Letter") -> None:
        endpoint = self._communicator.find_endpoint(peer.wire_name)
        size = sum(part.nbytes for part in letter.parts)
        try:
            for start, piece in cut(letter.parts):
                if endpoint is None or peer.closed or not letter.wanted():
                    return
                headers = {"kind": letter.kind, "number": letter.number, "size": size, "start": start}
                self._communicator.send(endpoint, _APP, Message(headers, piece))
        except CommError:
            self._drop(peer)  # half a frame may be on the wire: only a new connection helps


@dataclass(frozen=True)
class _Letter:
    kind: str
    number: int
    parts: list[memoryview]
    wanted: Callable[[], bool]


class _Peer:
    """A peer that is connected: the thread that sends to it, and the messages that are coming from it."""

    def __init__(self, wire_name: str, post: Callable[["_Peer", _Letter], None]) -> None:
        self.wire_name, self._post = wire_name, post
        self.heard = time.monotonic()
        self.answered = self.dropped = self.closed = False
        self._unsent = 0
        self._outbox: queue.SimpleQueue[_Letter | None] = queue.SimpleQueue()
        self._incoming: dict[str, tuple[int, Assembly | None]] = {}  # by kind, the newest
        self._turn = threading.Lock()
        threading.Thread(target=self._work, name="fedqa sender", daemon=True).start()

    @property
    def busy(self) -> bool:
        return self._unsent > 0

    def put(self, letter: _Letter) -> None:
        with self._turn:
            self._unsent += 1
        self._outbox.put(letter)

    def close(self) -> None:
        self.closed = True
        self._outbox.put(None)

    def collect(
        self, kind: str, number: int, start: int, piece: bytes | bytearray | memoryview, size: int | None
    ) -> bytearray | None:
        """The message, if this piece completes it. A newer message of a kind takes the place of one half received."""
        with self._turn:
            newest, assembly = self._incoming.get(kind, (-1, None))
            if size is None:
                if number == newest:  # nobody waits for the rest of it
                    del self._incoming[kind]
                return None
            if number < newest:
                return None
            if number > newest:
                assembly = Assembly(size)
                self._incoming[kind] = (number, assembly)
        if assembly is None or not assembly.put(start, piece):
            return None
        with self._turn:
            if self._incoming.get(kind) == (number, assembly):
                self._incoming[kind] = (number, None)
        return assembly.data

    def _work(self) -> None:
        while (letter := self._outbox.get()) is not None:
            self._post(self, letter)
            del letter  # a vector, perhaps: gone before the next one comes
            with self._turn:
                self._unsent -= 1


def _checked(headers: object) -> tuple[str, int, int, int]:
    if not isinstance(headers, dict) or set(headers) != {"kind", "number", "size", "start"}:
        raise BoundaryError("malformed", "headers")
    kind, numbers = headers["kind"], tuple(headers[key] for key in ("number", "size", "start"))
    if type(kind) is not str or len(kind) > 32 or any(type(n) is not int or not 0 <= n < 1 << 63 for n in numbers):
        raise BoundaryError("malformed", "headers")
    return (kind, *numbers)
