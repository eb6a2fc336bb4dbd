# SPDX-License-Identifier: Apache-2.0
"""What the two halves of a channel may see and do: a silo on one side, the coordinator on the other."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor, nn

from fedqa.data.records import Collection
from fedqa.federation.messages import Exchange

Tensors = Mapping[str, Tensor]


class SiloSide(Protocol):
    """What a silo lets a channel's half see of it."""

    name: str
    collection: Collection

    @property
    def silos(self) -> Sequence[str]:
        """The names of all silos of the course."""

    @property
    def seed(self) -> int:
        """The course's seed: what is drawn from it, everybody can draw."""

    @property
    def texts(self) -> Any:
        """The silo's texts without labels, where the course works on them."""

    @property
    def skill(self) -> Any: ...

    @property
    def features(self) -> Any: ...

    def options(self, request: Exchange) -> Any:
        """The channel's options in the course that the silo approved."""

    def own_model(self, round_number: int) -> nn.Module:
        """The silo's model as it was before a round."""

    def spend(self, request: Exchange, amount: int) -> int:
        """Note what a request costs, and return all that its channel has cost so far."""

    def secret(self) -> int:
        """A number that never leaves the silo, to draw from what nobody else may draw again."""

    def receive(self, round_number: int, tensors: Tensors) -> None:
        """Keep what the channel brought, for the round to train on."""

    def receive_for_stage(self, round_number: int, tensors: Tensors) -> None:
        """Keep what the channel brought before a stage, for all its rounds; it joins what is there already."""

    def received(self, round_number: int) -> Tensors:
        """All that channels have brought for a round and its stage."""

    def keep(self, what: str, round_number: int, tensors: Tensors) -> None:
        """Keep something between two steps, in the silo's own folder."""

    def kept(self, what: str, round_number: int) -> Tensors:
        """What was kept; empty if nothing was."""

    def forget(self, what: str) -> None:
        """Remove what was kept."""


class CoordinatorSide(Protocol):
    """What the coordinator lets a channel's half do."""

    @property
    def silos(self) -> Sequence[str]: ...

    @property
    def options(self) -> Any: ...

    @property
    def mixture(self) -> Mapping[str, Mapping[str, float]]:
        """Whose updates made whose weights in the stage's last round: recipient, sender, weight. Empty before it."""

    def ask(self, step: str, tensors: Mapping[str, Tensors]) -> Mapping[str, Tensors]:
        """One step: tensors by silo out, checked answers by silo back; silos that failed are missing."""

    def refuse(self, silo: str, code: str) -> None:
        """Note that what a silo sent cannot be used."""

    def pool(self, collections: Sequence[Collection]) -> None:
        """Train at the coordinator, on these examples, until the stage ends."""
