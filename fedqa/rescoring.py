# SPDX-License-Identifier: Apache-2.0
"""Scores of a finished run once more, from the models and data its silos hold, beside those written down."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedqa.evaluation.metrics import Summary
from fedqa.evaluation.result import result_of
from fedqa.evaluation.run_scores import POINTS
from fedqa.federation.coordinator import Outcome
from fedqa.federation.messages import Metrics
from fedqa.federation.run_folder import RunFolder
from fedqa.federation.silo import Silo
from fedqa.opening import model_at, open_run
from fedqa.training import one_thread

_SCORES = ("silos", "questions", "intervals", "macro", "micro", "worst")
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Difference:
    """A score that is not what result.json says; None where one of them has no such score."""

    silo: str
    score: str  # point/split/metric
    then: float | None
    now: float | None


@dataclass(frozen=True)
class Rescored:
    """Scores in the form of result.json, and where they differ from it."""

    scores: Mapping[str, Any]
    differences: tuple[Difference, ...]


def rescore(folder: Path, say: Callable[[str], None] = lambda text: None) -> Rescored:
    """Score the received, personal and best model of every silo that was scored in the run."""
    run, then = open_run(folder), RunFolder(folder).result()
    scores = {}
    for name in then["silos"]:
        say(f"scoring {name}")
        scores[name] = _score(run.silo(name)) if run.course.evaluation.every else {}
    now = result_of(run.course, [], Outcome(scores, (), 0, 0))
    return Rescored({part: now[part] for part in _SCORES}, tuple(_differences(then["silos"], now["silos"])))


def _score(silo: Silo) -> Metrics:
    metrics = {}
    with one_thread():
        for point in POINTS:
            module = model_at(silo, point)
            for split in ("dev", "test"):
                for metric, values in silo.skill.score(module, silo.features, split).items():
                    metrics[f"{point}/{split}/{metric}"] = Summary.of(values)
    return metrics


def _differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Difference]:
    for silo in then:
        before, after = dict(_flat(then[silo])), dict(_flat(now[silo]))
        for score in dict.fromkeys((*before, *after)):
            old, new = before.get(score), after.get(score)
            if old is None or new is None or abs(old - new) > _TOLERANCE:
                yield Difference(silo, score, old, new)


def _flat(points: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for point, splits in points.items():
        for split, metrics in splits.items():
            for metric, value in metrics.items():
                yield f"{point}/{split}/{metric}", value
