# SPDX-License-Identifier: Apache-2.0
"""What the FedQAS study found, in sentences made of its numbers: true whatever these are."""

from collections.abc import Sequence

from benchmarks.fedqas_report.arms import EXACT, FED, MAIN, POINT, Findings
from benchmarks.study.statistics import overall
from benchmarks.study.tables import below
from benchmarks.study.wording import verdict
from fedqa.evaluation.report import Tile
from fedqa.evaluation.report_text import interval
from fedqa.evaluation.words import metric_name, number, plural, signed

NAME = metric_name(MAIN)


def lead(found: Sequence[Findings]) -> list[str]:
    return [sentence for one in found for sentence in (*_reached(one), *_over_alone(one))]


def tiles(found: Sequence[Findings]) -> list[Tile]:
    against = [(one.name, one.alone[MAIN][FED]) for one in found if FED in one.alone[MAIN]]
    return [
        Tile(f"{name}: {NAME} over alone", signed(v.bootstrap.difference), f"{interval(v.bootstrap)}, {verdict(v)}")
        for name, v in against
    ]


def _reached(found: Findings) -> list[str]:
    if FED not in found.results:
        return [f"{found.name}: {FED} is not among the arms."]
    f1, exact = (overall(found.results.cells(FED, metric, POINT)) for metric in (MAIN, EXACT))
    trained = f"{plural(len(found.results.silos), 'silo')} and {plural(len(found.results.seeds), 'seed')}"
    return [f"{found.name}, {trained}: {FED} reaches an {NAME} of {number(f1.mean)} and an EM of {number(exact.mean)}."]


def _over_alone(found: Findings) -> list[str]:
    versus = found.alone[MAIN].get(FED)
    if versus is None:
        return []
    worse = plural(len(below(versus)), "silo")
    return [
        f"It differs from every silo alone by {signed(versus.bootstrap.difference)} ({interval(versus.bootstrap)}; "
        f"{verdict(versus)}), and is lower in {worse} of {len(versus.by_silo)}."
    ]
