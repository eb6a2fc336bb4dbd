# SPDX-License-Identifier: Apache-2.0
"""What a coordinator sees of a training: whose updates went whose way, who was mixed with whom, and how much was sent.

Updates have millions of numbers. Of each a sketch is kept: every number is added to, or taken from, one of a few sums
that chance has chosen for its place, so that angles between updates are kept but for a little noise (Charikar et al.
2002). The sums do not depend on the seed of a training: sketches of different trainings can be compared.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from benchmarks.study.runner import Outcome
from fedqa.federation.course import Course
from fedqa.federation.messages import Contribution, Envelope, Update
from fedqa.federation.mixing import ALL
from fedqa.federation.representations import unpacked
from fedqa.federation.run_folder import RoundRecord
from fedqa.seeds import generator
from fedqa.tables import from_table, to_table

Array = npt.NDArray[np.float64]
SUMS = 4096  # of which angles are taken: within 0.016 of the true cosine, mostly
KEPT = 256  # sums for a silo and stage that are written down
UPDATES, REPRESENTATIONS = "updates", "representations"  # kinds of messages; but for updates, channels


@dataclass(frozen=True)
class Round:
    """A round at the coordinator."""

    stage: str
    task: str  # that all silos were assigned; empty where each worked on its own
    mixed: Mapping[str, tuple[str, ...]]  # recipient -> whose updates it got; empty where one model served all
    near: Mapping[str, Mapping[str, float]]  # silo -> other silo -> cosine of their updates


@dataclass(frozen=True)
class Seen:
    bytes: Mapping[str, int]  # kind of message -> from all silos together
    unpacked: int  # bytes that the representations would have been as plain numbers
    rounds: tuple[Round, ...]
    directions: Mapping[str, Mapping[str, tuple[float, ...]]]  # stage -> silo -> its mean direction, as a sketch

    @classmethod
    def of(cls, outcome: Outcome) -> "Seen | None":
        """Of a training that was watched."""
        where = f"what was seen of {outcome.arm!r}"
        return from_table(cls, outcome.witnessed, where) if outcome.witnessed else None


class Coordinator:
    """Watches one training: a `benchmarks.study.runner.Witness`."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._bytes, self._unpacked = Counter[str](), 0
        self._sketches: dict[int, dict[str, Array]] = defaultdict(dict)  # round -> silo

    def see(self, envelope: Envelope) -> None:
        content = envelope.content
        if isinstance(content, Update):
            self._bytes[UPDATES] += envelope.n_bytes
            self._sketches[content.round][content.silo] = sketch(content.delta)
        elif isinstance(content, Contribution):
            self._bytes[content.channel] += envelope.n_bytes
            if content.channel == REPRESENTATIONS and content.tensors:
                self._unpacked += 4 * unpacked(content.tensors).numel()

    def told(self, records: Sequence[RoundRecord]) -> dict[str, Any]:
        rounds = tuple(self._round(record) for record in records)
        by_stage: dict[str, dict[str, list[Array]]] = defaultdict(lambda: defaultdict(list))
        for record in records:
            for silo, sums in self._sketches[record.round].items():
                by_stage[record.stage][silo].append(sums)
        directions = {stage: {silo: _direction(of) for silo, of in silos.items()} for stage, silos in by_stage.items()}
        return to_table(Seen(dict(self._bytes), self._unpacked, rounds, directions))

    def _round(self, record: RoundRecord) -> Round:
        mixed = {
            recipient: tuple(sender for sender, weight in row.items() if weight > 0)
            for recipient, row in record.weights.items()
            if recipient != ALL
        }
        task = self._course.assigned(record.round) or ""
        return Round(record.stage, task, mixed, cosines(self._sketches[record.round]))


def sketch(delta: Tensor, sums: int = SUMS) -> Array:
    """[sums]"""
    places, signs = _chosen(delta.numel(), sums)
    found: Array = torch.zeros(sums).index_add_(0, places, delta * signs).double().numpy()
    return found


@lru_cache(maxsize=2)
def _chosen(size: int, sums: int) -> tuple[Tensor, Tensor]:
    """For each number of an update, the sum it belongs to, and its sign there."""
    rng = generator(0, "sketch", size)
    places, signs = rng.integers(sums, size=size, dtype=np.int32), rng.integers(2, size=size, dtype=np.int8)
    return torch.from_numpy(places), torch.from_numpy(signs).float() * 2 - 1


def cosines(vectors: Mapping[str, Array]) -> dict[str, dict[str, float]]:
    """Of each two; 0 where one has no direction."""
    unit = {silo: _unit(vector) for silo, vector in vectors.items()}
    return {
        silo: {other: round(float(own @ theirs), 4) for other, theirs in unit.items() if other != silo}
        for silo, own in unit.items()
    }


def _direction(sketches: Iterable[Array]) -> tuple[float, ...]:
    """The mean direction, in fewer sums: whoever adds up sums of a sketch has a smaller sketch."""
    mean = np.mean([_unit(one.reshape(-1, KEPT).sum(axis=0)) for one in sketches], axis=0)
    return tuple(round(float(value), 4) for value in mean)


def _unit(vector: Array) -> Array:
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector
