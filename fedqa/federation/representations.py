# SPDX-License-Identifier: Apache-2.0
"""The channel `representations` (ATC): what each silo makes of the probe set, for the others to compare with.

Before each round but a stage's first, two steps. `represent`: each silo sends a vector for every text of the probe set:
of its largest coordinates the places, as bits, and the values, as bytes. `deliver`: each gets the vectors of the silos
whose updates it was mixed with in the last round, and of the others. From them the silo makes the term `contrast` of
its objective: be like the former, and unlike the latter.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from fedqa.errors import BoundaryError, ConfigError
from fedqa.federation.messages import Exchange
from fedqa.federation.probe import STATES, TOKENS
from fedqa.federation.sides import CoordinatorSide, SiloSide, Tensors
from fedqa.models.contrast import contrastive, represented

NEAR, FAR = "contrast/near", "contrast/far"  # float32 [items, width], the neighbours' mean; [silos, items, width]
_PARTS = ("places", "bytes", "scale")
_AT_ONCE = 32  # texts


@dataclass(frozen=True)
class RepresentationOptions:
    """What is sent of a silo's vectors, and how they are compared; part of the course a silo approves."""

    coordinates: int = 32  # of each vector, the largest; the others count as 0
    temperature: float = 1.0
    items_per_step: int = 8  # texts of the probe set compared in a step of training
    negatives: int | None = None  # silos to be unlike, the farthest; None = all that are no neighbours
    reduce: Literal["item", "silo"] = "item"  # compare text by text, or the means over the texts
    memory: Literal["mixed", "own"] = "mixed"  # what the decoder reads: the mixed states, or those of its own encoder

    def __post_init__(self) -> None:
        for key in ("coordinates", "items_per_step"):
            if getattr(self, key) < 1:
                raise ConfigError(f"representations: {key} must be at least 1, got {getattr(self, key)}")
        if not 0 < self.temperature < float("inf"):
            raise ConfigError(f"representations: temperature must be above 0, got {self.temperature}")
        if self.negatives is not None and self.negatives < 1:
            raise ConfigError(
                f"representations: negatives must be at least 1, got {self.negatives} (leave it out for all)"
            )


# -- few coordinates, as bytes -----------------------------------------------------------------------------------


def packed(vectors: Tensor, coordinates: int) -> dict[str, Tensor]:
    """The largest coordinates of each vector: where they are, a bit each, and how large, a byte each with a scale."""
    count = min(coordinates, vectors.shape[-1])
    places = vectors.abs().topk(count, dim=-1).indices.sort(dim=-1).values
    kept = vectors.gather(-1, places)
    scale = kept.abs().amax(dim=-1).clamp(min=1e-12) / 127
    there = torch.zeros_like(vectors, dtype=torch.bool).scatter(-1, places, True)
    return {
        "places": torch.from_numpy(np.packbits(there.numpy(), axis=-1)),
        "bytes": (kept / scale.unsqueeze(-1)).round().to(torch.int8),
        "scale": scale.float(),
    }


def unpacked(tensors: Tensors) -> Tensor:
    """The vectors, with zeros where nothing was sent; their width is a multiple of 8. Raises BoundaryError."""
    places, kept, scale = _checked(tensors)
    there = torch.from_numpy(np.unpackbits(places.numpy(), axis=-1)).bool()
    vectors = torch.zeros(there.shape)
    vectors[there] = (kept.float() * scale.unsqueeze(-1)).reshape(-1)
    return vectors


def _checked(tensors: Tensors) -> tuple[Tensor, Tensor, Tensor]:
    if not set(_PARTS) <= set(tensors):
        raise BoundaryError("malformed")
    places, kept, scale = (tensors[name] for name in _PARTS)
    types = (places.dtype, kept.dtype, scale.dtype) == (torch.uint8, torch.int8, torch.float32)
    if not types or places.dim() < 2 or not places.shape[:-1] == kept.shape[:-1] == scale.shape:
        raise BoundaryError("malformed")
    if bool((np.bitwise_count(places.numpy()).sum(axis=-1) != kept.shape[-1]).any()):
        raise BoundaryError("malformed")
    return places, kept, scale


# -- the silo's half ---------------------------------------------------------------------------------------------


def answer(silo: SiloSide, request: Exchange) -> Tensors:
    steps = {"represent": _represent, "deliver": _deliver}
    if request.step not in steps:
        raise BoundaryError("not_in_course")
    return steps[request.step](silo, request)


def _represent(silo: SiloSide, request: Exchange) -> Tensors:
    options, received = silo.options(request), silo.received(request.round)
    if TOKENS not in received:
        raise BoundaryError("no_probe")
    module = silo.own_model(request.round)
    blocks = zip(*(torch.split(received[name], _AT_ONCE) for name in (TOKENS, STATES)), strict=True)
    with torch.inference_mode():
        vectors = [represented(module, tokens, _memory(options, states)) for tokens, states in blocks]
        return packed(torch.cat(vectors), options.coordinates)


