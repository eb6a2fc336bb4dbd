# SPDX-License-Identifier: Apache-2.0
"""One silo answers with something bad. Nothing of it reaches the weights, and the run goes on as if it were absent.

Every kind of badness meets every combiner. Honest answers are worked out once by real silos and then remembered by the
weights they were for: if anything bad got through, the weights would be others.
"""

import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from bad_updates import BAD_REPORTS, CANARY, KINDS, REPEATS, Bomb, whole
from torch import Tensor
from toys import SIZES, toy_coordinator, toy_course, toy_setting

from fedqa.federation.coordinator import Outcome
from fedqa.federation.course import Course, Evaluation
from fedqa.federation.engine import Engine
from fedqa.federation.messages import Envelope, Report, Request, Train, Update
from fedqa.federation.run_folder import RoundRecord, RunFolder
from fedqa.federation.silo import Silo
from fedqa.runs import Setting
from fedqa.training import Local

COMBINERS = ("mean", "median", "trimmed_mean", "krum")
ROUNDS = frozenset({1, 2, 3})

Replies = Callable[[Update, Update | None], Sequence[object]]  # honest update, last accepted one -> what is sent
Wrap = Callable[[Engine], Engine]
Answers = dict[tuple[str, int, bytes, Local], Update]


# -- engines ---------------------------------------------------------------------------------------------------------


@dataclass
class Remembering:
    """Real silos, asked once for each round, weights and local work. Deltas are copied: mixing overwrites its own."""

    silos: Sequence[Silo]
    answers: Answers

    def ask(self, requests: Mapping[str, Request], timeout_s: float) -> Iterator[Envelope]:
        for name, request in requests.items():
            reply = self._update(name, request) if isinstance(request, Train) else Report(name, request.course, 0)
            yield Envelope(name, reply, 0)

    def _update(self, name: str, request: Train) -> Update:
        silo = next(silo for silo in self.silos if silo.name == name)
        key = name, request.round, request.weights.numpy().tobytes(), silo.course.stages[0].local
        if key not in self.answers:
            update = silo.handle(request).content
            silo.ledger.close()
            assert isinstance(update, Update)
            self.answers[key] = replace(update, delta=update.delta.clone())
        return replace(self.answers[key], course=request.course, delta=self.answers[key].delta.clone())


@dataclass
class Spoilt:
    """One silo's reply is replaced in some rounds."""

    engine: Engine
    silo: str
    rounds: frozenset[int]
    replies: Replies
    last: Update | None = field(default=None, init=False)

    def ask(self, requests: Mapping[str, Request], timeout_s: float) -> Iterator[Envelope]:
        for envelope in self.engine.ask(requests, timeout_s):
            update = envelope.content
            if envelope.silo != self.silo or not isinstance(update, Update):
                yield envelope
            elif update.round in self.rounds:
                for content in self.replies(update, self.last):
                    yield replace(envelope, content=content)  # type: ignore[arg-type]
            else:
                self.last = replace(update, delta=update.delta.clone())
                yield envelope


def spoilt(silo: str, rounds: frozenset[int], replies: Replies) -> Wrap:
    return lambda engine: Spoilt(engine, silo, rounds, replies)


def silent(good: Update, last: Update | None) -> Sequence[object]:
    return ()


def bad(name: str) -> Replies:
    make = KINDS[name][1]
    return lambda good, last: [make(good, last or good)]


# -- runs ------------------------------------------------------------------------------------------------------------


class InMemory(RunFolder):
    """A run folder for thousands of rounds."""

    def __init__(self) -> None:
        super().__init__(Path("nowhere"))
        self.lines: list[bytes] = []
        self.states: list[dict[str, Tensor]] = []

    def commit(self, record: RoundRecord, state: Mapping[str, Tensor]) -> None:
        self.lines.append(json.dumps(asdict(record), allow_nan=False).encode())
        self.states.append({name: tensor.clone() for name, tensor in state.items()})

    def records(self) -> list[RoundRecord]:
        return [self._record(number, line) for number, line in enumerate(self.lines, start=1)]


@dataclass(frozen=True)
class Ran:
    weights: Sequence[Tensor]  # after each round
    records: Sequence[RoundRecord]
    outcome: Outcome


