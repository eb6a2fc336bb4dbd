# SPDX-License-Identifier: Apache-2.0
"""Rooms that are put in while the page is served: who goes there before waits at the door."""

import sys
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import pytest
from fastapi import APIRouter
from web_toys import Silo, Visitor

from fedqa.web import app as application
from fedqa.web.app import Room, create_app, endpoints, open_rooms


@pytest.fixture
def early(silo: Silo) -> Silo:
    """The page as it is before its last rooms are there."""
    silo.app = create_app(silo.settings, silo.store, silo.desk)  # type: ignore[arg-type]
    return silo


def test_all_rooms_are_in_the_menu_from_the_start_and_most_can_be_used(early: Silo) -> None:
    owner = early.visitor("owner")
    for path in ("/", "/documents", "/examples", "/people", "/account", "/correct", "/api/health", "/static/page.css"):
        assert owner.get(path).status_code == 200, path
    assert owner.submit("/", question="Where is the pharmacy?").status_code == 200
    assert 'href="/training"' in owner.get("/").text and 'href="/ledger"' in owner.get("/").text


@pytest.mark.parametrize(
    ("path", "status"), [("/training", 200), ("/api/ledger", 200), ("/api/openapi.json", 200), ("/nowhere", 404)]
)
def test_who_comes_too_early_waits(early: Silo, path: str, status: int) -> None:
    reader = early.visitor("reader")
    with ThreadPoolExecutor() as people:
        waiting = people.submit(reader.get, path)
        assert early.visitor("reader").get("/documents").status_code == 200, "while the other waits"
        assert not waiting.done()
        open_rooms(early.app)
        assert waiting.result(60).status_code == status


def test_who_waits_is_told_when_the_page_is_stopped(early: Silo) -> None:
    reader = early.visitor("reader")
    with ThreadPoolExecutor() as people:
        waiting = people.submit(reader.get, "/training")
        assert early.visitor("reader").get("/documents").status_code == 200, "while the other waits"
        early.app.state.page.stopping = lambda: True
        told = waiting.result(60)
    assert told.status_code == 503 and "This page is being stopped" in told.text
    assert "is being stopped" in reader.get("/api/training").json()["detail"]


def test_the_description_for_programs_is_complete(early: Silo) -> None:
    before = len(endpoints(early.app))
    open_rooms(early.app)
    described = early.visitor("reader").get("/api/openapi.json").json()
    assert "/api/training" in described["paths"] and len(endpoints(early.app)) > before


def test_a_late_room_whose_route_declares_no_role_cannot_be_opened(
    early: Silo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def careless(page: object) -> APIRouter:
        routes = APIRouter()
        routes.add_api_route("/everything", lambda: "all of it")
        return routes

    module = ModuleType("careless_room")
    module.router = careless  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "careless_room", module)
    monkeypatch.setattr(application, "ROOMS", (*application.ROOMS, Room("careless_room")))
    before = len(endpoints(early.app))
    with pytest.raises(AssertionError, match="/everything must take exactly one of anyone, reader, editor, owner"):
        open_rooms(early.app)
    assert len(endpoints(early.app)) == before, "and no other room either"


def test_strangers_and_wrong_names_are_refused_as_ever(early: Silo, stranger: Visitor) -> None:
    assert early.visitor(address="http://elsewhere.example").get("/training").status_code == 421
    assert early.visitor().get("/documents", follow_redirects=False).status_code == 303
