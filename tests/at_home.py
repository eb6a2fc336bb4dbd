# SPDX-License-Identifier: Apache-2.0
"""A silo and a coordinator as a channel sees them, with the toy's model and texts, all in memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from toys import toy_collection, toy_model, toy_texts

from fedqa.errors import BoundaryError
from fedqa.federation.channels import CHANNELS
from fedqa.federation.messages import Exchange
from fedqa.models.contrast import with_contrast_head
from fedqa.skills.silo_texts import Texts

NAMES = ("ash", "birch", "cedar", "dogwood")
Tensors = Mapping[str, Tensor]


@dataclass
class AtHome:
    """A silo; `seed` is its course's, its model and texts are its own."""

    name: str
    model: nn.Module
    texts: Texts
    chosen: Any
    silos: Sequence[str] = NAMES
    seed: int = 7
    spent: dict[bytes, int] = field(default_factory=dict)
    inbox: dict[str, Tensor] = field(default_factory=dict)
    drawer: dict[str, Tensors] = field(default_factory=dict)

    def options(self, request: Exchange) -> Any:
        return self.chosen

    def own_model(self, round_number: int) -> nn.Module:
        return self.model.eval()

    def secret(self) -> int:
        return sum(map(ord, self.name))

    def spend(self, request: Exchange, amount: int) -> int:
        self.spent[request.tensors["present"].numpy().tobytes()] = amount
        return sum(self.spent.values())

    def receive(self, round_number: int, tensors: Tensors) -> None:
        self.inbox |= tensors

    receive_for_stage = receive

    def received(self, round_number: int) -> dict[str, Tensor]:
        return self.inbox

    def keep(self, what: str, round_number: int, tensors: Tensors) -> None:
        self.drawer[what] = tensors

    def kept(self, what: str, round_number: int) -> Tensors:
        return self.drawer.get(what, {})

    def forget(self, what: str) -> None:
        self.drawer.pop(what, None)


def homes(options: Any, names: Sequence[str] = NAMES) -> dict[str, AtHome]:
    """Each silo with a toy model and texts of its own."""
    made = {}
    for number, name in enumerate(names, start=1):
        model = with_contrast_head(toy_model(number), number).module
        made[name] = AtHome(name, model, toy_texts(toy_collection(5 + number, number)), options, names)
    return made


@dataclass
class Between:
    """A coordinator that keeps all it hears. `lost` says who does not answer a step, `spoilt` changes answers."""

    channel: str
    homes: Mapping[str, AtHome]
    options: Any
    mixture: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    lost: Callable[[str, str, int], bool] = lambda step, silo, time: False
    spoilt: Callable[[str, str, Tensors], Tensors] = lambda step, silo, tensors: tensors
    heard: list[tuple[str, dict[str, Tensors]]] = field(default_factory=list)
    sent: list[tuple[str, dict[str, Tensors]]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)

    @property
    def silos(self) -> list[str]:
        return list(self.homes)

    def ask(self, step: str, tensors: Mapping[str, Tensors]) -> dict[str, Tensors]:
        answers: dict[str, Tensors] = {}
        time = sum(earlier == step for earlier, _ in self.sent)
        self.sent.append((step, dict(tensors)))
        for name, down in tensors.items():
            if self.lost(step, name, time):
                continue
            try:
                answer = CHANNELS[self.channel].answer(
                    self.homes[name], Exchange("course", 4, self.channel, step, down)
                )  # type: ignore[arg-type]
                CHANNELS[self.channel].check(answer)
                answers[name] = self.spoilt(step, name, answer)
            except BoundaryError as problem:
                self.refuse(name, problem.code)
        self.heard.append((step, answers))
        return answers

    def refuse(self, silo: str, code: str) -> None:
        self.refused.append((silo, code))

    def relay(self) -> "Between":
        CHANNELS[self.channel].relay(self)  # type: ignore[arg-type]
        return self

    def said(self, step: str) -> list[dict[str, Tensors]]:
        return [answers for asked, answers in self.heard if asked == step]
