# SPDX-License-Identifier: Apache-2.0
"""What people and programs see when something goes wrong: a page, a piece of a page, or JSON; never a traceback."""

from http import HTTPStatus
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response

from fedqa.errors import FedQAError
from fedqa.store import UnknownId
from fedqa.web.headers import HEADERS
from fedqa.web.page import NotAllowed, NotFound, SignInNeeded, TooOften, page_of, session_of

_STATUS: dict[type[FedQAError], int] = {NotAllowed: 403, NotFound: 404, UnknownId: 404, TooOften: 429}
_TITLES = {
    400: "That did not work",
    401: "Please sign in",
    403: "You may not do that",
    404: "There is nothing here",
    405: "That is not possible here",
    413: "That is too large",
    421: "Wrong address",
    422: "Something is missing",
    429: "That was too often",
    500: "Something went wrong here",
    503: "This page is being stopped",
}
_PLAIN = {
    404: "There is no such page. Perhaps the address is old or not complete.",
    405: "This address only takes what a form sends. Go back and use the form.",
}
_OURS = "The fault is ours and has been written down in the log of this page. Please try again."


def failure(request: Request, status: int, text: str) -> Response:
    """A failure in the form that the request expects."""
    if request.url.path.startswith("/api/"):
        return JSONResponse({"detail": text}, status)
    template = "failure_piece.html" if wants_piece(request) else "failure.html"
    title = _TITLES.get(status) or HTTPStatus(status).phrase
    return page_of(request).show(request, template, status, title=title, text=text)


def sentence(problem: Exception) -> str:
    """What an error says, as a sentence."""
    text = str(problem).strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def wants_piece(request: Request) -> bool:
    """Did our script ask, to put the answer into the page that is open?"""
    return "x-piece" in request.headers


def add_failures(app: FastAPI) -> None:
    app.add_exception_handler(SignInNeeded, _sign_in_needed)
    app.add_exception_handler(FedQAError, _refused)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _unexpected)


def _sign_in_needed(request: Request, problem: Exception) -> Response:
    if request.url.path.startswith("/api/") or wants_piece(request):
        response = failure(request, 401, str(problem) or "Nobody is signed in. Sign in first.")
        response.headers["WWW-Authenticate"] = "Bearer"
        return response
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    back = f"?next={quote(wanted, safe='')}" if request.method == "GET" and wanted != "/" else ""
    return RedirectResponse(f"/login{back}", 303)


def _refused(request: Request, problem: Exception) -> Response:
    status = next((status for kind, status in _STATUS.items() if isinstance(problem, kind)), 400)
    return failure(request, status, sentence(problem))


def _http(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    request.state.session = session_of(request)  # no route has asked who it is; the page has a menu nevertheless
    said_by_us = problem.detail != HTTPStatus(problem.status_code).phrase
    text = problem.detail if said_by_us else _PLAIN.get(problem.status_code, "It cannot be done like this.")
    return failure(request, problem.status_code, text)


def _invalid(request: Request, problem: Exception) -> Response:
    """Says which fields are wrong, without repeating what was sent."""
    assert isinstance(problem, RequestValidationError)
    wrong = [f"{'.'.join(map(str, error['loc'][1:]))}: {error['msg']}" for error in problem.errors()]
    return failure(request, 422, "; ".join(wrong) or "The request is not complete.")


def _unexpected(request: Request, problem: Exception) -> Response:
    response = failure(request, 500, _OURS)
    response.headers.update(HEADERS)  # outside of all guards
    return response
