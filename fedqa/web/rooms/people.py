# SPDX-License-Identifier: Apache-2.0
"""People: who may use this page and what they may do; new ones come by a link that works once."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.responses import Response

from fedqa.store import Person, Role
from fedqa.web.page import Owner, Page, join_path

DAYS = 7  # for which an invitation is good
MEANING: dict[Role, str] = {
    "reader": "asks, judges answers, and sees the training and the ledger",
    "editor": "also corrects answers, and adds and removes documents and examples",
    "owner": "also approves courses, trains, and invites people",
}


@dataclass(frozen=True)
class InviteBody:
    role: Role
    name: str = ""


@dataclass(frozen=True)
class Invited:
    """The link is shown this one time: only its digest is kept."""

    link: str
    role: Role
    days: int


@dataclass(frozen=True)
class NameBody:
    name: str


@dataclass(frozen=True)
class RoleBody:
    name: str
    role: Role


def router(page: Page) -> APIRouter:
    routes = APIRouter()
    _add_pages(routes, page)
    _add_api(routes, page)
    return routes


def _add_pages(routes: APIRouter, page: Page) -> None:
    def shown(request: Request, invited: Invited | None = None) -> Response:
        everybody = page.people.all()
        owners = sum(person.role == "owner" for person in everybody)
        return page.show(
            request, "people.html", everybody=everybody, owners=owners, meaning=MEANING, invited=invited, days=DAYS
        )

    @routes.get("/people", include_in_schema=False)
    def people(request: Request, person: Owner) -> Response:
        return shown(request)

    @routes.post("/people/invite", include_in_schema=False)
    def invite(
        request: Request, person: Owner, role: Annotated[Role, Form()], name: Annotated[str, Form()] = ""
    ) -> Response:
        # Shown in the answer itself: on its way through another address or a cookie, others could read it.
        return shown(request, _invite(page, request, person, InviteBody(role, name)))

    @routes.post("/people/role", include_in_schema=False)
    def change_role(
        request: Request, person: Owner, name: Annotated[str, Form()], role: Annotated[Role, Form()]
    ) -> Response:
        page.people.change_role(name, role, person.name)
        return page.go(request, _after(person, name, role), said=f"{name} is now {_a(role)}.")

    @routes.post("/people/remove", include_in_schema=False)
    def remove(request: Request, person: Owner, name: Annotated[str, Form()]) -> Response:
        page.people.remove(name, person.name)
        return page.go(request, "/" if name == person.name else "/people", said=f"{name} can no longer sign in.")


def _add_api(routes: APIRouter, page: Page) -> None:
    @routes.get("/api/people", tags=["people"])
    def api_people(person: Owner) -> list[Person]:
        """Everybody who may use this page."""
        return page.people.all()

    @routes.post("/api/people/invite", tags=["people"])
    def api_invite(request: Request, person: Owner, body: InviteBody) -> Invited:
        """A link by which one person can join, once. It is not shown again."""
        return _invite(page, request, person, body)

    @routes.post("/api/people/role", tags=["people"], status_code=204)
    def api_change_role(person: Owner, body: RoleBody) -> None:
        """Change what somebody may do. The last owner stays one."""
        page.people.change_role(body.name, body.role, person.name)

    @routes.post("/api/people/remove", tags=["people"], status_code=204)
    def api_remove(person: Owner, body: NameBody) -> None:
        """Take away somebody's access. The last owner stays."""
        page.people.remove(body.name, person.name)


def _invite(page: Page, request: Request, person: Person, body: InviteBody) -> Invited:
    token = page.people.invite(body.role, body.name.strip(), days=DAYS, who=person.name)
    return Invited(str(request.base_url).rstrip("/") + join_path(token), body.role, DAYS)


def _after(person: Person, name: str, role: Role) -> str:
    """Owners who made themselves something else may not see this room any more."""
    return "/" if name == person.name and role != "owner" else "/people"


def _a(role: Role) -> str:
    return f"a {role}" if role == "reader" else f"an {role}"
