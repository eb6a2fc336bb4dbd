# SPDX-License-Identifier: Apache-2.0
"""What the Lorar study found, in sentences made of its numbers: true whatever these are."""

from benchmarks.lorar_report.arms import ALGORITHMS, BEST, CENTRAL, MAIN, POINT, Findings, micro
from benchmarks.study.statistics import Versus, overall
from benchmarks.study.wording import verdict
from fedqa.evaluation.report import Tile
from fedqa.evaluation.report_text import interval
from fedqa.evaluation.words import listed, metric_name, number, plural, signed

NAME = metric_name(MAIN)


def lead(found: Findings) -> list[str]:
    return [*_reached(found), *_weights(found), *_rest(found)]


def tiles(found: Findings) -> list[Tile]:
    shown = {name: found.claims[name] for name in (f"Lorar helps {one}" for one in ALGORITHMS) if name in found.claims}
    return [
        Tile(f"{name}: {NAME}", signed(v.bootstrap.difference), f"{interval(v.bootstrap)}, {verdict(v)}")
        for name, v in shown.items()
    ]


def _reached(found: Findings) -> list[str]:
    results = found.results
    trained = f"{plural(len(results.silos), 'silo')} and {plural(len(results.seeds), 'seed')}"
    if BEST not in results:
        return [f"{BEST} is not among the {plural(len(results.by_arm), 'arm')} of this study of {trained}."]
    cells = results.cells(BEST, MAIN, POINT)
    reached = overall(cells)
    within = f" ({interval(reached)})" if interval(reached) else ""
    return [
        f"On {plural(sum(map(len, cells.values())), 'test question')} of {trained}, {BEST} reaches an {NAME} of "
        f"{number(reached.mean)}{within} in the mean of silos, and of {number(micro(results, BEST))} over all "
        "questions, with one model for everybody."
    ]


def _weights(found: Findings) -> list[str]:
    told = [
        f"{name} by {_difference(found.claims[claim])}"
        for name in ALGORITHMS
        if (claim := f"Lorar helps {name}") in found.claims
    ]
    return [f"Weights by Lorar instead of by size change {listed(told)}."] if told else []


def _rest(found: Findings) -> list[str]:
    told = [
        f"{name}: {_difference(versus)}" for name, versus in found.claims.items() if not name.startswith("Lorar helps")
    ]
    against = found.alone.get(CENTRAL)
    sentences = [f"Of the paper's other statements: {'; '.join(told)}."] if told else []
    if against:
        sentences.append(f"Pooling all data differs from each silo alone by {_difference(against)}.")
    return sentences


def _difference(versus: Versus) -> str:
    return f"{signed(versus.bootstrap.difference)} ({interval(versus.bootstrap)}: {verdict(versus)})"
