# SPDX-License-Identifier: Apache-2.0
"""The experiment that the FedQAS paper left out: what becomes of a reader whose people correct it, round after round?

A part of one silo's training questions is held back as a stream. After a first training its people ask the next ones
of the stream, say which answers were wrong, and give the right ones; then a round is trained, and so on. What is
corrected goes through the silo's store, becomes an example and a check, and the run goes on with it, by the functions
that `fedqa train --resume --more 1` is made of; the model is kept in memory between rounds, which changes no result.

After every round all questions of the stream are asked, of which some are corrected and others not yet, and the silo's
test questions, which were there from the start. Every round has the same number of steps, whatever it is trained on:
all the silo has, some old examples for each new one, what is new alone, or the old ones again because nobody corrects
anything: what corrections did is the difference to that. A correction's id is drawn at random in the store, and with
it which earlier corrections stand among those old ones.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import torch
from torch import nn

from benchmarks.study.jobs import done, keep, kept, loaded, path_of
from fedqa.config import Alliance, SiloData, course_of
from fedqa.data.records import Collection, Example, Split
from fedqa.data.splits import by_question, rank, with_checks
from fedqa.errors import ConfigError
from fedqa.evaluation.run_scores import POINTS
from fedqa.evaluation.spans import exact_match, overlap
from fedqa.federation.course import Course
from fedqa.federation.silo import Silo
from fedqa.opening import model_at
from fedqa.runs import build, read_silo, run_setting, with_rounds
from fedqa.serving.learning import learnt
from fedqa.skills.read import Read
from fedqa.skills.read_features import ReadFeatures
from fedqa.store import Correction, NewAsked, Store
from fedqa.tables import from_table

FIRST = 3  # rounds of training before anybody corrects anything
STEPS, OTHERS_STEPS, BATCH = 8, 3, 8  # of the correcting silo in a round, of each other one, and examples of a step
RATE = 3e-4
SETTINGS: Mapping[str, Any] = {
    "name": "corrections",
    "model": "embedded",
    "freeze_layers": 5,
    "rounds": FIRST,
    "local": {"learning_rate": RATE, "batch": BATCH, "steps": STEPS},
}
WHO = "editor"
STORE = "silo.sqlite"


Old = Literal["all", "some", "none"]
SOME = 4  # old examples for each new one


@dataclass(frozen=True)
class Way:
    """How a silo goes on after its first training: with others or alone, and on which of its old examples."""

    together: bool
    old: Old  # trained on with the new ones
    corrects: bool = True

    @property
    def name(self) -> str:
        return f"{TOGETHER if self.together else ALONE}, {TRAINED_ON[self.old] if self.corrects else NOTHING}"


TOGETHER, ALONE = "federated", "alone"
TRAINED_ON: Mapping[Old, str] = {"all": "all examples", "some": f"{SOME} old for 1 new", "none": "new ones only"}
NOTHING = "nothing corrected"
WAYS = tuple(
    way
    for together in (True, False)
    for way in (*(Way(together, old) for old in TRAINED_ON), Way(together, "all", False))
)


@dataclass(frozen=True)
class Scored:
    """The F1 of every question of the stream, and of every test question."""

    stream: tuple[float, ...]
    test: tuple[float, ...]


@dataclass(frozen=True)
class Followed:
    """One silo, followed over all rounds of corrections."""

    way: str
    seed: int
    key: str  # of all that decides the outcome
    silo: str
    seconds: float  # of CPU time
    rounds: int  # of training, in all
    batch: int  # questions of the stream that are asked in a round
    corrected: tuple[tuple[int, ...], ...]  # by round: places in the stream of those that were wrong
    scores: Mapping[str, tuple[Scored, ...]]  # by point: after the first training, and after each round
    states: tuple[Mapping[str, int], ...]  # by round: what the silo's page says of the corrections so far


@dataclass(frozen=True)
class Corrections:
    """The experiment. `data` gives every silo's data for a seed; the first of `silos` is the one that corrects."""

    silos: tuple[str, ...]
    seeds: Sequence[int]
    data: Callable[[int, int | None], Mapping[str, Collection]]
    folder: Path  # of the outcomes
    ways: Sequence[Way] = WAYS
    rounds: int = 5  # of corrections
    asked: int = 8  # questions in a round
    settings: Mapping[str, Any] = field(default_factory=lambda: SETTINGS)

    def run(self) -> list[Followed]:
        """All outcomes, in the order of ways and seeds; those that are missing are made first."""
        jobs = [(way, seed) for seed in self.seeds for way in self.ways]
        missing = [(way, seed) for way, seed in jobs if self._kept(way, seed) is None]
        named = [(f"{way.name!r}, seed {seed}", (self, way, seed)) for way, seed in missing]
        for _ in done("fedqas: corrections", follow, named):
            pass
        found = [self._kept(way, seed) for way in self.ways for seed in self.seeds]
        return [followed for followed in found if followed is not None]

    def _kept(self, way: Way, seed: int) -> Followed | None:
        return kept(Followed, self.path(way, seed), self.key(way, seed))

    def path(self, way: Way, seed: int) -> Path:
        return path_of(self.folder, way.name, seed)

    def key(self, way: Way, seed: int) -> str:
        data = {name: self.data(seed, None)[name] for name in self.silos}
        texts = {n: [[(e.id, e.split) for e in c.examples], [d.id for d in c.documents]] for n, c in data.items()}
        whole = [self._table(way, seed), way.name, self.rounds, self.asked, texts]
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:16]

    def course(self, way: Way, seed: int) -> Course:
        return course_of(from_table(Alliance, self._table(way, seed), f"corrections, {way.name!r}"))

    def _table(self, way: Way, seed: int) -> dict[str, Any]:
        """What an alliance file would say."""
        names = self.silos if way.together else self.silos[:1]
        local = [{"replay": SOME if way.old == "some" else 0}, *({"steps": OTHERS_STEPS} for _ in names[1:])]
        silos = [
            {"name": name, "skill": "read", "data": {"sample": name}, "local": own}
            for name, own in zip(names, local, strict=True)
        ]
        return {**self.settings, "seed": seed, "method": "fedqas" if way.together else "isolated", "silo": silos}


