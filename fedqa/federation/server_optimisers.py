# SPDX-License-Identifier: Apache-2.0
"""Server optimisers: what the coordinator does with the mixed delta (FedOpt; the delta is the negative gradient)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fedqa.errors import ConfigError

State = dict[str, Tensor]  # what an optimiser remembers of one model; empty at first, changed in place


class ServerOptimiser(Protocol):
    def step(self, delta: Tensor, state: State, t: int) -> Tensor:
        """The change to add to the weights in the stage's round `t`, counted from 1. May overwrite `delta`."""


@dataclass(frozen=True)
class Add:
    """The mixed delta as it is: plain averaging."""

    def step(self, delta: Tensor, state: State, t: int) -> Tensor:
        return delta


@dataclass(frozen=True)
class Sgd:
    """Steps along the delta with momentum (FedAvgM)."""

    learning_rate: float = 1.0
    momentum: float = 0.9

    def __post_init__(self) -> None:
        _check("sgd", above_0={"learning_rate": self.learning_rate}, shares={"momentum": self.momentum})

    def step(self, delta: Tensor, state: State, t: int) -> Tensor:
        velocity = state.setdefault("velocity", torch.zeros_like(delta))
        velocity.mul_(self.momentum).add_(delta)
        return velocity * self.learning_rate


@dataclass(frozen=True)
class Adam:
    """FedAdam: steps divided by the root of a running mean square; no bias correction, as published."""

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.99
    floor: float = 1e-3  # tau of the paper: keeps rarely changed coordinates from leaping

    def __post_init__(self) -> None:
        _check(
            "adam",
            above_0={"learning_rate": self.learning_rate, "floor": self.floor},
            shares={"beta1": self.beta1, "beta2": self.beta2},
        )

    def step(self, delta: Tensor, state: State, t: int) -> Tensor:
        mean, square = _moments(delta, state)
        mean.lerp_(delta, 1 - self.beta1)
        square.lerp_(delta.square_(), 1 - self.beta2)
        return mean / square.sqrt().add_(self.floor) * self.learning_rate


@dataclass(frozen=True)
class Yogi:
    """FedYogi: as FedAdam, but the mean square moves by at most one square a round."""

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.99
    floor: float = 1e-3

    def __post_init__(self) -> None:
        _check(
            "yogi",
            above_0={"learning_rate": self.learning_rate, "floor": self.floor},
            shares={"beta1": self.beta1, "beta2": self.beta2},
        )

    def step(self, delta: Tensor, state: State, t: int) -> Tensor:
        mean, square = _moments(delta, state)
        mean.lerp_(delta, 1 - self.beta1)
        now = delta.square_()
        square.sub_(now * torch.sign(square - now), alpha=1 - self.beta2)
        return mean / square.sqrt().add_(self.floor) * self.learning_rate


@dataclass(frozen=True)
class Damped:
    """The delta divided by the round's number: later rounds change less."""

    def step(self, delta: Tensor, state: State, t: int) -> Tensor:
        return delta.div_(t)


def _check(name: str, *, above_0: Mapping[str, float], shares: Mapping[str, float]) -> None:
    for key, value in above_0.items():
        if not 0 < value < float("inf"):
            raise ConfigError(f"server optimiser {name!r}: {key} must be above 0, got {value}")
    for key, value in shares.items():
        if not 0 <= value < 1:
            raise ConfigError(f"server optimiser {name!r}: {key} must be from 0 to below 1, got {value}")


def _moments(delta: Tensor, state: State) -> tuple[Tensor, Tensor]:
    return state.setdefault("mean", torch.zeros_like(delta)), state.setdefault("square", torch.zeros_like(delta))


SERVER_OPTIMISERS: Mapping[str, type[ServerOptimiser]] = {
    "none": Add,
    "sgd": Sgd,
    "adam": Adam,
    "yogi": Yogi,
    "damped": Damped,
}