class Lab:
    """Runs of toy courses that share what honest silos answer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._settings: dict[str, Setting] = {}
        self._answers: Answers = {}
        self._absent: dict[tuple[str, str, frozenset[int]], Ran] = {}
        self.met: Counter[tuple[str, str]] = Counter()

    def setting(self, course: Course) -> Setting:
        if course.fingerprint not in self._settings:
            self._settings[course.fingerprint] = toy_setting(course, self._folder / course.fingerprint[:8])
        return self._settings[course.fingerprint]

    def run(self, course: Course, wrap: Wrap = lambda engine: engine) -> Ran:
        folder = InMemory()
        setting = replace(self.setting(course), folder=folder)
        outcome = toy_coordinator(setting, wrap(Remembering(setting.silos, self._answers))).run()
        return Ran([state["weights/*"] for state in folder.states], folder.records(), outcome)

    def absent(self, combiner: str, silo: str, rounds: frozenset[int]) -> Ran:
        """The run in which a silo says nothing in these rounds."""
        key = combiner, silo, rounds
        if key not in self._absent:
            self._absent[key] = self.run(course_of(combiner), spoilt(silo, rounds, silent))
        return self._absent[key]

    def meet(self, name: str, combiner: str, silo: str, rounds: frozenset[int]) -> None:
        """One silo is bad in these rounds (but the first, if it needs a past to be bad)."""
        code = KINDS[name][0]
        if code == "replayed":
            rounds -= {1}
        ran = self.run(course_of(combiner), spoilt(silo, rounds, bad(name)))
        assert_refused(ran, silo, rounds, (code,))
        assert_same(ran, self.absent(combiner, silo, rounds))
        assert not CANARY.exists()
        self.met[name, combiner] += 1


@cache
def course_of(combiner: str, **options: Any) -> Course:
    course = toy_course(combiner=combiner, rounds=len(ROUNDS), **options)
    return replace(course, evaluation=Evaluation(every=0))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("silos"))


def assert_same(ran: Ran, reference: Ran) -> None:
    """Same bits after every round, and the same story of who was accepted, with which weight."""
    assert all(torch.equal(one, other) for one, other in zip(ran.weights, reference.weights, strict=True))
    for record, other in zip(ran.records, reference.records, strict=True):
        assert (record.accepted, record.weights, record.void) == (other.accepted, other.weights, other.void)


def assert_refused(ran: Ran, silo: str, rounds: frozenset[int], codes: tuple[str, ...]) -> None:
    """The offender, and nobody else, is named in the rounds in which it was bad."""
    for record in ran.records:
        assert record.refused == (tuple((silo, code) for code in codes) if record.round in rounds else ())
    assert ran.outcome.refused == ()


# -- tests -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("combiner", COMBINERS)
@pytest.mark.parametrize("name", KINDS)
def test_a_bad_update_is_as_good_as_no_update(name: str, combiner: str, lab: Lab) -> None:
    lab.meet(name, combiner, "birch", frozenset({1, 3}))


@pytest.mark.parametrize("name", KINDS)
def test_a_silo_that_is_always_bad_is_as_good_as_absent(name: str, lab: Lab) -> None:
    lab.meet(name, "mean", "cedar", ROUNDS)


@pytest.mark.parametrize("silo", ["ash", "dogwood"])
@pytest.mark.parametrize("name", KINDS)
def test_it_does_not_matter_where_the_bad_silo_stands(name: str, silo: str, lab: Lab) -> None:
    lab.meet(name, "mean", silo, frozenset({2}))


@pytest.mark.parametrize("combiner", COMBINERS)
@pytest.mark.parametrize("silo", SIZES)
def test_a_silo_that_says_nothing_leaves_the_weights_of_a_course_without_it(silo: str, combiner: str, lab: Lab) -> None:
    without = lab.run(course_of(combiner).without(silo))
    assert_same(without, lab.absent(combiner, silo, ROUNDS))


@pytest.mark.parametrize("combiner", COMBINERS)
@pytest.mark.parametrize("name", REPEATS)
def test_the_first_reply_counts_and_the_others_are_refused(name: str, combiner: str, lab: Lab) -> None:
    codes, first_is_good, make = REPEATS[name]
    ran = lab.run(course_of(combiner), spoilt("birch", ROUNDS, lambda good, last: make(good)))
    assert_refused(ran, "birch", ROUNDS, codes)
    assert_same(ran, lab.run(course_of(combiner)) if first_is_good else lab.absent(combiner, "birch", ROUNDS))
    lab.met[name, combiner] += 1


@dataclass
class Shuffled:
    """Passes five replies on in another order."""

    engine: Engine
    order: Sequence[int]

    def ask(self, requests: Mapping[str, Request], timeout_s: float) -> Iterator[Envelope]:
        envelopes = list(self.engine.ask(requests, timeout_s))
        yield from (envelopes[i] for i in self.order) if len(envelopes) == 5 else envelopes


def test_a_duplicate_does_not_overtake_the_silos_before_it(lab: Lab) -> None:
    doubled = spoilt("cedar", ROUNDS, lambda good, last: [good, replace(good, delta=-good.delta)])
    # sent: ash, birch, cedar, cedar again, dogwood; arriving: both of cedar's, dogwood, birch, ash
    ran = lab.run(course_of("mean"), lambda engine: Shuffled(doubled(engine), [2, 3, 4, 1, 0]))
    assert_refused(ran, "cedar", ROUNDS, ("duplicate",))
    assert_same(ran, lab.run(course_of("mean")))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_an_honest_update_is_accepted_as_bytes_too(kind: Callable[[bytes], object], lab: Lab) -> None:
    ran = lab.run(course_of("mean"), spoilt("birch", ROUNDS, lambda good, last: [kind(whole(good))]))
    assert_refused(ran, "birch", frozenset(), ())
    assert_same(ran, lab.run(course_of("mean")))


@dataclass
class Pushing:
    """All silos answer, asked or not."""

    engine: Engine

    def ask(self, requests: Mapping[str, Request], timeout_s: float) -> Iterator[Envelope]:
        request = next(iter(requests.values()))
        yield from self.engine.ask(dict.fromkeys(SIZES, request), timeout_s)


def test_a_silo_that_was_not_asked_is_refused(lab: Lab) -> None:
    course = course_of("mean", sample=2)
    ran = lab.run(course, Pushing)
    assert_same(ran, lab.run(course))
    for record in ran.records:
        assert record.refused == tuple((name, "not_asked") for name in SIZES if name not in record.asked)
        assert len(record.refused) == 2


@pytest.mark.parametrize("name", ["one NaN", "a thousand times too long", "random bytes", "a report", "no examples"])
@pytest.mark.parametrize("combiner", COMBINERS)
def test_below_the_quorum_a_round_is_void_and_the_run_goes_on(name: str, combiner: str, lab: Lab) -> None:
    ran = lab.run(course_of(combiner, quorum=4), spoilt("birch", frozenset({2}), bad(name)))
    assert_refused(ran, "birch", frozenset({2}), (KINDS[name][0],))
    assert [record.void for record in ran.records] == [False, True, False]
    assert torch.equal(ran.weights[0], ran.weights[1])
    assert not torch.equal(ran.weights[1], ran.weights[2])


def test_if_all_are_bad_the_weights_stay_as_they_were(lab: Lab) -> None:
    def all_bad(engine: Engine) -> Engine:
        for silo in SIZES:
            engine = Spoilt(engine, silo, ROUNDS, bad("all NaN"))
        return engine

    ran = lab.run(course_of("mean"), all_bad)
    loaded = lab.setting(course_of("mean")).start_of(0).weights
    assert all(torch.equal(weights, loaded) for weights in ran.weights)
    assert [record.void for record in ran.records] == [True, True, True]


def test_after_a_void_round_honest_silos_may_answer_the_same(lab: Lab) -> None:
    first: dict[str, Update] = {}

    def same_again(good: Update, last: Update | None) -> Sequence[object]:
        """Round 2 sends the weights of round 1 again, so a silo with one batch has the same answer."""
        answer = first.setdefault(good.silo, good)
        return [replace(answer, round=good.round, delta=answer.delta.clone())]

    def one_missing(engine: Engine) -> Engine:
        for silo in ("ash", "cedar", "dogwood"):
            engine = Spoilt(engine, silo, frozenset({1, 2}), same_again)
        return Spoilt(engine, "birch", frozenset({1}), silent)

    ran = lab.run(course_of("mean", quorum=4), one_missing)
    assert [record.void for record in ran.records] == [True, False, False]
    assert [record.refused for record in ran.records] == [(), (), ()]


@dataclass
class Reporting:
    """One silo's report is replaced."""

    engine: Engine
    make: Callable[[Report], object]

    def ask(self, requests: Mapping[str, Request], timeout_s: float) -> Iterator[Envelope]:
        for envelope in self.engine.ask(requests, timeout_s):
            if envelope.silo == "birch" and isinstance(envelope.content, Report):
                envelope = replace(envelope, content=self.make(envelope.content))  # type: ignore[arg-type]
            yield envelope


