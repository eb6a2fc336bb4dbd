# SPDX-License-Identifier: Apache-2.0
"""Ask: a question, its answer with the evidence, and whether it was right."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import Response

from fedqa.answering.answers import Answer, Reply
from fedqa.answering.reception import BY_KEYWORDS
from fedqa.data.door import MAX_QUESTION
from fedqa.data.records import Span
from fedqa.errors import DataError
from fedqa.store import Asked, Listing, NewAsked, Person, StoredExample, UnknownId, Verdict
from fedqa.web.failures import wants_piece
from fedqa.web.marking import Excerpt, excerpt, sentence_around
from fedqa.web.page import NotFound, Page, Reader, TooOften

_RECENT = 6
_LOOKED_AT = 100  # questions, to find the recent ones among those asked twice or elsewhere
_SURENESS = ((0.9, "very sure"), (0.7, "quite sure"), (0.5, "fairly sure"), (0.3, "not very sure"), (0.0, "unsure"))


@dataclass(frozen=True)
class Answered:
    """A reply and the number under which it was noted, by which it is judged and corrected."""

    asked: int
    reply: Reply


@dataclass(frozen=True)
class Shown:
    """An answer as the page shows it."""

    words: str  # the exact answer
    title: str
    span: Span
    excerpt: Excerpt
    confidence: float = 1.0

    @property
    def sureness(self) -> str:
        return next(words for least, words in _SURENESS if self.confidence >= least)


@dataclass(frozen=True)
class AskBody:
    """`again` is the number of this question if it was answered by keywords: the new answer takes that one's place."""

    question: str
    k: int = 3
    again: int | None = None


@dataclass(frozen=True)
class JudgeBody:
    asked: int
    verdict: Verdict


def router(page: Page) -> APIRouter:
    routes = APIRouter()

    @routes.get("/", include_in_schema=False)
    def start(request: Request, person: Reader) -> Response:
        return page.show(request, "ask.html", 200, **_empty(page, person))

    @routes.post("/", include_in_schema=False)
    async def ask(
        request: Request,
        person: Reader,
        question: Annotated[str, Form()] = "",
        again: Annotated[int | None, Form()] = None,
    ) -> Response:
        answered = await page.heavy(answer, page, person, AskBody(question, again=again))
        values = await page.heavy(_view, page, person, answered)
        return page.show(request, "ask_piece.html" if wants_piece(request) else "ask.html", 200, **values)

    @routes.post("/judge", include_in_schema=False)
    def judge(
        request: Request, person: Reader, asked: Annotated[int, Form()], verdict: Annotated[Verdict, Form()]
    ) -> Response:
        page.store.judge(own(page, person, asked).id, verdict, person.name)
        if wants_piece(request):
            return page.show(request, "judged_piece.html", verdict=verdict)
        return page.go(request, "/", said="Thank you. Your judgement has been noted.")

    @routes.post("/api/ask", tags=["ask"])
    async def api_ask(person: Reader, body: AskBody) -> Answered:
        """Answer a question from the silo's documents."""
        return await page.heavy(answer, page, person, body)

    @routes.post("/api/judge", tags=["ask"], status_code=204)
    def api_judge(person: Reader, body: JudgeBody) -> None:
        """Say whether the answer to one of your questions was right."""
        page.store.judge(own(page, person, body.asked).id, body.verdict, person.name)

    @routes.get("/api/asked", tags=["ask"])
    def api_asked(
        person: Reader,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    ) -> Listing[Asked]:
        """Your questions, newest first."""
        return page.store.asked(who=person.name, limit=limit, offset=offset)

    return routes


def answer(page: Page, person: Person, body: AskBody) -> Answered:
    """Ask the desk and note it down."""
    question, k = usable(body.question), body.k
    if not 1 <= k <= 20:
        raise DataError(f"k is how many answers to give, from 1 to 20; got {k}")
    before = _by_keywords(page, person, question, body.again)
    # What was answered by keywords may be asked once more of the models without being counted again.
    if not (before and page.desk.loaded):
        count_in(page, person)
    reply = page.desk.ask(question, k)
    note = _note(reply, person)
    if before and page.store.note_instead(before, note):
        return Answered(before, reply)
    return Answered(page.store.note_asked(note), reply)