def follow(study: Corrections, way: Way, seed: int) -> Followed:
    """Train, ask, correct, and train again; the outcome is written down."""
    began = time.process_time()
    with TemporaryDirectory() as folder, Store.open(Path(folder) / STORE) as store:
        course, data = study.course(way, seed), study.data(seed, None)
        stream, only_new = study.rounds * study.asked, way.old == "none"
        bench = _Bench(course, data, Path(folder), store, n_stream=stream, only_new=only_new)
        states, corrected, rounds = [], [], [bench.round()]
        for number in range(study.rounds):
            batch = range(number * study.asked, (number + 1) * study.asked) if way.corrects else ()
            corrected.append(bench.correct(batch, rounds[-1]["best"]))
            rounds.append(bench.round())
            states.append(bench.states())
    followed = Followed(
        way=way.name,
        seed=seed,
        key=study.key(way, seed),
        silo=bench.name,
        seconds=round(time.process_time() - began, 1),
        rounds=bench.rounds,
        batch=study.asked,
        corrected=tuple(corrected),
        scores={point: tuple(bench.scored(of[point]) for of in rounds) for point in POINTS},
        states=tuple(states),
    )
    keep(followed, study.path(way, seed))
    return followed


def held_back(own: Collection, count: int, seed: int) -> tuple[Collection, list[Example]]:
    """A silo's data without so many of its training questions, and these, in an order drawn by the seed."""
    asked = by_question(own.of_split("train"))
    if len(asked) <= count:
        raise ConfigError(f"a stream of {count} questions leaves nothing of {len(asked)} training questions")
    drawn = sorted(asked, key=lambda question: rank(seed, question))[:count]
    stream = [asked[question][0] for question in drawn]
    out = {example.id for question in drawn for example in asked[question]}
    return replace(own, examples=tuple(example for example in own.examples if example.id not in out)), stream


def only_new(own: Collection, known: Container[str]) -> Collection:
    """To train on what is new alone; earlier corrections are still checked. All of it, if nothing is new."""
    if all(example.id in known for example in own.of_split("train")):
        return own
    checked = with_checks(own).examples
    left = (replace(e, check=False) for e in checked if e.split != "train" or e.id not in known)
    return replace(own, examples=tuple(left))


Answers = Mapping[Split, Sequence[str]]  # "check" is the stream; no answer is the empty text


