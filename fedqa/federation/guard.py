# SPDX-License-Identifier: Apache-2.0
"""The coordinator's guard: what is wrong with a reply, as a code; only what passes is ever mixed.

One silo's bad update (NaN, a huge value, a wrong shape, an invented count) silently ruins an average, so every reply is
checked before any arithmetic: by itself, against the course, and its length against what the other silos send.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from fedqa.errors import BoundaryError
from fedqa.evaluation.metrics import Summary
from fedqa.federation import wire
from fedqa.federation.messages import (
    Contribution,
    Envelope,
    LossSummary,
    Metrics,
    Refusal,
    Reply,
    Report,
    Request,
    Update,
)
from fedqa.federation.refusals import REFUSALS

R = TypeVar("R", Update, Report, Contribution)

MAX_EXAMPLES = 10_000_000
MAX_METRICS = 256
NORM_FACTOR = 30.0  # an update may be this much longer than the median of the others'
NORM_FLOOR = 3e-3  # of the weights' own length: below it, updates are too short for "absurd" to mean anything
NORM_CEILING = 100.0  # of the weights' own length: above it, an update is absurd whatever the others do


@dataclass(frozen=True)
class Expected:
    """What a good update of this round looks like."""

    course: str
    round: int
    layout: str
    size: int
    weights_norm: float
    batch: Mapping[str, int]  # largest batch of each silo that was asked


@dataclass(frozen=True)
class Passed:
    """What the guard remembers of an accepted update: enough to know it again, and to judge the next ones."""

    norm: float
    total: float  # of some values from all over it: two honest updates do not have the same by chance


@dataclass
class Guard:
    """Screens the replies of a round. `history` holds each silo's last accepted update."""

    history: dict[str, Passed] = field(default_factory=dict)

    def screen(
        self, envelopes: Iterable[Envelope], expected: Expected, refuse: Callable[[str, str], None]
    ) -> Iterator[Update]:
        """The good updates, in the order they came; at most two are held back until enough lengths are known."""
        norms: dict[str, float] = {}  # of this round
        seen: set[str] = set()
        held: list[tuple[Update, Passed]] = []
        for envelope in envelopes:
            try:
                if envelope.silo in seen:  # whatever the first one was: there is no second try
                    raise BoundaryError("duplicate")
                seen.add(envelope.silo)
                update = opened(envelope, Update, expected.size * 4 + wire.MAX_HEADER + 64)
                check_update(update, envelope.silo, expected)
                passed = self._measured(update)
            except BoundaryError as problem:
                refuse(envelope.silo, problem.code)
                continue
            norms[update.silo] = passed.norm
            held.append((update, passed))
            if len(self._others(update.silo, norms)) >= 2:  # beside one alone, who sends too little looks like the rule
                yield from self._release(held, norms, expected, refuse)
            del envelope, update  # a vector each: gone before the next one is made
        yield from self._release(held, norms, expected, refuse)

    def _measured(self, update: Update) -> Passed:
        some = update.delta[:: max(1, update.delta.numel() // 999)]  # reading all again would cost as much as mixing
        passed = Passed(float(update.delta.norm()), float(some.sum(dtype=torch.float64)))
        # A norm is finite only if every value is, and costs a twentieth of asking each one. Values so large that
        # their squares overflow are refused with it.
        if not math.isfinite(passed.norm):
            raise BoundaryError("not_finite")
        if passed.norm > 0 and self.history.get(update.silo) == passed:
            raise BoundaryError("replayed")
        return passed

    def _others(self, silo: str, norms: Mapping[str, float]) -> list[float]:
        past = {name: passed.norm for name, passed in self.history.items()}
        return sorted(norm for name, norm in {**past, **norms}.items() if name != silo)

    def _release(
        self,
        held: list[tuple[Update, Passed]],
        norms: dict[str, float],
        expected: Expected,
        refuse: Callable[[str, str], None],
    ) -> Iterator[Update]:
        # Judged together, then released: an absurd one must not widen the bound for the next.
        verdicts = [passed.norm <= self._bound(update.silo, norms, expected) for update, passed in held]
        while held:
            (update, passed), good = held.pop(0), verdicts.pop(0)
            if good:
                self.history[update.silo] = passed
                yield update
            else:
                del norms[update.silo]
                refuse(update.silo, "absurd_norm")

    def _bound(self, silo: str, norms: Mapping[str, float], expected: Expected) -> float:
        floor = NORM_FLOOR * (1 + expected.weights_norm)
        ceiling = NORM_CEILING * (1 + expected.weights_norm)
        others = self._others(silo, norms)
        if not others:
            return ceiling
        return min(ceiling, NORM_FACTOR * max(floor, others[len(others) // 2]))


def opened(envelope: Envelope, kind: type[R], max_bytes: int) -> R:
    """The reply in an envelope, if it is of the kind asked for; a refusal's own code otherwise."""
    content: Request | Reply | bytes = envelope.content
    if isinstance(content, bytes | bytearray | memoryview):
        content = wire.decode(content, max_bytes)
    if isinstance(content, Refusal):
        known = isinstance(content.code, str) and content.code in REFUSALS
        raise BoundaryError(content.code if known else "refused")
    if not isinstance(content, kind):
        raise BoundaryError("wrong_kind")
    return content


def check_update(update: Update, sender: str, expected: Expected) -> None:
    """Raise BoundaryError with the first thing that is wrong with an update taken by itself."""
    if update.silo != sender:
        raise BoundaryError("wrong_sender")
    if sender not in expected.batch:
        raise BoundaryError("not_asked")
    if update.course != expected.course:
        raise BoundaryError("wrong_course")
    if update.round != expected.round:
        raise BoundaryError("wrong_round")
    if update.layout != expected.layout:
        raise BoundaryError("wrong_layout")
    _check_delta(update.delta, expected.size)
    _check_counts(update, expected.batch[sender])
    _check_loss(update.loss)
    check_metrics(update.metrics)


def check_report(report: Report, sender: str, course: str, stage: int) -> None:
    """Raise BoundaryError with the first thing that is wrong with a silo's scores."""
    if report.silo != sender:
        raise BoundaryError("wrong_sender")
    if report.course != course:
        raise BoundaryError("wrong_course")
    if report.stage != stage:
        raise BoundaryError("wrong_stage")
    check_metrics(report.metrics)


def _check_delta(delta: Tensor, size: int) -> None:
    if type(delta) is not Tensor or delta.dtype != torch.float32 or delta.layout != torch.strided:
        raise BoundaryError("wrong_dtype")
    if delta.requires_grad or delta.is_inference() or delta.device.type != "cpu":  # mixing adds up in this memory
        raise BoundaryError("wrong_dtype")
    if delta.shape != (size,) or not delta.is_contiguous():
        raise BoundaryError("wrong_length")


def _check_counts(update: Update, batch: int) -> None:
    counts: Sequence[object] = (update.n_examples, update.n_seen, update.n_steps)
    if any(type(count) is not int or count < 1 for count in counts):
        raise BoundaryError("wrong_count")
    if update.n_examples > MAX_EXAMPLES or update.n_seen > update.n_steps * batch or update.n_steps > MAX_EXAMPLES:
        raise BoundaryError("wrong_count")


def _check_loss(loss: LossSummary) -> None:
    if not isinstance(loss, LossSummary):
        raise BoundaryError("wrong_loss")
    values = (loss.first, loss.last, loss.max, loss.min)
    if any(type(value) is not float or not math.isfinite(value) for value in values):
        raise BoundaryError("wrong_loss")
    if not loss.min <= min(loss.first, loss.last) <= max(loss.first, loss.last) <= loss.max:
        raise BoundaryError("wrong_loss")


def check_metrics(metrics: Metrics) -> None:
    """Metrics are few, named as the evaluation names them, and finite."""
    if not isinstance(metrics, Mapping) or len(metrics) > MAX_METRICS:
        raise BoundaryError("wrong_metrics")
    for name, summary in metrics.items():
        parts = name.split("/") if isinstance(name, str) else []
        known = len(parts) == 3 and parts[0] in ("received", "personal", "best") and parts[1] in ("dev", "test")
        if not known or not parts[2].isidentifier() or len(parts[2]) > 32 or not _sound(summary):
            raise BoundaryError("wrong_metrics")


def _sound(summary: Summary) -> bool:
    if not isinstance(summary, Summary) or type(summary.n) is not int or not 0 <= summary.n <= MAX_EXAMPLES:
        return False
    values = (summary.mean, summary.variance)
    return all(isinstance(value, float) and math.isfinite(value) for value in values) and summary.variance >= 0
