# SPDX-License-Identifier: Apache-2.0
"""A training from files to result: read the silos' data, build the silos, run the course, write the result."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedqa.config import Project, SiloData, load_project, save_project
from fedqa.cores import cores
from fedqa.data.formats import read_format
from fedqa.data.queries import about_database, queries_alone
from fedqa.data.records import Collection, Quarantined
from fedqa.data.sample import sample_silo
from fedqa.data.sample_queries import sample_queries_of
from fedqa.data.splits import check_disjoint, limited, replayed, split, with_checks
from fedqa.engines.local import InProcess, Processes
from fedqa.errors import ConfigError, DataError, RunError
from fedqa.evaluation.result import result_of
from fedqa.federation.coordinator import Coordinator, Start
from fedqa.federation.course import POOL, Course
from fedqa.federation.engine import Silent, Watcher
from fedqa.federation.run_folder import RunFolder
from fedqa.federation.silo import Silo
from fedqa.federation.silo_state import SiloState
from fedqa.federation.workshop import Workshop
from fedqa.files import write_text
from fedqa.models.backbones import Backbone, frozen_below, load_backbone
from fedqa.models.patches import patched
from fedqa.seeds import derive
from fedqa.skills import make_skill, started
from fedqa.skills.parse import Parse
from fedqa.skills.silo_texts import NO_TEXTS, Texts, silo_texts
from fedqa.skills.skill import Features, Skill
from fedqa.skills.texts import check_length


def read_silo(name: str, data: SiloData, folder: Path, seed: int) -> Collection:
    """A silo's data, limited and split. The same seed gives the same questions on every machine."""
    collection = drawn_silo(name, data, folder, seed)
    with _naming(name):
        check_disjoint(collection)
    return collection


def drawn_silo(name: str, data: SiloData, folder: Path, seed: int) -> Collection:
    """As `read_silo`, but not yet checked for questions that stand in two splits."""
    with _naming(name):
        if data.sample and data.part == "queries":
            collection = sample_queries_of(data.sample, data.database_from(folder))
        elif data.sample:
            collection = sample_silo(data.sample)
        else:
            collection = read_format(data.format, folder / data.path, data.options)
            if data.database:
                asked = queries_alone(collection) if data.format == "store" else collection
                collection = about_database(asked, data.database_from(folder))
        if data.limit is not None:
            collection = limited(collection, data.limit, seed)
        return split(collection, seed)


def databases_of(project: Project) -> dict[str, str]:
    """Where the silos' databases are, of those that have one."""
    return {name: data.database_from(project.folder) for name, data in project.data.items() if data.database}


@contextmanager
def _naming(silo: str) -> Iterator[None]:
    """Errors from inside say which silo they are about."""
    try:
        yield
    except (ConfigError, DataError) as problem:
        raise type(problem)(f"silo {silo!r}: {problem}") from problem


