# SPDX-License-Identifier: Apache-2.0
"""What the FedQAS study found, in sentences made of its numbers: true whatever these are."""

from collections.abc import Sequence

from benchmarks.fedqas_report.arms import FED, MAIN, Findings
from benchmarks.study.statistics import Versus
from benchmarks.study.wording import verdict
from fedqa.evaluation.report import Tile
from fedqa.evaluation.report_text import interval
from fedqa.evaluation.words import listed, metric_name, signed

NAME = metric_name(MAIN)


def lead(found: Sequence[Findings]) -> list[str]:
    without = [f"{one.name}: {FED} is not among the arms." for one in found if FED not in one.results]
    told = [f"{one.name} {_over_alone(one.alone[MAIN][FED])}" for one in found if FED in one.alone[MAIN]]
    return [*without, *([f"{NAME} of {FED} over that of every silo alone: {listed(told)}."] if told else [])]


def tiles(found: Sequence[Findings]) -> list[Tile]:
    against = [(one.name, one.alone[MAIN][FED]) for one in found if FED in one.alone[MAIN]]
    return [
        Tile(f"{name}: {NAME} over alone", signed(v.bootstrap.difference), f"{interval(v.bootstrap)}, {verdict(v)}")
        for name, v in against
    ]


def _over_alone(versus: Versus) -> str:
    return f"{signed(versus.bootstrap.difference)} ({interval(versus.bootstrap)}; {verdict(versus)})"
