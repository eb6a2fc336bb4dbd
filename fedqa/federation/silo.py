# SPDX-License-Identifier: Apache-2.0
"""A silo: holds the data, does the local work, and lets out only what an approved course asks for.

Private state lives in the silo's own folder, one file a round, the newest two kept: a coordinator that was killed and
asks for a round again gets the same bits, because that round starts from the state before it.
"""

import math
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import torch
from blake3 import blake3
from torch import Tensor, nn

from fedqa.data.records import Collection, Split
from fedqa.data.splits import CHECK
from fedqa.errors import BoundaryError
from fedqa.evaluation.metrics import Summary
from fedqa.federation.channels import CHANNELS
from fedqa.federation.course import Course, Stage
from fedqa.federation.learning import Learning, note
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
from fedqa.models.contrast import pair_in
from fedqa.models.flat import FlatModel
from fedqa.seeds import derive, generator
from fedqa.skills.self_supervised import TASKS
from fedqa.skills.silo_texts import NO_TEXTS, Texts
from fedqa.skills.skill import Features, Scores, Skill, evaluating
from fedqa.training import Epochs, Probe, Term, Trace, fit, one_thread

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
    texts: Texts = NO_TEXTS  # without labels, where the course works on them

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
        if turn.scored:
            self._score_best_again(bench)
        kept = self._receive(bench, turn.stage_index, turn.round, request.weights)
        metrics = self._score(bench, "received", "dev", turn.round) if turn.scored else {}
        before = Before(bench.model, request.weights)
        probe = self._probe(bench, turn)
        earlier = probe()
        trace = replace(self._work(bench, turn, "main", kept, before, progress), probed=(*earlier, *probe()))
        delta = before.settle(bench.model, bench.vectors.take(bench.model.shared.numel()))
        keep = self._private_tensors(bench, turn, "main")
        if turn.stage.replica is not None:
            self._work_on_replica(bench, turn, kept, before)
            keep |= self._private_tensors(bench, turn, "replica")
        self.state.keep("round", turn.round, keep)
        if turn.scored:
            metrics |= self._score(bench, "personal", "dev", turn.round)
            self.state.keep("personal", turn.round, bench.model.state())
        if turn.stage.assign is None:
            self._check(bench, turn.round, "personal")
        return self._update(request, bench.model, delta, trace, metrics)

    def _turn(self, round_number: int) -> "_Turn":
        index = self.course.stage_of(round_number)
        stage = self.course.stages[index]
        every = self.course.evaluation.every
        # Rounds of an assigned task teach a silo's own skill nothing that its head could show.
        own = stage.assign is None
        scored = own and every > 0 and (round_number % every == 0 or round_number == self.course.rounds)
        return _Turn(round_number, index, stage, self.course.first_round(index), scored)

    def _receive(self, bench: Bench, stage: int, before_round: int, weights: Tensor) -> dict[str, Tensor]:
        """Put this silo's private values and the weights it was sent into the model; returns all it kept."""
        model = bench.model
        if weights.dtype != torch.float32 or weights.shape != model.received.shape:
            raise BoundaryError("bad_request")
        model.reset()
        if stage > 0 and not self.course.stages[stage].fresh:
            model.load(self._left_by_stage(stage))
        kept = self.state.newest("round", self.course.first_round(stage), before_round)
        model.load(_under("main/", kept))
        model.received.copy_(weights)
        return kept

    def _left_by_stage(self, stage: int) -> dict[str, Tensor]:
        left = self.state.newest("stage", stage, stage + 1)
        if not left:  # it was away when the stage before ended, and would go on from the loaded model
            raise BoundaryError("missed_stage")
        return left

    def _work(
        self,
        bench: Bench,
        turn: "_Turn",
        replica: str,
        kept: Mapping[str, Tensor],
        before: "Before",
        progress: Progress,
    ) -> Trace:
        local = self.course.local_of(self.name, turn.stage)
        drawn = (turn.round, self.course.draws_as(self.name), replica)
        work = self._own_work(bench, turn) if turn.stage.assign is None else self._assigned_work(bench, turn, drawn)
        data = work.data
        per_round = local.steps_per_round(data.n_batches(local.batch))
        earlier = (turn.round - turn.first_round) * per_round if local.horizon == "run" else 0
        steps = kept.get(f"steps/{replica}")
        bench.optimiser.start(local, kept.get(f"moments/{replica}"), int(steps) if steps is not None else 0)
        objective = turn.stage.objective
        if replica == "replica" and turn.stage.replica is not None:
            objective = (*objective, Term("prox", turn.stage.replica.proximal_weight))
        parameters = bench.model.trained_parameters()
        with _seeded(derive(self.course.seed, "dropout", *drawn)), bench.sparing(work.spares):
            bench.model.module.train()
            trace = fit(
                work.loss,
                parameters,
                bench.optimiser,
                data=data,
                local=local,
                terms=objective,
                rng=generator(self.course.seed, "train", *drawn),
                anchor=before.views(bench.model),
                brought=self._brought(bench, turn, drawn),
                first_step=earlier,
                horizon=per_round * (turn.stage.rounds if local.horizon == "run" else 1),
                progress=progress,
            )
        # Said before anything is kept, so that the next round starts from the last sound state.
        if not all(map(math.isfinite, (*trace.losses, float(bench.model.trainable.norm())))):
            raise BoundaryError("diverged")
        return trace

    def _probe(self, bench: Bench, turn: "_Turn") -> Callable[[], tuple[float, ...]]:
        """Measures the loss of the same training examples in every round, if the stage is to know it."""
        if not turn.stage.loss_probe or turn.stage.assign is not None:
            return lambda: ()
        work, module = self._own_work(bench, turn), bench.model.module
        batch = self.course.local_of(self.name, turn.stage).batch
        rng = generator(self.course.seed, "probe", self.course.draws_as(self.name))
        loss = Probe(work.loss, work.data, batch=batch, count=turn.stage.loss_probe, rng=rng)

        def measured() -> tuple[float, ...]:
            with evaluating(module):
                return (loss(),)

        return measured

    def _own_work(self, bench: Bench, turn: "_Turn") -> "_Work":
        """The silo's own skill, on what it draws for this round."""
        module = bench.model.module
        data = self.skill.drawn(module, self.features, turn.stage.draws, self.received(turn.round))
        return _Work(lambda batch: self.skill.loss(module, batch), data)

    def _assigned_work(self, bench: Bench, turn: "_Turn", drawn: tuple[int, str, str]) -> "_Work":
        """The task that the course assigns to all silos in this round, on the silo's texts alone."""
        name, module = self.course.assigned(turn.round), bench.model.module
        assert name is not None and turn.stage.assign is not None
        texts = self.texts.cut(turn.stage.assign.length)
        if not texts.texts:
            raise BoundaryError("no_examples")
        rng = generator(self.course.seed, "assigned", *drawn)
        return _Work(lambda rows: TASKS[name].loss(pair_in(module), texts, rows, rng), texts, TASKS[name].spares)

    def _brought(self, bench: Bench, turn: "_Turn", drawn: tuple[int, str, str]) -> dict[str, Callable[[], Tensor]]:
        """Terms of the objective that channels brought what is needed for."""
        wanted = {term.name for term in turn.stage.objective if term.weight > 0}
        found = {}
        for channel in turn.stage.channels:
            for name in wanted.intersection(CHANNELS[channel].terms):
                rng = generator(self.course.seed, name, *drawn)
                make = CHANNELS[channel].terms[name]
                term = make(bench.model.module, turn.stage.options_of(channel), self.received(turn.round), rng)
                if term is not None:
                    found[name] = term
        return found

    def _work_on_replica(self, bench: Bench, turn: "_Turn", kept: Mapping[str, Tensor], before: "Before") -> None:
        """Train the silo's second model, which starts as the first one did and never leaves (Ditto)."""
        before.restore(bench.model)
        bench.model.load(_under("replica/", kept))
        own = Before(bench.model, bench.model.received.clone())
        self._work(bench, turn, "replica", kept, before, lambda done, total: None)
        own.settle(bench.model, torch.empty_like(bench.model.shared))

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
        window = self._turn(request.round).stage.loss_window
        return Update(
            silo=self.name,
            course=request.course,
            round=request.round,
            layout=model.layout.fingerprint,
            delta=delta,
            n_examples=self.features.n_train,
            n_seen=trace.n_seen,
            n_steps=len(trace.losses),
            loss=LossSummary.of(trace.probed or trace.losses, window),
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
        scored = request.stage == last and self.course.evaluation.every > 0
        if scored:
            self._score_best_again(bench)
        self._receive(bench, request.stage, self.course.first_round(request.stage + 1), request.weights)
        self.state.keep("stage", request.stage + 1, model.state())
        metrics = self._score_at_end(bench) if scored else {}
        if request.stage == last:  # the bench now holds what `best` stands for
            self._check(bench, self.course.rounds + 1, "best")
            self.state.keep_trained(self._train_ids)
        return Report(self.name, request.course, request.stage, metrics)

    def _score_at_end(self, bench: Bench) -> dict[str, Summary]:
        """Dev and test at all three points. Two of them are often the same model, which is then scored once."""
        end, model = self.course.rounds + 1, bench.model
        points: dict[Point, Callable[[], dict[str, Tensor]]] = {
            "received": dict,
            "personal": lambda: self.state.personal(self.course.rounds),
            "best": self.state.best_tensors,
        }
        metrics: dict[str, Summary] = {}
        seen: list[tuple[dict[str, Tensor], dict[Split, Scores]]] = []
        for point, tensors in points.items():
            if point == "personal":
                self._blend(bench, end)
            values = tensors()
            if values:
                _fill(model, values)
            known = next((scores for state, scores in seen if _equal(state, model.state())), None)
            scores = known or {split: self._scores(bench, split) for split in ("dev", "test")}
            seen.append(({name: value.clone() for name, value in model.state().items()}, scores))
            for split in scores:
                metrics |= self._note(bench, point, split, scores[split], end)
        return metrics

    def _blend(self, bench: Bench, end: int) -> None:
        """Where the course says so, mix the model that the stage before left into the silo's own.

        What training alone learnt and what came from the others add up: of two models that start from the same
        weights, the mean is often better than both. What the stage before did not have, such as a patch, is kept whole.
        """
        last, model = len(self.course.stages) - 1, bench.model
        share = self.course.stages[last].blend if last > 0 else 0.0
        before = self.state.newest("stage", last, last + 1) if share else {}
        own = self.state.newest("personal", self.course.first_round(last), end) if before else {}
        if own:
            values = _fill(model, own)
            model.load({name: torch.lerp(values[name], before[name], share) for name in before})
            self.state.keep("mixture", end, model.state())

    def _check(self, bench: Bench, round_number: int, point: Literal["personal", "best"]) -> None:
        """Note which of the corrections people made here the model gets right now."""
        asked = self.features.questions("check")
        if not asked:
            return
        values = self._scores(bench, "check")[self.skill.right]
        right = {name.removeprefix(CHECK): bool(value == 1) for name, value in zip(asked, values, strict=True)}
        new = sum(id not in self.state.trained() for id in self._train_ids)
        n_examples = self.features.n_train
        note(self.folder, Learning(round_number, point, self.collection.version, n_examples, new, right))

    @property
    def _train_ids(self) -> set[str]:
        return {example.id for example in self.collection.of_split("train")}

    def _score(self, bench: Bench, point: Point, split: Split, round_number: int) -> dict[str, Summary]:
        return self._note(bench, point, split, self._scores(bench, split), round_number)

    def _scores(self, bench: Bench, split: Split) -> Scores:
        return self.skill.score(bench.model.module.eval(), self.features, split)

    def _note(self, bench: Bench, point: Point, split: Split, scores: Scores, round_number: int) -> dict[str, Summary]:
        """Write scores down in the silo, remember the model if it is its best; returns what may be told."""
        values = {metric: [float(v) for v in array] for metric, array in scores.items()}
        write_json(self.folder / "scores" / f"{point}-{split}.json", values)
        if split == "dev" and point != "best":
            self._remember_best(bench, point, scores, round_number)
        return {f"{point}/{split}/{metric}": Summary.of(array) for metric, array in scores.items()}

    def _remember_best(self, bench: Bench, point: Point, dev: Scores, round_number: int) -> None:
        best, score = self.state.best(), self._chosen_by(bench, dev)
        if score is None:
            return
        # Of rounds that are equally good the later is kept, which has learnt more; what the end adds must be better.
        later = round_number <= self.course.rounds
        if best is None or score > best.score or (later and score == best.score):
            self.state.keep_best(Best(score, point, round_number, self._asked), bench.model.state())

    def _chosen_by(self, bench: Bench, dev: Scores) -> float | None:
        """What a model is chosen by: the mean over dev and over what people corrected, which it must not forget.

        Dev alone would hold on to the model from before the corrections, which they were made for.
        """
        metric = self.skill.higher_is_better
        values = [float(value) for value in dev[metric]]
        if self.features.questions("check"):
            values += [float(value) for value in self._scores(bench, "check")[metric]]
        return sum(values) / len(values) if values else None

    def _score_best_again(self, bench: Bench) -> None:
        """After questions have come or gone, so that the best model so far can be compared with the next."""
        best, tensors = self.state.best(), self.state.best_tensors()
        if best is None or best.asked == self._asked or not tensors:
            return
        _fill(bench.model, tensors)
        score = self._chosen_by(bench, self._scores(bench, "dev"))
        if score is not None:
            self.state.keep_best(replace(best, score=score, asked=self._asked), tensors)

    @property
    def _asked(self) -> str:
        """Of the questions that a model is chosen by."""
        asked = (*self.features.questions("dev"), *self.features.questions("check"))
        return blake3("\n".join(asked).encode()).hexdigest()

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

    @property
    def silos(self) -> list[str]:
        return [plan.name for plan in self.course.silos]

    @property
    def seed(self) -> int:
        return self.course.seed

    def options(self, request: Exchange) -> Any:
        """The options of the channel a request is about, as the course has them."""
        return self.course.stages[self.course.stage_of(request.round)].options_of(request.channel)

    def own_model(self, round_number: int) -> nn.Module:
        """The silo's own model as it was before a round, without what the coordinator sends for it."""
        turn = self._turn(round_number)
        bench = self.workshop.bench(self.skill, turn.stage_index)
        bench.model.buffer.copy_(bench.model.loaded)
        bench.model.reset()
        if turn.stage_index > 0 and not turn.stage.fresh:
            bench.model.load(self._left_by_stage(turn.stage_index))
        bench.model.load(self.state.newest("personal", turn.first_round, round_number))
        bench.model.load(_under("main/", self.state.newest("round", turn.first_round, round_number)))
        return bench.model.module.eval()

    def spend(self, request: Exchange, amount: int) -> int:
        """Note what a request costs, and return all that its channel has cost; the same request counts once."""
        digest = blake3()
        for name in sorted(request.tensors):
            digest.update(request.tensors[name].contiguous().numpy().tobytes())
        return self.state.spend(request.channel, f"{request.round}/{digest.hexdigest()}", amount)

    def secret(self) -> int:
        """A number that never leaves this silo."""
        return self.state.secret()

    def receive(self, round_number: int, tensors: Mapping[str, Tensor]) -> None:
        """Keep what a channel brought until the round trains on it."""
        there = self.state.newest("inbox", round_number, round_number + 1)
        self.state.keep("inbox", round_number, {**there, **tensors})

    def receive_for_stage(self, round_number: int, tensors: Mapping[str, Tensor]) -> None:
        """Keep what a channel brought until the stage ends."""
        first = self._turn(round_number).first_round
        there = self.state.newest("stage_inbox", first, first + 1)
        self.state.keep("stage_inbox", first, {**there, **tensors})

    def received(self, round_number: int) -> dict[str, Tensor]:
        first = self._turn(round_number).first_round
        lasting = self.state.newest("stage_inbox", first, first + 1)
        return {**lasting, **self.state.newest("inbox", round_number, round_number + 1)}

    def keep(self, what: str, round_number: int, tensors: Mapping[str, Tensor]) -> None:
        self.state.keep(what, round_number, tensors)

    def kept(self, what: str, round_number: int) -> dict[str, Tensor]:
        return self.state.newest(what, round_number, round_number + 1)

    def forget(self, what: str) -> None:
        self.state.forget(what)


@dataclass(frozen=True)
class _Turn:
    """Where in the course a request stands."""

    round: int
    stage_index: int
    stage: Stage
    first_round: int  # of the stage
    scored: bool


@dataclass(frozen=True)
class _Work:
    """What a round of work is on: the loss of a batch, where batches come from, and which parameters stay untouched."""

    loss: Callable[[Any], Tensor]
    data: Epochs
    spares: str = ""


class Before:
    """A model's trained parameters before a round of work. The received part is not copied: nobody changes it."""

    def __init__(self, model: FlatModel, received: Tensor) -> None:
        self._private, self._shared = model.private.clone(), received[: model.shared.numel()]

    def settle(self, model: FlatModel, delta: Tensor) -> Tensor:
        """Write the change of the shared part into `delta`, and let the weights move by exactly that change.

        So what a silo keeps and what can be rebuilt from its updates are the same bits, private or shared.
        """
        torch.sub(model.shared, self._shared, out=delta)
        torch.add(self._shared, delta, out=model.shared)
        torch.add(self._private, model.private - self._private, out=model.private)
        return delta

    def restore(self, model: FlatModel) -> None:
        model.private.copy_(self._private)
        model.shared.copy_(self._shared)

    def views(self, model: FlatModel) -> list[Tensor]:
        """The values in the shapes of the trained parameters."""
        return model.trained_views(self._private, self._shared)


def _fill(model: FlatModel, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Put tensors, of whatever stage, into the model, and the rest as loaded; returns a copy of its whole state."""
    model.reset()
    model.buffer.copy_(model.loaded)
    model.load(tensors)
    return {name: value.clone() for name, value in model.state().items()}


def _equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return all(torch.equal(value, other[name]) for name, value in one.items())


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Dropout draws from torch's global generator: seed it for this work, and put it back after.

    It alone: `torch.manual_seed` sees to devices too, and notes three stack traces for those that are not there.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
