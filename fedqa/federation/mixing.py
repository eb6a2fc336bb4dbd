# SPDX-License-Identifier: Apache-2.0
"""Mixing: the updates of a round into new weights, as weigher -> combiner -> server optimiser.

With one model for all and the plain mean, updates are added up as they come, so memory does not grow with silos.
Otherwise the round's updates are held together until the last one is in.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from torch import Tensor

from fedqa.federation.combiners import COMBINERS
from fedqa.federation.course import Mixing
from fedqa.federation.messages import Update
from fedqa.federation.server_optimisers import SERVER_OPTIMISERS, State
from fedqa.federation.weighers import WEIGHERS, ManyRows, OneRow, WholeRow
from fedqa.tables import from_table

ALL = "*"  # the recipient's name where one model serves all


@dataclass(frozen=True)
class Mixed:
    """The mixed delta of each recipient, and the weights it was made with (recipient -> sender -> weight)."""

    deltas: Mapping[str, Tensor]
    weights: Mapping[str, Mapping[str, float]]


class Mixer:
    """The mixing of one stage. Holds no weights; optimiser states are handed in and changed in place."""

    def __init__(self, plan: Mixing, silos: Sequence[str], groups: Mapping[str, str]) -> None:
        self._weigher = from_table(WEIGHERS[plan.weigher.name], plan.weigher.options, "weigher")
        self._combiner = from_table(COMBINERS[plan.combiner.name], plan.combiner.options, "combiner")
        self._optimiser = from_table(SERVER_OPTIMISERS[plan.optimiser.name], plan.optimiser.options, "server optimiser")
        self._streams = hasattr(self._weigher, "share") and plan.combiner.name == "mean"
        self._lasting: bool = getattr(self._weigher, "lasting", False)
        self._silos, self._groups = silos, dict.fromkeys(silos, "") if self._lasting else groups
        self.recipients: Sequence[str] = [ALL] if self._weigher.one_row else list(silos)

    def mix(self, updates: Iterable[Update]) -> Mixed:
        if self._streams:
            return self._mix_stream(updates)
        held = list(updates)
        return self._mix_row(held) if self._weigher.one_row else self._mix_rows(held)

    def _mix_stream(self, updates: Iterable[Update]) -> Mixed:
        weigher = cast(OneRow, self._weigher)
        total: Tensor | None = None
        first = 0.0  # the sum is kept in units of the first share, so that an update alone keeps its bits
        shares: dict[str, float] = {}
        for update in updates:
            share = shares[update.silo] = weigher.share(update)
            if share <= 0:
                continue
            if total is None:
                total, first = update.delta, share  # the first update's memory becomes the sum: no vector is added
            else:
                total.add_(update.delta, alpha=share / first)
            del update  # its vector is gone before the next one is made
        if total is None:
            return Mixed({}, {ALL: shares})
        whole = sum(shares.values())
        return Mixed({ALL: total.div_(whole / first)}, {ALL: {silo: share / whole for silo, share in shares.items()}})

    def _mix_row(self, updates: Sequence[Update]) -> Mixed:
        shares = self._shares(updates)
        whole = sum(shares)
        if whole <= 0:
            return Mixed({}, {})
        weights = [share / whole for share in shares]
        delta = self._combiner.combine([update.delta for update in updates], weights)
        return Mixed({ALL: delta}, {ALL: _by_silo(updates, weights)})

    def _shares(self, updates: Sequence[Update]) -> list[float]:
        if hasattr(self._weigher, "row"):
            row: list[float] = cast(WholeRow, self._weigher).row(updates).tolist()
            return row
        return [cast(OneRow, self._weigher).share(update) for update in updates]

    def _mix_rows(self, updates: Sequence[Update]) -> Mixed:
        if not updates:
            return Mixed({}, {})
        matrix = cast(ManyRows, self._weigher).matrix(self._silos, updates, self._groups)
        deltas, weights = {}, {}
        for recipient, row in zip(self._silos, matrix.tolist(), strict=True):
            weights[recipient] = _by_silo(updates, row)
            if sum(row) > 0:
                deltas[recipient] = self._combine_row([update.delta for update in updates], row)
        return Mixed(deltas, weights)

    def _combine_row(self, deltas: Sequence[Tensor], row: Sequence[float]) -> Tensor:
        present = [i for i, weight in enumerate(row) if weight > 0]
        if len(present) == 1:  # nothing to combine; dividing and multiplying by the weight would only cost bits
            return deltas[present[0]].clone()
        return self._combiner.combine([deltas[i] for i in present], [row[i] for i in present])

    def apply(self, mixed: Mixed, weights: Mapping[str, Tensor], states: dict[str, State], t: int) -> None:
        """Add the server optimiser's steps to the shared part of each recipient's weights, in place."""
        for recipient, delta in mixed.deltas.items():
            state = states.setdefault(recipient, {})
            shared = weights[recipient][: delta.numel()]
            shared.add_(self._optimiser.step(delta, state, t))
        self.remember(mixed.weights)

    def remember(self, weights: Mapping[str, Mapping[str, float]]) -> None:
        """Where groups last, silos that were given different updates in a round are apart from now on."""
        if self._lasting:
            given = {silo: frozenset(s for s, weight in row.items() if weight > 0) for silo, row in weights.items()}
            kinds = {silo: (self._groups[silo], given.get(silo, frozenset())) for silo in self._silos}
            self._groups = {silo: min(s for s in kinds if kinds[s] == kind) for silo, kind in kinds.items()}


def _by_silo(updates: Sequence[Update], weights: Sequence[float]) -> dict[str, float]:
    return {update.silo: weight for update, weight in zip(updates, weights, strict=True)}


def starting_weights(mixer: Mixer, vector: Tensor) -> dict[str, Tensor]:
    """A copy of the same weights for every recipient."""
    return {recipient: vector.clone() for recipient in mixer.recipients}


def weights_for(silo: str, weights: Mapping[str, Tensor]) -> Tensor:
    return weights[ALL] if ALL in weights else weights[silo]
