# SPDX-License-Identifier: Apache-2.0
"""Every route of the page, with everybody who might use it, with and without a form's token."""

from collections.abc import Iterator

import pytest
from fastapi import APIRouter
from httpx2 import Response
from web_toys import Silo, Visitor

from fedqa.store import ROLES, Role
from fedqa.web import app as application
from fedqa.web.app import Room, create_app, declared, endpoints

SAFE = ("GET", "HEAD")
OPEN = {"/login", "/join", "/api/session", "/api/health"}  # to those who have not signed in


def _routes(silo: Silo) -> Iterator[tuple[str, str, str]]:
    """Method, an address, and the least role."""
    for route in endpoints(silo.app):
        for method in sorted(route.methods):
            yield method, route.path.replace("{id:path}", "nothing"), declared(route)


def _sent(visitor: Visitor, method: str, path: str, **headers: str) -> Response:
    return visitor.request(method, path, headers=headers, follow_redirects=False)


def _let_in(response: Response) -> bool:
    signed_out = "said" in response.headers.get("set-cookie", "")
    to_sign_in = response.status_code == 303 and response.headers["location"].startswith("/login") and not signed_out
    return response.status_code not in (401, 403) and not to_sign_in


def test_there_are_routes_of_every_kind(silo: Silo) -> None:
    roles = {role for _, _, role in _routes(silo)}
    assert roles == {"anyone", "reader", "editor", "owner"}
    assert len(list(_routes(silo))) > 60


def test_only_signing_in_and_being_watched_needs_no_role(silo: Silo) -> None:
    assert {path for _, path, role in _routes(silo) if role == "anyone"} == OPEN


def test_a_room_whose_route_declares_no_role_cannot_be_opened(silo: Silo, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(page: object) -> APIRouter:
        routes = APIRouter()
        routes.add_api_route("/everything", lambda: "all of it")
        return routes

    def hidden(page: object) -> APIRouter:
        routes = APIRouter()
        routes.include_router(careless(page))
        return routes

    for room, place in ((careless, "/everything"), (hidden, "")):
        monkeypatch.setattr(application, "ROOMS", (*application.ROOMS[:1], Room(room)))
        with pytest.raises(AssertionError, match=f"{place}.* must take exactly one of anyone, reader, editor, owner"):
            create_app(silo.settings, silo.store, silo.desk)


@pytest.mark.parametrize("role", ROLES)
def test_a_person_reaches_exactly_the_routes_of_their_role(silo: Silo, role: Role) -> None:
    for method, path, least in _routes(silo):
        visitor = silo.visitor(role)
        token = "" if method in SAFE else visitor.token()
        response = _sent(visitor, method, path, **{"X-Token": token})
        assert response.status_code not in (405, 500), (method, path)
        if least != "anyone":
            expected = ROLES.index(role) >= ROLES.index(least)
            assert _let_in(response) == expected, (method, path, least, response.status_code)


def test_strangers_are_sent_to_sign_in_and_their_programs_told(silo: Silo, stranger: Visitor) -> None:
    for method, path, least in _routes(silo):
        response = _sent(stranger, method, path)
        if least != "anyone" and path.startswith("/api/"):
            assert response.status_code == 401 and "detail" in response.json(), path
        elif least != "anyone":
            assert response.status_code == 303 and response.headers["location"].startswith("/login"), path


def test_every_change_is_refused_without_the_forms_token(silo: Silo) -> None:
    other = silo.visitor("owner").token()
    for method, path, _ in _routes(silo):
        if method in SAFE:
            continue
        owner = silo.visitor("owner")
        right = owner.token()
        for headers in ({}, {"X-Token": "0" * 64}, {"X-Token": other}):
            assert _sent(owner, method, path, **headers).status_code == 403, (method, path, headers)
        elsewhere = {"X-Token": right, "Sec-Fetch-Site": "cross-site"}
        assert _sent(owner, method, path, **elsewhere).status_code == 403, (method, path, "from another site")


def test_a_strangers_form_needs_the_token_of_their_own_browser(silo: Silo, stranger: Visitor) -> None:
    fields = {"name": "Rita", "password": "x"}
    assert stranger.post("/login", data=fields).status_code == 403
    token = stranger.token("/login")
    assert stranger.post("/login", data=fields | {"token": token}).status_code == 401
    assert silo.visitor().post("/login", data=fields | {"token": token}).status_code == 403


def test_a_program_with_a_bearer_token_needs_no_form(silo: Silo, stranger: Visitor) -> None:
    headers = {"Authorization": f"Bearer {silo.session('reader')}"}
    assert stranger.post("/api/ask", json={"question": "Where is the pharmacy?"}, headers=headers).status_code == 200
    assert stranger.post("/", data={"question": "x"}, headers=headers, follow_redirects=False).status_code == 303


def test_a_token_of_strange_letters_is_merely_wrong(owner: Visitor) -> None:
    assert owner.post("/logout", data={"token": "\N{SNOWMAN}"}).status_code == 403
    assert owner.post("/logout", headers={b"X-Token": b"\xe4"}).status_code == 403


def test_the_role_counts_as_it_is_now_and_not_as_it_was_at_sign_in(silo: Silo, editor: Visitor) -> None:
    assert editor.get("/examples").status_code == 200
    silo.store.people().change_role("Edda", "reader", "Otto")
    refused = editor.get("/examples", follow_redirects=False)
    # A store may also end the session: either way, the page is not shown.
    assert refused.status_code in (303, 403)


def test_the_menu_shows_what_a_person_may_use(reader: Visitor, owner: Visitor) -> None:
    assert 'href="/people"' not in reader.get("/").text and 'href="/examples"' not in reader.get("/").text
    assert 'href="/people"' in owner.get("/").text and 'href="/examples"' in owner.get("/").text
