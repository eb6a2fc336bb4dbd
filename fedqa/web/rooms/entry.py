# SPDX-License-Identifier: Apache-2.0
"""Coming in and going out: sign in, sign out, accept an invitation (the first owner's too), change one's password."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from fedqa.errors import FedQAError
from fedqa.store import Person, Role
from fedqa.web.failures import sentence
from fedqa.web.page import Anyone, NotAllowed, NotFound, Page, Reader, SignInNeeded, TooOften

_WRONG = "The name or the password is not right."


@dataclass(frozen=True)
class SignInBody:
    name: str
    password: str


@dataclass(frozen=True)
class SignedIn:
    """A program's session: it sends `Authorization: Bearer TOKEN` with every request."""

    token: str
    name: str
    role: Role


@dataclass(frozen=True)
class Me:
    name: str
    role: Role


@dataclass(frozen=True)
class Health:
    loaded: bool  # do the models answer? Before, answers are found by keywords
    ready: bool  # do they answer from all documents?


def router(page: Page) -> APIRouter:
    routes = APIRouter()
    _add_signing(routes, page)
    _add_joining(routes, page)
    _add_account(routes, page)
    _add_api(routes, page)
    return routes


def _add_signing(routes: APIRouter, page: Page) -> None:
    @routes.get("/login", include_in_schema=False)
    def login(request: Request, person: Anyone, next: str = "/") -> Response:
        if person:
            return page.go(request, _inside(next))
        return page.show(request, "login.html", next=_inside(next), problem="", name="", nobody=not page.people.all())

    @routes.post("/login", include_in_schema=False)
    async def log_in(
        request: Request,
        person: Anyone,
        name: Annotated[str, Form()] = "",
        password: Annotated[str, Form()] = "",
        next: Annotated[str, Form()] = "/",
    ) -> Response:
        return await page.heavy(_log_in, page, request, SignInBody(name, password), _inside(next))

    @routes.post("/logout", include_in_schema=False)
    def log_out(request: Request, person: Reader) -> Response:
        page.people.end_session(page.session_token(request))
        response = page.go(request, "/login", said="You are signed out.")
        page.cookies.end_session(request, response)
        return response


def _add_joining(routes: APIRouter, page: Page) -> None:
    @routes.get("/join", include_in_schema=False)
    def invited(request: Request, person: Anyone, invitation: str = "") -> Response:
        return _invitation(page, request, invitation)

    @routes.post("/join", include_in_schema=False)
    async def join(
        request: Request,
        person: Anyone,
        invitation: Annotated[str, Form()] = "",
        name: Annotated[str, Form()] = "",
        password: Annotated[str, Form()] = "",
    ) -> Response:
        return await page.heavy(_join, page, request, SignInBody(name, password), invitation)


def _add_account(routes: APIRouter, page: Page) -> None:
    @routes.get("/account", include_in_schema=False)
    def account(request: Request, person: Reader) -> Response:
        return page.show(request, "account.html", problem="")

    @routes.post("/account", include_in_schema=False)
    async def change_password(
        request: Request, person: Reader, old: Annotated[str, Form()] = "", new: Annotated[str, Form()] = ""
    ) -> Response:
        return await page.heavy(_change, page, request, SignInBody(person.name, old), new)


def _add_api(routes: APIRouter, page: Page) -> None:
    @routes.post("/api/session", tags=["session"])
    async def api_log_in(request: Request, body: SignInBody, person: Anyone) -> SignedIn:
        """Sign in; no cookie is set."""
        return await page.heavy(_api_log_in, page, request, body)

    @routes.delete("/api/session", tags=["session"], status_code=204)
    def api_log_out(request: Request, person: Reader) -> None:
        """Sign out: the token is of no use any more."""
        page.people.end_session(page.session_token(request))

    @routes.get("/api/me", tags=["session"])
    def api_me(person: Reader) -> Me:
        """Who is signed in, and what they may do."""
        return Me(person.name, person.role)

    @routes.get("/api/health", tags=["session"])
    def api_health(person: Anyone) -> Health:
        """For whoever watches over the machine."""
        return Health(page.desk.loaded, page.desk.ready)


def _log_in(page: Page, request: Request, given: SignInBody, path: str) -> Response:
    known = _known(page, request, given)
    if known:
        return _start(page, request, known, path)
    return page.show(request, "login.html", 401, next=path, problem=_WRONG, name=given.name, nobody=False)


def _join(page: Page, request: Request, given: SignInBody, invitation: str) -> Response:
    _count(page, request)
    try:
        joined = page.people.accept(invitation, given.name, given.password)
    except FedQAError as problem:
        return _invitation(page, request, invitation, name=given.name, problem=sentence(problem))
    return _start(page, request, joined, "/", said=f"Welcome, {joined.name}.")


def _change(page: Page, request: Request, given: SignInBody, new: str) -> Response:
    """A new password; all sessions end, so this one starts again."""
    try:
        person = _known(page, request, given)
        if person is None:
            raise NotAllowed("the password you have now is not right")
        page.people.change_password(person.name, new, person.name)
    except FedQAError as problem:
        return page.show(request, "account.html", 400, problem=sentence(problem))
    return _start(page, request, person, "/", said="Your password has been changed.")


def _api_log_in(page: Page, request: Request, given: SignInBody) -> SignedIn:
    known = _known(page, request, given)
    if known is None:
        raise SignInNeeded(_WRONG)
    return SignedIn(page.people.start_session(known), known.name, known.role)


def _known(page: Page, request: Request, given: SignInBody) -> Person | None:
    """Check a password, not too often."""
    _count(page, request)
    key = given.name.strip().casefold()[:200]
    if not page.sign_ins_by_name.allows(key):
        raise TooOften("too many attempts to sign in with this name; try again in five minutes")
    person = page.people.log_in(given.name, given.password)
    if person:
        page.sign_ins_by_name.forget(key)
    return person


def _count(page: Page, request: Request) -> None:
    if not page.sign_ins_by_address.allows(request.client.host if request.client else ""):
        raise TooOften("too many attempts from your address; try again in five minutes")


def _start(page: Page, request: Request, person: Person, path: str, said: str = "") -> Response:
    response = page.go(request, path, said=said)
    page.cookies.start_session(request, response, page.people.start_session(person))
    return response


def _invitation(page: Page, request: Request, invitation: str, *, name: str = "", problem: str = "") -> Response:
    found = page.people.invited(invitation)
    if found is None:
        raise NotFound("this invitation has been used or is out of date; ask an owner of this page for another")
    values = {"invitation": invitation, "found": found, "name": name or found.name, "problem": problem}
    return page.show(request, "join.html", 400 if problem else 200, **values)


def _inside(path: str) -> str:
    """Where to go after signing in: a path of this page, never another site."""
    inside = path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
    return path if inside else "/"
