# SPDX-License-Identifier: Apache-2.0
"""A silo: holds the data, does the local work, and lets out only what an approved course asks for.

Private state lives in the silo's own folder, one file a round, the newest two kept: a coordinator that was killed and
asks for a round again gets the same bits, because that round starts from the state before it.
"""

import math
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch
from torch import Tensor

from fedqa.data.records import Collection, Split
from fedqa.errors import BoundaryError
from fedqa.evaluation.metrics import Summary
from fedqa.federation.channels import CHANNELS
from fedqa.federation.course import Course, Stage
from fedqa.federation.ledger import Ledger
from fedqa.federation.messages import (
    Contribution,
    Envelope,
    Exchange,
    Finish,
    LossSummary,
    Metrics,
    Point,
    Refusal,
    Reply,
    Report,
    Request,
    Train,
    Update,
)
from fedqa.federation.silo_state import Best, SiloState
from fedqa.federation.workshop import Bench, Workshop
from fedqa.files import write_json
from fedqa.models.flat import FlatModel
from fedqa.seeds import derive, generator
from fedqa.skills.skill import Features, Skill
from fedqa.training import Term, Trace, fit, one_thread

Progress = Callable[[int, int], None]


@dataclass
class Silo:
    """One participant. `features` and `collection` never leave it but through a channel of an approved course."""

    name: str
    course: Course
    skill: Skill
    features: Features
    collection: Collection
    workshop: Workshop
    folder: Path
    approved: frozenset[str]

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.folder / "ledger.sqlite")
        self.state = SiloState(self.folder / "state")

    def handle(self, request: Request, progress: Progress = lambda done, total: None) -> Envelope:
        """Answer a request. Whatever goes wrong inside, only a code comes out."""
        try:
            with one_thread():
                reply = self._answer(request, progress)
        except BoundaryError as problem:
            reply = Refusal(self.name, problem.code)
        except Exception:
            self._log_failure()
            reply = Refusal(self.name, "failed")
        round_number = getattr(request, "round", 0)
        return Envelope(self.name, reply, self.ledger.record(reply, request.course, round_number))

    def _log_failure(self) -> None:
        """An error's text may quote the silo's data, so it is written to the silo's own folder and nowhere else."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "errors.log").open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now(UTC).isoformat(timespec='seconds')}\n{traceback.format_exc()}\n")

    def _answer(self, request: Request, progress: Progress) -> Reply:
        if request.course != self.course.fingerprint or request.course not in self.approved:
            raise BoundaryError("course_not_approved")
        if isinstance(request, Train):
            return self._train(request, progress)
        if isinstance(request, Finish):
            return self._finish(request)
        return self._exchange(request)

    # -- training ------------------------------------------------------------------------------------------------

    def _train(self, request: Train, progress: Progress) -> Update:
        if not 1 <= request.round <= self.course.rounds:
            raise BoundaryError("not_in_course")
        if self.features.n_train == 0:
            raise BoundaryError("no_examples")
        turn = self._turn(request.round)
        bench = self.workshop.bench(self.skill, turn.stage_index)
        kept = self._receive(bench, turn.stage_index, turn.round, request.weights)
        received = bench.model.trainable.clone()
        metrics = self._score(bench, "received", "dev", turn.round) if turn.scored else {}
        trace = self._work(bench, turn, "main", kept, received, progress)
        delta = _settle(bench.model, received)
        keep = self._private_tensors(bench, turn, "main")
        if turn.stage.replica is not None:
            self._work_on_replica(bench, turn, kept, received)
            keep |= self._private_tensors(bench, turn, "replica")
        if keep:
            self.state.keep("round", turn.round, keep)
        if turn.scored:
            metrics |= self._score(bench, "personal", "dev", turn.round)
            self.state.keep("personal", turn.round, bench.model.state())
        return self._update(request, bench.model, delta, trace, metrics)

    def _turn(self, round_number: int) -> "_Turn":
        index = self.course.stage_of(round_number)
        stage = self.course.stages[index]
        every = self.course.evaluation.every
        scored = every > 0 and (round_number % every == 0 or round_number == self.course.rounds)
        return _Turn(round_number, index, stage, self.course.first_round(index), scored)

    def _receive(self, bench: Bench, stage: int, before_round: int, weights: Tensor) -> dict[str, Tensor]:
        """Put this silo's private values and the weights it was sent into the model; returns all it kept."""
        model = bench.model
        if weights.dtype != torch.float32 or weights.shape != model.received.shape:
            raise BoundaryError("bad_request")
        if weights.numel() and not math.isfinite(float(weights.sum())):
            raise BoundaryError("bad_request")
        model.reset()
        model.load(self.state.newest("stage", stage, stage + 1))
        kept = self.state.newest("round", self.course.first_round(stage), before_round)
        model.load(_under("main/", kept))
        model.received.copy_(weights)
        return kept

    def _work(
        self,
        bench: Bench,
        turn: "_Turn",
        replica: str,
        kept: Mapping[str, Tensor],
        received: Tensor,
        progress: Progress,
    ) -> Trace:
        local = self.course.local_of(self.name, turn.stage)
        per_round = local.steps_per_round(self.features.n_batches(local.batch))
        earlier = (turn.round - turn.first_round) * per_round if local.horizon == "run" else 0
        steps = kept.get(f"steps/{replica}")
        bench.optimiser.start(local, kept.get(f"moments/{replica}"), int(steps) if steps is not None else 0)
        objective = turn.stage.objective
        if replica == "replica" and turn.stage.replica is not None:
            objective = (*objective, Term("prox", turn.stage.replica.proximal_weight))
        with _seeded(derive(self.course.seed, "dropout", turn.round, self.name, replica)):
            bench.model.module.train()
            return fit(
                lambda batch: self.skill.loss(bench.model.module, batch),
                bench.model.trained_parameters(),
                bench.optimiser,
                data=self.features,
                local=local,
                terms=objective,
                rng=generator(self.course.seed, "train", turn.round, self.name, replica),
                anchor=bench.model.trained_views(received),
                first_step=earlier,
                horizon=per_round * (turn.stage.rounds if local.horizon == "run" else 1),
                progress=progress,
            )

    def _work_on_replica(self, bench: Bench, turn: "_Turn", kept: Mapping[str, Tensor], received: Tensor) -> None:
        """Train the silo's second model, which starts as the first one did and never leaves (Ditto)."""
        bench.model.trainable.copy_(received)
        bench.model.load(_under("replica/", kept))
        before = bench.model.trainable.clone()
        self._work(bench, turn, "replica", kept, received, lambda done, total: None)
        _settle(bench.model, before)

    def _private_tensors(self, bench: Bench, turn: "_Turn", replica: str) -> dict[str, Tensor]:
        """What must outlast the round: private parameters (all of a replica's), and moments if they are kept."""
        layout = bench.model.layout
        own = layout.private if replica == "main" else (*layout.private, *layout.shared)
        state = bench.model.state()
        tensors = {f"{replica}/{entry.name}": state[entry.name].clone() for entry in own}
        if self.course.local_of(self.name, turn.stage).keep_optimiser:
            tensors[f"moments/{replica}"] = bench.optimiser.moments.clone()
            tensors[f"steps/{replica}"] = torch.tensor(bench.optimiser.steps)
        return tensors

    def _update(self, request: Train, model: FlatModel, delta: Tensor, trace: Trace, metrics: Metrics) -> Update:
        losses = trace.losses
        return Update(
            silo=self.name,
            course=request.course,
            round=request.round,
            layout=model.layout.fingerprint,
            delta=delta[model.layout.n_private :],
            n_examples=self.features.n_train,
            n_seen=trace.n_seen,
            n_steps=len(losses),
            loss=LossSummary(losses[0], losses[-1], max(losses), min(losses)),
            metrics=metrics,
        )

    # -- scoring -------------------------------------------------------------------------------------------------

    def _finish(self, request: Finish) -> Report:
        """Keep a stage's final weights; after the last stage, score all three models on dev and test."""
        last = len(self.course.stages) - 1
        if not min(0, last) <= request.stage <= last:  # a course without stages ends at stage -1
            raise BoundaryError("not_in_course")
        bench = self.workshop.bench(self.skill, request.stage)
        model = bench.model
        self._receive(bench, request.stage, self.course.first_round(request.stage + 1), request.weights)
        self.state.keep("stage", request.stage + 1, model.state())
        metrics: dict[str, Summary] = {}
        if request.stage == last and self.course.evaluation.every > 0:
            end = self.course.rounds + 1
            metrics |= self._score_both(bench, "received", end)
            model.load(self.state.newest("personal", 0, end))
            metrics |= self._score_both(bench, "personal", end)
            model.load(self.state.best_tensors())
            metrics |= self._score_both(bench, "best", end)
        return Report(self.name, request.course, request.stage, metrics)

    def _score_both(self, bench: Bench, point: Point, round_number: int) -> dict[str, Summary]:
        return {
            **self._score(bench, point, "dev", round_number),
            **self._score(bench, point, "test", round_number),
        }

    def _score(self, bench: Bench, point: Point, split: Split, round_number: int) -> dict[str, Summary]:
        module = bench.model.module.eval()
        scores = self.skill.score(module, self.features, split)
        values = {metric: [float(v) for v in array] for metric, array in scores.items()}
        write_json(self.folder / "scores" / f"{point}-{split}.json", values)  # per question: stays in the silo
        if split == "dev" and point != "best":
            self._remember_best(bench.model, point, values[self.skill.higher_is_better], round_number)
        return {f"{point}/{split}/{metric}": Summary.of(array) for metric, array in scores.items()}

    def _remember_best(self, model: FlatModel, point: Point, values: list[float], round_number: int) -> None:
        if not values:
            return
        best, score = self.state.best(), sum(values) / len(values)
        if best is None or score > best.score:
            self.state.keep_best(Best(score, point, round_number), model.state())

    # -- channels ------------------------------------------------------------------------------------------------

    def _exchange(self, request: Exchange) -> Contribution:
        if not 1 <= request.round <= self.course.rounds:
            raise BoundaryError("not_in_course")
        stage = self.course.stages[self.course.stage_of(request.round)]
        if request.channel not in stage.channels:
            raise BoundaryError("not_in_course")
        channel = CHANNELS[request.channel]
        tensors = channel.answer(self, request)
        channel.check(tensors)
        return Contribution(self.name, request.course, request.round, request.channel, request.step, tensors)


@dataclass(frozen=True)
class _Turn:
    """Where in the course a request stands."""

    round: int
    stage_index: int
    stage: Stage
    first_round: int  # of the stage
    scored: bool


def _settle(model: FlatModel, before: Tensor) -> Tensor:
    """The change since `before`. Weights move by it: what a silo keeps and what can be rebuilt are the same bits."""
    delta = model.trainable - before
    torch.add(before, delta, out=model.trainable)
    return delta


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Dropout draws from torch's global generator: seed it for this work, and put it back after."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
