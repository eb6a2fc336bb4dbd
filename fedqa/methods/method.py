# SPDX-License-Identifier: Apache-2.0
"""What a method is, and the options most methods share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from fedqa.errors import ConfigError
from fedqa.federation.course import Choice, Participation, Stage
from fedqa.federation.sharing import Mode, Rule
from fedqa.training import Local


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


@dataclass(frozen=True)
class Common:
    """Options of every method that trains."""

    train_embeddings: bool = False  # a trained word table tells the coordinator a silo's whole vocabulary
    freeze_layers: int = 0  # the lowest encoder layers that stay as loaded: faster, and fewer bytes

    def __post_init__(self) -> None:
        if self.freeze_layers < 0:
            raise ConfigError(f"freeze_layers must be 0 or more, got {self.freeze_layers}")

    def rule(self, *lines: tuple[str, Mode]) -> Rule:
        """What is frozen, then the method's own lines, then everything shared."""
        embeddings: Rule = () if self.train_embeddings else (("embeddings", "frozen"),)
        layers: Rule = ((f"enc.0-{self.freeze_layers - 1}", "frozen"),) if self.freeze_layers else ()
        pooler: Rule = (("pooler", "frozen"),)  # no skill reads it: training never moves it, sending it is waste
        return (*embeddings, *pooler, *layers, *lines, ("*", "shared"))


@dataclass(frozen=True)
class Federated(Common):
    """Options of every method that mixes updates."""

    weights: Literal["size", "uniform"] = "size"
    combiner: Literal["mean", "median", "trimmed_mean", "krum"] = "mean"
    sample: int | None = None  # silos drawn each round
    quorum: int = 1
    timeout_s: float = 3600.0

    def participation(self) -> Participation:
        return Participation(self.sample, self.quorum, self.timeout_s)

    def choices(self) -> tuple[Choice, Choice]:
        return Choice(self.weights), Choice(self.combiner)
