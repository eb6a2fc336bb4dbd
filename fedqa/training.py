# SPDX-License-Identifier: Apache-2.0
"""The local loop: plain PyTorch, the same for central and federated training.

The objective is a weighted sum of terms; the loss trace is of the task term alone, because weights that depend on
a silo's progress must not see what regularises it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from fedqa.errors import ConfigError, unknown

Schedule = Literal["constant", "linear"]


@dataclass(frozen=True)
class Local:
    """How a silo works in one round. `steps`, where given, replaces `epochs`."""

    epochs: int = 1
    steps: int | None = None
    batch: int = 16  # examples
    learning_rate: float = 5e-5
    weight_decay: float = 0.01
    schedule: Schedule = "constant"
    warmup: float = 0.0  # share of the horizon over which the rate rises from 0
    horizon: Literal["round", "run"] = "run"  # what a schedule stretches over: one round, or the whole stage
    keep_optimiser: bool = False  # moments carry over from round to round
    clip: float = 1.0  # norm of a step's gradient; 0 = no limit
    replay: int = 0  # where a run goes on with new examples: old ones trained on for each new one; 0 = all

    def __post_init__(self) -> None:
        for name in ("epochs", "batch"):
            if getattr(self, name) < 1:
                raise ConfigError(f"[local] {name} must be at least 1, got {getattr(self, name)}")
        if self.steps is not None and self.steps < 1:
            raise ConfigError(f"[local] steps must be at least 1, got {self.steps} (leave it out to count epochs)")
        for name in ("learning_rate", "weight_decay", "clip"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigError(f"[local] {name} must be a number from 0, got {getattr(self, name)}")
        if self.replay < 0:
            raise ConfigError(f"[local] replay must be 0 or more old examples for each new one, got {self.replay}")
        if not 0 <= self.warmup <= 1:
            raise ConfigError(f"[local] warmup must be a share from 0 to 1, got {self.warmup}")

    def steps_per_round(self, batches_per_epoch: int) -> int:
        return self.steps or self.epochs * batches_per_epoch

    def rate_at(self, step: int, horizon: int) -> float:
        """Factor on the learning rate at a step of the horizon, counted from 0."""
        rise = self.warmup * horizon
        if step < rise:
            return (step + 1) / (rise + 1)
        if self.schedule == "constant":
            return 1.0
        return max(0.0, (horizon - step) / max(1.0, horizon - rise))


@dataclass(frozen=True)
class Term:
    """One term of the objective by name, with its weight."""

    name: str
    weight: float = 1.0

    def __post_init__(self) -> None:
        known = ["task", *TERMS, *BROUGHT]
        if self.name not in known:
            raise ConfigError(unknown("objective term", self.name, known))
        if not 0 <= self.weight < float("inf"):
            raise ConfigError(f"objective term {self.name!r} needs a weight of at least 0, got {self.weight}")


TermLoss = Callable[[Sequence[nn.Parameter], Sequence[Tensor]], Tensor]


def prox(parameters: Sequence[nn.Parameter], anchor: Sequence[Tensor]) -> Tensor:
    """Half the squared distance to the anchor (FedProx, equation 2; Ditto, equation 2)."""
    return torch.stack([(p - a).square().sum() for p, a in zip(parameters, anchor, strict=True)]).sum() / 2


TERMS: Mapping[str, TermLoss] = {"prox": prox}
BROUGHT = ("contrast",)  # terms that are made of what others sent; without it they are left out


class Epochs(Protocol):
    """Where batches come from: a skill's features, or what it draws from them for a round."""

    def n_batches(self, size: int) -> int:
        """Batches of one epoch."""

    def epoch(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Any, int]]:
        """One pass in an order drawn from `rng`: batches, each with its number of examples."""


@dataclass(frozen=True)
class Trace:
    """What a round of local work was: examples seen, steps taken, task loss of each step.

    `probed` is the loss of the same examples before and after the work, where it was measured.
    """

    n_seen: int
    losses: tuple[float, ...]
    probed: tuple[float, ...] = ()


