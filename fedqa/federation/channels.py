# SPDX-License-Identifier: Apache-2.0
"""Channels: everything exchanged besides updates. Typed, bounded, allowed only if the course names them, and logged.

A channel has two halves. `answer` runs in a silo: one step's request in, tensors out. `relay` runs at the
coordinator and may ask the silos as many steps as it needs (collect, redistribute, collect again), so silo-to-silo
traffic is two steps through the coordinator.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from fedqa.data.records import Collection
from fedqa.errors import BoundaryError, FedQAError
from fedqa.federation import fed_negative, probe, representations
from fedqa.federation.cover import COVERS, covered
from fedqa.federation.messages import Exchange
from fedqa.federation.sides import CoordinatorSide, SiloSide, Tensors
from fedqa.models.contrast import with_contrast_head
from fedqa.models.tagged import TaggedModel
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


# A model, the channel's options, all that channels brought for a round, random numbers -> the loss, if it can be.
MakeTerm = Callable[[nn.Module, Any, Tensors, np.random.Generator], Callable[[], Tensor] | None]


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
    reads_texts: bool = False  # whether a silo's texts are needed apart from its skill; `options` then has a `length`
    needs: tuple[str, ...] = ()  # channels of the same stage that must have brought something before
    extends: Callable[[TaggedModel, int], TaggedModel] | None = None  # what it adds to every silo's model, from a seed
    terms: Mapping[str, MakeTerm] = field(default_factory=dict)  # of the objective, made of what the channel brought
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

PROBE = Channel(
    name="probe",
    summary="sums over silos of what their encoders make of some texts; masks hide every silo's own part",
    when="before_stage",
    up={
        "key": Bound(torch.uint8, (probe.KEY,)),
        "masked": Bound(torch.int32, (probe.MAX_ITEMS, probe.MAX_LENGTH, probe.MAX_WIDTH)),
        "tokens": Bound(torch.int32, (probe.MAX_ITEMS, probe.MAX_LENGTH)),
    },
    answer=probe.answer,
    relay=probe.relay,
    options=probe.ProbeOptions,
    reads_texts=True,
)

REPRESENTATIONS = Channel(
    name="representations",
    summary="what a silo's decoder makes of the common probe set: a few coordinates of each vector, as bytes",
    when="before_round",
    up={
        "places": Bound(torch.uint8, (probe.MAX_ITEMS, probe.MAX_WIDTH // 8)),
        "bytes": Bound(torch.int8, (probe.MAX_ITEMS, probe.MAX_WIDTH)),
        "scale": Bound(torch.float32, (probe.MAX_ITEMS,)),
    },
    answer=representations.answer,
    relay=representations.relay,
    options=representations.RepresentationOptions,
    needs=("probe",),
    extends=with_contrast_head,
    terms={"contrast": representations.contrast},
)

CHANNELS: dict[str, Channel] = {
    channel.name: channel for channel in (EXAMPLES, COVERED_EXAMPLES, FED_NEGATIVE, PROBE, REPRESENTATIONS)
}
