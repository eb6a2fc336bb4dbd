# SPDX-License-Identifier: Apache-2.0
"""Database: a question, the SQL that the silo's model makes of it, and what that finds; and giving the right SQL.

Everybody who may ask sees what the database lets its reader see. SQL that a person writes is run as the model's is:
one SELECT, read-only, within limits.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from fedqa.answering.querying import QueryAnswer, Record
from fedqa.answering.saying import heading, said, sentence
from fedqa.data.door import MAX_SQL
from fedqa.databases.records import Table
from fedqa.errors import DataError, FedQAError
from fedqa.store import Asked, Correction, NewAsked, Person, StoredExample
from fedqa.web.failures import sentence as as_sentence
from fedqa.web.failures import wants_piece
from fedqa.web.page import Editor, NotFound, Page, Reader
from fedqa.web.rooms.ask import count_in, own, recent, usable

_MOST_ROWS = 50  # that are shown


@dataclass(frozen=True)
class Queried:
    """What the database said, the number under which the question was noted, and the SQL that people here gave."""

    asked: int
    answer: QueryAnswer
    verified: StoredExample | None


@dataclass(frozen=True)
class Column:
    name: str
    numeric: bool


@dataclass(frozen=True)
class Shown:
    """A table as the page shows it."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int  # rows that are not shown
    others: bool  # and there are rows that were not even read


@dataclass(frozen=True)
class QuestionBody:
    question: str


@dataclass(frozen=True)
class SqlBody:
    sql: str


@dataclass(frozen=True)
class QueryCorrectionBody:
    """`asked` is the number of your question if this corrects its answer."""

    question: str
    sql: str
    asked: int | None = None


@dataclass(frozen=True)
class Tried:
    """What came of SQL that a person wrote: a table, or what is wrong with it."""

    sentence: str = ""
    table: Shown | None = None
    problem: str = ""


def router(page: Page) -> APIRouter:
    routes = APIRouter()

    @routes.get("/database", include_in_schema=False)
    def start(request: Request, person: Reader) -> Response:
        return page.show(request, "database.html", 200, **_empty(page, person))

    @routes.post("/database", include_in_schema=False)
    async def ask(request: Request, person: Reader, question: Annotated[str, Form()] = "") -> Response:
        queried = await page.heavy(answer, page, person, question)
        values = await page.heavy(_view, page, person, queried)
        return page.show(request, "database_piece.html" if wants_piece(request) else "database.html", 200, **values)

    @routes.get("/database/correct", include_in_schema=False)
    def look(request: Request, person: Editor, asked: int | None = None) -> Response:
        found = _queried(page, person, asked) if asked is not None else None
        sql = str(found.answer["sql"]) if found and found.answer else ""
        return _show(page, request, asked, found.question if found else "", sql, Tried())

    @routes.post("/database/correct", include_in_schema=False)
    async def correct(
        request: Request,
        person: Editor,
        sql: Annotated[str, Form()] = "",
        question: Annotated[str, Form()] = "",
        asked: Annotated[int | None, Form()] = None,
        action: Annotated[Literal["try", "save"], Form()] = "try",
    ) -> Response:
        sql = sql.replace("\r\n", "\n")  # as browsers send line ends in forms
        if asked is not None:
            question = _queried(page, person, asked).question
        tried = await page.heavy(_tried, page, question, sql)
        if action == "try" or tried.problem:
            return _show(page, request, asked, question, sql, tried)
        try:
            page.store.correct(Correction(question, person.name, asked=asked, sql=sql))
        except FedQAError as problem:
            return _show(page, request, asked, question, sql, Tried(problem=as_sentence(problem)))
        said = "Thank you. This query is used from now on, and learned in the next training."
        return page.go(request, "/database", said=said)

    @routes.post("/api/database/ask", tags=["database"])
    async def api_ask(person: Reader, body: QuestionBody) -> Queried:
        """Ask the silo's database in plain words: the SQL, and what it finds."""
        return await page.heavy(answer, page, person, body.question)

    @routes.post("/api/database/run", tags=["database"])
    async def api_run(person: Editor, body: SqlBody) -> Table:
        """Run one SELECT, read-only and within limits."""
        return await page.heavy(_run, page, body.sql)

    @routes.post("/api/database/corrections", tags=["database"], status_code=201)
    async def api_correct(person: Editor, body: QueryCorrectionBody) -> StoredExample:
        """Give the SQL for a question; it must run."""
        if body.asked is not None:
            _queried(page, person, body.asked)
        await page.heavy(_run, page, body.sql)
        return page.store.correct(Correction(body.question, person.name, asked=body.asked, sql=body.sql))

    return routes


# -- asking --------------------------------------------------------------------------------------------------------


def answer(page: Page, person: Person, question: str) -> Queried:
    """Ask the database and note it down. What was found is not kept: it may change, and is never out of date there."""
    question, desk = usable(question), page.desk.database
    count_in(page, person)
    found = desk.ask(question)
    noted = NewAsked(question, person.name, {"sql": found.sql}, model=desk.words)
    return Queried(page.store.note_asked(noted), found, page.store.verified_query(question))


def _queried(page: Page, person: Person, asked: int) -> Asked:
    """A question that this person asked the database."""
    found = own(page, person, asked)
    if not found.of_database:
        raise NotFound(f"your question number {asked} was not asked of the database; ask it there")
    return found


def _run(page: Page, sql: str) -> Table:
    if not sql.strip() or len(sql) > MAX_SQL:
        raise DataError(f"give one SELECT of at most {MAX_SQL} characters")
    return page.desk.database.run(sql)


def _tried(page: Page, question: str, sql: str) -> Tried:
    try:
        found = _run(page, sql)
    except FedQAError as problem:
        return Tried(problem=as_sentence(problem))
    return Tried(sentence(question, found), shown(found))


# -- showing -------------------------------------------------------------------------------------------------------


def shown(table: Table) -> Shown:
    columns = tuple(Column(heading(name), table.is_numeric(i)) for i, name in enumerate(table.columns))
    rows = tuple(tuple("" if cell is None else said(cell) for cell in row) for row in table.rows[:_MOST_ROWS])
    return Shown(columns, rows, len(table.rows) - len(rows), table.truncated)


def _empty(page: Page, person: Person) -> dict[str, object]:
    """The page before a question is asked, with the person's last questions to the database, each once."""
    return {"recent": recent(page, person, of_database=True), "given": None, "question": ""}


def _view(page: Page, person: Person, queried: Queried) -> dict[str, object]:
    found = queried.answer
    given = {
        "asked": queried.asked,
        "answer": found,
        "table": shown(found.table) if found.table else None,
        "record": _told(found.record) if found.record else "",
        "verified": queried.verified,
        "verified_found": _tried(page, found.question, queried.verified.example.sql) if queried.verified else None,
        "model": page.desk.database.words,
    }
    return _empty(page, person) | {"question": found.question, "given": given}


def _told(record: Record) -> str:
    return f"{round(record.right * record.questions)} of {record.questions}"


def _show(page: Page, request: Request, asked: int | None, question: str, sql: str, tried: Tried) -> Response:
    values = {"asked": asked, "question": question, "sql": sql, "tried": tried}
    return page.show(request, "database_correct.html", 400 if tried.problem else 200, **values)