@pytest.mark.parametrize("name", BAD_REPORTS)
def test_a_bad_report_is_left_out_of_the_scores(name: str, lab: Lab) -> None:
    code, make = BAD_REPORTS[name]
    outcome = lab.run(course_of("mean"), lambda engine: Reporting(engine, make)).outcome
    assert outcome.refused == (("birch", code),)
    assert list(outcome.scores) == ["ash", "cedar", "dogwood"]


@pytest.mark.parametrize("name", ["a refusal with a secret", "metric name with a sentence"])
def test_no_refusal_carries_words_of_a_silo_into_the_record(name: str, lab: Lab) -> None:
    ran = lab.run(course_of("mean"), spoilt("birch", ROUNDS, bad(name)))
    assert "gout" not in json.dumps([asdict(record) for record in ran.records])


def test_the_canary_would_have_sung() -> None:
    pickle.loads(pickle.dumps(Bomb()))
    assert CANARY.is_dir()
    CANARY.rmdir()


def test_how_many_kinds_met_how_many_combiners(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(KINDS) >= 50
    kinds, combiners = {name for name, _ in lab.met}, {combiner for _, combiner in lab.met}
    with capsys.disabled():
        print(
            f"\nbad updates: {len(kinds)} kinds x {len(combiners)} combiners = {len(lab.met)} pairs, "
            f"{lab.met.total()} runs, none got through"
        )
