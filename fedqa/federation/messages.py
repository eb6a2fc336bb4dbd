# SPDX-License-Identifier: Apache-2.0
"""What crosses a silo's boundary, in both directions. There is nothing else.

Coordinator to silo: `Train`, `Finish`, `Exchange`. Silo to coordinator: `Update`, `Report`, `Contribution`, `Refusal`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal

from torch import Tensor

from fedqa.evaluation.metrics import Summary

Point = Literal["received", "personal", "best"]
Metrics = Mapping[str, Summary]  # "point/split/metric" -> count, mean and variance over the questions of one silo


@dataclass(frozen=True)
class Train:
    """Take these weights, work on your examples, answer with an Update."""

    course: str
    round: int
    weights: Tensor  # [n_received] of the stage's layout


@dataclass(frozen=True)
class Finish:
    """A stage is over and these are its weights: keep them, and after the last stage answer with your scores."""

    course: str
    stage: int
    weights: Tensor


@dataclass(frozen=True)
class Exchange:
    """One step of a channel: here is what the others contributed, answer with a Contribution."""

    course: str
    round: int  # the round the exchange belongs to; the first of a stage for what happens before a stage
    channel: str
    step: str
    tensors: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class LossSummary:
    """The task loss over the steps of one round."""

    first: float
    last: float
    max: float
    min: float

    @classmethod
    def of(cls, losses: Sequence[float], window: int = 1) -> "LossSummary":
        """Of the means of so many steps each, the first window first; what is left over at the end is a window too.

        Windows are smaller where there would be one alone: a silo of few steps would seem to learn nothing.
        """
        if len(losses) <= window:
            window = max(1, len(losses) // 2)
        means = [fmean(losses[start : start + window]) for start in range(0, len(losses), window)]
        return cls(means[0], means[-1], max(means), min(means))


@dataclass(frozen=True)
class Update:
    """What a silo's round of work changed: `delta` is new minus received over the shared parameters."""

    silo: str
    course: str
    round: int
    layout: str
    delta: Tensor  # [n_shared], float32
    n_examples: int  # the silo's training examples
    n_seen: int  # examples processed in this round, repeats counted
    n_steps: int
    loss: LossSummary
    metrics: Metrics = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """A silo's scores at the end of a stage."""

    silo: str
    course: str
    stage: int
    metrics: Metrics = field(default_factory=dict)


@dataclass(frozen=True)
class Contribution:
    """A silo's answer to one step of a channel."""

    silo: str
    course: str
    round: int
    channel: str
    step: str
    tensors: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Refusal:
    """A silo that did not do what was asked. The code is all that is told: an error's text may quote a silo's data."""

    silo: str
    code: str


Request = Train | Finish | Exchange
Reply = Update | Report | Contribution | Refusal


@dataclass(frozen=True)
class Envelope:
    """A reply as an engine delivers it: from whom (as the engine knows, not as the reply claims), and how large."""

    silo: str
    content: Reply | bytes
    n_bytes: int
