# SPDX-License-Identifier: Apache-2.0
"""Training: what the course would make leave the silo, how the training stands, and what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Form, Request
from markupsafe import Markup
from starlette.responses import Response

from fedqa.data.records import Quarantined
from fedqa.errors import ConfigError, FedQAError, RunError
from fedqa.serving.approvals import Decision
from fedqa.serving.training import Trainings, TrainingStatus
from fedqa.store import ORIGINS, Origin
from fedqa.web.corrections import Corrections, corrections
from fedqa.web.courses import Courses, Shown
from fedqa.web.curves import drawing, frame
from fedqa.web.left_out import of_run, of_store
from fedqa.web.page import Owner, Page, Reader
from fedqa.web.pathless import pathless
from fedqa.web.trained import Compared, RoundLine, Trained, seconds_left, trained

MOST_LEFT_OUT = 1000  # records that are shown of those that could not be read in
MOST_CURVES = 12  # silos whose curves are drawn, this one among them
NO_TRAINING = "no training is set up for this page; whoever runs it adds [training] to the silo's file"
UNREADABLE = (
    "What was trained so far cannot be read: its folder is damaged. Whoever runs this page can start a new one."
)


@dataclass(frozen=True)
class CourseBody:
    """Which course is meant, so that nobody decides about one that they have not read."""

    fingerprint: str


@dataclass(frozen=True)
class CourseSummary:
    """A course in a few words. Without a fingerprint it cannot be read, and `name` says so."""

    name: str
    fingerprint: str
    decision: Decision | None


@dataclass(frozen=True)
class CourseState:
    course: Shown
    decision: Decision | None


@dataclass(frozen=True)
class TrainingState:
    """The training and what has come of it so far."""

    status: TrainingStatus
    seconds_left: float | None
    rounds: Sequence[RoundLine]
    compared: Sequence[Compared]  # once it has ended
    corrections: Corrections
    problem: str = ""  # why some of it cannot be shown


@dataclass(frozen=True)
class Drawn:
    """A silo's curves."""

    silo: str
    svg: Markup


def router(page: Page) -> APIRouter:
    routes = APIRouter()
    room = Room(page)
    _add_pages(routes, page, room)
    _add_actions(routes, page, room)
    _add_api(routes, page, room)
    return routes


