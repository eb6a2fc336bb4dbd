# SPDX-License-Identifier: Apache-2.0
"""A silo's page in this process: its store, its desk, and a web server before them.

The page is there at once. What models and trainings need takes seconds to import, and is imported while it is served;
nothing that is imported here may bring PyTorch.
"""

import ipaddress
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI

from fedqa.answering.reception import Reception
from fedqa.errors import ConfigError
from fedqa.serving.filling import IMPORTER, fill, filled_words
from fedqa.settings import Settings, load_settings
from fedqa.store import Store
from fedqa.web.app import create_app, open_rooms
from fedqa.web.page import join_path

_SHUTDOWN_S = 5  # for answers that are under way
Say = Callable[[str], None]


@dataclass(frozen=True)
class Parts:
    """What a page is made of."""

    settings: Settings
    store: Store
    desk: Reception


def serve(silo_file: Path, *, host: str | None = None, port: int | None = None, say: Say = print) -> None:
    """Serve a silo's page until Ctrl-C; `host` and `port` go before those of its file."""
    settings = load_settings(silo_file)
    page = replace(settings.page, host=host or settings.page.host, port=settings.page.port if port is None else port)
    with ExitStack() as open_things, suppress(KeyboardInterrupt), _terminated_as_interrupted():
        listening = open_things.enter_context(bound(page.host, page.port))
        page = replace(page, port=listening.getsockname()[1])
        parts = open_things.enter_context(opened(replace(settings, page=page), say))
        greet(parts, say)
        _run(parts, listening, say)
    say("Stopped.")


@contextmanager
def opened(settings: Settings, say: Say = lambda text: None) -> Iterator[Parts]:
    """The parts of a page; [data] is read into the store if nothing has ever been in it. The desk is not open yet."""
    store = Store.open(settings.store)
    try:
        imported = fill(settings, store)
        if imported:
            say(filled_words(imported))
        desk = Reception(settings, store)
        try:
            yield Parts(settings, store, desk)
        finally:
            desk.close()
    finally:
        store.close()


# -- the server ----------------------------------------------------------------------------------------------------


@contextmanager
def bound(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens there. Taken before anything slow, so that a port in use is told at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise ConfigError(
            f"the page cannot be served at {host}, port {port}: {reason}; stop what is there, or choose another place "
            "with --host and --port (0 is any free port)"
        ) from None
    with listening:
        yield listening


def address(host: str, port: int) -> str:
    """Where a browser on this machine finds the page."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def owner_link(store: Store, at: str) -> str | None:
    """A link with which somebody becomes the page's first owner, once; None if it has one."""
    people = store.people()
    if any(person.role == "owner" for person in people.all()):
        return None
    return at + join_path(people.invite("owner", who=IMPORTER))


def greet(parts: Parts, say: Say) -> None:
    """Say where the page is, and how to become its owner."""
    page = parts.settings.page
    at = address(page.host, page.port)
    if not is_loopback(page.host):
        names = ", ".join(page.names) or 'none yet: add names = ["…"] to [page]'
        say(
            f"Warning: at {page.host}, other machines can reach this page, and what travels is not encrypted. Put a "
            f"proxy with TLS before it. It answers to the names in [page] ({names})."
        )
    say(f"{page.title or parts.settings.name}: {at}/ (Ctrl-C stops it)")
    link = owner_link(parts.store, at)
    if link:
        say(f"Nobody owns this page yet. Whoever opens this link first becomes its owner; it works once:\n{link}")


def _run(parts: Parts, listening: socket.socket, say: Say) -> None:
    """Serve until somebody stops it, or until it turns out that the models cannot be loaded: that is raised."""
    app = create_app(parts.settings, parts.store, parts.desk)
    server = _server(app)
    problems: list[Exception] = []
    app.state.page.stopping = lambda: server.should_exit

    def open_all() -> None:
        try:
            _open_all(parts, app, say)
        except Exception as problem:
            problems.append(problem)
            server.should_exit = True

    opening = threading.Thread(target=open_all, name="opening")
    opening.start()
    try:
        # The server ends in good order on Ctrl-C, and then raises it again.
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listening])
    finally:
        parts.desk.close()  # now, so that it is not opened any more
        opening.join()
    if problems:
        raise problems[0]


def _open_all(parts: Parts, app: FastAPI, say: Say) -> None:
    parts.desk.open()
    if parts.desk.loaded:  # else it has been closed meanwhile
        say(f"Answers come from {parts.desk.model}.")
        open_rooms(app)  # last, because people ask first, and what they share has been imported by now


def _server(app: FastAPI) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # questions stand in addresses
        server_header=False,
        timeout_graceful_shutdown=_SHUTDOWN_S,
    )
    return uvicorn.Server(config)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM, which service managers send, ends the page as Ctrl-C does. Only a main thread can say so."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
