# SPDX-License-Identifier: Apache-2.0
"""The result of a run: every silo's scores, their roll-ups, and what it cost."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fedqa.evaluation.metrics import Summary, macro, micro, worst
from fedqa.federation.coordinator import Outcome, Scores
from fedqa.federation.course import Course
from fedqa.federation.run_folder import RoundRecord

Table = dict[str, dict[str, dict[str, float]]]  # point -> split -> metric -> value


def result_of(course: Course, records: Sequence[RoundRecord], outcome: Outcome) -> dict[str, Any]:
    """What result.json holds."""
    return {
        "course": course.fingerprint,
        "name": course.name,
        "method": course.method,
        "model": course.model,
        "seed": course.seed,
        "rounds": len(records),
        "seconds": sum(record.seconds for record in records),
        "bytes_up": sum(record.bytes_up for record in records) + outcome.bytes_up,
        "bytes_down": sum(record.bytes_down for record in records) + outcome.bytes_down,
        "refused": [[r.round, silo, code] for r in records for silo, code in r.refused]
        + [[course.rounds + 1, silo, code] for silo, code in outcome.refused],
        "silos": {silo: _nested({key: s.mean for key, s in m.items() if s.n}) for silo, m in outcome.scores.items()},
        "questions": {silo: _nested({key: s.n for key, s in m.items()}) for silo, m in outcome.scores.items()},
        "intervals": {
            silo: _nested({key: list(interval) for key, s in m.items() if (interval := s.interval())})
            for silo, m in outcome.scores.items()
        },
        **{name: _rolled(outcome.scores, rollup) for name, rollup in ROLLUPS.items()},
    }


ROLLUPS: Mapping[str, Callable[[Iterable[Summary]], Summary]] = {"macro": macro, "micro": micro, "worst": worst}


def _rolled(scores: Scores, rollup: Callable[[Iterable[Summary]], Summary]) -> Table:
    keys = dict.fromkeys(key for metrics in scores.values() for key in metrics)
    rolled = {key: rollup([metrics[key] for metrics in scores.values() if key in metrics]) for key in keys}
    return _nested({key: summary.mean for key, summary in rolled.items() if summary.n})


def _nested(flat: Mapping[str, Any]) -> Table:
    table: dict[str, Any] = {}
    for key, value in flat.items():
        point, split, metric = key.split("/")
        table.setdefault(point, {}).setdefault(split, {})[metric] = value
    return table
