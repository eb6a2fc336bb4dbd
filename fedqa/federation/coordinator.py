# SPDX-License-Identifier: Apache-2.0
"""The coordinator: runs a course round by round, holds the shared weights, never sees an example.

One round: ask the silos, screen what comes back, mix, apply, write the round down.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from fedqa.data.records import Collection
from fedqa.errors import BoundaryError
from fedqa.federation import wire
from fedqa.federation.channels import CHANNELS
from fedqa.federation.course import POOL, Course, Stage
from fedqa.federation.engine import Engine, Silent, Watcher
from fedqa.federation.guard import Expected, Guard, Passed, check_report, opened
from fedqa.federation.messages import Contribution, Envelope, Exchange, Finish, Metrics, Report, Request, Train, Update
from fedqa.federation.mixing import Mixer, starting_weights, weights_for
from fedqa.federation.run_folder import Accepted, RoundRecord, RunFolder
from fedqa.federation.server_optimisers import State
from fedqa.federation.sides import Tensors
from fedqa.federation.silo import Silo
from fedqa.models.layout import Layout
from fedqa.seeds import generator

MAX_CONTRIBUTION = 1 << 30  # bytes of one channel message


@dataclass(frozen=True)
class Start:
    """What a stage starts from: its layout and, for the parameters that travel, the values of the loaded model."""

    layout: Layout
    weights: Tensor


Scores = Mapping[str, Metrics]  # silo -> its metrics


@dataclass(frozen=True)
class Outcome:
    """How a course ended: final scores, and what happened after the last round."""

    scores: Scores
    refused: tuple[tuple[str, str], ...]
    bytes_up: int
    bytes_down: int


@dataclass
class Coordinator:
    """`start_of` gives a stage's layout and loaded weights; `make_pool` builds the pooled silo of central training."""

    course: Course
    engine: Engine
    folder: RunFolder
    start_of: Callable[[int], Start]
    make_pool: Callable[[Sequence[Collection]], Silo] | None = None
    watcher: Watcher = field(default_factory=Silent)

    def __post_init__(self) -> None:
        self._guard = Guard()
        self._weights: dict[str, Tensor] = {}
        self._states: dict[str, State] = {}
        self._pool: Silo | None = None
        self._pending = Tally()  # what happened between rounds; it is written down with the next one
        self._started = -1  # the stage that `_weights` belong to
        self._mixture: Mapping[str, Mapping[str, float]] = {}  # whose updates made whose weights, last time
        self._start: Start | None = None

    def run(self) -> "Outcome":
        """Run or continue the course; returns every silo's final scores."""
        done = self._resume()
        for index, stage in enumerate(self.course.stages):
            first = self.course.first_round(index)
            if done >= first + stage.rounds:  # the whole stage, and a round of the next one, are written down
                continue
            rounds = range(max(first, done + 1), first + stage.rounds)
            if rounds:  # otherwise all are written down, and only the end of the stage is missing
                mixer = self._begin_stage(index)
                for number in rounds:
                    self._round(number, stage, mixer)
                self._close_pool()
            scores = self._finish(index)
        if not self.course.stages:
            scores = self._finish(-1)
        return Outcome(scores, tuple(self._pending.refused), self._pending.bytes_up, self._pending.bytes_down)

    # -- a round -------------------------------------------------------------------------------------------------

    def _round(self, number: int, stage: Stage, mixer: Mixer) -> None:
        began = time.perf_counter()
        tally, self._pending = self._pending, Tally()
        asked = self._participants(number, stage)
        self.watcher.round_begins(number, self.course.rounds, stage.name, asked)
        for name in stage.channels:
            if CHANNELS[name].when == "before_round":
                self._relay(name, number, stage, tally)
        requests = {s: Train(self.course.fingerprint, number, weights_for(s, self._weights)) for s in asked}
        envelopes = self._ask(requests, stage, tally)
        expected = self._expected(number, stage, asked)
        remembered = dict(self._guard.history)
        accepted = tally.accept(self._guard.screen(in_order(envelopes, asked), expected, tally.refuse), self._guard)
        mixed = mixer.mix(accepted)
        void = len(tally.accepted) < stage.participation.quorum
        if void:  # the same weights are sent again, and honest silos may well answer the same
            self._guard.history = remembered
        else:
            mixer.apply(mixed, self._weights, self._states, number - self.course.first_round(self._started) + 1)
            self._mixture = mixed.weights
        record = tally.record(
            number=number, stage=stage.name, asked=asked, void=void, weights=mixed.weights, began=began
        )
        self.folder.commit(record, self._tensors())
        self.watcher.round_ends(record)

    def _participants(self, number: int, stage: Stage) -> list[str]:
        if self._pool is not None:
            return [POOL]
        names = [silo.name for silo in self.course.silos]
        if stage.participation.sample is None:
            return names
        rng = generator(self.course.seed, "participation", number)
        # Drawn from sorted names: the order of silos in the course must not decide who takes part.
        chosen = set(rng.choice(sorted(names), stage.participation.sample, replace=False).tolist())
        return [name for name in names if name in chosen]

    def _expected(self, number: int, stage: Stage, asked: Sequence[str]) -> Expected:
        assert self._start is not None
        layout = self._start.layout
        norms = [float(vector[: layout.n_shared].norm()) for vector in self._weights.values()]
        return Expected(
            course=self.course.fingerprint,
            round=number,
            layout=layout.fingerprint,
            size=layout.n_shared,
            weights_norm=max(norms, default=0.0),
            batch={name: self.course.local_of(name, stage).batch for name in asked},
        )

    def _ask(self, requests: Mapping[str, Request], stage: Stage | None, tally: "Tally") -> Iterator[Envelope]:
        timeout_s = stage.participation.timeout_s if stage else 3600.0
        tally.bytes_down += sum(wire.size(request) for name, request in requests.items() if name != POOL)
        if POOL in requests and self._pool is not None:
            yield self._pool.handle(requests[POOL], lambda done, total: self.watcher.silo_works(POOL, done, total))
            return
        for envelope in self.engine.ask(requests, timeout_s):
            tally.bytes_up += envelope.n_bytes
            self.watcher.silo_answered(envelope.silo)
            yield envelope
            del envelope

    # -- stages --------------------------------------------------------------------------------------------------

    def _begin_stage(self, index: int) -> Mixer:
        stage = self.course.stages[index]
        groups = {silo.name: silo.group or silo.skill for silo in self.course.silos}
        mixer = Mixer(stage.mixing, [silo.name for silo in self.course.silos], groups)
        goes_on = self._started == index
        if goes_on:
            self._recall(mixer)
        else:
            self._start_stage(index, mixer)
        for name in stage.channels:
            # Silos keep what a channel brought for the stage; what is pooled at the coordinator is not written down.
            if CHANNELS[name].when == "before_stage" and (CHANNELS[name].pools or not goes_on):
                self._relay(name, self.course.first_round(index), stage, self._pending)
        return mixer

    def _recall(self, mixer: Mixer) -> None:
        """What earlier rounds of the stage mixed."""
        for record in self.folder.records()[self.course.first_round(self._started) - 1 :]:
            if not record.void:
                mixer.remember(record.weights)
                self._mixture = record.weights

    def _start_stage(self, index: int, mixer: Mixer) -> None:
        """Weights for the stage: what the stage before left of each parameter, else what the model was loaded with."""
        before, left = self._start, self._weights
        self._start, self._started, self._states, self._mixture = self.start_of(index), index, {}, {}
        self._guard = Guard()  # updates of another layout, or another rate, are no measure for these
        self._weights = starting_weights(mixer, self._start.weights)
        self._start = replace(self._start, weights=torch.zeros(0))  # a vector nobody needs again
        if before is not None and not self.course.stages[index].fresh:
            for recipient, vector in self._weights.items():
                carry_over(before.layout, weights_for_recipient(recipient, left), self._start.layout, vector)

    def _finish(self, index: int) -> Scores:
        """Give every silo the stage's final weights; after the last stage they answer with their scores."""
        names = [silo.name for silo in self.course.silos]
        self.watcher.scoring_begins(names)
        empty = torch.zeros(0)
        requests = {
            name: Finish(self.course.fingerprint, index, weights_for(name, self._weights) if index >= 0 else empty)
            for name in names
        }
        scores: dict[str, Metrics] = {}
        stage = self.course.stages[index] if index >= 0 else None
        for envelope in self._ask(requests, stage, self._pending):
            try:
                report = opened(envelope, Report, wire.MAX_HEADER + 64)
                check_report(report, envelope.silo, self.course.fingerprint, index)
                if envelope.silo in scores:
                    raise BoundaryError("duplicate")
            except BoundaryError as problem:
                self._pending.refuse(envelope.silo, problem.code)
                continue
            scores[envelope.silo] = report.metrics
        return {name: scores[name] for name in names if name in scores}

    # -- channels ------------------------------------------------------------------------------------------------

    def _relay(self, name: str, number: int, stage: Stage, tally: "Tally") -> None:
        CHANNELS[name].relay(_Side(self, name, number, stage, tally))

    def pool(self, collections: Sequence[Collection]) -> None:
        assert self.make_pool is not None
        self._pool = self.make_pool(collections)

    def _close_pool(self) -> None:
        if self._pool is not None:
            self._pool.ledger.close()
            self._pool = None

    def exchange(
        self, channel: str, step: str, number: int, stage: Stage, tally: "Tally", tensors: Mapping[str, Tensors]
    ) -> dict[str, Tensors]:
        """One step of a channel with the silos named in `tensors`; what is out of bounds is dropped and recorded."""
        fingerprint = self.course.fingerprint
        requests = {silo: Exchange(fingerprint, number, channel, step, down) for silo, down in tensors.items()}
        answers: dict[str, Tensors] = {}
        for envelope in self._ask(requests, stage, tally):
            try:
                answer = opened(envelope, Contribution, MAX_CONTRIBUTION)
                given = (answer.silo, answer.course, answer.round, answer.channel, answer.step)
                if given != (envelope.silo, fingerprint, number, channel, step):
                    raise BoundaryError("wrong_kind")
                if envelope.silo in answers:
                    raise BoundaryError("duplicate")
                CHANNELS[channel].check(answer.tensors)
                answers[envelope.silo] = answer.tensors
            except BoundaryError as problem:
                tally.refuse(envelope.silo, problem.code)
        return {silo: answers[silo] for silo in tensors if silo in answers}

    # -- resuming ------------------------------------------------------------------------------------------------

    def _resume(self) -> int:
        """Take up what the run folder holds; returns the last committed round."""
        records = self.folder.records()
        if not records:
            return 0
        last = records[-1].round
        self._started = self.course.stage_of(last)
        self._start = self.start_of(self._started)
        for name, tensor in self.folder.checkpoint(last).items():
            kind, recipient, *key = name.split("/")
            if kind == "weights":
                self._weights[recipient] = tensor
            else:
                self._states.setdefault(recipient, {})[key[0]] = tensor
        for record in records[self.course.first_round(self._started) - 1 :]:
            if not record.void:
                self._guard.history |= {s: Passed(a.norm, a.total) for s, a in record.accepted.items()}
        return last

    def _tensors(self) -> dict[str, Tensor]:
        states = {f"state/{r}/{key}": t for r, state in self._states.items() for key, t in state.items()}
        return {f"weights/{recipient}": vector for recipient, vector in self._weights.items()} | states


