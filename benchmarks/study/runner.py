# SPDX-License-Identifier: Apache-2.0
"""A study: many trainings that differ in one thing each, over several seeds, that can be interrupted and resumed.

Every training (an arm with a seed) leaves one JSON file with its score for every test question, so tables, intervals
and tests are made from files and never need a training again. A file counts as long as the arm, the data and the seed
are the same; whatever is missing is trained, one training a core.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from benchmarks.study.jobs import done, keep, kept, loaded, path_of
from fedqa.config import Alliance, course_of
from fedqa.data.records import Collection
from fedqa.engines.local import InProcess
from fedqa.evaluation.run_scores import POINTS
from fedqa.federation.course import Course
from fedqa.federation.messages import Envelope, Request
from fedqa.federation.run_folder import RoundRecord, RunFolder
from fedqa.runs import build, run_setting
from fedqa.tables import from_table

Values = Mapping[str, Mapping[str, tuple[float, ...]]]  # silo -> metric -> one value per question
Data = Callable[[int, int | None], Mapping[str, Collection]]  # seed, an arm's `train` -> each silo's data


class Witness(Protocol):
    """Sees all that reaches the coordinator in one training, and says what of it is kept with the outcome."""

    def see(self, envelope: Envelope) -> None: ...

    def told(self, records: Sequence[RoundRecord]) -> dict[str, Any]:
        """As JSON has it, after the last round."""


@dataclass(frozen=True)
class Arm:
    """One line of a study: what an alliance file would say, without the seed.

    Where settings have no `silo`, each set of data is a silo of the study's skill.
    """

    name: str
    settings: Mapping[str, Any]
    train: int | None = None  # how much to train on, where less than the study's; `Data` says in what unit
    seeds: Sequence[int] | None = None  # None = the study's
    witness: Callable[[Course], Witness] | None = None


@dataclass(frozen=True)
class Outcome:
    """What one training gave; `test` and `dev` are by point: received, personal, best."""

    arm: str
    seed: int
    key: str  # of the arm's settings and the data
    seconds: float  # of CPU time
    rounds: int
    bytes_up: int  # of all silos and rounds
    dev: Mapping[str, Values]
    test: Mapping[str, Values]
    witnessed: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """`data` must give the same questions whenever it is asked with the same seed."""

    name: str
    arms: Sequence[Arm]
    seeds: Sequence[int]
    data: Data
    folder: Path  # of the outcomes
    metrics: tuple[str, ...] = ("map", "mrr")  # none: all that a silo has, where skills differ
    skill: str = "match"  # of every silo, where arms do not name their silos

    def run(self) -> list[Outcome]:
        """All outcomes, in the order of arms and seeds; those that are missing are trained first."""
        jobs = [(arm, seed) for seed in self.seeds for arm in self.arms if arm.seeds is None or seed in arm.seeds]
        found = [outcome for arm, seed in jobs if (outcome := self._kept(arm, seed))]
        known = {(outcome.arm, outcome.seed) for outcome in found}
        missing = [(arm, seed) for arm, seed in jobs if (arm.name, seed) not in known]
        named = [(f"{arm.name!r}, seed {seed}", (self, arm, seed)) for arm, seed in missing]
        trained = done(f"{self.name}: trainings", _train, named)
        order = {arm.name: place for place, arm in enumerate(self.arms)}
        return sorted([*found, *trained], key=lambda outcome: (order[outcome.arm], outcome.seed))

    def _kept(self, arm: Arm, seed: int) -> Outcome | None:
        return kept(Outcome, self._path(arm, seed), self._key(arm, seed))

    def _path(self, arm: Arm, seed: int) -> Path:
        return path_of(self.folder, arm.name, seed)

    def _key(self, arm: Arm, seed: int) -> str:
        settings = json.dumps(arm.settings, sort_keys=True).encode()
        return f"{hashlib.sha256(settings).hexdigest()[:16]}-{_digest(self.data, seed, arm.train)}"

    def _course(self, arm: Arm, seed: int) -> Course:
        names = _drawn(self.data, seed, arm.train)
        silos = [{"name": name, "skill": self.skill, "data": {"sample": name}} for name in names]
        table = {"name": self.name, "seed": seed, "silo": silos, **arm.settings}
        return course_of(from_table(Alliance, table, f"arm {arm.name!r}"))


def run_groups(study: Study, groups: Sequence[Sequence[Arm]], only: Sequence[str] | None = None) -> list[Outcome]:
    """A study's arms group by group, what matters most first, should it be broken off; of all, or those named."""
    chosen = [[arm for arm in group if only is None or arm.name in only] for group in groups]
    return [outcome for arms in chosen for outcome in replace(study, arms=arms).run()]


@dataclass
class Witnessed(InProcess):
    """Silos in this process, whose answers a witness sees before the coordinator does."""

    witness: Witness | None = None

    def ask(self, requests: Mapping[str, Request], timeout_s: float) -> Iterator[Envelope]:
        for envelope in super().ask(requests, timeout_s):
            if self.witness:
                self.witness.see(envelope)
            yield envelope


def _train(study: Study, arm: Arm, seed: int) -> Outcome:
    began = time.process_time()
    course = study._course(arm, seed)
    with TemporaryDirectory() as folder:
        model = loaded(course.model, course.freeze_layers, course.seed)
        setting = build(course, _drawn(study.data, seed, arm.train), Path(folder), model)
        witness = arm.witness(course) if arm.witness else None
        engine = Witnessed(setting.silos, witness=witness) if witness else None
        result = run_setting(setting, processes=1, engine=engine)
        witnessed = witness.told(setting.folder.records()) if witness else {}
        dev, test = (_values(setting.folder, course, split, study.metrics) for split in ("dev", "test"))
    spent = time.process_time() - began
    key = study._key(arm, seed)
    outcome = Outcome(arm.name, seed, key, round(spent, 1), result["rounds"], result["bytes_up"], dev, test, witnessed)
    keep(outcome, study._path(arm, seed))
    return outcome


def _values(folder: RunFolder, course: Course, split: str, metrics: Sequence[str]) -> dict[str, Values]:
    """Every question's scores by point, as the silos wrote them down."""

    def read(silo: str, point: str) -> dict[str, tuple[float, ...]]:
        values = json.loads((folder.silo(silo) / "scores" / f"{point}-{split}.json").read_text(encoding="utf-8"))
        return {metric: tuple(round(value, 4) for value in values[metric]) for metric in metrics or values}

    return {point: {plan.name: read(plan.name, point) for plan in course.silos} for point in POINTS}


@lru_cache(maxsize=4)
def _drawn(data: Data, seed: int, train: int | None) -> Mapping[str, Collection]:
    return data(seed, train)


@lru_cache(maxsize=64)
def _digest(data: Data, seed: int, train: int | None) -> str:
    """Of every silo's questions and documents."""
    digest = hashlib.sha256()
    for name, collection in _drawn(data, seed, train).items():
        examples = [(e.id, e.split, e.question) for e in collection.examples]
        digest.update(json.dumps([name, examples, [d.id for d in collection.documents]]).encode())
    return digest.hexdigest()[:16]
