# SPDX-License-Identifier: Apache-2.0
"""The arms of the PDD-AS2 study: which table or figure each belongs to, and what is compared with what.

Any arm may be missing; whatever cannot be made without it is left out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from benchmarks.study.statistics import Cell, Cells, Pair, Results, Versus, by_seed, compare
from fedqa.errors import ConfigError
from fedqa.federation.messages import Point

# What a silo has when all is over: the shared weights if they are shared to the end, its own where it trains alone.
# The personal model of PDD-AS2 has one more step of its own, which the paper's has not.
POINT: Point = "received"

BM25, STAR, PDD, OWN, FED, CENTRAL = "BM25", "dense, STAR", "PDD-AS2", "customised", "Fed-Negative", "central"
METHODS = (BM25, "zero-shot", "hybrid", "dense, random", "dense, BM25", STAR, PDD, OWN, FED, CENTRAL)
ORDER = (BM25, STAR, PDD, OWN, FED)  # the paper's, from the lowest
MEANINGS = {
    BM25: "words in common",
    "zero-shot": "model as loaded",
    "hybrid": "both of these",
    "dense, random": "alone, random negatives",
    "dense, BM25": "alone, negatives by words",
    STAR: "alone, hard negatives",
    PDD: "shared encoders",
    OWN: "then own question encoder",
    FED: "the same, others' negatives too",
    CENTRAL: "all data pooled",
}
SENTENCES, PASSAGES = ("mrr10", "r1", "r20", "r100"), ("p_mrr10", "p_r1", "p_r20", "p_r100")
METRICS = (*SENTENCES, *PASSAGES)
MAIN = "mrr10"
COMPARED = (MAIN, "r1", "p_mrr10")
NEGATIVES = {  # label -> arm, fewer and more of the same kind in turn
    "dense, BM25, 2 negatives": "dense, BM25, 2 negatives",
    "dense, BM25, 8 negatives": "dense, BM25",
    "dense, STAR, 2 negatives": "dense, STAR, 2 negatives",
    "dense, STAR, 8 negatives": STAR,
    "PDD-AS2, 2 negatives": "PDD-AS2, 2 negatives",
    "PDD-AS2, 8 negatives": PDD,
    "customised, 10 negatives": "customised, 10 negatives",
    "customised, 200 negatives": OWN,
    "Fed-Negative, 10 negatives": "Fed-Negative, 10 negatives",
    "Fed-Negative, 200 negatives": FED,
}
POOLS = (10, 50, 100, 300)
NOISES = {"noise 0": "Fed-Negative, noise 0", "noise 0.02": FED, "noise 0.1": "Fed-Negative, noise 0.1"}  # label -> arm
SHARES = {PDD: "PDD-AS2", STAR: "STAR"}  # the arm with all training questions -> suffix of those with fewer
Compared = Mapping[str, Mapping[str, Versus]]  # metric -> name -> comparison


# -- facts -------------------------------------------------------------------------------------------------------

SIZES = "training questions, seed "


def sizes_facts(sizes: Mapping[int, Mapping[str, int]]) -> dict[str, str]:
    """How many training questions each silo has, by seed, as facts of the report."""
    return {
        f"{SIZES}{seed}": ", ".join(f"{silo} {n}" for silo, n in sorted(of.items(), key=lambda item: -item[1]))
        for seed, of in sizes.items()
    }


def sizes_of(facts: Mapping[str, str]) -> dict[Cell, int]:
    """What `sizes_facts` said."""
    found: dict[Cell, int] = {}
    for name, value in facts.items():
        if not name.startswith(SIZES):
            continue
        seed, parts = name.removeprefix(SIZES), [re.fullmatch(r"(.+) ([0-9]+)", part) for part in value.split(", ")]
        if not re.fullmatch("[0-9]+", seed) or None in parts:
            raise ConfigError(f"fact {name!r} is {value!r}; give it as '{SIZES}1': 'first 200, second 160'")
        found |= {(int(seed), part[1]): int(part[2]) for part in parts if part}
    return found


# -- findings ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Traffic:
    """Bytes that leave all silos in a round: of weights while these are shared, of vectors while these are."""

    weights: float
    vectors: float


@dataclass(frozen=True)
class Findings:
    """The study's comparisons, each family corrected for its own number.

    `star`: every method against each silo alone. `order`: each step of the paper's order. `central`: every method
    against all data pooled. `halves`: gains over STAR in the smaller and in the larger silos.
    """

    results: Results
    sizes: Mapping[Cell, int]
    star: Compared
    order: Compared
    central: Mapping[str, Versus]
    halves: Mapping[str, Versus]
    traffic: Traffic | None

    def methods(self) -> list[str]:
        return [arm for arm in METHODS if arm in self.results]


def findings_of(results: Results, facts: Mapping[str, str]) -> Findings:
    sizes = sizes_of(facts)
    return Findings(
        results=results,
        sizes=sizes,
        star={m: compare(pairs(results, m, [(arm, STAR, arm) for arm in METHODS if arm != STAR])) for m in COMPARED},
        order={m: compare(pairs(results, m, [(b, a, step(a, b)) for a, b in steps_in_order()])) for m in COMPARED},
        central=compare(pairs(results, MAIN, [(arm, CENTRAL, arm) for arm in METHODS if arm != CENTRAL])),
        halves=_halves(results, sizes),
        traffic=_traffic(results),
    )


def steps_in_order() -> list[tuple[str, str]]:
    """Neighbours in the paper's order, the lower one first."""
    return list(pairwise(ORDER))


