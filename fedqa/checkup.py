# SPDX-License-Identifier: Apache-2.0
"""An alliance looked through before it trains: what is in its silos' data, what would stop it, what a round costs."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

import torch

from fedqa.config import Project
from fedqa.data.doctor import Findings, examine
from fedqa.data.records import Collection
from fedqa.data.splits import check_disjoint
from fedqa.errors import ConfigError, DataError, ModelError
from fedqa.federation.run_folder import RunFolder
from fedqa.federation.silo import Silo
from fedqa.inspection import preview
from fedqa.runs import Setting, drawn_silo, skills_of, workplace
from fedqa.seeds import generator
from fedqa.training import fit, one_thread

_STEPS = 3  # timed; the first is slower than the rest, so the median counts


@dataclass(frozen=True)
class Checkup:
    """One silo. `problem` would stop the training; without one it is empty."""

    silo: str
    findings: Findings | None  # None if the data cannot be read
    problem: str = ""
    epoch_seconds: float | None = None  # on one core of this machine


@dataclass(frozen=True)
class Diagnosis:
    """All silos, and the bytes one of them exchanges in a round of the first stage."""

    checkups: tuple[Checkup, ...]
    problem: str = ""  # that is no single silo's: a model that cannot be loaded
    bytes_up: int = 0
    bytes_down: int = 0

    @property
    def can_train(self) -> bool:
        return not self.problem and not any(checkup.problem for checkup in self.checkups)


def check_up(project: Project, say: Callable[[str], None] = lambda text: None) -> Diagnosis:
    """Read every silo's data, and train a few steps with what can be trained on. Nothing is written."""
    checkups, collections = [], {}
    for plan in project.course.silos:
        say(f"examining {plan.name}")
        checkup, collection = _examined(project, plan.name)
        checkups.append(checkup)
        if collection:
            collections[plan.name] = collection
    try:
        say(f"timing the model {project.course.model!r}")
        first = next(iter(preview(project.course).stages), None)
        setting = Setting(project.course, *workplace(project.course), skills_of(project.course), [], RunFolder(Path()))
    except (ConfigError, ModelError) as problem:
        return Diagnosis(tuple(checkups), str(problem))
    timed = tuple(
        _timed(setting, checkup, collections[checkup.silo]) if checkup.silo in collections else checkup
        for checkup in checkups
    )
    return Diagnosis(timed, "", first.bytes_up if first else 0, first.bytes_down if first else 0)


def _examined(project: Project, name: str) -> tuple[Checkup, Collection | None]:
    problems: list[str] = []
    with _noting(problems):
        collection = drawn_silo(name, project.data[name], project.folder, project.course.seed)
    if problems:
        return Checkup(name, None, problems[0]), None
    with _noting(problems):
        check_disjoint(collection)
    return Checkup(name, examine(collection), "".join(problems)), collection


def _timed(setting: Setting, checkup: Checkup, collection: Collection) -> Checkup:
    problems: list[str] = []
    with _noting(problems):
        silo = setting.make_silo(checkup.silo, collection)
        seconds = epoch_seconds(silo) if setting.course.stages else None
        return replace(checkup, epoch_seconds=seconds)
    return replace(checkup, problem=checkup.problem or problems[0])


@contextmanager
def _noting(problems: list[str]) -> Iterator[None]:
    """Errors of data and settings end what is inside, but not the examination."""
    try:
        yield
    except (ConfigError, DataError) as problem:
        problems.append(str(problem))


def epoch_seconds(silo: Silo) -> float:
    """How long a pass over the silo's training questions takes here, from a few steps of it."""
    stage = silo.course.stages[0]
    local = replace(silo.course.local_of(silo.name, stage), steps=_STEPS)
    bench = silo.workshop.bench(silo.skill, 0)
    bench.model.reset()
    bench.optimiser.start(local, None, 0)
    bench.model.module.train()
    times = [time.perf_counter()]
    with one_thread(), torch.random.fork_rng(devices=[]):
        fit(
            lambda batch: silo.skill.loss(bench.model.module, batch),
            bench.model.trained_parameters(),
            bench.optimiser,
            data=silo.features,
            local=local,
            terms=stage.objective,
            rng=generator(silo.course.seed, "checkup", silo.name),
            progress=lambda done, total: times.append(time.perf_counter()),
        )
    return median(after - before for before, after in pairwise(times)) * silo.features.n_batches(local.batch)
