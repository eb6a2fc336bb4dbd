# SPDX-License-Identifier: Apache-2.0
"""The page's three cookies: who is signed in, which browser fills in a form before that, and a line to show once.

None can be read by a script, none is sent along by another site. Over https they carry the `__Host-` prefix, so that
no neighbouring host can set them; over plain http, which is for this computer alone, browsers allow no such prefix, and
the port stands in the name instead, because cookies are shared by all ports of a host.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from urllib.parse import quote, unquote

from fastapi import Request
from starlette.responses import Response

_LONGEST_SAID = 600  # characters; a cookie may hold 4096 bytes, and a quoted character up to 12


@dataclass(frozen=True)
class Cookies:
    """How the cookies of one page are called, set and read."""

    port: int

    def session(self, request: Request) -> str:
        """The token of the session, empty if there is none."""
        return request.cookies.get(self._name(request, "session"), "")

    def start_session(self, request: Request, response: Response, token: str) -> None:
        self._set(request, response, "session", token)

    def end_session(self, request: Request, response: Response) -> None:
        self._drop(request, response, "session")

    def form_token(self, request: Request) -> str:
        """What a form must send back: only a page that was shown to this session, or this browser, knows it."""
        secret = self.session(request) or self._visit(request)
        return hmac.digest(secret.encode(), b"fedqa form", hashlib.sha256).hex()

    def is_form_token(self, request: Request, given: str) -> bool:
        return hmac.compare_digest(self.form_token(request).encode(), given.encode("utf-8", "replace"))

    def keep_visit(self, request: Request, response: Response) -> None:
        """Before sign-in a form's token is bound to the browser by a random cookie."""
        if hasattr(request.state, "visit"):
            self._set(request, response, "visit", request.state.visit)

    def say(self, request: Request, response: Response, text: str) -> None:
        self._set(request, response, "said", quote(text[:_LONGEST_SAID], safe=" "), max_age=60)

    def said(self, request: Request) -> str:
        return unquote(request.cookies.get(self._name(request, "said"), ""))

    def forget_said(self, request: Request, response: Response) -> None:
        self._drop(request, response, "said")

    def _visit(self, request: Request) -> str:
        """The browser's random cookie; a new one is kept on the request until `keep_visit` sends it."""
        known = request.cookies.get(self._name(request, "visit"), "")
        if not known and not hasattr(request.state, "visit"):
            request.state.visit = secrets.token_urlsafe(24)
        return known or str(request.state.visit)

    def _name(self, request: Request, what: str) -> str:
        return f"__Host-fedqa-{what}" if request.url.scheme == "https" else f"fedqa-{what}-{self.port}"

    def _set(self, request: Request, response: Response, what: str, value: str, max_age: int | None = None) -> None:
        secure = request.url.scheme == "https"
        name = self._name(request, what)
        response.set_cookie(name, value, max_age, path="/", secure=secure, httponly=True, samesite="strict")

    def _drop(self, request: Request, response: Response, what: str) -> None:
        secure = request.url.scheme == "https"
        name = self._name(request, what)
        response.delete_cookie(name, path="/", secure=secure, httponly=True, samesite="strict")
