# SPDX-License-Identifier: Apache-2.0
"""Connections: a driver for FLARE's messaging layer that lets in only who has shown the right certificate.

FLARE's own TCP driver makes the TLS handshake in the thread that accepts, without a time-out, so that whoever connects
and says nothing keeps everybody out; and it writes and reads one TLS object from two threads at once. This one shakes
hands in a thread for each connection, checks certificates by their digest, exchanges a line of greeting, in which each
side can say why it refuses, and takes turns on the TLS object.
"""

import json
import random
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.drivers.base_driver import BaseDriver
from nvflare.fuel.f3.drivers.connector_info import ConnectorInfo
from nvflare.fuel.f3.drivers.socket_conn import SocketConnection
from nvflare.fuel.f3.sfm.prefix import PREFIX_LEN, Prefix

from fedqa import __version__
from fedqa.engines.network.identities import Known, digest_of, wire_name
from fedqa.engines.network.pieces import PIECE

HANDSHAKE_S = 10.0
STALLED_S = 60.0  # without a byte of a frame that was begun
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.1, 5.0  # before a silo calls again
_LAST_WORDS_S = 1.0
_LINE = 1024
_MAX_FRAME = PIECE + (1 << 16)
_MAX_STRANGERS = 64  # connections that have not shown yet who they are

REFUSALS = {  # what a side says in the greeting, and what that means for the silo
    "unknown_silo": "the coordinator does not know this silo's certificate; ask for a new invitation",
    "other_version": "the coordinator runs another version of fedqa",
    "connected_already": "this silo is connected already; end the other process, or wait until it is noticed as gone",
    "other_coordinator": "the coordinator shows another certificate than the invitation names; nothing was sent to it",
    "certificate_refused": "the coordinator did not accept this silo's certificate; ask for a new invitation",
    "certificate_expired": "this silo's certificate has expired; ask for a new invitation",
    "coordinator_expired": "the coordinator's certificate has expired, or this machine's clock is wrong",
    "no_greeting": "who answers at this address is no coordinator of fedqa",
    "unreachable": "the coordinator cannot be reached",
}
PASSING = frozenset({"unreachable", "connected_already"})  # worth another try


