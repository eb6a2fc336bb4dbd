# SPDX-License-Identifier: Apache-2.0
"""Who may not take part is refused, in a sentence, at both ends; and what a silo sends is bounded."""

import os
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from bad_updates import KINDS
from far_silos import AUTHORITY, FarAlliance, find, free_address, house_of, invitation_of, pair_of
from toys import toy_course, toy_setting, toy_update

from fedqa.engines.network import transport
from fedqa.engines.network.engine import House, Network, _most
from fedqa.engines.network.identities import (
    COORDINATOR,
    Invitation,
    Pair,
    context,
    issue,
    make_authority,
    wire_name,
)
from fedqa.engines.network.link import Came, Up
from fedqa.engines.network.site import Line, Site, decline, fetch_course, line_to
from fedqa.errors import BoundaryError, ConfigError, RunError
from fedqa.federation import wire
from fedqa.federation.guard import Expected, Guard, opened
from fedqa.federation.messages import Envelope, Finish, Report, Train

PATIENCE_S = 20.0
COURSE = "c" * 64


class Said(list[str]):
    """A log that can be waited for."""

    def __call__(self, text: str) -> None:
        self.append(text)

    def wait(self, part: str) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = next((text for text in self if part in text), None)
            if found is not None:
                return found
            assert time.monotonic() < deadline, f"{part!r} is not among {list(self)}"
            time.sleep(0.01)


@contextmanager
def coordinator(said: Said, house: House | None = None, **pairs: Pair) -> Iterator[tuple[Network, str]]:
    address = free_address()
    engine = Network(house or house_of(pairs, address), "course text", COURSE, said)
    try:
        yield engine, f"{engine.house.address[0]}:{engine.port}"
    finally:
        engine.close()


def refused(invitation: Invitation, said: Said) -> str:
    """The sentence with which a silo gives up."""
    with pytest.raises(RunError) as caught:
        fetch_course(invitation, said, PATIENCE_S)
    return str(caught.value)


# -- who is let in ---------------------------------------------------------------------------------------------------


def test_a_silo_with_its_invitation_is_shown_the_course() -> None:
    said, pair = Said(), pair_of("ash")
    with coordinator(said, ash=pair) as (_, address):
        assert fetch_course(invitation_of("ash", address, pair), Said(), PATIENCE_S) == "course text"
    assert said.wait("ash has connected")


def test_a_silo_whose_line_was_taken_out_is_unknown() -> None:
    ours, theirs, pair = Said(), Said(), pair_of("ash")
    with coordinator(ours, birch=pair_of("birch")) as (_, address):
        assert "does not know this silo's certificate" in refused(invitation_of("ash", address, pair), theirs)
        assert "is of no silo of this alliance" in ours.wait(pair.digest[:16])
    assert "does not know this silo" in theirs[0]


def test_a_silo_cannot_call_itself_by_anothers_name() -> None:
    ours, pairs = Said(), {"ash": pair_of("ash"), "birch": pair_of("birch")}
    with coordinator(ours, **pairs) as (engine, address):
        disguised = invitation_of("birch", address, pairs["ash"])
        assert "does not know this silo's certificate" in refused(disguised, Said())
        assert "silo 'ash' but calls itself by another name" in ours.wait("refused")
        assert engine.online() == []


def test_a_certificate_of_another_authority_is_refused() -> None:
    ours, theirs = Said(), Said()
    forged = issue(make_authority(1), wire_name("ash"), 1)
    with coordinator(ours, ash=pair_of("ash")) as (_, address):
        assert "did not accept this silo's certificate" in refused(invitation_of("ash", address, forged), theirs)
        assert "was not made by this coordinator" in ours.wait("refused a connection from 127.")
    assert "ask for a new invitation" in theirs[0]


def test_an_expired_certificate_is_refused() -> None:
    ours, theirs, pair = Said(), Said(), pair_of("ash", days=-0.1)
    with coordinator(ours, ash=pair) as (_, address):
        assert "this silo's certificate has expired" in refused(invitation_of("ash", address, pair), theirs)
        assert "its certificate has expired" in ours.wait("refused a connection")
    assert "has expired" in theirs[0]