def step(lower: str, higher: str) -> str:
    return f"{higher} over {lower}"


def pairs(results: Results, metric: str, named: Sequence[tuple[str, str, str]]) -> dict[str, Pair]:
    """Pairs of arms (first, second, name)."""
    return {
        name: (results.cells(first, metric, POINT), results.cells(second, metric, POINT))
        for first, second, name in named
        if first in results and second in results
    }


def share_of_central(results: Results, arm: str) -> float | None:
    """An arm's mean in that of all data pooled, on the seeds that both have."""
    if arm not in results or CENTRAL not in results:
        return None
    ours, bound = (by_seed(results.cells(name, MAIN, POINT)) for name in (arm, CENTRAL))
    seeds = ours.keys() & bound.keys()
    whole = sum(bound[seed] for seed in seeds)
    return sum(ours[seed] for seed in seeds) / whole if whole else None


def _traffic(results: Results) -> Traffic | None:
    """What the rounds that Fed-Negative has beyond PDD-AS2 send; it is PDD-AS2 up to there."""
    if PDD not in results or FED not in results:
        return None
    shared, whole = results.by_arm[PDD], results.by_arm[FED]
    more = [
        (whole[seed].bytes_up - shared[seed].bytes_up) / (whole[seed].rounds - shared[seed].rounds)
        for seed in shared.keys() & whole.keys()
        if whole[seed].rounds > shared[seed].rounds
    ]
    weights = results.bytes_a_round(PDD)
    return Traffic(weights, fmean(more)) if more and weights else None


# -- silos by size -----------------------------------------------------------------------------------------------


def gains_by_size(results: Results, sizes: Mapping[Cell, int], arm: str) -> dict[int, Versus]:
    """The gain over STAR of the silos of each size, the smallest first."""
    found = compare({str(n): _of_sizes(results, sizes, arm, {n}) for n in sorted(set(sizes.values()))})
    return {int(n): versus for n, versus in found.items()}


def sized_arms(results: Results, sizes: Mapping[Cell, int]) -> list[str]:
    """The arms whose gain over STAR is looked at by size; none where sizes are not known."""
    return [arm for arm in (FED, PDD) if sizes and STAR in results and arm in results]


def _halves(results: Results, sizes: Mapping[Cell, int]) -> dict[str, Versus]:
    every = sorted(set(sizes.values()))
    if len(every) < 2:
        return {}
    halves = every[: len(every) // 2], every[len(every) // 2 :]
    return compare(
        {
            f"{arm}, {_range(half)} training questions": _of_sizes(results, sizes, arm, set(half))
            for arm in sized_arms(results, sizes)
            for half in halves
        }
    )


def _range(sizes: Sequence[int]) -> str:
    return f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else str(sizes[0])


def _of_sizes(results: Results, sizes: Mapping[Cell, int], arm: str, wanted: set[int]) -> Pair:
    def of(name: str) -> Cells:
        cells = results.cells(name, MAIN, POINT)
        return {cell: values for cell, values in cells.items() if sizes.get(cell) in wanted}

    return of(arm), of(STAR)


# -- shares of the training questions ----------------------------------------------------------------------------


def share_arms(results: Results) -> dict[str, dict[int, str]]:
    """By series, the arm at every percentage of training questions; a series with fewer than two is left out."""
    found = {full: _series(results, full, suffix) for full, suffix in SHARES.items()}
    return {full: arms for full, arms in found.items() if len(arms) > 1}


def _series(results: Results, full: str, suffix: str) -> dict[int, str]:
    pattern = re.compile("share=([0-9]+) " + re.escape(suffix))
    fewer = {int(match[1]): arm for arm in results.by_arm if (match := pattern.fullmatch(arm))}
    return dict(sorted((fewer | ({100: full} if full in results else {})).items()))


def unplaced(results: Results) -> list[str]:
    """Arms that belong to no table and no figure."""
    drawn = {arm for arms in share_arms(results).values() for arm in arms.values()}
    placed = {*METHODS, *NEGATIVES.values(), *NOISES.values(), *(f"pool={n}" for n in POOLS), *drawn}
    return [arm for arm in results.by_arm if arm not in placed]