class Refused(Exception):
    """A connection that was not made; `code` is one of REFUSALS."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(detail or REFUSALS[code])
        self.code = code


class Connection(SocketConnection):  # type: ignore[misc]
    """A TLS connection that two threads may use at once: each takes the TLS object only while it does not wait."""

    def __init__(self, sock: ssl.SSLSocket, connector: ConnectorInfo) -> None:
        self._turn = threading.Lock()
        super().__init__(sock, connector, secure=True)
        sock.setblocking(False)

    def send_frame(self, frame: bytes | bytearray | memoryview) -> None:
        view = memoryview(frame)
        while view:
            try:
                with self._turn:
                    sent = self.sock.send(view)
            except ssl.SSLError as problem:
                self._wait(problem)
            except OSError as problem:
                raise CommError(CommError.CLOSED, str(problem)) from None
            else:
                view = view[sent:]

    def read_frame(self) -> bytearray:
        """FLARE would take frames of two gigabytes; none of ours is much longer than a piece."""
        head = bytearray(PREFIX_LEN)
        self.read_into(head, 0, PREFIX_LEN)
        length = Prefix.from_bytes(head).length
        if not PREFIX_LEN <= length <= _MAX_FRAME:
            raise CommError(CommError.BAD_DATA, f"a frame of {length} bytes")
        frame = bytearray(length)
        frame[:PREFIX_LEN] = head
        self.read_into(frame, PREFIX_LEN, length - PREFIX_LEN)
        return frame

    def read_into(self, buffer: bytearray, offset: int, length: int) -> None:
        view = memoryview(buffer)[offset : offset + length]
        while view:
            try:
                with self._turn:
                    got = self.sock.recv_into(view)
            except ssl.SSLError as problem:
                self._wait(problem)
                continue
            if got == 0:
                raise CommError(CommError.CLOSED, "closed by the other side")
            view = view[got:]

    def _wait(self, problem: ssl.SSLError) -> None:
        """Until the socket is ready for what TLS wants to do next."""
        if isinstance(problem, ssl.SSLWantReadError):
            wanted = select.POLLIN
        elif isinstance(problem, ssl.SSLWantWriteError):
            wanted = select.POLLOUT
        else:
            raise CommError(CommError.CLOSED, str(problem))
        poll = select.poll()  # not select: that knows a thousand connections at most
        poll.register(self.sock, wanted)
        if not poll.poll(STALLED_S * 1000):
            raise CommError(CommError.TIMEOUT, "nothing moves")

    def close(self) -> None:
        with self._turn:  # closing takes TLS off the socket; nobody may write to it at that moment
            super().close()


class _Driver(BaseDriver):  # type: ignore[misc]
    @staticmethod
    def supported_transports() -> list[str]:
        return ["stcp"]

    @staticmethod
    def capabilities() -> dict[str, Any]:
        return {"support_ssl": True, "send_heartbeat": False}  # the link's own beats also tell who is gone

    @staticmethod
    def get_urls(scheme: str, resources: dict[str, Any]) -> tuple[str, str]:
        raise NotImplementedError("addresses are given, not chosen")

    def _carry(self, sock: ssl.SSLSocket, connector: ConnectorInfo) -> None:
        """Until one side closes."""
        connection = Connection(sock, connector)
        self.add_connection(connection)
        try:
            connection.read_loop()
        finally:
            self.close_connection(connection)
            with suppress(OSError):
                connection.close()


class Gate(_Driver):
    """The coordinator's side: listens, and lets in the silos it knows."""

    def __init__(
        self,
        listener: socket.socket,
        tls: ssl.SSLContext,
        known: Known,
        connected: Callable[[str], bool],
        log: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._listener, self._tls, self._known = listener, tls, known
        self._connected, self._log = connected, log
        self._strangers = threading.BoundedSemaphore(_MAX_STRANGERS)

    def listen(self, connector: ConnectorInfo) -> None:
        self.connector = connector
        while not connector.stopped.is_set():
            try:
                sock, address = self._listener.accept()
            except OSError:
                time.sleep(0.1)  # closed, which ends the loop, or out of descriptors, which may pass
                continue
            if not self._strangers.acquire(blocking=False):
                sock.close()
                continue
            threading.Thread(target=self._serve, args=(sock, address[0], connector), daemon=True).start()

    def connect(self, connector: ConnectorInfo) -> None:
        raise NotImplementedError("the coordinator calls nobody")

    def shutdown(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept
        self._listener.close()
        self.close_all()

    def _serve(self, sock: socket.socket, address: str, connector: ConnectorInfo) -> None:
        try:
            tls = self._admitted(sock, address)
        finally:
            self._strangers.release()
        if tls is not None:
            self._carry(tls, connector)

    def _admitted(self, sock: socket.socket, address: str) -> ssl.SSLSocket | None:
        tls: ssl.SSLSocket | None = None
        try:
            _prepare(sock)
            tls = self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            tls.do_handshake()
            said = _read_line(tls)
            if "refused" in said:
                self._log(f"{address} hung up: it has an invitation from another coordinator")
            else:
                self._check(tls, str(said.get("fedqa", "")), str(said.get("name", "")))
                _write_line(tls, {"welcome": True, "fedqa": __version__})
                return tls
        except Refused as problem:
            assert tls is not None
            self._log(f"refused a connection from {address}: {problem}")
            with suppress(OSError):
                _write_line(tls, {"refused": problem.code, "fedqa": __version__})
        except (OSError, ValueError, RecursionError) as problem:
            self._log(f"refused a connection from {address}: {_plain_reason(problem)}")
        _hang_up(tls or sock)
        return None

    def _check(self, tls: ssl.SSLSocket, version: str, name: str) -> None:
        digest = digest_of(tls.getpeercert(binary_form=True) or b"")
        silo = self._known.get(digest)
        if silo is None:
            raise Refused("unknown_silo", f"certificate {digest[:16]} is of no silo of this alliance")
        if name != wire_name(silo):
            raise Refused("unknown_silo", f"it has the certificate of silo {silo!r} but calls itself by another name")
        if version != __version__:
            raise Refused("other_version", f"silo {silo!r} runs fedqa {version[:20]!r}, this is {__version__}")
        if self._connected(silo):
            raise Refused("connected_already", f"silo {silo!r} is connected already")


class Call(_Driver):
    """A silo's side: calls the coordinator, and talks to that one alone."""

    def __init__(self, tls: ssl.SSLContext, pin: str, name: str, report: Callable[[Refused | None], None]) -> None:
        super().__init__()
        self._tls, self._pin, self._name, self._report = tls, pin, name, report

    def connect(self, connector: ConnectorInfo) -> None:
        """Call until stopped, again and again, unless the coordinator's refusal is one that will not pass."""
        self.connector = connector
        pause = _FIRST_PAUSE_S
        while not connector.stopped.is_set():
            try:
                tls = self._greeted((connector.params["host"], connector.params["port"]))
            except Refused as problem:
                self._report(problem)
                final = problem.code not in PASSING
                connector.stopped.wait(None if final else pause * random.uniform(0.7, 1.3))  # not all at one moment
                pause = min(2 * pause, _LAST_PAUSE_S)
                continue
            self._report(None)
            pause = _FIRST_PAUSE_S
            self._carry(tls, connector)
            connector.stopped.wait(pause)

    def listen(self, connector: ConnectorInfo) -> None:
        raise NotImplementedError("a silo opens no port")

    def shutdown(self) -> None:
        self.close_all()

    def _greeted(self, address: tuple[str, int]) -> ssl.SSLSocket:
        tls: ssl.SSLSocket | None = None
        try:
            with socket.create_connection(address, timeout=HANDSHAKE_S) as sock:
                _prepare(sock)
                tls = self._tls.wrap_socket(sock, do_handshake_on_connect=False)
            tls.do_handshake()
            if digest_of(tls.getpeercert(binary_form=True) or b"") != self._pin:
                _write_line(tls, {"refused": "other_coordinator"})
                raise Refused("other_coordinator")
            _write_line(tls, {"fedqa": __version__, "name": self._name})
            said = _read_line(tls)
            if "welcome" not in said:
                raise _told(said)
            return tls
        except (OSError, ValueError, RecursionError, Refused) as problem:
            if tls is not None:
                _hang_up(tls)
            raise (problem if isinstance(problem, Refused) else _why(problem)) from None


def _told(said: dict[str, Any]) -> Refused:
    """What the coordinator gave as its reason."""
    code = str(said.get("refused"))
    if code not in REFUSALS:
        return Refused("no_greeting")
    if code != "other_version":
        return Refused(code)
    version = "".join(c for c in str(said.get("fedqa", ""))[:20] if c.isalnum() or c in ".+-")
    remedy = f"install the same here: pip install fedqa=={version}"
    return Refused(code, f"the coordinator runs fedqa {version}, this silo {__version__}; {remedy}")


def _why(problem: Exception) -> Refused:
    """What ended a handshake, from the silo's side. In TLS 1.3 a refusal shows only at the first read."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return Refused("coordinator_expired" if problem.verify_code in (9, 10) else "other_coordinator")
    reason = getattr(problem, "reason", None) or ""
    if "CERTIFICATE_EXPIRED" in reason:
        return Refused("certificate_expired")
    if "ALERT" in reason:
        return Refused("certificate_refused")
    # A coordinator that ends in the middle of a handshake will be back; who says something else will not say better.
    ended = isinstance(problem, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError)
    if isinstance(problem, ssl.SSLError | ValueError | RecursionError) and not ended:
        return Refused("no_greeting")
    return Refused("unreachable", f"the coordinator cannot be reached ({problem.__class__.__name__}: {problem})")


def _plain_reason(problem: Exception) -> str:
    """What ended a handshake, from the coordinator's side."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        if problem.verify_code == 10:
            return "its certificate has expired"
        if problem.verify_code == 9:
            return "its certificate is not valid yet; one of the two clocks is wrong"
        return "its certificate was not made by this coordinator"
    reason = getattr(problem, "reason", None) or ""
    if "PEER_DID_NOT_RETURN" in reason:
        return "it showed no certificate"
    if "ALERT" in reason:
        return "it has an invitation from another coordinator, or sees an expired certificate"
    if isinstance(problem, ConnectionError):
        return "it hung up"
    if isinstance(problem, TimeoutError):
        return f"it said nothing for {HANDSHAKE_S:.0f} s"
    return "it does not speak as a silo does"


def _prepare(sock: socket.socket) -> None:
    """Time-outs for the handshake, and for a machine at the other end that is gone without a word."""
    sock.settimeout(HANDSHAKE_S)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 4), ("TCP_USER_TIMEOUT", 15_000)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _write_line(tls: ssl.SSLSocket, table: dict[str, Any]) -> None:
    tls.sendall(json.dumps(table).encode() + b"\n")


def _read_line(tls: ssl.SSLSocket) -> dict[str, Any]:
    """One line of JSON, read byte by byte: what follows it belongs to the frames."""
    line, deadline = b"", time.monotonic() + HANDSHAKE_S
    while not line.endswith(b"\n"):
        byte = tls.recv(1)
        if not byte or time.monotonic() > deadline:
            raise ConnectionResetError("hung up, or fell silent, in the middle of the greeting")
        if len(line) >= _LINE:
            raise ValueError("no line of greeting")
        line += byte
    table = json.loads(line)
    if not isinstance(table, dict):
        raise ValueError("no greeting")
    return table


def _hang_up(sock: socket.socket) -> None:
    """Close when the other side has, or after a moment: closed at once, what it has not read yet would be lost."""
    deadline = time.monotonic() + _LAST_WORDS_S
    with suppress(OSError):
        sock.settimeout(_LAST_WORDS_S)
        sock.shutdown(socket.SHUT_WR)
        while time.monotonic() < deadline and sock.recv(_LINE):
            pass
    sock.close()
