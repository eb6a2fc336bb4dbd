# SPDX-License-Identifier: Apache-2.0
"""Correct: somebody shows where the answer to a question stands, or says that it stands nowhere here.

Offsets are Unicode code points of the document's text. A browser with our script sends them; without it the words are
looked up, and where they stand more than once the person chooses.
"""

import re
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import Response

from fedqa.data.records import Document, Span
from fedqa.errors import DataError, FedQAError
from fedqa.store import Asked, Correction, Person, StoredExample
from fedqa.web.failures import sentence
from fedqa.web.marking import Excerpt, excerpt, marked, sentence_around
from fedqa.web.page import Editor, NotFound, Page
from fedqa.web.rooms.ask import own

_DOCUMENTS = 8
_MOST_PLACES = 12
_LONGEST_WORDS = 5_000  # characters that are looked up


@dataclass(frozen=True)
class Given:
    """What the person has said so far; also what the address of the page may hold."""

    question: str = ""
    asked: int | None = None
    document: str = ""  # id
    start: int | None = None
    end: int | None = None

    @property
    def span(self) -> Span | None:
        return None if self.start is None or self.end is None else Span(self.document, self.start, self.end)


@dataclass(frozen=True)
class Sent:
    """The form."""

    given: Given
    text: str
    nowhere: bool  # there is no answer in our documents


@dataclass(frozen=True)
class Occurrence:
    """One of several places where the words stand."""

    span: Span
    words: str
    excerpt: Excerpt


@dataclass(frozen=True)
class CorrectionBody:
    """`text` must stand from code point `start` to `end`. Without a place: there is no answer here."""

    question: str
    document: str | None = None
    start: int | None = None
    end: int | None = None
    text: str = ""
    asked: int | None = None


def router(page: Page) -> APIRouter:
    routes = APIRouter()

    @routes.get("/correct", include_in_schema=False)
    def look(request: Request, person: Editor, given: Annotated[Given, Depends()], search: str = "") -> Response:
        return _show(page, request, _completed(page, person, given), search=search)

    @routes.post("/correct", include_in_schema=False)
    def correct(request: Request, person: Editor, sent: Annotated[Sent, Depends(_sent)]) -> Response:
        given = _completed(page, person, sent.given)
        try:
            places = [] if sent.nowhere else _places(page, given, sent.text)
            if len(places) > 1:
                return _show(page, request, given, text=sent.text, places=places)
            page.store.correct(_correction(page, person, given, places))
        except FedQAError as problem:
            return _show(page, request, given, text=sent.text, problem=sentence(problem))
        return page.go(
            request, "/", said="Thank you. This answer is shown from now on, and learned in the next training."
        )

    @routes.post("/api/corrections", tags=["correct"], status_code=201)
    def api_correct(person: Editor, body: CorrectionBody) -> StoredExample:
        """Give the answer to a question; `asked` is the number of your question if this corrects its answer."""
        if body.asked is not None:
            _read(page, person, body.asked)
        return page.store.correct(Correction(who=person.name, **vars(body)))

    return routes


def occurrences(document: Document, words: str) -> list[Span]:
    """Where words stand in a document: exactly so, or else with other white space or capitals."""
    words = words.strip()[:_LONGEST_WORDS]
    if not words:
        return []
    exact = re.compile(re.escape(words))
    loose = re.compile(r"\s+".join(map(re.escape, words.split())), re.IGNORECASE)
    for pattern in (exact, loose):
        found = [Span(document.id, *match.span()) for match in pattern.finditer(document.text)]
        if found:
            return found
    return []


def _sent(
    question: Annotated[str, Form()] = "",
    asked: Annotated[int | None, Form()] = None,
    document: Annotated[str, Form()] = "",
    start: Annotated[int | None, Form()] = None,
    end: Annotated[int | None, Form()] = None,
    text: Annotated[str, Form()] = "",
    answer: Annotated[str, Form()] = "here",
) -> Sent:
    text = text.replace("\r\n", "\n")  # as browsers send line ends in forms
    return Sent(Given(question, asked, document, start, end), text, answer == "nowhere")


def _completed(page: Page, person: Person, given: Given) -> Given:
    """With the question that was asked, and the place of the answer that was given to it."""
    if given.asked is None:
        return given
    asked = _read(page, person, given.asked)
    given = replace(given, question=asked.question)
    if given.document or not asked.answer:
        return given
    document, start, end = (asked.answer.get(name) for name in ("document", "start", "end"))
    assert isinstance(document, str) and isinstance(start, int) and isinstance(end, int)
    return replace(given, document=document, start=start, end=end)


def _read(page: Page, person: Person, asked: int) -> Asked:
    """A question that this person asked the documents."""
    found = own(page, person, asked)
    if found.of_database:
        raise NotFound(f"your question number {asked} was asked of the database; correct its query there")
    return found


def _places(page: Page, given: Given, words: str) -> list[Span]:
    """The places the person may mean: the one that was sent, or those where the words stand."""
    document = page.store.document(given.document).document
    span = given.span
    if span and _same(document.text[span.start : span.end], words):
        return [span]
    if span:
        raise DataError(
            f"at the place that was sent stands {document.text[span.start : span.end][:80]!r} and not {words[:80]!r}; "
            "select the answer again"
        )
    found = occurrences(document, words)
    if not found:
        raise DataError("these words do not stand in the document; copy the answer exactly as it is written there")
    return found


def _same(there: str, words: str) -> bool:
    return there.replace("\r\n", "\n").replace("\r", "\n") == words


def _correction(page: Page, person: Person, given: Given, places: list[Span]) -> Correction:
    made = Correction(question=given.question, who=person.name, asked=given.asked)
    if not places:
        return made
    span = places[0]
    text = page.store.document(span.document).document.text[span.start : span.end]
    return replace(made, document=span.document, start=span.start, end=span.end, text=text)


def _show(
    page: Page,
    request: Request,
    given: Given,
    *,
    search: str = "",
    text: str = "",
    problem: str = "",
    places: list[Span] | None = None,
) -> Response:
    document = page.store.document(given.document).document if given.document else None
    values = {
        "given": given,
        "document": document,
        "pieces": marked(document, given.span) if document else (),
        "found": page.store.documents(search, limit=_DOCUMENTS) if search or not document else None,
        "places": [_occurrence(document, span) for span in (places or [])[:_MOST_PLACES]] if document else [],
        "more_places": max(0, len(places or []) - _MOST_PLACES),
    }
    status = 400 if problem else 200
    return page.show(request, "correct.html", status, **values, search=search, text=text, problem=problem)


def _occurrence(document: Document, span: Span) -> Occurrence:
    words = document.text[span.start : span.end]
    return Occurrence(span, words, excerpt(document, sentence_around(document, span), span))
