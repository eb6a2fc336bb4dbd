# SPDX-License-Identifier: Apache-2.0
"""The silo's page as one application: its rooms, its menu, and the guards before all of them.

Some rooms need what training needs, which takes seconds to import. They are in the menu from the start and are put in
by `open_rooms`; who goes there before waits at the door.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.telemetry import TelemetryConfig
from starlette.routing import BaseRoute
from starlette.staticfiles import StaticFiles

from fedqa import __version__
from fedqa.answering.reception import Reception
from fedqa.settings import Settings
from fedqa.store import Role, Store
from fedqa.web.failures import add_failures
from fedqa.web.guards import BodyLimit, Doors, Hosts
from fedqa.web.headers import STATIC, SafeHeaders
from fedqa.web.page import MenuEntry, Page, anyone, editor, owner, reader
from fedqa.web.rooms import ask, correct, documents, entry, examples, people


@dataclass(frozen=True)
class Room:
    """A part of the page: its routes, its line in the menu if it has one, and where people may send large files."""

    router: Callable[[Page], APIRouter] | str  # or the name of its module, for a room that `open_rooms` puts in
    title: str = ""
    path: str = ""
    role: Role = "reader"
    largest: Mapping[str, int] = field(default_factory=dict)  # bytes of a request by path
    there: Callable[[Settings], bool] = lambda settings: True  # has this silo such a room?


ROOMS = (
    Room(entry.router),
    Room(ask.router, "Ask", "/"),
    Room(correct.router),
    Room("fedqa.web.rooms.database", "Database", "/database", there=lambda settings: settings.querying is not None),
    Room(documents.router, "Documents", "/documents", largest=documents.LARGEST),
    Room(examples.router, "Examples", "/examples", "editor", examples.LARGEST),
    Room("fedqa.web.rooms.training", "Training", "/training"),
    Room("fedqa.web.rooms.ledger", "Ledger", "/ledger"),
    Room(people.router, "People", "/people", "owner"),
    Room("fedqa.web.rooms.reference"),  # imports little, but describes all rooms
)
_ROLES = {anyone: "anyone", reader: "reader", editor: "editor", owner: "owner"}
# What FastAPI would tell to whoever collects telemetry includes the texts of errors, and so of documents.
_SILENT = TelemetryConfig(tracing=False, metrics=False, logs=False, operation_spans=False, auto_configure=False)


def whole_app(settings: Settings, store: Store, desk: Reception) -> FastAPI:
    """The page of a silo with all its rooms."""
    app = create_app(settings, store, desk)
    open_rooms(app)
    return app


def create_app(settings: Settings, store: Store, desk: Reception) -> FastAPI:
    """The page of a silo, to be served by any ASGI server; `open_rooms` is still to be called, in any thread."""
    app = FastAPI(title=f"fedqa: {settings.name}", version=__version__, openapi_url=None, telemetry=_SILENT)
    page = app.state.page = Page(settings, store, desk)
    rooms = [room for room in ROOMS if room.there(settings)]
    page.menu = tuple(MenuEntry(room.title, room.path, room.role) for room in rooms if room.title)
    for room in rooms:
        if not isinstance(room.router, str):
            app.router.routes.extend(_routes(room.router(page)))
    app.mount(STATIC, StaticFiles(directory=Path(__file__).with_name("static")))
    add_failures(app)
    # The last one added is the first to see a request.
    app.add_middleware(Doors, rooms=app.router.routes)
    app.add_middleware(BodyLimit, largest={path: size for room in rooms for path, size in room.largest.items()})
    app.add_middleware(Hosts, names=(settings.page.host, *settings.page.names))
    app.add_middleware(SafeHeaders)
    return app


def open_rooms(app: FastAPI) -> None:
    """Put in the rooms that `create_app` has left out, all or none; takes seconds if nobody has imported torch yet."""
    page: Page = app.state.page
    rooms = [room for room in ROOMS if room.there(page.settings)]
    modules = [import_module(room.router) for room in rooms if isinstance(room.router, str)]
    app.router.routes.extend([route for module in modules for route in _routes(module.router(page))])
    page.complete = True


def endpoints(app: FastAPI) -> list[APIRoute]:
    """Every route but the folder of our style and script."""
    return [route for route in app.routes if isinstance(route, APIRoute)]


def declared(route: APIRoute) -> str:
    """Who may use a route: anyone, reader, editor or owner; empty if it does not say."""
    found = {_ROLES[call] for call in _calls(route.dependant) if call in _ROLES}
    return found.pop() if len(found) == 1 else ""


def _routes(room: APIRouter) -> list[BaseRoute]:
    """A room's, as they are, and not by include_router, which would wrap them so that nobody sees who may use them."""
    for route in room.routes:
        if not isinstance(route, APIRoute) or not declared(route):  # not by assert, which can be switched off
            place = getattr(route, "path", type(route).__name__)
            raise AssertionError(f"{place} must take exactly one of {', '.join(_ROLES.values())}")
    return room.routes


def _calls(dependant: Dependant) -> Iterator[Callable[..., object]]:
    for needed in dependant.dependencies:
        if needed.call is not None:
            yield needed.call
        yield from _calls(needed)
