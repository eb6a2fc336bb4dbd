# SPDX-License-Identifier: Apache-2.0
"""A finished run, opened again: its course, a silo with its data, and the silo's model at one of its points."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from fedqa.config import Project, load_project
from fedqa.errors import RunError, unknown
from fedqa.federation.course import Course
from fedqa.federation.messages import Point
from fedqa.federation.run_folder import RunFolder
from fedqa.federation.silo import Silo
from fedqa.federation.silo_state import Best, SiloState
from fedqa.federation.workshop import Workshop
from fedqa.runs import Setting, databases_of, read_silo, skills_of, workplace
from fedqa.skills.skill import Skill


@dataclass(frozen=True)
class OpenRun:
    """A run whose silos are on this machine."""

    folder: Path
    project: Project
    setting: Setting

    @property
    def course(self) -> Course:
        return self.project.course

    def silo(self, name: str) -> Silo:
        """The silo with its data, read where the run read them."""
        check_silo(self.folder, self.course, name)
        data = self.project.data[name]
        return self.setting.make_silo(name, read_silo(name, data, self.project.folder, self.course.seed))

    def model(self, name: str, point: Point = "best") -> nn.Module:
        """The silo's model alone, for asking it: no data are read, nothing is prepared for training."""
        check_silo(self.folder, self.course, name)
        tensors = _tensors(self.course, self.setting.folder.silo(name), point)
        return _copy(self.setting.workshop, self.setting.skills[name], self.course, tensors)

    def best(self, name: str) -> Best | None:
        """Where the silo's best model comes from; None if there were no dev questions to choose by."""
        return SiloState(self.setting.folder.silo(name) / "state").best()


def open_run(folder: Path) -> OpenRun:
    """Load the course and the model it started from. Raises RunError unless the run has ended."""
    project = load_course(folder)
    RunFolder(folder).result()
    backbone, workshop = workplace(project.course)
    skills, databases = skills_of(project.course), databases_of(project)
    setting = Setting(project.course, backbone, workshop, skills, [], RunFolder(folder), databases)
    return OpenRun(folder, project, setting)


def load_course(folder: Path) -> Project:
    """The course of a run, ended or not, and where its silos' data are."""
    course_file = folder / "course.toml"
    if not course_file.exists():
        what = "is not a run folder: it has no course.toml" if folder.exists() else "does not exist"
        raise RunError(f"{folder} {what}; give the folder that `fedqa train --out` was given")
    return load_project(course_file)


def check_silo(folder: Path, course: Course, name: str) -> None:
    known = [plan.name for plan in course.silos]
    if name not in known:
        raise RunError(unknown("silo", name, known, str(folder)))


def skill_of(folder: Path, silo: str) -> str:
    """The name of the skill that a silo of a run learnt."""
    course = load_course(folder).course
    check_silo(folder, course, silo)
    return next(plan.skill for plan in course.silos if plan.name == silo)


def model_at(silo: Silo, point: Point) -> nn.Module:
    """The silo's model, a copy of its own: silos of a run, and points of a silo, take turns on one bench."""
    return _copy(silo.workshop, silo.skill, silo.course, _tensors(silo.course, silo.folder, point))


def _copy(workshop: Workshop, skill: Skill, course: Course, tensors: Mapping[str, Tensor]) -> nn.Module:
    model = workshop.bench(skill, len(course.stages) - 1).model
    model.reset()
    model.buffer.copy_(model.loaded)  # the values may be of an earlier stage, and say nothing of what came later
    model.load(tensors)
    return copy.deepcopy(model.module).eval()


def _tensors(course: Course, folder: Path, point: Point) -> dict[str, Tensor]:
    """What a silo kept. Without dev questions there is no best model; a silo that never trained has no personal one."""
    state = SiloState(folder / "state")
    if not course.stages:
        return {}
    if point == "best" and state.best():
        return state.best_tensors()
    personal = {} if point == "received" else state.personal(course.rounds)
    kept = personal or state.newest("stage", len(course.stages), len(course.stages) + 1)
    if not kept:
        raise RunError(
            f"silo {folder.name!r} has no model in {folder}: it did not answer when the run ended, "
            "and errors.log there may say why; train again with another --out"
        )
    return kept
