# SPDX-License-Identifier: Apache-2.0
"""Documents: what the silo answers from. Add by file or by pasting, find, read, remove."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, UploadFile
from fastapi.responses import Response
from starlette.datastructures import UploadFile as SentFile

from fedqa.data.records import Span
from fedqa.errors import DataError, FedQAError
from fedqa.intake import extract
from fedqa.intake.names import safe_name
from fedqa.store import Listing, Person, StoredDocument
from fedqa.web.failures import sentence
from fedqa.web.marking import marked
from fedqa.web.page import LARGEST_FIELD, Editor, Page, Reader

LARGEST = {"/documents/add": 64_000_000, "/api/documents": 5_000_000, "/api/documents/files": 64_000_000}  # bytes
_MOST_FILES = 40
_LIMIT = 25
_PASTED = "pasted.txt"


@dataclass(frozen=True)
class Sent:
    """A file or pasted text, before it is read."""

    name: str
    content: bytes
    title: str = ""  # as the person calls it


@dataclass(frozen=True)
class Outcome:
    """What became of it."""

    name: str
    id: str = ""
    title: str = ""
    characters: int = 0
    already_there: bool = False
    problem: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Added:
    outcomes: tuple[Outcome, ...]
    seconds: float  # until the new ones could be found
    complete: bool  # False: there is so much that the index is still taking it in


@dataclass(frozen=True)
class Line:
    """A document in a list."""

    id: str
    title: str
    source: str
    characters: int
    added_at: datetime
    added_by: str


@dataclass(frozen=True)
class TextBody:
    text: str
    title: str = ""


def router(page: Page) -> APIRouter:
    routes = APIRouter()
    _add_reading(routes, page)
    _add_changing(routes, page)
    _add_api(routes, page)
    return routes


def _add_reading(routes: APIRouter, page: Page) -> None:
    @routes.get("/documents", include_in_schema=False)
    def documents(
        request: Request, person: Reader, search: str = "", offset: Annotated[int, Query(ge=0, le=10**9)] = 0
    ) -> Response:
        listing = page.store.documents(search, limit=_LIMIT, offset=offset)
        return page.show(request, "documents.html", listing=listing, search=search, offset=offset, limit=_LIMIT)

    @routes.get("/documents/view", include_in_schema=False)
    def view(request: Request, person: Reader, id: str = "", start: int = 0, end: int = 0) -> Response:
        stored = page.store.document(id)
        span = Span(id, start, end) if 0 <= start < end <= len(stored.document.text) else None
        return page.show(request, "document.html", stored=stored, pieces=marked(stored.document, span), span=span)


def _add_changing(routes: APIRouter, page: Page) -> None:
    @routes.get("/documents/add", include_in_schema=False)
    def form(request: Request, person: Editor) -> Response:
        return page.show(request, "documents_add.html", most_files=_MOST_FILES)

    @routes.post("/documents/add", include_in_schema=False)
    async def add(request: Request, person: Editor) -> Response:
        # Not by Form(): its fields may hold a megabyte, and a pasted document more.
        async with request.form(max_part_size=LARGEST_FIELD) as fields:
            files = [file for file in fields.getlist("files") if isinstance(file, SentFile) and file.filename]
            pasted = Sent(_PASTED, str(fields.get("text", "")).encode(), str(fields.get("title", "")))
            added = await page.heavy(_add_all, page, person, lambda: _sent(files, pasted))
        return page.show(request, "documents_added.html", added=added)

    @routes.get("/documents/remove", include_in_schema=False)
    def ask_remove(request: Request, person: Editor, id: str = "") -> Response:
        stored = page.store.document(id)
        return page.show(request, "document_remove.html", stored=stored, examples=_resting_on(page, id))

    @routes.post("/documents/remove", include_in_schema=False)
    async def remove(request: Request, person: Editor, id: Annotated[str, Form()] = "") -> Response:
        title = await page.heavy(_remove, page, person, id)
        return page.go(request, "/documents", said=f"“{title}” has been removed.")


def _add_api(routes: APIRouter, page: Page) -> None:
    @routes.get("/api/documents", tags=["documents"])
    def api_documents(
        person: Reader,
        search: str = "",
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    ) -> Listing[Line]:
        """The documents, newest first, without their text."""
        listing = page.store.documents(search, limit=limit, offset=offset)
        return Listing(tuple(map(_line, listing.items)), listing.total)

    @routes.post("/api/documents", tags=["documents"], status_code=201)
    async def api_add(person: Editor, body: TextBody) -> Added:
        """Add a text; it can be found when the answer comes."""
        return await page.heavy(_add_all, page, person, lambda: [Sent(_PASTED, body.text.encode(), body.title)])

    @routes.post("/api/documents/files", tags=["documents"], status_code=201)
    async def api_add_files(person: Editor, files: list[UploadFile]) -> Added:
        """Add files: plain text, Markdown, HTML, PDF, Word. Each has an outcome of its own."""
        return await page.heavy(_add_all, page, person, lambda: _sent(files))

    @routes.get("/api/documents/{id:path}", tags=["documents"])
    def api_document(person: Reader, id: str) -> StoredDocument:
        """A document with its text."""
        return page.store.document(id)

    @routes.delete("/api/documents/{id:path}", tags=["documents"], status_code=204)
    async def api_remove(person: Editor, id: str) -> None:
        """Remove a document and all examples that rest on it."""
        await page.heavy(_remove, page, person, id)


def _sent(files: Sequence[SentFile], pasted: Sent | None = None) -> list[Sent]:
    if len(files) > _MOST_FILES:
        raise DataError(f"{len(files)} files at once; send at most {_MOST_FILES}, and the others after them")
    sent = [Sent(safe_name(file.filename or ""), file.file.read()) for file in files]
    return sent + ([pasted] if pasted and pasted.content.strip() else [])


def _add_all(page: Page, person: Person, sent: Callable[[], Sequence[Sent]]) -> Added:
    """Take in each on its own: one that is refused does not keep the others out. Then they can be found."""
    began = time.perf_counter()
    given = sent()
    if not given:
        raise DataError("nothing was sent; choose at least one file, or paste a text")
    outcomes = tuple(_add_one(page, person, one) for one in given)
    page.desk.refresh()
    return Added(outcomes, time.perf_counter() - began, page.desk.ready)


def _add_one(page: Page, person: Person, sent: Sent) -> Outcome:
    try:
        found = extract(sent.name, sent.content)
        before = page.store.version
        title = sent.title.strip() or found.title or _beginning(found.text)
        source = "pasted" if sent.name == _PASTED else sent.name
        document = page.store.add_document(found.text, title, source=source, who=person.name)
    except FedQAError as problem:
        return Outcome(sent.name, problem=sentence(problem))
    there = page.store.version == before
    return Outcome(sent.name, document.id, document.title, len(document.text), there, notes=found.notes)


def _beginning(text: str) -> str:
    """A title for a text that has none: its first words."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= 70 else line[:70].rpartition(" ")[0] + " …"


def _remove(page: Page, person: Person, id: str) -> str:
    title = page.store.document(id).document.title
    page.store.remove_document(id, person.name)
    page.desk.refresh()
    return title


def _resting_on(page: Page, id: str) -> int:
    return page.store.examples(document=id, limit=0).total


def _line(stored: StoredDocument) -> Line:
    document = stored.document
    return Line(
        id=document.id,
        title=document.title,
        source=stored.source,
        characters=len(document.text),
        added_at=stored.added_at,
        added_by=stored.added_by,
    )
