# SPDX-License-Identifier: Apache-2.0
"""The scores of a finished run, read back from its folder: by silo, rolled up, and against another run's.

result.json has means and intervals; the variances are recovered from them, so that roll-ups have intervals too. Scores
per question are in the silos' own folders, which are here only if all silos ran on this machine.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedqa.config import read_toml
from fedqa.data.records import Split
from fedqa.errors import ConfigError, RunError
from fedqa.evaluation.metrics import Summary, macro, t_quantile
from fedqa.evaluation.significance import Comparison, paired_bootstrap, paired_t_test
from fedqa.federation.course import Course, SiloPlan
from fedqa.federation.messages import Point
from fedqa.federation.run_folder import RoundRecord, RunFolder
from fedqa.seeds import derive
from fedqa.skills import make_skill
from fedqa.tables import from_table

POINTS: tuple[Point, ...] = ("received", "personal", "best")
LEVEL = 0.95
Metrics = Mapping[str, str]  # silo -> the metric looked at


@dataclass(frozen=True)
class Run:
    """A run folder in memory. `data` says what the silos' data are, without where they are."""

    folder: Path
    course: Course
    data: Mapping[str, Mapping[str, object]]
    records: Sequence[RoundRecord]
    result: Mapping[str, Any]
    environment: Mapping[str, str]

    @cached_property
    def reported(self) -> Mapping[str, list[str]]:
        """The metrics of every silo with scores, in the order of the course."""
        found = {plan.name: self.result["silos"].get(plan.name, {}).values() for plan in self.course.silos}
        return {
            silo: list(dict.fromkeys(metric for splits in points for metrics in splits.values() for metric in metrics))
            for silo, points in found.items()
            if points
        }

    @cached_property
    def deciding(self) -> Metrics:
        """The metric that decides on dev, of every silo with scores."""
        return {plan.name: self._deciding(plan) for plan in self.course.silos if plan.name in self.reported}

    def _deciding(self, plan: SiloPlan) -> str:
        reported = self.reported[plan.name]
        try:
            metric = make_skill(plan.skill, plan.skill_options, "course").higher_is_better
        except ConfigError:  # a skill that is not installed here: silos name the metric that decides first
            return reported[0]
        return metric if metric in reported else reported[0]

    def summaries(self, point: Point, split: Split, metrics: Metrics) -> dict[str, Summary]:
        """Each silo's summary; silos without a scored question are left out."""
        found = {silo: self._summary(silo, point, split, metric) for silo, metric in metrics.items()}
        return {silo: summary for silo, summary in found.items() if summary}

    def _summary(self, silo: str, point: Point, split: Split, metric: str) -> Summary | None:
        mean, n, interval = (
            _at(self.result[part], silo, point, split, metric) for part in ("silos", "questions", "intervals")
        )
        if mean is None or not n:
            return None
        if n < 2 or interval is None:
            return Summary(n, mean, 0.0)
        half = (interval[1] - interval[0]) / 2
        return Summary(n, mean, (half / t_quantile((1 + LEVEL) / 2, n - 1)) ** 2 * n)

    def test_values(self, silo: str, point: Point, metric: str) -> list[float] | None:
        """The metric's value for every test question; None if the silo's folder is not here."""
        path = RunFolder(self.folder).silo(silo) / "scores" / f"{point}-test.json"
        if not path.exists():
            return None
        values: list[float] | None = json.loads(path.read_text(encoding="utf-8")).get(metric)
        return values