def test_a_key_that_is_not_the_certificates_is_found_before_anything_is_sent() -> None:
    mixed = Pair(pair_of("ash").key, pair_of("ash").certificate)
    with pytest.raises(ConfigError, match="the key does not belong to the certificate; ask for a new invitation"):
        context(mixed, AUTHORITY.certificate, server=False)
    with pytest.raises(ConfigError, match="they cannot be read"):
        context(Pair("no key", "no certificate"), AUTHORITY.certificate, server=False)


def test_a_coordinator_with_another_certificate_is_told_nothing() -> None:
    ours, theirs, pair = Said(), Said(), pair_of("ash")
    with coordinator(ours, ash=pair) as (_, address):
        other = invitation_of("ash", address, pair, pin="0" * 64)
        assert "another certificate than the invitation names; nothing was sent" in refused(other, theirs)
        assert ours.wait("it has an invitation from another coordinator")
    assert "another certificate" in theirs[0]


def test_a_coordinator_of_another_authority_is_told_nothing() -> None:
    ours, theirs, pair = Said(), Said(), pair_of("ash")
    authority = make_authority(1)
    own = issue(authority, COORDINATOR, 1)
    host, _, port = free_address().rpartition(":")
    house = House((host, int(port)), own, authority.certificate, {pair.digest: "ash"})
    with coordinator(ours, house) as (_, address):
        assert "another certificate than the invitation names" in refused(invitation_of("ash", address, pair), theirs)
        assert ours.wait("it has an invitation from another coordinator")


def test_a_coordinator_whose_certificate_has_expired_is_not_trusted() -> None:
    pair = pair_of("ash")
    own = issue(AUTHORITY, COORDINATOR, -0.1)
    host, _, port = free_address().rpartition(":")
    house = House((host, int(port)), own, AUTHORITY.certificate, {pair.digest: "ash"})
    with coordinator(Said(), house) as (_, address):
        invitation = invitation_of("ash", address, pair, pin=own.digest)
        assert "the coordinator's certificate has expired, or this machine's clock" in refused(invitation, Said())


def test_another_version_is_refused_with_the_command_that_mends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, pair = Said(), pair_of("ash")
    spoken = transport._write_line

    def older(tls: ssl.SSLSocket, table: dict[str, object]) -> None:
        spoken(tls, table if "welcome" in table or "refused" in table else {**table, "fedqa": "0.0.9"})

    monkeypatch.setattr(transport, "_write_line", older)
    with coordinator(ours, ash=pair) as (_, address):
        sentence = refused(invitation_of("ash", address, pair), Said())
        assert f"pip install fedqa=={transport.__version__}" in sentence
        assert "silo 'ash' runs fedqa '0.0.9'" in ours.wait("refused")


def test_the_second_process_of_a_silo_waits_until_the_first_is_gone() -> None:
    ours, theirs, pair = Said(), Said(), pair_of("ash")
    with coordinator(ours, ash=pair) as (_, address):
        first = Line(invitation_of("ash", address, pair), Said())
        assert isinstance(first.next(PATIENCE_S), Up)
        with line_to(invitation_of("ash", address, pair), theirs) as second:
            assert "connected already" in theirs.wait("connected already")
            assert second.next(0.0) is None
            first.close()
            assert isinstance(second.next(PATIENCE_S), Up)


def test_who_connects_and_says_nothing_keeps_nobody_out() -> None:
    pair = pair_of("ash")
    with coordinator(Said(), ash=pair) as (engine, address):
        silent = [socket.create_connection((engine.house.address[0], engine.port)) for _ in range(5)]
        assert fetch_course(invitation_of("ash", address, pair), Said(), PATIENCE_S) == "course text"
        for sock in silent:
            sock.close()


@pytest.mark.parametrize("words", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + bytes(400), os.urandom(600)])
def test_who_does_not_speak_tls_is_refused_and_logged(words: bytes) -> None:
    said, pair = Said(), pair_of("ash")
    with coordinator(said, ash=pair) as (engine, address):
        with socket.create_connection((engine.house.address[0], engine.port)) as sock:
            sock.sendall(words)
            assert said.wait("refused a connection from 127.")
        assert fetch_course(invitation_of("ash", address, pair), Said(), PATIENCE_S) == "course text"


