# SPDX-License-Identifier: Apache-2.0
"""What a run folder tells a silo's people, while it grows and after: rounds, curves, what training together gave."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from fedqa.config import read_toml
from fedqa.errors import FedQAError
from fedqa.evaluation.run_scores import Estimate, Run, check_comparable, load_run, score
from fedqa.evaluation.words import metric_name, why_refused
from fedqa.federation.course import Course
from fedqa.federation.messages import Point
from fedqa.federation.run_folder import RoundRecord, RunFolder
from fedqa.serving.training import TrainingStatus
from fedqa.skills import make_skill
from fedqa.tables import from_table
from fedqa.web.curves import Points

ALONE = "alone"  # the name of a stage in which nothing is sent
ISOLATED = "isolated"  # the method that has no other


@dataclass(frozen=True)
class RoundLine:
    """A round as a row of the table."""

    number: int
    stage: str
    asked: int
    answered: Sequence[str]
    refused: Sequence[tuple[str, str]]  # silo, and why in words
    void: bool  # too few answers: nothing was changed
    seconds: float
    bytes_up: int
    bytes_down: int


@dataclass(frozen=True)
class Compared:
    """One model of this silo, on its own questions."""

    name: str
    meaning: str
    dev: Estimate | None = None
    test: Estimate | None = None
    questions: int = 0  # of the test
    alone: bool = False  # without the others


@dataclass(frozen=True)
class Trained:
    """A run as a silo sees it. `compared` is empty until the run has ended."""

    course: Course
    rounds: Sequence[RoundLine]
    curves: Mapping[str, Mapping[str, Points]]  # silo -> received, personal -> dev scores; this silo first
    metric: str
    compared: Sequence[Compared]


def trained(folder: Path, silo: str) -> Trained | None:
    """The run in a folder; None if there is none yet."""
    if not (folder / "course.toml").exists():
        return None
    table = read_toml(folder / "course.toml")
    course, records = from_table(Course, table.get("course", {}), "the course"), RunFolder(folder).records()
    return Trained(
        course=course,
        rounds=[_line(record) for record in records],
        curves=dev_curves(course, records, silo),
        metric=metric_name(deciding(course, silo)),
        compared=comparison(folder, silo) if (folder / "result.json").exists() else [],
    )


def _line(record: RoundRecord) -> RoundLine:
    return RoundLine(
        number=record.round,
        stage=record.stage,
        asked=len(record.asked),
        answered=[silo for silo in record.asked if silo in record.accepted],
        refused=[(silo, why_refused(code)) for silo, code in record.refused],
        void=record.void,
        seconds=record.seconds,
        bytes_up=record.bytes_up,
        bytes_down=record.bytes_down,
    )


def deciding(course: Course, silo: str) -> str:
    """The metric that decides on dev, of a silo's skill; nothing for a silo that is not in the course."""
    plan = next((plan for plan in course.silos if plan.name == silo), None)
    return make_skill(plan.skill, plan.skill_options, "course").higher_is_better if plan else ""


def seconds_left(status: TrainingStatus, found: Trained | None) -> float | None:
    """For the rounds to come, if they go as the last ones did; None before the first and after the last."""
    going = status.state == "running" and status.first < status.round < status.rounds
    recent = [line.seconds for line in found.rounds[-3:]] if found and going else []
    return fmean(recent) * (status.rounds - status.round) if recent else None


# -- curves --------------------------------------------------------------------------------------------------------


def dev_curves(course: Course, records: Sequence[RoundRecord], first: str) -> dict[str, dict[str, Points]]:
    """Dev scores by the rounds behind a model: what is received in round 3 has two behind it."""
    names = sorted((plan.name for plan in course.silos), key=lambda name: name != first)
    curves: dict[str, dict[str, Points]] = {}
    for name in names:
        metric = deciding(course, name)
        curves[name] = {
            point: list(_dev_points(records, name, f"{point}/dev/{metric}", behind))
            for point, behind in (("received", 1), ("personal", 0))
        }
    return {name: lines for name, lines in curves.items() if any(lines.values())}


def _dev_points(records: Sequence[RoundRecord], silo: str, key: str, behind: int) -> Iterator[tuple[float, float]]:
    for record in records:
        n, mean, _ = record.metrics.get(silo, {}).get(key, (0, 0.0, 0.0))
        if n:
            yield float(record.round - behind), mean


# -- what training together gave -----------------------------------------------------------------------------------

_MEANING: Mapping[Point, tuple[str, str]] = {
    "received": ("Together, as received", "the shared model after the last round"),
    "personal": ("Together, then here", "the same after this silo's own training"),
    "best": ("Best on dev", "the best of all rounds: it answers here"),
}


def comparison(folder: Path, silo: str) -> list[Compared]:
    """The models of a finished run on this silo's questions; what it could do alone first, where that is known."""
    run = load_run(folder)
    if silo not in run.deciding:
        return []
    found = (_compared(run, silo, point, *_MEANING[point]) for point in _MEANING)
    together = [row for row in found if row.dev or row.test]
    return [*_alone(run, silo, max((row.questions for row in together), default=0)), *together]


def _compared(run: Run, silo: str, point: Point, name: str, meaning: str) -> Compared:
    metric = {silo: run.deciding[silo]}
    dev, test = (run.summaries(point, split, metric).get(silo) for split in ("dev", "test"))
    return Compared(name, meaning, score(dev) if dev else None, score(test) if test else None, test.n if test else 0)


def _alone(run: Run, silo: str, questions: int) -> Iterator[Compared]:
    """From a run beside this one in which nothing was sent, or from a stage of this one."""
    for other in _isolated_beside(run):
        if silo not in other.deciding:
            continue
        row = _compared(other, silo, "best", "Alone", "this silo's own training, without the others")
        if row.questions == questions:  # a store may have got more since
            yield replace(row, alone=True)
            return
    metric = run.deciding[silo]
    records = [record for record in run.records if record.stage == ALONE]
    points = list(_dev_points(records, silo, f"personal/dev/{metric}", 0))
    if points:
        best = max(value for _, value in points)
        yield Compared("Alone", "this silo's own training, before anything was shared", Estimate(best), alone=True)


def _isolated_beside(run: Run) -> Iterator[Run]:
    """Finished runs in the same folder, of the same alliance, seed and questions, each silo alone."""
    for course_file in sorted(run.folder.parent.glob("*/course.toml")):
        folder = course_file.parent
        if folder == run.folder or not (folder / "result.json").exists():
            continue
        try:
            if read_toml(course_file).get("course", {}).get("method") == ISOLATED:
                other = load_run(folder)
                check_comparable(run, other)
                yield other
        except FedQAError:
            continue