class _Bench:
    """A run that goes on: its silos, the store of the one that corrects, and the questions it is asked."""

    def __init__(
        self,
        course: Course,
        data: Mapping[str, Collection],
        folder: Path,
        store: Store,
        *,
        n_stream: int,
        only_new: bool,
    ) -> None:
        self._course, self._folder, self._store, self._only_new = course, folder, store, only_new
        self.name, *others = (plan.name for plan in course.silos)
        self._others = {name: data[name] for name in others}
        own, self._stream = held_back(data[self.name], n_stream, course.seed)
        left_out = store.add_collection(own, source="sample", who=WHO).left_out
        assert not left_out, "the store takes all of the sample"
        self._loaded = loaded(course.model, course.freeze_layers, course.seed)
        self._reader = Read()
        stream = (replace(example, split="check") for example in self._stream)
        whole = replace(own, examples=(*own.examples, *stream))
        self._features: ReadFeatures = self._reader.prepare(whole, self._loaded, seed=0)
        assert self._features.questions("check") == tuple(example.id for example in self._stream)
        self._known: set[str] = set()
        self._corrections: set[str] = set()
        self.rounds = 0

    def round(self) -> dict[str, Answers]:
        """Train, the first time for several rounds, then for one; what the silo's models answer now, by point."""
        self.rounds = self.rounds + 1 if self.rounds else self._course.rounds
        course = with_rounds(self._course, self.rounds)
        setting = build(course, {**self._others, self.name: self._own()}, self._folder, self._loaded)
        run_setting(setting, processes=1)
        silo = next(silo for silo in setting.silos if silo.name == self.name)
        self._known |= {example.id for example in silo.collection.of_split("train")}
        return self._asked(silo)

    def _own(self) -> Collection:
        """The store as it is now."""
        own = read_silo(self.name, SiloData(format="store", path=STORE), self._folder, self._course.seed)
        return only_new(own, self._known) if self._only_new and self._known else own

    def _asked(self, silo: Silo) -> dict[str, Answers]:
        """Two points are often the same model, which is then asked once."""
        asked: list[tuple[nn.Module, Answers]] = []
        for point in POINTS:
            module = model_at(silo, point)
            known = next((answers for model, answers in asked if _equal(model, module)), None)
            asked.append((module, known or {split: self._answers(module, split) for split in ("check", "test")}))
        return {point: answers for point, (_, answers) in zip(POINTS, asked, strict=True)}

    def _answers(self, module: nn.Module, split: Split) -> list[str]:
        line = self._reader.threshold(module, self._features)
        found = self._reader.predict(module, self._features, split)
        return [prediction.answer if prediction.odds > line else "" for prediction in found]

    def scored(self, answers: Answers) -> Scored:
        def f1(split: Split) -> tuple[float, ...]:
            questions = self._features.splits[split]
            pairs = zip(answers[split], questions, strict=True)
            return tuple(round(overlap(answer, question.accepted), 4) for answer, question in pairs)

        return Scored(f1("check"), f1("test"))

    def correct(self, batch: Sequence[int], answers: Answers) -> tuple[int, ...]:
        """People ask these questions of the stream, judge what is answered, and correct what is wrong."""
        return tuple(place for place in batch if not self._judged(self._stream[place], answers["check"][place]))

    def _judged(self, example: Example, answer: str) -> bool:
        """Whether the answer was right; if it was not, the question is corrected."""
        right = exact_match(answer, example.answers) == 1
        (document,) = example.documents
        given = {"text": answer, "document": document} if answer else None
        asked = self._store.note_asked(NewAsked(example.question, WHO, given))
        self._store.judge(asked, "right" if right else "wrong", WHO)
        if not right:
            self._corrections.add(self._store.correct(self._correction(example, document, asked)).example.id)
        return right

    def _correction(self, example: Example, document: str, asked: int) -> Correction:
        """The gold answer, selected in its document; without one, that there is none."""
        if not example.evidence:
            return Correction(example.question, WHO, document, asked=asked)
        start, end = example.evidence[0].start, example.evidence[0].end
        text = self._store.document(document).document.text[start:end]
        return Correction(example.question, WHO, document, start, end, text, asked)

    def states(self) -> dict[str, int]:
        """How many corrections are learned, forgotten again, or not learned yet."""
        found = learnt(self._folder, self.name)
        return dict(Counter(found[id].state for id in sorted(self._corrections)))


def _equal(one: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