@dataclass
class Setting:
    """Everything a course needs on this machine: the model, the workshop, the silos."""

    course: Course
    backbone: Backbone
    workshop: Workshop
    skills: Mapping[str, Skill]  # by silo
    silos: Sequence[Silo]
    folder: RunFolder
    databases: Mapping[str, str] = field(default_factory=dict)  # by silo, of those that ask one; in no message

    def start_of(self, stage: int) -> Start:
        """Layout and loaded weights of a stage; silos of different skills must agree on what travels."""
        by_skill = {id(skill): self.workshop.bench(skill, stage).model for skill in self.skills.values()}
        models = list(by_skill.values())
        if not all(model.model.tags for model in models):
            raise ConfigError('a model without parameters cannot be trained; take method = "zero_shot"')
        if not all(model.trained_parameters() for model in models):
            raise ConfigError(
                f"stage {self.course.stages[stage].name!r} trains nothing: all parameters are frozen or synced; "
                "make some shared or private"
            )
        if len({model.layout.fingerprint for model in models}) > 1:
            raise ConfigError(
                f"stage {self.course.stages[stage].name!r}: the skills of this alliance have no common shared part; "
                "make what differs (the heads) private"
            )
        return Start(models[0].layout, models[0].loaded_received.clone())

    def make_silo(self, name: str, collection: Collection) -> Silo:
        """A silo of the course with its data."""
        skill = self.skills[name]
        folder = self.folder.silo(name)
        with _naming(name):
            # First the checks: what is not trained on this time is checked all the same.
            taken = self._replayed(name, with_checks(collection), SiloState(folder / "state"))
            features = self._features(name, taken)
        approved = frozenset({self.course.fingerprint})  # whoever holds all the silos' data has approved
        texts = self._texts(taken) if self.course.needs_texts else NO_TEXTS
        return Silo(name, self.course, skill, features, collection, self.workshop, folder, approved, texts)

    def _features(self, name: str, collection: Collection) -> Features:
        skill, seed = self.skills[name], derive(self.course.seed, "features", name)
        if isinstance(skill, Parse):
            return skill.prepare(collection, self.backbone, seed, database=self.databases.get(name, ""))
        return skill.prepare(collection, self.backbone, seed)

    def _texts(self, collection: Collection) -> Texts:
        """A silo's texts without its labels, for what the course does with them."""
        for stage in self.course.stages:
            for what, length in stage.text_lengths.items():
                check_length(f"stage {stage.name!r}", f"{what}.length", length, self.backbone)
        return silo_texts(collection, self.backbone.tokenizer)

    def _replayed(self, name: str, collection: Collection, state: SiloState) -> Collection:
        """What is trained on: all of it, but where a run goes on, only some of what it was trained on before."""
        if not self.course.stages:
            return collection
        local = self.course.local_of(name, self.course.stages[-1])
        known = state.trained()
        # Other old examples each time the run goes on, and the same ones if it is interrupted.
        return replayed(collection, known, local.replay, derive(self.course.seed, "replay", name, len(known)))

    def make_pool(self, collections: Sequence[Collection]) -> Silo:
        """The coordinator's own silo of central training."""
        skills = {id(skill): skill for skill in self.skills.values()}
        if len(skills) > 1:
            raise ConfigError(
                "central training needs silos of one skill: examples of different skills cannot be pooled"
            )
        (skill,) = skills.values()
        pooled = pool(collections)
        seed = derive(self.course.seed, "features", self.course.draws_as(POOL))
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
            about = f"{number}/{example.about}" if example.about else ""
            examples.append(replace(example, id=f"{number}/{example.id}", evidence=spans, about=about))
    return Collection(tuple(documents), tuple(examples))


def build(
    course: Course,
    collections: Mapping[str, Collection],
    folder: Path,
    loaded: Backbone | None = None,
    databases: Mapping[str, str] | None = None,
) -> Setting:
    """Silos ready for work. `loaded` is what `load_model` gave, where courses of one model follow one another;
    `databases` are those that silos have for scoring their SQL, by silo."""
    run = RunFolder(folder)
    backbone, workshop = workplace(course, loaded)
    setting = Setting(course, backbone, workshop, skills_of(course), [], run, databases or {})
    silos = []
    for plan in course.silos:
        collection = collections[plan.name]
        write_quarantine(run.silo(plan.name) / "quarantine.tsv", collection.quarantine)
        silos.append(setting.make_silo(plan.name, collection))
    return replace(setting, silos=silos)


def workplace(course: Course, loaded: Backbone | None = None) -> tuple[Backbone, Workshop]:
    """The model a course starts from, and the workshop that builds on it."""
    loaded = loaded or load_model(course.model, course.freeze_layers, course.seed)
    backbone = patched(loaded, course.patches, derive(course.seed, "patch") % 2**31)
    return backbone, Workshop(course, lambda skill: started(skill, backbone, derive(course.seed, "head") % 2**31))


def load_model(model: str, freeze_layers: int, seed: int) -> Backbone:
    """A course's model without its patches."""
    return frozen_below(load_backbone(model, derive(seed, "model") % 2**31), freeze_layers)


