# SPDX-License-Identifier: Apache-2.0
"""What stands before every room: the names this page answers to, how much a request may carry, and the doors."""

from collections.abc import Collection, Mapping, Sequence

import anyio
from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedqa.web.failures import failure
from fedqa.web.page import page_of, session_of

LOOPBACK = ("localhost", "127.0.0.1", "::1")
LARGEST_OF_STRANGERS = 64_000  # bytes; nobody who has not signed in needs more
LARGEST = 1_000_000
_KNOCK_S = 0.05  # between looks whether all rooms are open
_STOPPED = "This page is being stopped, before this part of it was ready. Try again once it has been started."
_WRONG_NAME = "This page does not answer to that name. Use the address you were given."


class Hosts:
    """Refuses requests for a host that is not ours: a foreign name that was made to point here (DNS rebinding)."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self.app = app
        self.names = {name.lower().strip("[]") for name in (*LOOPBACK, *names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and host_name(Request(scope).headers.get("host", "")) not in self.names:
            # Not one of our pages: whoever made the name point here may read the answer.
            await PlainTextResponse(_WRONG_NAME, 421)(scope, receive, send)
        else:
            await self.app(scope, receive, send)


def host_name(header: str) -> str:
    """The name in a Host header, without port and brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


class BodyLimit:
    """Refuses a request that carries too much: by what it announces, or as soon as more than allowed has come."""

    def __init__(self, app: ASGIApp, largest: Mapping[str, int]) -> None:
        self.app = app
        self.largest = largest  # bytes by path, where it is not LARGEST

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        limit = await self._limit(request)
        if _announced(request) > limit:
            await failure(request, 413, _too_large(limit))(scope, receive, send)
        else:
            await self.app(scope, _counted(receive, limit), send)

    async def _limit(self, request: Request) -> int:
        unknown_size = "transfer-encoding" in request.headers
        if not unknown_size and _announced(request) <= LARGEST_OF_STRANGERS:
            return LARGEST_OF_STRANGERS
        known = await run_in_threadpool(session_of, request)
        return self.largest.get(request.url.path, LARGEST) if known else LARGEST_OF_STRANGERS


class Doors:
    """Lets a request that is for none of the rooms so far wait until all are there."""

    def __init__(self, app: ASGIApp, rooms: Sequence[BaseRoute]) -> None:
        self.app, self.rooms = app, rooms  # which are more with time

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or await self._opened(scope):
            await self.app(scope, receive, send)
        else:
            await failure(Request(scope), 503, _STOPPED)(scope, receive, send)

    async def _opened(self, scope: Scope) -> bool:
        """False: the page is being stopped instead."""
        page = page_of(Request(scope))
        while not page.complete and all(room.matches(scope)[0] == Match.NONE for room in self.rooms):
            if page.stopping():
                return False
            await anyio.sleep(_KNOCK_S)
        return True


def _announced(request: Request) -> int:
    text = request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _counted(receive: Receive, limit: int) -> Receive:
    """The same messages, until they carry more than the limit."""
    seen = 0

    async def receive_counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise HTTPException(413, _too_large(limit))
        return message

    return receive_counted


def _too_large(limit: int) -> str:
    return f"That is more than may be sent here at once ({limit / 1_000_000:g} MB). Send less, or in parts."