@dataclass
class _Side:
    """The coordinator as a channel's half sees it, in one round."""

    coordinator: Coordinator
    channel: str
    number: int
    stage: Stage
    tally: "Tally"

    @property
    def silos(self) -> list[str]:
        return [silo.name for silo in self.coordinator.course.silos]

    @property
    def options(self) -> Any:
        return self.stage.options_of(self.channel)

    @property
    def mixture(self) -> Mapping[str, Mapping[str, float]]:
        return self.coordinator._mixture

    def ask(self, step: str, tensors: Mapping[str, Tensors]) -> Mapping[str, Tensors]:
        return self.coordinator.exchange(self.channel, step, self.number, self.stage, self.tally, tensors)

    def refuse(self, silo: str, code: str) -> None:
        self.tally.refuse(silo, code)

    def pool(self, collections: Sequence[Collection]) -> None:
        self.coordinator.pool(collections)


@dataclass
class Tally:
    """What happened in a round, as it happens."""

    accepted: dict[str, Accepted] = field(default_factory=dict)
    refused: list[tuple[str, str]] = field(default_factory=list)
    metrics: dict[str, dict[str, tuple[int, float, float]]] = field(default_factory=dict)
    bytes_up: int = 0
    bytes_down: int = 0

    def refuse(self, silo: str, code: str) -> None:
        self.refused.append((silo, code))

    def accept(self, updates: Iterable[Update], guard: Guard) -> Iterator[Update]:
        """Pass updates on, noting what the guard saw of each."""
        for update in updates:
            loss, passed = update.loss, guard.history[update.silo]
            self.accepted[update.silo] = Accepted(
                norm=passed.norm,
                total=passed.total,
                n_examples=update.n_examples,
                n_seen=update.n_seen,
                n_steps=update.n_steps,
                loss_first=loss.first,
                loss_last=loss.last,
                loss_max=loss.max,
                loss_min=loss.min,
            )
            self.metrics[update.silo] = {k: (s.n, s.mean, s.variance) for k, s in update.metrics.items()}
            yield update
            del update

    def record(
        self,
        *,
        number: int,
        stage: str,
        asked: Sequence[str],
        void: bool,
        weights: Mapping[str, Mapping[str, float]],
        began: float,
    ) -> RoundRecord:
        return RoundRecord(
            round=number,
            stage=stage,
            asked=tuple(asked),
            accepted=self.accepted,
            refused=tuple(self.refused),
            void=void,
            weights=weights,
            metrics=self.metrics,
            bytes_up=self.bytes_up,
            bytes_down=self.bytes_down,
            seconds=time.perf_counter() - began,
        )