@pytest.mark.parametrize("line", [b"no json\n", b"[1]\n", b"[" * 1020 + b"\n", b"x" * 5000])
def test_a_greeting_that_says_nothing_is_refused(line: bytes) -> None:
    said, pair = Said(), pair_of("ash")
    with coordinator(said, ash=pair) as (engine, _):
        tls = context(pair, AUTHORITY.certificate, server=False)
        raw = socket.create_connection((engine.house.address[0], engine.port))
        with tls.wrap_socket(raw) as sock:
            sock.sendall(line)
            assert "does not speak as a silo does" in said.wait("refused a connection")


def test_an_address_where_nobody_listens_is_tried_again_until_the_time_is_up() -> None:
    said = Said()
    with pytest.raises(RunError, match="did not answer in 1 s; is `fedqa coordinator start` running"):
        fetch_course(invitation_of("ash", free_address(), pair_of("ash")), said, 1.0)
    assert len(said) == 1 and "cannot be reached (ConnectionRefusedError" in said[0]


def answering(words: bytes | None) -> tuple[socket.socket, str]:
    """A port whose owner says these words to whoever connects, or hangs up at once."""
    host, _, port = free_address().rpartition(":")
    listener = socket.create_server((host, int(port)))

    def serve() -> None:
        with suppress(OSError):
            while True:
                sock, _ = listener.accept()
                with sock:
                    if words is not None:
                        sock.sendall(words)
                        sock.recv(9999)

    threading.Thread(target=serve, daemon=True).start()
    return listener, f"{host}:{port}"


def test_a_coordinator_that_ends_in_the_middle_of_a_handshake_is_tried_again() -> None:
    listener, address = answering(None)
    with pytest.raises(RunError, match="did not answer in 1 s"):
        fetch_course(invitation_of("ash", address, pair_of("ash")), Said(), 1.0)
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_who_speaks_otherwise_is_no_coordinator() -> None:
    listener, address = answering(b"220 mail.example.org ready\r\n")
    sentence = refused(invitation_of("ash", address, pair_of("ash")), Said())
    assert "who answers at this address is no coordinator of fedqa" in sentence
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_two_coordinators_cannot_listen_at_one_address() -> None:
    pair = pair_of("ash")
    with coordinator(Said(), ash=pair) as (engine, _), pytest.raises(ConfigError, match="cannot listen at 127"):
        Network(engine.house, "", COURSE)


# -- which courses ---------------------------------------------------------------------------------------------------


def test_a_declined_course_is_logged_by_the_coordinator() -> None:
    said, pair = Said(), pair_of("ash")
    with coordinator(said, ash=pair) as (engine, address):
        decline(invitation_of("ash", address, pair), Said())
        assert said.wait(f"ash has not approved course {COURSE[:12]}")
        assert engine.online() == []


def test_a_silo_that_approved_another_course_ends_with_a_sentence(tmp_path: Path) -> None:
    said, pair = Said(), pair_of("ash")
    setting = toy_setting(toy_course(), tmp_path)
    with coordinator(said, ash=pair) as (engine, address):
        site = Site(find(setting, "ash"), invitation_of("ash", address, pair), 4096, 9.0, Said())
        with pytest.raises(RunError, match=r"now runs another course .cccccccccccc., which this silo has not approved"):
            site.run()
        assert said.wait(f"not this one ({COURSE[:12]})")
        assert engine.online() == []


def test_a_request_of_a_course_that_was_not_approved_is_refused_by_the_silo(tmp_path: Path) -> None:
    setting = toy_setting(toy_course(rounds=1), tmp_path / "far")
    find(setting, "birch").approved = frozenset()
    records = FarAlliance(setting).run()
    assert records[0].refused == (("birch", "course_not_approved"),)


def test_a_silo_that_leaves_tells_the_coordinator_and_is_not_waited_for(tmp_path: Path) -> None:
    said, pair, address = Said(), pair_of("ash"), free_address()
    silo = find(toy_setting(toy_course(), tmp_path), "ash")
    child = os.fork()
    if child == 0:
        try:
            site = Site(silo, invitation_of("ash", address, pair), 4096, 9.0, Said(), leaving=lambda: True)
            signal.signal(signal.SIGTERM, lambda *_: site.stop.set())
            site.run()
        finally:
            os._exit(0)
    engine = Network(house_of({"ash": pair}, address), "", silo.course.fingerprint, said)
    try:
        assert said.wait("ash is ready") and not engine.gone("ash")
        os.kill(child, signal.SIGTERM)
        assert said.wait("ash has left the alliance") and said.wait("ash is gone")
        assert engine.gone("ash") and not engine.online()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        engine.close()


