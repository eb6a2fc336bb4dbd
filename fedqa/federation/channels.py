# SPDX-License-Identifier: Apache-2.0
"""Channels: everything exchanged besides updates. Typed, bounded, allowed only if the course names them, and logged.

A channel has two halves. `answer` runs in a silo: one step's request in, tensors out. `relay` runs at the
coordinator and may ask the silos as many steps as it needs (collect, redistribute, collect again), so silo-to-silo
traffic is two steps through the coordinator.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from fedqa.data.records import Collection
from fedqa.errors import BoundaryError, FedQAError
from fedqa.federation import fed_negative
from fedqa.federation.cover import COVERS, covered
from fedqa.federation.messages import Exchange
from fedqa.federation.sides import CoordinatorSide, SiloSide, Tensors
from fedqa.tables import from_table, plain


@dataclass(frozen=True)
class Bound:
    """What one tensor of a channel may be."""

    dtype: torch.dtype
    max_shape: tuple[int, ...]

    def check(self, name: str, tensor: Tensor) -> None:
        if tensor.dtype != self.dtype:
            raise BoundaryError("wrong_dtype", f"{name} is {tensor.dtype}, {self.dtype} is accepted")
        fits = len(tensor.shape) == len(self.max_shape)
        if not fits or any(got > most for got, most in zip(tensor.shape, self.max_shape, strict=True)):
            raise BoundaryError("wrong_length", f"{name} is {tuple(tensor.shape)}, at most {self.max_shape}")
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise BoundaryError("not_finite", name)


@dataclass(frozen=True)
class NoOptions:
    """Nothing to choose."""


@dataclass(frozen=True)
class Channel:
    name: str
    summary: str
    when: Literal["before_stage", "before_round"]
    up: Mapping[str, Bound]  # all that a silo may send, by tensor name
    answer: Callable[[SiloSide, Exchange], Tensors]
    relay: Callable[[CoordinatorSide], None]
    pools: bool = False  # whether the coordinator then trains, on examples it was sent
    options: type[Any] = NoOptions  # a frozen dataclass

    def check(self, tensors: Tensors) -> None:
        """Raise BoundaryError unless the tensors are within the channel's bounds."""
        extra = sorted(set(tensors) - set(self.up))
        if extra:
            raise BoundaryError("extra_tensor", f"channel {self.name} does not carry {extra[0]!r}")
        for name, tensor in tensors.items():
            self.up[name].check(name, tensor)


def _send_examples(silo: SiloSide, request: Exchange) -> Tensors:
    return _as_tensors(replace(silo.collection, quarantine=()))  # what was left out is for the silo's own people


def _send_covered(silo: SiloSide, request: Exchange) -> Tensors:
    return _as_tensors(covered(silo.collection))


def _as_tensors(collection: Collection) -> Tensors:
    text = json.dumps(plain(collection), ensure_ascii=False).encode()
    return {"examples": torch.frombuffer(bytearray(text), dtype=torch.uint8)}


def _pool_examples(coordinator: CoordinatorSide) -> None:
    answers = coordinator.ask("collect", {name: {} for name in coordinator.silos})
    collections = []
    for name in sorted(answers):
        try:
            table = json.loads(bytes(answers[name]["examples"].numpy()))
            collections.append(from_table(Collection, table, "pooled examples"))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, FedQAError):
            coordinator.refuse(name, "malformed")
    coordinator.pool(collections)


EXAMPLES = Channel(
    name="examples",
    summary="all documents and examples, in clear, to the coordinator (central training)",
    when="before_stage",
    up={"examples": Bound(torch.uint8, (1 << 30,))},
    answer=_send_examples,
    relay=_pool_examples,
    pools=True,
)

COVERED_EXAMPLES = Channel(
    name="covered_examples",
    summary=f"all documents in clear, and each training question among {COVERS} invented ones, to the coordinator",
    when="before_stage",
    up=EXAMPLES.up,
    answer=_send_covered,
    relay=_pool_examples,
    pools=True,
)

FED_NEGATIVE = Channel(
    name="fed_negative",
    summary="vectors of training questions, and of the sentences nearest to other silos' questions, with noise",
    when="before_round",
    up={
        "bytes": Bound(torch.int8, (fed_negative.MAX_QUESTIONS, fed_negative.MAX_SENTENCES, fed_negative.MAX_WIDTH)),
        "scale": Bound(torch.float32, (fed_negative.MAX_QUESTIONS, fed_negative.MAX_SENTENCES)),
    },
    answer=fed_negative.answer,
    relay=fed_negative.relay,
    options=fed_negative.FedNegativeOptions,
)

CHANNELS: dict[str, Channel] = {channel.name: channel for channel in (EXAMPLES, COVERED_EXAMPLES, FED_NEGATIVE)}
