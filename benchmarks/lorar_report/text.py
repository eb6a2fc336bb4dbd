# SPDX-License-Identifier: Apache-2.0
"""What the Lorar study found, in sentences made of its numbers: true whatever these are."""

from collections.abc import Mapping

from benchmarks.lorar_report.arms import (
    ALGORITHMS,
    BEST,
    MAIN,
    POINT,
    SMALL,
    TOGETHER_FIRST,
    WEIGHTINGS,
    Findings,
    micro,
)
from benchmarks.lorar_report.curves import weights_of
from benchmarks.study.statistics import Versus, overall
from benchmarks.study.wording import verdict
from fedqa.evaluation.report import Tile
from fedqa.evaluation.report_text import interval
from fedqa.evaluation.words import listed, metric_name, number, percent, plural, signed

NAME = metric_name(MAIN)


def lead(found: Findings) -> list[str]:
    return [*_reached(found), *_weights(found), *_largest(found), *_rest(found), *_passes(found), *_own_end(found)]


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


def _largest(found: Findings) -> list[str]:
    """What the largest silos count in each weighting, beside what it reaches: whether sizes help or drown the small."""
    by_size = weights_of(found, ALGORITHMS[0])
    weights = {arm: one for arm in WEIGHTINGS if (one := weights_of(found, arm))}
    if len(by_size) < 2 or len(weights) < 2:
        return []
    largest = sorted(by_size, key=lambda silo: -by_size[silo])[:2]
    told = [
        f"{arm} {percent(sum(one.get(silo, 0.0) for silo in largest))} and {number(_mean(found, arm))}"
        for arm, one in weights.items()
    ]
    return [f"What the two largest silos, {listed(largest)}, count, and the {NAME} reached: {'; '.join(told)}."]


def _mean(found: Findings, arm: str) -> float:
    return overall(found.results.cells(arm, MAIN, POINT)).mean


def _own_end(found: Findings) -> list[str]:
    against = found.ours.get(TOGETHER_FIRST)
    if against is None:
        return []
    gains = against.by_silo
    small = [silo for silo in SMALL if silo in gains]
    told = f"; in the small silos {listed([f'{silo} {signed(gains[silo])}' for silo in small])}" if small else ""
    return [
        "Silos that learn together with equal weights, and then each by itself, differ from those that are alone for "
        f"as many steps by {_difference(against)}{told}."
    ]


def _rest(found: Findings) -> list[str]:
    told = _differences({name: one for name, one in found.claims.items() if not name.startswith("Lorar helps")})
    return [f"Of the paper's other statements: {told}."] if told else []


def _passes(found: Findings) -> list[str]:
    if not found.passes:
        return []
    how = "Where silos take steps by passes over their data, as in the paper, so that large ones work more"
    return [f"{how}: {_differences(found.passes)}."]


def _differences(found: Mapping[str, Versus]) -> str:
    return "; ".join(f"{name}: {_difference(versus)}" for name, versus in found.items())


def _difference(versus: Versus) -> str:
    return f"{signed(versus.bootstrap.difference)} ({interval(versus.bootstrap)}: {verdict(versus)})"
