# SPDX-License-Identifier: Apache-2.0
"""A training from files to result: read the silos' data, build the silos, run the course, write the result."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedqa.config import Project, SiloData, save_project
from fedqa.data.formats import read_format
from fedqa.data.records import Collection, Quarantined
from fedqa.data.sample import sample_silo
from fedqa.data.splits import check_disjoint, limited, split
from fedqa.engines.local import InProcess, Processes
from fedqa.errors import ConfigError, DataError, RunError
from fedqa.evaluation.result import result_of
from fedqa.federation.coordinator import Coordinator, Start
from fedqa.federation.course import POOL, Course
from fedqa.federation.engine import Silent, Watcher
from fedqa.federation.run_folder import RunFolder
from fedqa.federation.silo import Silo
from fedqa.federation.workshop import Workshop
from fedqa.files import write_text
from fedqa.models.backbones import Backbone, load_backbone
from fedqa.seeds import derive
from fedqa.skills import make_skill
from fedqa.skills.skill import Skill


def read_silo(name: str, data: SiloData, folder: Path, seed: int) -> Collection:
    """A silo's data, limited and split. The same seed gives the same questions on every machine."""
    try:
        if data.sample:
            collection = sample_silo(data.sample)
        else:
            collection = read_format(data.format, folder / data.path, data.options)
        if data.limit is not None:
            collection = limited(collection, data.limit, seed)
        collection = split(collection, seed)
        check_disjoint(collection)
    except (ConfigError, DataError) as problem:
        raise type(problem)(f"silo {name!r}: {problem}") from problem
    return collection


@dataclass
class Setting:
    """Everything a course needs on this machine: the model, the workshop, the silos."""

    course: Course
    backbone: Backbone
    workshop: Workshop
    skills: Mapping[str, Skill]  # by silo
    silos: Sequence[Silo]
    folder: RunFolder

    def start_of(self, stage: int) -> Start:
        """Layout and loaded weights of a stage; silos of different skills must agree on what travels."""
        layouts = {id(skill): self.workshop.bench(skill, stage).model for skill in self.skills.values()}
        models = list(layouts.values())
        if len({model.layout.fingerprint for model in models}) > 1:
            raise ConfigError(
                f"stage {self.course.stages[stage].name!r}: the skills of this alliance have no common shared part; "
                "make what differs (the heads) private"
            )
        return Start(models[0].layout, models[0].loaded_received.clone())

    def make_pool(self, collections: Sequence[Collection]) -> Silo:
        """The coordinator's own silo of central training."""
        skills = {id(skill): skill for skill in self.skills.values()}
        if len(skills) > 1:
            raise ConfigError(
                "central training needs silos of one skill: examples of different skills cannot be pooled"
            )
        (skill,) = skills.values()
        pooled = pool(collections)
        seed = derive(self.course.seed, "features", POOL)
        features = skill.prepare(pooled, self.backbone, seed)
        approved = frozenset({self.course.fingerprint})
        return Silo(POOL, self.course, skill, features, pooled, self.workshop, self.folder.path / POOL, approved)


def pool(collections: Sequence[Collection]) -> Collection:
    """One collection of several; ids are made unique by position."""
    documents, examples = [], []
    for number, collection in enumerate(collections):
        documents += [replace(document, id=f"{number}/{document.id}") for document in collection.documents]
        for example in collection.examples:
            spans = tuple(replace(span, document=f"{number}/{span.document}") for span in example.evidence)
            examples.append(replace(example, id=f"{number}/{example.id}", evidence=spans))
    return Collection(tuple(documents), tuple(examples))


def build(course: Course, collections: Mapping[str, Collection], folder: Path) -> Setting:
    """Silos ready for work. Silos with the same skill and options share one skill object and so one model."""
    run = RunFolder(folder)
    backbone = load_backbone(course.model, derive(course.seed, "model") % 2**31)
    workshop = Workshop(course, lambda skill: skill.build(backbone, derive(course.seed, "head") % 2**31))
    made: dict[str, Skill] = {}
    skills: dict[str, Skill] = {}
    silos = []
    for plan in course.silos:
        key = f"{plan.skill} {sorted(plan.skill_options.items())}"
        skill = made.setdefault(key, make_skill(plan.skill, plan.skill_options, f"[skills.{plan.skill}]"))
        skills[plan.name] = skill
        try:
            features = skill.prepare(collections[plan.name], backbone, derive(course.seed, "features", plan.name))
        except DataError as problem:
            raise DataError(f"silo {plan.name!r}: {problem}") from problem
        approved = frozenset({course.fingerprint})  # whoever holds all the silos' data has approved
        silo_folder = run.silo(plan.name)
        write_quarantine(silo_folder / "quarantine.tsv", collections[plan.name].quarantine)
        silo = Silo(plan.name, course, skill, features, collections[plan.name], workshop, silo_folder, approved)
        silos.append(silo)
    return Setting(course, backbone, workshop, skills, silos, run)


def write_quarantine(path: Path, records: Sequence[Quarantined]) -> None:
    """What was left out of a silo's data, for its own people."""
    if records:
        lines = ["place\treason\tremedy", *(f"{r.place}\t{r.reason}\t{r.remedy}".replace("\n", " ") for r in records)]
        write_text(path, "\n".join(lines) + "\n")


def train(
    project: Project,
    out: Path,
    *,
    resume: bool = False,
    processes: int | None = None,
    watcher: Watcher | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Run a course with all silos on this machine; returns what result.json holds."""
    folder = RunFolder(out)
    finished = _claim(folder, project, resume)
    if finished is not None:
        return finished
    course, watcher = project.course, watcher or Silent()
    collections = {}
    for plan in course.silos:
        say(f"reading {plan.name}")
        collections[plan.name] = read_silo(plan.name, project.data[plan.name], project.folder, course.seed)
    say(f"preparing the model {course.model!r}")
    setting = build(course, collections, out)
    return run_setting(setting, processes=processes, watcher=watcher)


def run_setting(setting: Setting, *, processes: int | None = None, watcher: Watcher | None = None) -> dict[str, Any]:
    """Run a course with silos that are built already."""
    watcher = watcher or Silent()
    engine = engine_for(setting, processes, watcher)
    coordinator = Coordinator(
        setting.course, engine, setting.folder, setting.start_of, setting.make_pool, watcher=watcher
    )
    try:
        outcome = coordinator.run()
    finally:
        engine.close()
    result = result_of(setting.course, setting.folder.records(), outcome)
    setting.folder.write_result(result)
    return result


def engine_for(setting: Setting, processes: int | None, watcher: Watcher) -> InProcess | Processes:
    """One process a core, but no more than there are silos."""
    n = min(processes or os.cpu_count() or 1, len(setting.silos))
    if n == 1:
        return InProcess(setting.silos, watcher)
    largest = max((setting.start_of(i).weights.numel() for i in range(len(setting.course.stages))), default=0)
    return Processes(setting.silos, n, largest * 4, watcher)


def _claim(folder: RunFolder, project: Project, resume: bool) -> dict[str, Any] | None:
    """Make the folder this run's own; returns the result if there is nothing left to do."""
    course_file = folder.path / "course.toml"
    if course_file.exists():
        if not resume:
            raise RunError(f"{folder.path} holds a run already; continue it with --resume, or choose another --out")
        from fedqa.config import load_project

        if load_project(course_file).course.fingerprint != project.course.fingerprint:
            raise RunError(f"{folder.path} holds a run of another course; choose another --out")
        return folder.result() if (folder.path / "result.json").exists() else None
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.write_environment()
    save_project(project, course_file)
    return None
