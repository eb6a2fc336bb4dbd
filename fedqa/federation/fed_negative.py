# SPDX-License-Identifier: Apache-2.0
"""The channel `fed_negative` (PDD-AS2): silos find hard negatives for one another, as vectors and never as text.

Three steps a round, all through the coordinator. `ask`: each silo sends the vectors of some of its training questions.
`search`: each silo gets the others' questions, mixed so that none can be tied to a silo, and returns the vectors of
its own nearest sentences. `deliver`: each silo gets what was found for its questions, again mixed.

A vector gives much of its text away to whoever owns the encoder, and every silo does. So each silo guards what it
sends: it answers a limited number of questions in a course, with few sentences each, as bytes with noise. The noise is
drawn from a secret of the silo: from the course's seed, anybody could draw it again and take it away.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fedqa.errors import BoundaryError, ConfigError
from fedqa.federation.messages import Exchange
from fedqa.federation.sides import CoordinatorSide, SiloSide, Tensors
from fedqa.seeds import generator

MAX_QUESTIONS, MAX_SENTENCES, MAX_WIDTH = 100_000, 512, 4096
Vectors = npt.NDArray[np.float32]
INBOX = "negatives"  # float32 [training questions, sentences, width]; rows of zeros are nothing


@dataclass(frozen=True)
class FedNegativeOptions:
    """What a silo lets out through this channel; part of the course it approves."""

    questions: int = 200  # a silo asks in a round, of its training questions
    sentences: int = 20  # a silo returns for a question
    budget: int = 20_000  # questions a silo answers in the whole course
    noise: float = 0.02  # standard deviation in each dimension, where a vector has length 1
    peers: int | None = None  # silos that are asked for a question, drawn anew each round; None = all others

    def __post_init__(self) -> None:
        for key, most in (("questions", MAX_QUESTIONS), ("sentences", MAX_SENTENCES), ("budget", 1 << 40)):
            if not 1 <= getattr(self, key) <= most:
                raise ConfigError(f"fed_negative: {key} must be from 1 to {most}, got {getattr(self, key)}")
        if self.peers is not None and self.peers < 1:
            raise ConfigError(f"fed_negative: peers must be at least 1, got {self.peers} (leave it out for all)")
        if not 0 <= self.noise < float("inf"):
            raise ConfigError(f"fed_negative: noise must be a number from 0, got {self.noise}")


@runtime_checkable
class Encodes(Protocol):
    """What a skill must offer for its silos to exchange negatives."""

    def training_vectors(self, model: nn.Module, features: Any) -> Vectors:
        """The training questions as vectors: [questions, width]."""

    def sentence_vectors(self, model: nn.Module, features: Any) -> Vectors:
        """All sentences of the silo as vectors: [sentences, width]."""


# -- the silo's half ---------------------------------------------------------------------------------------------


def answer(silo: SiloSide, request: Exchange) -> Tensors:
    steps = {"ask": _ask, "search": _search, "deliver": _deliver}
    if request.step not in steps or not isinstance(silo.skill, Encodes):
        raise BoundaryError("not_in_course")
    with torch.inference_mode():
        return steps[request.step](silo, request)


def _ask(silo: SiloSide, request: Exchange) -> Tensors:
    vectors = torch.from_numpy(silo.skill.training_vectors(silo.own_model(request.round), silo.features))
    return packed(_noisy(silo, request, vectors)[_asked(silo, request)].unsqueeze(1))


def _search(silo: SiloSide, request: Exchange) -> Tensors:
    options, questions = silo.options(request), unpacked(request.tensors).squeeze(1)
    if silo.spend(request, len(questions)) > options.budget:
        raise BoundaryError("over_budget")
    sentences = torch.from_numpy(silo.skill.sentence_vectors(silo.own_model(request.round), silo.features))
    if questions.shape[-1] != sentences.shape[-1]:
        raise BoundaryError("bad_request")
    count = min(options.sentences, len(sentences))
    found = [block @ sentences.T for block in torch.split(questions, 1024)]
    nearest = torch.cat([scores.topk(count).indices for scores in found])
    return packed(_noisy(silo, request, sentences)[nearest])


def _deliver(silo: SiloSide, request: Exchange) -> Tensors:
    found = unpacked(request.tensors)
    chosen = _asked(silo, request)
    if len(found) != len(chosen):
        raise BoundaryError("bad_request")
    kept = torch.zeros(silo.features.n_train, *found.shape[1:])
    kept[chosen] = _in_one_order(found)
    silo.receive(request.round, {INBOX: kept})
    return {}


def _asked(silo: SiloSide, request: Exchange) -> Tensor:
    """Positions of the training questions this silo asks about in a round; nobody else can know them."""
    order = generator(silo.secret(), "questions", request.round).permutation(silo.features.n_train)
    return torch.from_numpy(np.sort(order[: silo.options(request).questions]))


def _noisy(silo: SiloSide, request: Exchange, vectors: Tensor) -> Tensor:
    """All vectors of a kind with their noise. A text has the same noise in every answer: new one each time could be
    averaged away by asking often."""
    noise = silo.options(request).noise
    if not noise:
        return vectors
    rng = generator(silo.secret(), "noise", request.step)
    return vectors + torch.from_numpy(rng.normal(0.0, noise, vectors.shape).astype(np.float32))


def _in_one_order(found: Tensor) -> Tensor:
    """Each question's vectors in an order that depends on them alone: the coordinator mixes them by chance."""
    order = found[..., 0].argsort(dim=1, stable=True)
    return found.gather(1, order.unsqueeze(-1).expand_as(found))


