# SPDX-License-Identifier: Apache-2.0
"""Examples: the questions and answers the silo learns from, what became of each, and the way in and out for files."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Form, Query, Request, UploadFile
from fastapi.responses import Response

from fedqa.data.formats import read_format
from fedqa.data.records import Collection, Quarantined
from fedqa.data.writing import WRITTEN
from fedqa.errors import DataError, FedQAError
from fedqa.intake.names import safe_name
from fedqa.serving.learning import Learning, learnt
from fedqa.store import ORIGINS, LeftOut, Listing, Origin, Person, StoredExample, UnknownId
from fedqa.web.left_out import of_store
from fedqa.web.page import Editor, Page

Format = Literal["squad", "csv", "jsonl"]
FORMATS: tuple[Format, ...] = get_args(Format)
LARGEST = {"/examples/import": 64_000_000, "/api/examples/import": 64_000_000}  # bytes
_BY_SUFFIX: dict[str, Format] = {".json": "squad", ".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_LIMIT = 25
_MOST_PROBLEMS = 100
_WAITING = "waits for the next training"


@dataclass(frozen=True)
class Row:
    """An example as the page shows it."""

    stored: StoredExample
    title: str  # of the document its answer stands in
    learning: tuple[str, ...]  # a line for each skill that was trained
    answered: bool | None  # is it what is answered now, from all documents? None: not asked again


@dataclass(frozen=True)
class ImportReport:
    """What became of a file."""

    name: str
    format: Format
    documents: int
    examples: int
    already_there: int
    left_out: int
    problems: tuple[Quarantined, ...]  # the first of what was left out, and why; all are kept


def router(page: Page) -> APIRouter:
    routes = APIRouter()
    _add_reading(routes, page)
    _add_changing(routes, page)
    _add_api(routes, page)
    return routes


def _add_reading(routes: APIRouter, page: Page) -> None:
    @routes.get("/examples", include_in_schema=False)
    def examples(
        request: Request,
        person: Editor,
        search: str = "",
        origin: Origin | Literal[""] = "",
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    ) -> Response:
        listing = page.store.examples(search=search, origin=origin or None, limit=_LIMIT, offset=offset)
        return page.show(
            request,
            "examples.html",
            listing=listing,
            rows=_rows(page, listing.items),
            left_out=of_store(page.store, limit=_MOST_PROBLEMS),
            search=search,
            origin=origin,
            origins=ORIGINS,
            offset=offset,
            limit=_LIMIT,
        )

    @routes.get("/examples/export", include_in_schema=False)
    def export(person: Editor, format: Format) -> Response:
        return _download(page, format)


def _add_changing(routes: APIRouter, page: Page) -> None:
    @routes.get("/examples/import", include_in_schema=False)
    def form(request: Request, person: Editor) -> Response:
        return page.show(request, "examples_import.html", report=None)

    @routes.post("/examples/import", include_in_schema=False)
    async def read(
        request: Request, person: Editor, file: UploadFile, format: Annotated[Format | Literal[""], Form()] = ""
    ) -> Response:
        report = await page.heavy(_import, page, person, file, format)
        return page.show(request, "examples_import.html", report=report)

    @routes.get("/examples/remove", include_in_schema=False)
    def ask_remove(request: Request, person: Editor, id: str = "") -> Response:
        return page.show(request, "example_remove.html", row=_rows(page, [page.store.example(id)])[0])

    @routes.post("/examples/remove", include_in_schema=False)
    def remove(request: Request, person: Editor, id: Annotated[str, Form()] = "") -> Response:
        page.store.remove_example(id, person.name)
        return page.go(request, "/examples", said="The example has been removed.")

    @routes.post("/examples/left-out/forget", include_in_schema=False)
    def forget(request: Request, person: Editor, source: Annotated[str, Form()] = "") -> Response:
        page.store.forget_left_out(source, person.name)
        return page.go(request, "/examples", said="What was left out of this file is no longer listed.")


def _add_api(routes: APIRouter, page: Page) -> None:
    @routes.get("/api/examples", tags=["examples"])
    def api_examples(
        person: Editor,
        search: str = "",
        origin: Origin | None = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    ) -> Listing[StoredExample]:
        """Examples, newest first."""
        return page.store.examples(search=search, origin=origin, limit=limit, offset=offset)

    @routes.get("/api/examples/learning", tags=["examples"])
    def api_learning(person: Editor) -> dict[str, dict[str, str]]:
        """What became of the answers people gave: by skill, then by example."""
        return {skill: {id: one.words for id, one in found.items()} for skill, found in _learning(page).items()}

    @routes.get("/api/examples/answered", tags=["examples"])
    def api_answered(person: Editor) -> Mapping[str, bool]:
        """By example: is the answer that people gave what is answered now, from all documents? Empty until asked."""
        return page.desk.checked

    @routes.get("/api/examples/left-out", tags=["examples"])
    def api_left_out(
        person: Editor,
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    ) -> Listing[LeftOut]:
        """Records of files that could not be read in, and what would mend them; the newest file first."""
        return of_store(page.store, limit=limit, offset=offset)

    @routes.delete("/api/examples/left-out", tags=["examples"], status_code=204)
    def api_forget(person: Editor, source: str) -> None:
        """No longer list what was left out of a file."""
        page.store.forget_left_out(source, person.name)

    @routes.get("/api/examples/export", tags=["examples"])
    def api_export(person: Editor, format: Format) -> Response:
        """All documents and examples as a file."""
        return _download(page, format)

    @routes.post("/api/examples/import", tags=["examples"], status_code=201)
    async def api_import(
        person: Editor, file: UploadFile, format: Annotated[Format | Literal[""], Form()] = ""
    ) -> ImportReport:
        """Read documents and examples from a file; its ending tells the format, unless it is given."""
        return await page.heavy(_import, page, person, file, format)

    @routes.delete("/api/examples/{id:path}", tags=["examples"], status_code=204)
    def api_remove(person: Editor, id: str) -> None:
        """Remove an example. What was learned from it stays in the models until they are trained again."""
        page.store.remove_example(id, person.name)


def _rows(page: Page, stored: Sequence[StoredExample]) -> list[Row]:
    learning, answered = _learning(page), page.desk.checked
    return [Row(one, _title(page, one), _became(one, learning), answered.get(one.example.id)) for one in stored]


def _title(page: Page, stored: StoredExample) -> str:
    for id in sorted(stored.example.documents):
        try:
            return page.store.document(id).document.title
        except UnknownId:  # removed by somebody else while this page was made
            continue
    return ""


def _learning(page: Page) -> Mapping[str, Mapping[str, Learning]]:
    """By skill, then by example."""
    return {skill: learnt(run, page.settings.name) for skill, run in page.settings.runs.items()}


def _became(stored: StoredExample, learning: Mapping[str, Mapping[str, Learning]]) -> tuple[str, ...]:
    """Words for what people made here; what was imported is not followed one by one."""
    if stored.origin == "imported":
        return ()
    found = {skill: known[stored.example.id].words for skill, known in learning.items() if stored.example.id in known}
    if len(found) < 2:
        return tuple(found.values()) or (_WAITING,)
    return tuple(f"{skill}: {words}" for skill, words in found.items())


def _import(page: Page, person: Person, file: UploadFile, format: Format | Literal[""]) -> ImportReport:
    name = safe_name(file.filename or "")
    chosen = format or _BY_SUFFIX.get(PurePath(name).suffix.lower())
    if chosen is None:
        raise DataError(f"{name!r} does not tell its format; choose one of {', '.join(FORMATS)}")
    collection = _read(name, file.file.read(), chosen)
    imported = page.store.add_collection(collection, source=name, who=person.name)
    page.desk.refresh()
    return ImportReport(
        name=name,
        format=chosen,
        documents=imported.documents,
        examples=imported.examples,
        already_there=imported.already_there,
        left_out=imported.left_out,
        problems=imported.problems[:_MOST_PROBLEMS],
    )


def _read(name: str, content: bytes, format: Format) -> Collection:
    """By way of a file, as readers want one; its place on this machine is nobody's business."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            return read_format(format, path, {})
        except FedQAError as problem:
            raise DataError(str(problem).replace(f"{folder}/", "")) from None


def _download(page: Page, format: Format) -> Response:
    writer = WRITTEN[format]
    silo = re.sub(r"[^A-Za-z0-9]+", "-", page.settings.name).strip("-").lower() or "silo"
    name = f"{silo}-examples-{datetime.now(UTC):%Y-%m-%d}{writer.suffix}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(writer.to_bytes(page.store.collection()), media_type=writer.media_type, headers=headers)