def skills_of(course: Course) -> dict[str, Skill]:
    """The skill of each silo. Silos with the same skill and options share one skill object and so one model."""
    made: dict[str, Skill] = {}
    skills = {}
    for plan in course.silos:
        key = f"{plan.skill} {sorted(plan.skill_options.items())}"
        skill = make_skill(plan.skill, plan.skill_options, f"[skills.{plan.skill}]")
        skills[plan.name] = made.setdefault(key, skill)
    return skills


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
    more: int | None = None,
    processes: int | None = None,
    watcher: Watcher | None = None,
    say: Callable[[str], None] = lambda text: None,
    on_data: Callable[[Mapping[str, Collection]], None] = lambda collections: None,
) -> dict[str, Any]:
    """Run a course with all silos on this machine; returns what result.json holds.

    `resume` goes on with a run that was broken off, `more` with one that has ended, for so many rounds, with the
    examples that silos have by now. `on_data` sees what was read, and left out, before the training begins.
    """
    folder = RunFolder(out)
    if more is not None:
        project = _longer(folder, project, more)
    elif resume:
        project = _as_long(folder, project)
    finished = _finished(folder, project, resume or more is not None)
    if finished is not None:
        return finished
    course, watcher = project.course, watcher or Silent()
    collections = {}
    for plan in course.silos:
        say(f"reading {plan.name}")
        collections[plan.name] = read_silo(plan.name, project.data[plan.name], project.folder, course.seed)
    on_data(collections)
    say(f"preparing the model {course.model!r}")
    setting = build(course, collections, out, databases=databases_of(project))
    with folder.alone():
        finished = _finished(folder, project, resume or more is not None)  # by another process, in the meantime
        if finished is not None:
            return finished
        _claim(folder, project)
        return run_setting(setting, processes=processes, watcher=watcher)


def run_setting(
    setting: Setting,
    *,
    processes: int | None = None,
    watcher: Watcher | None = None,
    engine: InProcess | Processes | None = None,
) -> dict[str, Any]:
    """Run a course with silos that are built already, on an engine of so many processes or on one that is given."""
    watcher = watcher or Silent()
    engine = engine or engine_for(setting, processes, watcher)
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
    n = min(processes or cores(), len(setting.silos))
    if n == 1:
        return InProcess(setting.silos, watcher)
    largest = max((setting.start_of(i).weights.numel() for i in range(len(setting.course.stages))), default=0)
    return Processes(setting.silos, n, largest * 4, watcher)


def _finished(folder: RunFolder, project: Project, resume: bool) -> dict[str, Any] | None:
    """The result if there is nothing left to do. Raises RunError if the folder holds what may not be continued."""
    course_file = folder.path / "course.toml"
    if not course_file.exists():
        return None
    if not resume:
        raise RunError(f"{folder.path} holds a run already; continue it with --resume, or choose another --out")
    held = with_rounds(load_project(course_file).course, project.course.rounds)
    if held.fingerprint != project.course.fingerprint:
        raise RunError(f"{folder.path} holds a run of another course; choose another --out")
    if not (folder.path / "result.json").exists():
        return None
    result = folder.result()
    return result if result["rounds"] == project.course.rounds else None


def _as_long(folder: RunFolder, project: Project) -> Project:
    """The project with as many rounds as the run has been given by now."""
    course_file = folder.path / "course.toml"
    if not course_file.exists():
        return project
    held = load_project(course_file).course
    longer = with_rounds(project.course, held.rounds)
    return replace(project, course=longer) if longer.fingerprint == held.fingerprint else project


def _longer(folder: RunFolder, project: Project, more: int) -> Project:
    """The project with more rounds, if the run has ended; else it first ends with those it has."""
    project = _as_long(folder, project)
    if not project.course.stages:
        raise ConfigError(f"method {project.course.method!r} trains nothing, so there are no more rounds of it")
    ended = (folder.path / "result.json").exists() and folder.result()["rounds"] == project.course.rounds
    if not ended:
        return project
    return replace(project, course=with_rounds(project.course, project.course.rounds + more))


def with_rounds(course: Course, rounds: int) -> Course:
    """The course with so many rounds in all: its last stage is longer. The same if that is not possible."""
    last = rounds - sum(stage.rounds for stage in course.stages[:-1])
    if not course.stages or last < course.stages[-1].rounds:
        return course
    return replace(course, stages=(*course.stages[:-1], replace(course.stages[-1], rounds=last)))


def _claim(folder: RunFolder, project: Project) -> None:
    """Make the folder this run's own, once its data and model are known to be usable; data may move between runs."""
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.write_environment()
    save_project(project, folder.path / "course.toml")
