# SPDX-License-Identifier: Apache-2.0
"""What every room of the page works with: the silo's parts, its templates, and who may do what.

A room is a module of `fedqa/web/rooms/` with `def router(page: Page) -> APIRouter`, listed in `app.py`. Each endpoint
takes exactly one of `Anyone`, `Reader`, `Editor` and `Owner`; `create_app` refuses a route without:

    @routes.post("/people/remove", include_in_schema=False)
    def remove(request: Request, person: Owner, name: Annotated[str, Form()]) -> Response:
        page.people.remove(name, person.name)
        return page.go(request, "/people", said=f"{name} can no longer sign in.")

The same four refuse forged requests: a form holds `{{ parts.token(token) }}`, a script sends the header X-Token.
Endpoints are plain `def`: they run in threads, so that nothing holds up the event loop. What takes long (models,
passwords, files) is done by `await page.heavy(...)` in an `async def`, so that it does not take all threads either.
Whatever goes wrong is raised: FedQAError (400, its message is shown), `NotFound` (404), `NotAllowed` (403).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ParamSpec, TypeVar
from urllib.parse import urlencode

import anyio
from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool

from fedqa.answering.reception import Reception
from fedqa.errors import FedQAError
from fedqa.settings import Settings
from fedqa.store import Person, Role, Session, Store
from fedqa.web.cookies import Cookies
from fedqa.web.limits import Rate
from fedqa.web.templating import environment

P = ParamSpec("P")
T = TypeVar("T")

RANK: dict[Role, int] = {"reader": 0, "editor": 1, "owner": 2}
LARGEST_FIELD = 5_000_000  # bytes of one field of a form: a pasted document of the greatest length
_AT_ONCE = 4  # questions, passwords and files in work at the same time; the rest wait without holding a thread
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_OWN_SITES = ("same-origin", "none")  # what a browser says of requests from our own pages, and of typed addresses


class SignInNeeded(Exception):
    """Nobody is signed in: 401 under /api, elsewhere the way to the sign-in page."""


class NotAllowed(FedQAError):
    """403: the person's role is not enough, or the request did not come from one of our own pages."""


class NotFound(FedQAError):
    """404: there is nothing of that name or number here."""


class TooOften(FedQAError):
    """429: the same person or address did something too often."""


@dataclass(frozen=True)
class MenuEntry:
    """A room's line in the menu, for people of at least this role."""

    title: str
    path: str
    role: Role


class Page:
    """The parts of a silo that its page shows, and how pages are made of them."""

    def __init__(self, settings: Settings, store: Store, desk: Reception) -> None:
        self.settings = settings
        self.store = store
        self.people = store.people()
        self.desk = desk
        self.templates = environment()
        self.cookies = Cookies(settings.page.port)
        self.menu: Sequence[MenuEntry] = ()
        self.complete = False  # are all rooms there? Some take seconds to import: see `app.py`
        self.stopping: Callable[[], bool] = lambda: False  # then nobody need wait for them any more
        self._turns = anyio.CapacityLimiter(_AT_ONCE)
        self.sign_ins_by_name = Rate(8, per_s=300)
        self.sign_ins_by_address = Rate(40, per_s=300)
        self.questions = Rate(30, per_s=60)

    def show(self, request: Request, template: str, status: int = 200, **values: object) -> HTMLResponse:
        """A page made of a template, which also knows `site`, `person`, `menu`, `here`, `token` and `said`."""
        person, said = person_of(request), self.cookies.said(request)
        known = {
            "site": self.settings.page.title or self.settings.name,
            "person": person,
            "menu": [entry for entry in self.menu if person and RANK[person.role] >= RANK[entry.role]],
            "here": request.url.path,
            "token": self.cookies.form_token(request),
            "said": said,
        }
        response = HTMLResponse(self.templates.get_template(template).render(known | values), status)
        self.cookies.keep_visit(request, response)
        if said:
            self.cookies.forget_said(request, response)
        return response

    def session_token(self, request: Request) -> str:
        """The token of the session the request claims to belong to: a program's or a browser's; empty for none."""
        return _bearer(request) or self.cookies.session(request)

    async def heavy(self, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Do what takes long in a thread, a few at a time, so that a rush of it leaves threads for everything else."""
        return await anyio.to_thread.run_sync(lambda: work(*given, **named), limiter=self._turns)

    def go(self, request: Request, path: str, said: str = "") -> RedirectResponse:
        """On to another page after a form (303), which shows `said` once at its top."""
        response = RedirectResponse(path, 303)
        if said:
            self.cookies.say(request, response, said)
        return response


def join_path(invitation: str) -> str:
    """Where an invitation leads."""
    return f"/join?{urlencode({'invitation': invitation})}"


def page_of(request: Request) -> Page:
    page = request.app.state.page
    assert isinstance(page, Page)
    return page


def session_of(request: Request) -> Session | None:
    """The session whose token the request carries, if it is still valid. Reads the store."""
    page = page_of(request)
    token = page.session_token(request)
    return page.people.session(token) if token else None


def person_of(request: Request) -> Person | None:
    """Who is signed in, once one of the four dependencies below has found out."""
    session: Session | None = getattr(request.state, "session", None)
    return session.person if session else None


async def anyone(request: Request) -> Person | None:
    """For the few routes that need no sign-in; the person, if there is one."""
    person = await _signed_in(request)
    await _refuse_forged(request)
    return person


async def reader(request: Request) -> Person:
    """Somebody who may ask and judge."""
    return await _someone(request, "reader")


async def editor(request: Request) -> Person:
    """Somebody who may also correct, and add and remove documents and examples."""
    return await _someone(request, "editor")


async def owner(request: Request) -> Person:
    """Somebody who may also approve courses, train and invite people."""
    return await _someone(request, "owner")


Anyone = Annotated[Person | None, Depends(anyone)]
Reader = Annotated[Person, Depends(reader)]
Editor = Annotated[Person, Depends(editor)]
Owner = Annotated[Person, Depends(owner)]


async def _someone(request: Request, least: Role) -> Person:
    person = await _signed_in(request)
    if person is None:
        raise SignInNeeded
    await _refuse_forged(request)
    if RANK[person.role] < RANK[least]:
        raise NotAllowed(f"this needs the role {least!r}, and you are {person.role!r} here; ask an owner of this page")
    return person


async def _signed_in(request: Request) -> Person | None:
    # The store is read in a thread: a database may be slow, and this runs on the event loop.
    request.state.session = await run_in_threadpool(session_of, request)
    return person_of(request)


async def _refuse_forged(request: Request) -> None:
    """Refuse what another site made the browser send: it does not know the form's token, and the browser tells."""
    if request.method in _SAFE_METHODS or _bearer(request):
        return
    ours = request.headers.get("sec-fetch-site", "none") in _OWN_SITES
    if not ours or not await _has_token(request):
        raise NotAllowed("this was not sent from a page of ours, or from one that is out of date; load the page again")


async def _has_token(request: Request) -> bool:
    cookies, given = page_of(request).cookies, request.headers.get("x-token", "")
    if _is_api(request) and not cookies.session(request):
        return True  # it claims to be nobody's: a program that is about to sign in
    if not given and not _is_api(request):
        given = str((await request.form(max_part_size=LARGEST_FIELD)).get("token", ""))
    return cookies.is_form_token(request, given)


def _bearer(request: Request) -> str:
    """The token of a program that uses the REST API. Browsers never send one by themselves."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" and _is_api(request) else ""


def _is_api(request: Request) -> bool:
    return request.url.path.startswith("/api/")
