# SPDX-License-Identifier: Apache-2.0
"""What a method is, and the options most methods share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from fedqa.federation.course import Choice, Participation, Stage
from fedqa.federation.sharing import Mode, Rule
from fedqa.models.patches import Patch
from fedqa.training import Local

Part = Literal["all", "encoder"]
Weights = Literal["size", "uniform", "lorar", "loss_reduction", "nearest"]


@dataclass(frozen=True)
class Plan:
    """What the alliance file says about the length and manner of training."""

    rounds: int
    local: Local


@dataclass(frozen=True)
class Method:
    name: str
    summary: str
    options: type[Any]  # a frozen dataclass
    stages: Callable[[Plan, Any], tuple[Stage, ...]]
    patches: Callable[[Any], tuple[Patch, ...]] = lambda options: ()


@dataclass(frozen=True)
class Common:
    """Options of every method that trains."""

    train_embeddings: bool = False  # a trained word table tells the coordinator a silo's whole vocabulary

    def rule(self, *lines: tuple[str, Mode], rest: Mode = "shared") -> Rule:
        """What is frozen, then the method's own lines, then the rest."""
        embeddings: Rule = () if self.train_embeddings else (("embeddings", "frozen"),)
        pooler: Rule = (("pooler", "frozen"),)  # no skill reads it: training never moves it, sending it is waste
        return (*embeddings, *pooler, *lines, ("*", rest))


@dataclass(frozen=True)
class Parted(Common):
    """For methods that may share a part of the model only. It stands before the other options it is joined with.

    A decoder and a head for words that nothing trains cost a file a round and no more; what is trained in them would
    tell a silo's task.
    """

    part: Part = "all"  # what is shared at most: where skills differ, the encoder

    def rule(self, *lines: tuple[str, Mode], rest: Mode = "shared") -> Rule:
        beyond: Rule = (("!enc", "private"),) if self.part == "encoder" else ()
        return super().rule(*lines, *beyond, rest=rest)


@dataclass(frozen=True)
class Together(Common):
    """Options of every method whose silos learn from one another."""

    sample: int | None = None  # silos drawn each round
    quorum: int = 1
    timeout_s: float = 3600.0

    def participation(self) -> Participation:
        return Participation(self.sample, self.quorum, self.timeout_s)


@dataclass(frozen=True)
class Federated(Together):
    """Options of every method that mixes updates into one model."""

    weights: Weights = "size"
    combiner: Literal["mean", "median", "trimmed_mean", "krum"] = "mean"

    def choices(self) -> tuple[Choice, Choice]:
        return Choice(self.weights), Choice(self.combiner)