def load_run(folder: Path) -> Run:
    """Read a finished run."""
    if not (folder / "course.toml").exists():
        raise RunError(f"{folder} is not a run folder: it has no course.toml; give what `fedqa train --out` was given")
    run = RunFolder(folder)
    table = read_toml(folder / "course.toml")
    course = from_table(Course, table.get("course", {}), f"[course] of {folder / 'course.toml'}")
    data = {
        silo: {key: value for key, value in entry.items() if key not in ("path", "database")}
        for silo, entry in table.get("data", {}).items()
    }
    machine = folder / "environment.json"
    environment = json.loads(machine.read_text(encoding="utf-8")) if machine.exists() else {}
    return Run(folder, course, data, run.records(), run.result(), environment)


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval, if there is one. `of` says whose it is where the row does not."""

    mean: float
    low: float | None = None
    high: float | None = None
    of: str = ""


def score(summary: Summary, of: str = "") -> Estimate:
    """The interval of a mean of shares ends at 0 and 1: a t-interval of few questions does not know that."""
    interval = summary.interval(LEVEL)
    if interval is None:
        return Estimate(summary.mean, of=of)
    low, high = interval
    if 0 <= summary.mean <= 1:
        low, high = max(0.0, low), min(1.0, high)
    return Estimate(summary.mean, low, high, of)


def gain(summary: Summary) -> Estimate:
    low, high = summary.interval(LEVEL) or (None, None)
    return Estimate(summary.mean, low, high)


def macro_score(summaries: Mapping[str, Summary]) -> Estimate:
    """The mean of silos, with the interval for these silos on other questions of theirs."""
    estimate = macro_gain(summaries)
    if estimate.low is None or estimate.high is None or not 0 <= estimate.mean <= 1:
        return estimate
    return Estimate(estimate.mean, max(0.0, estimate.low), min(1.0, estimate.high))


def macro_gain(summaries: Mapping[str, Summary]) -> Estimate:
    """As `macro_score`, of differences. The silos' errors add up; Satterthwaite's formula gives their freedom."""
    mean = macro(summaries.values()).mean
    if any(summary.n < 2 for summary in summaries.values()):
        return Estimate(mean)
    errors = [summary.variance / summary.n for summary in summaries.values()]
    error = math.sqrt(sum(errors)) / len(errors)
    if not error:
        return Estimate(mean, mean, mean)
    freedom = sum(errors) ** 2 / sum(e**2 / (s.n - 1) for e, s in zip(errors, summaries.values(), strict=True))
    half = t_quantile((1 + LEVEL) / 2, freedom) * error
    return Estimate(mean, mean - half, mean + half)


def worst_score(summaries: Mapping[str, Summary]) -> Estimate:
    silo = min(summaries, key=lambda name: summaries[name].mean)
    return score(summaries[silo], of=silo)


# -- paired ------------------------------------------------------------------------------------------------------

Pairs = Mapping[str, tuple[list[float], list[float]]]  # silo -> test values of the first and of the second


def personal_and_received(run: Run, metrics: Metrics) -> Pairs:
    return _paired(
        (s, run.test_values(s, "personal", m), run.test_values(s, "received", m)) for s, m in metrics.items()
    )


def best_of_both(run: Run, reference: Run) -> Pairs:
    """Test values of the models that both runs' silos chose on dev. Raises RunError if the questions differ."""
    check_comparable(run, reference)
    pairs = _paired(
        (silo, run.test_values(silo, "best", metric), reference.test_values(silo, "best", metric))
        for silo, metric in run.deciding.items()
        if silo in reference.reported
    )
    for silo, (ours, theirs) in pairs.items():
        if len(ours) != len(theirs):
            raise RunError(
                f"silo {silo!r} has {len(ours)} test questions in {run.folder} and {len(theirs)} in "
                f"{reference.folder}; compare runs of the same data"
            )
    return pairs


def check_comparable(run: Run, other: Run) -> None:
    """Two runs have the same test questions if alliance, data and seed are the same."""
    sides = {
        "seed": (run.course.seed, other.course.seed),
        "silos": (_skills(run), _skills(other)),
        "data": (run.data, other.data),
    }
    for what, (ours, theirs) in sides.items():
        if ours != theirs:
            raise RunError(
                f"{other.folder} cannot be compared with {run.folder}: {what} {theirs} is not {ours}, so the test "
                "questions differ; compare runs of one alliance and seed"
            )


@dataclass(frozen=True)
class Evidence:
    """Both paired tests of the same differences, over all questions alike."""

    bootstrap: Comparison
    t_test: Comparison


def evidence_of(pairs: Pairs, seed: int) -> Evidence | None:
    """None for fewer than two questions."""
    t_test = t_test_of(pairs)
    if t_test is None:
        return None
    return Evidence(paired_bootstrap(*_pooled(pairs), derive(seed, "report"), level=LEVEL), t_test)


def t_test_of(pairs: Pairs) -> Comparison | None:
    first, second = _pooled(pairs)
    return paired_t_test(first, second, LEVEL) if len(first) > 1 else None


def differences(pairs: Pairs) -> dict[str, Summary]:
    return {silo: Summary.of(np.subtract(first, second)) for silo, (first, second) in pairs.items()}


def _paired(found: Iterable[tuple[str, list[float] | None, list[float] | None]]) -> Pairs:
    return {silo: (first, second) for silo, first, second in found if first and second}


def _pooled(pairs: Pairs) -> tuple[list[float], list[float]]:
    first = [value for values, _ in pairs.values() for value in values]
    second = [value for _, values in pairs.values() for value in values]
    return first, second


def _skills(run: Run) -> dict[str, str]:
    return {plan.name: plan.skill for plan in run.course.silos}


def _at(table: Mapping[str, Any], *keys: str) -> Any:
    """What stands under these keys, one inside the other; None if one is missing."""
    value: Any = table
    for key in keys:
        value = value.get(key) if value is not None else None
    return value