# -- bytes instead of numbers ------------------------------------------------------------------------------------


def packed(vectors: Tensor) -> dict[str, Tensor]:
    """Vectors as bytes, each with its scale: a quarter of the size. By itself this hides nothing."""
    scale = vectors.abs().amax(dim=-1).clamp(min=1e-12) / 127
    return {"bytes": (vectors / scale.unsqueeze(-1)).round().to(torch.int8), "scale": scale.float()}


def unpacked(tensors: Tensors) -> Tensor:
    try:
        return tensors["bytes"].float() * tensors["scale"].unsqueeze(-1)
    except (KeyError, RuntimeError):
        raise BoundaryError("bad_request") from None


# -- the coordinator's half --------------------------------------------------------------------------------------


def relay(coordinator: CoordinatorSide) -> None:
    """Carry questions to the other silos and what they find back, mixed by chance that nobody can draw again."""
    options, chance = coordinator.options, np.random.default_rng()
    asked = coordinator.ask("ask", {name: {} for name in coordinator.silos})
    asked = {name: tensors for name, tensors in asked.items() if _complete(coordinator, name, tensors)}
    routes = _routes(asked, coordinator.silos, options.peers, chance)
    requests = {peer: _rows(asked, order) for peer, order in routes.items() if order}
    found = coordinator.ask("search", requests)
    whole = {
        peer: tensors
        for peer, tensors in found.items()
        if _complete(coordinator, peer, tensors) and len(tensors["bytes"]) == len(routes[peer])
    }
    coordinator.ask("deliver", _replies(asked, routes, whole, chance))


Order = list[tuple[str, int]]  # whose question, and which of its


def _routes(
    asked: Mapping[str, Tensors], silos: Sequence[str], peers: int | None, chance: np.random.Generator
) -> dict[str, Order]:
    """The questions each silo is sent, those of all others mixed."""
    routes: dict[str, Order] = {name: [] for name in silos}
    for name, tensors in asked.items():
        others = [silo for silo in silos if silo != name]
        for row in range(len(tensors["bytes"])):
            chosen = others if peers is None else chance.choice(others, min(peers, len(others)), replace=False)
            for peer in chosen:
                routes[peer].append((name, row))
    return {peer: [order[i] for i in chance.permutation(len(order))] for peer, order in routes.items()}


def _rows(asked: Mapping[str, Tensors], order: Order) -> dict[str, Tensor]:
    return {key: torch.stack([asked[name][key][row] for name, row in order]) for key in ("bytes", "scale")}


def _replies(
    asked: Mapping[str, Tensors], routes: Mapping[str, Order], found: Mapping[str, Tensors], chance: np.random.Generator
) -> dict[str, dict[str, Tensor]]:
    """For each silo, what was found for each of its questions, as many for all: [questions, sentences, width]."""
    by_question: dict[tuple[str, int], list[Tensors]] = {}
    for peer, tensors in found.items():
        for place, question in enumerate(routes[peer]):
            one = {key: tensors[key][place] for key in ("bytes", "scale")}
            by_question.setdefault(question, []).append(one)
    replies = {}
    for name, tensors in asked.items():
        rows = [_mixed(by_question.get((name, row), []), chance) for row in range(len(tensors["bytes"]))]
        replies[name] = _stacked(rows, tensors["bytes"].shape[-1])
    return replies


def _mixed(parts: Sequence[Tensors], chance: np.random.Generator) -> dict[str, Tensor] | None:
    if not parts:
        return None
    joined = {key: torch.cat([part[key] for part in parts]) for key in ("bytes", "scale")}
    order = torch.from_numpy(chance.permutation(len(joined["scale"])))
    return {key: tensor[order] for key, tensor in joined.items()}


def _stacked(rows: Sequence[Mapping[str, Tensor] | None], width: int) -> dict[str, Tensor]:
    most = max((len(row["scale"]) for row in rows if row), default=0)
    whole = {
        "bytes": torch.zeros(len(rows), most, width, dtype=torch.int8),
        "scale": torch.zeros(len(rows), most),
    }
    for i, row in enumerate(rows):
        for key in whole:
            if row:
                whole[key][i, : len(row[key])] = row[key]
    return whole


def _complete(coordinator: CoordinatorSide, silo: str, tensors: Tensors) -> bool:
    """Whether both tensors came and fit each other; a silo whose do not is refused."""
    fits = {"bytes", "scale"} == set(tensors) and tensors["bytes"].shape[:-1] == tensors["scale"].shape
    if not fits:
        coordinator.refuse(silo, "malformed")
    return fits