def usable(question: str) -> str:
    """A question as it is asked: on one line, and of a length that can be read."""
    question = " ".join(question.split())
    if not question:
        raise DataError("the question is empty; type what you would like to know")
    if len(question) > MAX_QUESTION:
        raise DataError(f"the question has {len(question)} characters; at most {MAX_QUESTION} are read, shorten it")
    return question


def count_in(page: Page, person: Person) -> None:
    """Count one more question of this person; raises TooOften if these are too many."""
    if not page.questions.allows(person.name):
        raise TooOften(f"more than {page.questions.most} questions within a minute; wait a little, then ask again")


def _by_keywords(page: Page, person: Person, question: str, again: int | None) -> int | None:
    """The number of this question as it was answered by keywords, if nobody has judged or corrected that answer."""
    if again is None:
        return None
    asked = own(page, person, again)
    same = asked.question == question and asked.model == BY_KEYWORDS
    return asked.id if same and not asked.verdict and not asked.example else None


def own(page: Page, person: Person, asked: int) -> Asked:
    """A question this person has asked; nobody can reach another's."""
    try:
        found = page.store.asked_question(asked)
    except UnknownId:
        found = None
    if found is None or found.who != person.name:  # the same words: whose it is must not be told
        raise NotFound(f"you have asked no question with the number {asked}; ask it again")
    return found


def _note(reply: Reply, person: Person) -> NewAsked:
    first = reply.answers[0] if reply.answered and reply.answers else None
    return NewAsked(
        question=reply.question,
        who=person.name,
        answer=_place(first) if first else None,
        confidence=first.confidence if first and not reply.provisional else None,
        model=reply.model,
    )


def _place(answer: Answer) -> Mapping[str, object]:
    """The place of an answer, under the names by which the store finds it when the document is removed."""
    return {
        "document": answer.document,
        "start": answer.answer_start,
        "end": answer.answer_end,
        "text": answer.answer,
    }


def recent(page: Page, person: Person, *, of_database: bool) -> list[Asked]:
    """The person's last questions to the documents or to the database, each once."""
    asked = [one for one in page.store.asked(who=person.name, limit=_LOOKED_AT).items if one.of_database == of_database]
    by_question = {found.question: found for found in reversed(asked)}
    return sorted(by_question.values(), key=lambda found: found.id, reverse=True)[:_RECENT]


def _empty(page: Page, person: Person) -> dict[str, object]:
    """The page before a question is asked."""
    return {
        "recent": recent(page, person, of_database=False),
        "documents": page.store.documents(limit=0).total,
        "ready": page.desk.ready or not page.desk.loaded,  # before that, the answer itself says where it comes from
        "given": None,
        "question": "",
    }


def _view(page: Page, person: Person, answered: Answered) -> dict[str, object]:
    reply = answered.reply
    shown = [found for found in (_shown(page, answer) for answer in reply.answers) if found]
    return _empty(page, person) | {
        "question": reply.question,
        "given": {
            "asked": answered.asked,
            "reply": reply,
            "answer": shown[0] if reply.answered and shown else None,
            "others": shown[1:] if reply.answered else shown,
            "verified": reply.verified,
            "verified_place": _verified(page, reply.verified) if reply.verified else None,
        },
    }


def _shown(page: Page, answer: Answer) -> Shown | None:
    """None for an answer whose document was removed while the question was on its way."""
    try:
        document = page.store.document(answer.document).document
    except UnknownId:
        return None
    evidence = Span(document.id, answer.start, answer.end)
    exact = Span(document.id, answer.answer_start, answer.answer_end)
    return Shown(answer.answer, answer.title, exact, excerpt(document, evidence, exact), answer.confidence)


def _verified(page: Page, stored: StoredExample) -> Shown | None:
    """The place of an answer that people gave; None if they said that there is none."""
    if not stored.example.evidence:
        return None
    span = stored.example.evidence[0]
    document = page.store.document(span.document).document
    words = document.text[span.start : span.end]
    return Shown(words, document.title, span, excerpt(document, sentence_around(document, span), span))