# -- what is sent ----------------------------------------------------------------------------------------------------


@contextmanager
def connected() -> Iterator[tuple[Network, Line]]:
    """A coordinator and the line of a silo that does as the test says."""
    pair = pair_of("ash")
    with (
        coordinator(Said(), ash=pair) as (engine, address),
        line_to(invitation_of("ash", address, pair), Said()) as line,
    ):
        _ready(engine, line)
        yield engine, line


def _ready(engine: Network, line: Line) -> None:
    while not isinstance(line.next(PATIENCE_S), Up):
        pass
    line.send("ready", [COURSE.encode()])
    deadline = time.monotonic() + PATIENCE_S
    while not engine.online():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def answer(engine: Network, line: Line, request: Train | Finish, reply: Callable[[Came], None]) -> Envelope:
    """Ask, and let `reply` do what the silo does."""

    def work() -> None:
        while (event := line.next(PATIENCE_S)) is not None:
            if isinstance(event, Came) and event.kind == "ask":
                reply(event)
                return

    thread = threading.Thread(target=work)
    thread.start()
    (envelope,) = engine.ask({"ash": request}, PATIENCE_S)
    thread.join()
    return envelope


def codes_of(envelope: Envelope, expected: Expected) -> list[str]:
    codes: list[str] = []
    list(Guard().screen([envelope], expected, lambda silo, code: codes.append(code)))
    return codes


def test_every_bad_update_comes_through_and_is_judged_as_the_guard_judges_it() -> None:
    weights = torch.linspace(-1, 1, 8)
    good = replace(toy_update("ash", [0.01 * n for n in range(8)], 9, 2), course=COURSE, n_seen=4, n_steps=2)
    expected = Expected(COURSE, 2, "toy", 8, float(weights.norm()), {"ash": 4})
    request, tried = Train(COURSE, 2, weights), 0
    with connected() as (engine, line):
        for name, (_, make) in KINDS.items():
            data = bad_bytes(make(good, good))
            if data is None or len(data) > _most(request):
                continue
            envelope = answer(engine, line, request, lambda event, data=data: line.send("reply", [data], event.number))
            judged = codes_of(envelope, expected)
            assert judged == codes_of(Envelope("ash", data, len(data)), expected), name
            tried += 1
    assert tried > 100


def test_more_bytes_than_an_answer_may_have_are_not_received() -> None:
    request = Finish(COURSE, 0, torch.zeros(8))
    with connected() as (engine, line):
        data = bytes(_most(request) + 1)
        envelope = answer(engine, line, request, lambda event: line.send("reply", [data], event.number))
        with pytest.raises(BoundaryError, match="refused"):
            opened(envelope, Report, 1 << 30)
        _ready(engine, line)  # it may come back
        report = Report("ash", COURSE, 0)
        told = answer(engine, line, request, lambda event: line.send("reply", wire.encode(report), event.number))
        assert told.content == report


def test_an_answer_to_another_question_is_not_looked_at() -> None:
    report = wire.encode(Report("ash", COURSE, 0))

    def reply(event: Came) -> None:
        line.send("reply", wire.encode(Report("ash", COURSE, 7)), event.number - 1)
        line.send("reply", report, event.number)

    with connected() as (engine, line):
        envelope = answer(engine, line, Finish(COURSE, 0, torch.zeros(1)), reply)
        assert envelope.content == Report("ash", COURSE, 0)


def test_a_silo_may_say_anything_short_and_change_nothing() -> None:
    with connected() as (engine, line):
        for kind, data in (("ready", b"\xff"), ("gift", b"x"), ("reply", b"x"), ("ready", b"0" * 64)):
            line.send(kind, [data])
        report = Report("ash", COURSE, 0)
        request = Finish(COURSE, 0, torch.zeros(1))
        envelope = answer(engine, line, request, lambda event: line.send("reply", wire.encode(report), event.number))
        assert envelope.content == report


def bad_bytes(message: object) -> bytes | None:
    """What a message is on the wire; None for what cannot be written down."""
    if isinstance(message, bytes | bytearray):
        return bytes(message)
    try:
        return b"".join(wire.encode(message))  # type: ignore[arg-type]
    except (TypeError, ValueError, AttributeError, KeyError, RuntimeError, OverflowError, NotImplementedError):
        return None