class Room:
    """What the pages and the API both need."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.silo = page.settings.name
        self.trainings = Trainings(page.settings)
        self.plan = self.trainings.plan
        self._courses = Courses(self.plan.alliance, self.trainings.approvals) if self.plan else None

    @property
    def courses(self) -> Courses:
        if self._courses is None:
            raise ConfigError(NO_TRAINING)
        return self._courses

    def start(self, who: str) -> TrainingStatus:
        self.courses.course()  # one that cannot be read is said as it is everywhere on this page
        try:
            return self.trainings.start(who)
        except FedQAError as problem:
            raise RunError(pathless(str(problem))) from None

    def state(self) -> TrainingState:
        return self._seen()[0]

    def shown(self) -> dict[str, object]:
        """What the piece of the page that keeps itself up to date shows."""
        state, found = self._seen()
        curves = dict(islice(found.curves.items(), MOST_CURVES)) if found else {}
        place = frame(list(curves.values()))
        drawn = [Drawn(silo, drawing(silo, lines, place)) for silo, lines in curves.items()] if place else []
        more = len(found.curves) - len(drawn) if found else 0
        return {"state": state, "trained": found, "drawn": drawn, "not_drawn": more, "silo": self.silo}

    def _seen(self) -> tuple[TrainingState, Trained | None]:
        store, run, answered = self.page.store, self.plan.run if self.plan else None, self.page.desk.checked
        try:
            made_here, status = corrections(store, run, self.silo, answered), self.trainings.status()
            found = trained(run, self.silo) if run else None
        except (FedQAError, ValueError, KeyError):  # a file that somebody changed; the texts of errors name folders
            nothing = TrainingStatus("failed", 0, 0, self.plan.silos if self.plan else (), 0.0, UNREADABLE)
            made_here = corrections(store, None, self.silo, answered)
            return TrainingState(nothing, None, [], [], made_here, UNREADABLE), None
        rounds, compared = (found.rounds, found.compared) if found else ([], [])
        return TrainingState(status, seconds_left(status, found), rounds, compared, made_here), found

    def left_out(self) -> Sequence[Quarantined]:
        """Of the files that were read in, then of what was last trained on."""
        read_in = of_store(self.page.store, limit=MOST_LEFT_OUT).items
        return [*(one.record for one in read_in), *(of_run(self.plan.run, self.silo) if self.plan else ())]

    def decided(self) -> CourseSummary | None:
        """The course in a few words; None where nothing can be trained."""
        if self._courses is None:
            return None
        try:
            course = self.courses.course()
        except FedQAError as problem:
            return CourseSummary(str(problem), "", None)
        return CourseSummary(course.name, course.fingerprint, self.courses.decision())


def _add_pages(routes: APIRouter, page: Page, room: Room) -> None:
    @routes.get("/training", include_in_schema=False)
    def training(request: Request, person: Reader) -> Response:
        values = room.shown() | {"course": room.decided(), "left_out": room.left_out(), "held": held(page)}
        return page.show(request, "training.html", 200, **values)

    @routes.get("/training/now", include_in_schema=False)
    def now(request: Request, person: Reader) -> Response:
        return page.show(request, "training_piece.html", 200, **room.shown(), course=room.decided())

    @routes.get("/training/course", include_in_schema=False)
    async def course(request: Request, person: Reader) -> Response:
        shown = await page.heavy(room.courses.shown)
        decision = await page.heavy(room.courses.decision)
        return page.show(request, "course.html", course=shown, decision=decision)


def _add_actions(routes: APIRouter, page: Page, room: Room) -> None:
    @routes.post("/training/start", include_in_schema=False)
    def start(request: Request, person: Owner) -> Response:
        room.start(person.name)
        return page.go(request, "/training")

    @routes.post("/training/stop", include_in_schema=False)
    def stop(request: Request, person: Owner) -> Response:
        room.trainings.stop(person.name)
        return page.go(request, "/training", said="The training was stopped. The rounds it has done stay done.")

    @routes.post("/training/approve", include_in_schema=False)
    def approve(request: Request, person: Owner, fingerprint: Annotated[str, Form()]) -> Response:
        room.courses.decide(fingerprint, True, person.name)
        return page.go(request, "/training", said="The course is approved: it may be trained from this page.")

    @routes.post("/training/refuse", include_in_schema=False)
    def refuse(request: Request, person: Owner, fingerprint: Annotated[str, Form()]) -> Response:
        room.courses.decide(fingerprint, False, person.name)
        return page.go(request, "/training/course", said="The course is refused: it cannot be trained from this page.")


def _add_api(routes: APIRouter, page: Page, room: Room) -> None:
    @routes.get("/api/training", tags=["training"])
    def api_training(person: Reader) -> TrainingState:
        """How the training stands, its rounds, and what became of each correction."""
        return room.state()

    @routes.get("/api/training/left-out", tags=["training"])
    def api_left_out(person: Reader) -> Sequence[Quarantined]:
        """Records of this silo's data that were not used, and what would mend them."""
        return room.left_out()

    @routes.get("/api/training/course", tags=["training"])
    async def api_course(person: Reader) -> CourseState:
        """What the course would make leave this silo, and whether an owner has approved it."""
        return CourseState(await page.heavy(room.courses.shown), await page.heavy(room.courses.decision))

    @routes.post("/api/training/course/approve", tags=["training"])
    def api_approve(person: Owner, body: CourseBody) -> Decision:
        """Allow the course with this fingerprint to be trained from this page."""
        return room.courses.decide(body.fingerprint, True, person.name)

    @routes.post("/api/training/course/refuse", tags=["training"])
    def api_refuse(person: Owner, body: CourseBody) -> Decision:
        """Forbid the course with this fingerprint."""
        return room.courses.decide(body.fingerprint, False, person.name)

    @routes.post("/api/training/start", tags=["training"])
    def api_start(person: Owner) -> TrainingStatus:
        """Start a training of the approved course, or go on with one that was broken off."""
        return room.start(person.name)

    @routes.post("/api/training/stop", tags=["training"])
    def api_stop(person: Owner) -> TrainingStatus:
        """End the training that is running; the rounds it has done stay done."""
        return room.trainings.stop(person.name)


@dataclass(frozen=True)
class Held:
    """What the silo has to train on, by where it came from."""

    documents: int
    examples: Mapping[Origin, int]


def held(page: Page) -> Held:
    examples = {origin: page.store.examples(origin=origin, limit=1).total for origin in ORIGINS}
    return Held(page.store.documents(limit=1).total, examples)