def _deliver(silo: SiloSide, request: Exchange) -> Tensors:
    near, tokens = request.tensors.get("near"), silo.received(request.round).get(TOKENS)
    try:
        vectors = unpacked(request.tensors)
    except BoundaryError:
        raise BoundaryError("bad_request") from None
    if near is None or tokens is None or vectors.dim() != 3 or near.shape != (len(vectors),):
        raise BoundaryError("bad_request")
    if vectors.shape[1] != len(tokens) or not bool(near.any()):
        raise BoundaryError("bad_request")
    chosen = near.bool()
    silo.receive(request.round, {NEAR: vectors[chosen].mean(dim=0), FAR: vectors[~chosen]})
    return {}


def _memory(options: RepresentationOptions, states: Tensor) -> Tensor | None:
    return states if options.memory == "mixed" else None


def contrast(
    module: nn.Module, options: RepresentationOptions, received: Tensors, rng: np.random.Generator
) -> Callable[[], Tensor] | None:
    """The term `contrast`: at each step some texts of the probe set are compared; None before there are neighbours."""
    if not {TOKENS, STATES, NEAR, FAR} <= set(received):
        return None
    tokens, states, near, far = (received[name] for name in (TOKENS, STATES, NEAR, FAR))
    count = min(options.items_per_step, len(tokens))

    def loss() -> Tensor:
        rows = torch.from_numpy(rng.choice(len(tokens), count, replace=False))
        own = represented(module, tokens[rows], _memory(options, states[rows]))
        own = torch.nn.functional.pad(own, (0, near.shape[-1] - own.shape[-1]))  # widths are sent in whole bytes
        theirs = near[rows], far[:, rows]
        if options.reduce == "silo":
            own, theirs = own.mean(dim=0, keepdim=True), (theirs[0].mean(0, True), theirs[1].mean(1, True))
        return contrastive(own, *theirs, options.temperature)

    return loss


# -- the coordinator's half --------------------------------------------------------------------------------------


def relay(coordinator: CoordinatorSide) -> None:
    """Carry everybody's vectors to everybody, told apart by who was mixed with whom.

    Nothing is asked before a mixture, nor after one of all with all: there would be nobody to be unlike.
    """
    if not any(weight == 0 for row in coordinator.mixture.values() for weight in row.values()):
        return
    sent = _alike(coordinator, coordinator.ask("represent", {name: {} for name in coordinator.silos}))
    requests = {name: _others(coordinator, name, sent) for name in sent}
    coordinator.ask("deliver", {name: tensors for name, tensors in requests.items() if tensors})


def _others(coordinator: CoordinatorSide, silo: str, sent: Mapping[str, Tensors]) -> dict[str, Tensor]:
    """The vectors of the others, without names, neighbours marked; nothing unless there are both kinds."""
    weights = coordinator.mixture.get(silo, {})
    near = [name for name in sent if name != silo and weights.get(name, 0) > 0]
    far = [name for name in sent if name != silo and name not in near]
    if not near or not far:
        return {}
    far = _farthest(sent, silo, far, coordinator.options.negatives)
    chosen = sorted((*near, *far))  # as the names are in order, the order says nothing of who is near
    parts = {part: torch.stack([sent[name][part] for name in chosen]) for part in _PARTS}
    return {**parts, "near": torch.tensor([name in near for name in chosen], dtype=torch.uint8)}


def _farthest(sent: Mapping[str, Tensors], silo: str, far: Sequence[str], most: int | None) -> list[str]:
    """Of so many silos at most, those whose vectors are least like the silo's own."""
    if most is None or len(far) <= most:
        return list(far)
    own = unpacked(sent[silo]).flatten()
    likeness = {name: float(torch.cosine_similarity(own, unpacked(sent[name]).flatten(), dim=0)) for name in far}
    return sorted(far, key=lambda name: (round(likeness[name], 9), name))[:most]


def _alike(coordinator: CoordinatorSide, sent: Mapping[str, Tensors]) -> dict[str, Tensors]:
    """What can be compared: sound, and of the shapes that most silos sent."""
    shapes = {name: _shapes(tensors) for name, tensors in sent.items()}
    common = Counter(shape for shape in shapes.values() if shape).most_common(1)
    for name, shape in shapes.items():
        if not common or shape != common[0][0]:
            coordinator.refuse(name, "malformed")
    return {name: sent[name] for name, shape in shapes.items() if common and shape == common[0][0]}


def _shapes(tensors: Tensors) -> tuple[torch.Size, ...]:
    try:
        return tuple(tensor.shape for tensor in _checked(tensors))
    except BoundaryError:
        return ()