class Adam:
    """Fused AdamW whose moments lie in one tensor, so keeping, saving and clearing them is one copy."""

    def __init__(self, parameters: Sequence[nn.Parameter], factors: Sequence[float] | None = None) -> None:
        """`factors` are on the learning rate, one for each parameter; 1 where left out."""
        size = sum(p.numel() for p in parameters)
        self.moments = torch.zeros(2, size)
        factors = factors or [1.0] * len(parameters)
        groups = [
            {"params": [p for p, own in zip(parameters, factors, strict=True) if own == factor], "factor": factor}
            for factor in dict.fromkeys(factors)
        ]
        self._optimiser = torch.optim.AdamW(groups or [{"params": []}], fused=True)
        self._steps: list[Tensor] = []
        start = 0
        for p in parameters:
            stop = start + p.numel()
            step = torch.zeros(())
            mean, square = (row[start:stop].view_as(p) for row in self.moments)
            self._optimiser.state[p] = {"step": step, "exp_avg": mean, "exp_avg_sq": square}
            self._steps.append(step)
            start = stop

    def start(self, local: Local, moments: Tensor | None, steps: int) -> None:
        """Begin a round, fresh or from kept moments."""
        self._optimiser.zero_grad(set_to_none=True)  # of work that broke off half-way, perhaps another silo's
        if moments is None:
            self.moments.zero_()
        else:
            self.moments.copy_(moments)
        for step in self._steps:
            step.fill_(steps)
        for group in self._optimiser.param_groups:
            group["weight_decay"] = local.weight_decay

    @property
    def steps(self) -> int:
        # The most of any parameter: one that the loss does not touch, such as an unused pooler, takes no steps.
        return max((int(step) for step in self._steps), default=0)

    def step(self, rate: float) -> None:
        for group in self._optimiser.param_groups:
            group["lr"] = rate * group["factor"]
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)


def fit(
    loss: Callable[[Any], Tensor],
    parameters: Sequence[nn.Parameter],
    optimiser: Adam,
    *,
    data: Epochs,
    local: Local,
    terms: Sequence[Term],
    rng: np.random.Generator,
    anchor: Sequence[Tensor] | None = None,
    brought: Mapping[str, Callable[[], Tensor]] | None = None,
    first_step: int = 0,
    horizon: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Trace:
    """Train in place for one round.

    `anchor` is what `prox` pulls towards, the starting values if not given; `brought` are the losses of terms that need
    more than the parameters; `first_step` and `horizon` place the round in a longer schedule.
    """
    total = local.steps_per_round(data.n_batches(local.batch))
    span = horizon or total
    brought = brought or {}
    extra = [term for term in terms if term.weight > 0 and (term.name in TERMS or term.name in brought)]
    task_weight = sum(term.weight for term in terms if term.name == "task")
    if extra and anchor is None:
        anchor = [p.detach().clone() for p in parameters]
    losses: list[float] = []
    n_seen = 0
    for step, (batch, n) in enumerate(islice(_batches(data, local.batch, rng), total)):
        task = loss(batch)
        objective = task if task_weight == 1 else task * task_weight
        for term in extra:
            more = brought[term.name]() if term.name in brought else TERMS[term.name](parameters, anchor or ())
            objective = objective + term.weight * more
        objective.backward()  # type: ignore[no-untyped-call]
        if local.clip:
            torch.nn.utils.clip_grad_norm_(parameters, local.clip, foreach=True)
        optimiser.step(local.learning_rate * local.rate_at(first_step + step, span))
        losses.append(task.item())
        n_seen += n
        progress(step + 1, total)
    return Trace(n_seen, tuple(losses))


class Probe:
    """The mean task loss of the same few examples whenever it is asked: the losses of a round's steps are of different
    ones, and where steps are few they differ more by these than by what was learnt."""

    def __init__(
        self, loss: Callable[[Any], Tensor], data: Epochs, *, batch: int, count: int, rng: np.random.Generator
    ) -> None:
        self._loss = loss
        self._batches = list(islice(data.epoch(batch, rng), max(1, count // batch)))

    def __call__(self) -> float:
        seen = sum(n for _, n in self._batches)
        return sum(n * self._loss(batch).item() for batch, n in self._batches) / seen


@contextmanager
def one_thread() -> Iterator[None]:
    """Local work runs on one thread: small models gain nothing from more, and the bits depend on their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _batches(data: Epochs, size: int, rng: np.random.Generator) -> Iterator[tuple[Any, int]]:
    while True:
        yield from data.epoch(size, rng)