def in_order(envelopes: Iterable[Envelope], names: Sequence[str]) -> Iterator[Envelope]:
    """Envelopes in the order of `names`, each as soon as those before it are there: sums then have the same bits.

    A silo's second envelope never overtakes its first; one of a silo that was not asked is passed on at once.
    """
    waiting: dict[str, list[Envelope]] = {}
    position = 0
    for envelope in envelopes:
        if envelope.silo not in names[position:]:
            yield envelope
            continue
        waiting.setdefault(envelope.silo, []).append(envelope)
        while position < len(names) and names[position] in waiting:
            yield from waiting.pop(names[position])
            position += 1
        del envelope  # its vector is gone before the next one is made; so below
    for name in names[position:]:
        yield from waiting.pop(name, ())


def carry_over(old: Layout, values: Tensor, new: Layout, target: Tensor) -> None:
    """Copy what two stages have in common, parameter by parameter, from one flat vector into another."""
    pieces = dict(zip((e.name for e in old.received), torch.split(values, [e.size for e in old.received]), strict=True))
    start = 0
    for entry in new.received:
        if entry.name in pieces:
            target[start : start + entry.size] = pieces[entry.name]
        start += entry.size


def weights_for_recipient(recipient: str, weights: Mapping[str, Tensor]) -> Tensor:
    """Weights of an earlier stage for a recipient of the next; models of their own become one by their plain mean."""
    if recipient in weights:
        return weights[recipient]
    return torch.stack(list(weights.values())).mean(dim=0)
