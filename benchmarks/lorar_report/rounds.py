# SPDX-License-Identifier: Apache-2.0
"""What is kept of the rounds of a training, for the curves: losses, weights, and dev scores of the shared model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.lorar_report.arms import MAIN, POINT
from benchmarks.study.runner import Outcome
from fedqa.federation.course import Course
from fedqa.federation.messages import Envelope
from fedqa.federation.mixing import ALL
from fedqa.federation.run_folder import RoundRecord
from fedqa.tables import from_table, to_table

_SCORE = f"{POINT}/dev/{MAIN}"


@dataclass(frozen=True)
class Round:
    """By silo; a round without scoring has no dev scores, and where nothing is mixed there are no weights."""

    losses: Mapping[str, float]  # the first of a round: what the others' changes have left of a silo's own progress
    weights: Mapping[str, float]
    dev: Mapping[str, tuple[int, float]]  # questions, and the share of them that was right


@dataclass(frozen=True)
class Rounds:
    rounds: tuple[Round, ...]

    @classmethod
    def of(cls, outcome: Outcome) -> "Rounds":
        where = f"the rounds of {outcome.arm!r}"
        return from_table(cls, outcome.witnessed, where) if outcome.witnessed else cls(())

    def scored(self) -> dict[int, Round]:
        """Those with dev scores, by their number from 1."""
        return {number: one for number, one in enumerate(self.rounds, start=1) if one.dev}


class RoundWitness:
    """A `benchmarks.study.runner.Witness` that looks at what the coordinator wrote down."""

    def __init__(self, course: Course) -> None:
        pass

    def see(self, envelope: Envelope) -> None:
        pass

    def told(self, records: Sequence[RoundRecord]) -> dict[str, Any]:
        told: dict[str, Any] = to_table(Rounds(tuple(map(_round, records))))
        return told


def _round(record: RoundRecord) -> Round:
    scores = {silo: metrics[_SCORE] for silo, metrics in record.metrics.items() if _SCORE in metrics}
    return Round(
        losses={silo: accepted.loss_first for silo, accepted in record.accepted.items()},
        weights=dict(record.weights.get(ALL, {})),
        dev={silo: (n, mean) for silo, (n, mean, _) in scores.items()},
    )
