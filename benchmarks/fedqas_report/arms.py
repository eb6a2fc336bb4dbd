# SPDX-License-Identifier: Apache-2.0
"""The arms of the FedQAS study, what is compared with what, and how often "no answer" was right.

Any arm may be missing; whatever cannot be made without it is left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.study.statistics import Pair, Results, Versus, compare
from fedqa.evaluation.spans import Refusals, answerable, refusals
from fedqa.federation.messages import Point

POINT: Point = "received"  # the shared weights when all is over, as the paper has them; its own where a silo is alone
ZERO, ALONE, CENTRAL, FED = "zero-shot", "alone", "central", "FedQAS"
METHODS = (ZERO, ALONE, FED, CENTRAL)
MEANINGS = {
    ZERO: "model as loaded",
    ALONE: "every silo by itself",
    FED: "everything shared, mean by size",
    CENTRAL: "all data pooled",
}
MAIN, EXACT = "f1", "em"
METRICS = (MAIN, EXACT, "no_answer", "refused")
COMPARED = (MAIN, EXACT, "no_answer")


@dataclass(frozen=True)
class Findings:
    """Of one set of silos: each method against every silo alone, and against all data pooled, by metric."""

    name: str
    results: Results
    alone: Mapping[str, Mapping[str, Versus]]
    central: Mapping[str, Versus]

    def methods(self) -> list[str]:
        return [arm for arm in METHODS if arm in self.results]


def findings_of(name: str, results: Results) -> Findings:
    return Findings(
        name,
        results,
        alone={metric: compare(pairs(results, metric, ALONE)) for metric in COMPARED},
        central=compare(pairs(results, MAIN, CENTRAL)),
    )


def pairs(results: Results, metric: str, reference: str) -> dict[str, Pair]:
    """Every other method beside the reference."""
    arms: Sequence[str] = [arm for arm in METHODS if arm in results and arm != reference]
    if reference not in results:
        return {}
    return {arm: (results.cells(arm, metric, POINT), results.cells(reference, metric, POINT)) for arm in arms}


def refusals_of(results: Results, arm: str) -> Refusals:
    """Of all test questions of all silos and seeds: one silo alone has too few that cannot be answered."""
    return refusals(*_decided(results, arm))


def f1_of_answerable(results: Results, arm: str) -> float | None:
    """Mean F1 of the questions that have an answer; None if there is none."""
    has = answerable(*_decided(results, arm))
    return float(_joined(results, arm, MAIN)[has].mean()) if has.any() else None


def _decided(results: Results, arm: str) -> tuple[np.ndarray, np.ndarray]:
    return _joined(results, arm, "refused"), _joined(results, arm, "no_answer")


def _joined(results: Results, arm: str, metric: str) -> np.ndarray:
    cells = results.cells(arm, metric, POINT)
    return np.concatenate([np.zeros(0), *(cells[cell] for cell in sorted(cells))])
