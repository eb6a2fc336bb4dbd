# SPDX-License-Identifier: Apache-2.0
"""The arms of the Lorar study, and what is compared with what. Any arm may be missing.

The paper's tables were not at hand when this was written, so no published numbers stand beside ours; what its text says
of them are the claims that the comparisons test.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.study.published import Published
from benchmarks.study.statistics import Cells, Results, Versus, compare
from fedqa.data.records import Split
from fedqa.federation.messages import Point

MAIN = "em"
POINT: Point = "received"  # the paper scores the one model that serves everybody
ALONE, CENTRAL, BEST = "alone", "central", "FedOPT-Lorar"
ALONE_LONGER = "alone, longer"
EQUAL, ONLY_LOSS = "FedOPT-equal", "FedOPT-lr"
ALGORITHMS = ("FedOPT", "FedAvg", "FedProx")
WEIGHTED = {  # arm -> algorithm and weights of the method `lorar`
    **{name: (name.lower(), "size") for name in ALGORITHMS},
    **{f"{name}-Lorar": (name.lower(), "lorar") for name in ALGORITHMS},
    EQUAL: ("fedopt", "uniform"),
    ONLY_LOSS: ("fedopt", "loss_reduction"),
}
BOUNDED, OWN_HEAD, OWN_END = f"{BEST}, bounded", f"{BEST}, own head", f"{EQUAL}, own end"
WINDOWS, LONGER = f"{BEST}, windows", f"{BEST}, longer"
BEYOND = (OWN_END, ALONE_LONGER, LONGER, BOUNDED, OWN_HEAD, WINDOWS)
METHODS = (ALONE, CENTRAL, *(arm for name in ALGORITHMS for arm in (name, f"{name}-Lorar")))
WEIGHTINGS = ("FedOPT", BEST, ONLY_LOSS, EQUAL)


def by_passes(arm: str) -> str:
    """The same arm, but a silo takes steps by passes over its data."""
    return f"{arm}, passes"


PASSES = tuple(map(by_passes, WEIGHTINGS))
ALL_ARMS = tuple(dict.fromkeys((*METHODS, *WEIGHTINGS, *PASSES, *BEYOND)))
MEANINGS = {
    ALONE: "every silo by itself",
    CENTRAL: "all data pooled",
    **{name: "weights by size" for name in ALGORITHMS},
    **{f"{name}-Lorar": "size times loss reduction" for name in ALGORITHMS},
    EQUAL: "all alike",
    ONLY_LOSS: "loss reduction alone",
    BOUNDED: "no silo's odds above three times those of its size",
    OWN_HEAD: "each silo's last layer is its own",
    OWN_END: "then as many rounds of each silo's own",
    WINDOWS: "losses of a round's steps, as published",
    LONGER: "twice as many rounds",
    ALONE_LONGER: "twice as many rounds",
}
MEANINGS |= {by_passes(arm): MEANINGS[arm] for arm in WEIGHTINGS}
CLAIMS = {  # what the paper's text says: the first is above the second
    "pooling helps": (CENTRAL, ALONE),
    **{f"Lorar helps {name}": (f"{name}-Lorar", name) for name in ALGORITHMS},
    "FedOPT is above FedAvg": ("FedOPT", "FedAvg"),
    "FedOPT is above FedProx": ("FedOPT", "FedProx"),
    "sizes matter": (BEST, ONLY_LOSS),
    "more than equal weights": (BEST, EQUAL),
}
OF_WEIGHTS = ("Lorar helps FedOPT", "sizes matter", "more than equal weights")  # those that table 3 is about
TOGETHER_FIRST = "together, then alone, is above alone for as long"
OURS = {  # not of the paper: the same
    "the bound costs nothing": (BOUNDED, BEST),
    "an own head helps": (OWN_HEAD, BEST),
    TOGETHER_FIRST: (OWN_END, ALONE_LONGER),
    "losses of the same examples help": (BEST, WINDOWS),
    "twice the rounds help": (LONGER, BEST),
}
SMALL = ("academic", "imdb", "yelp")  # where the paper's gains are largest
PAPER = Published(
    "Zhang et al., ACL 2023; its tables were not at hand, so only statements are compared", {}, {"em": {}}
)


@dataclass(frozen=True)
class Findings:
    """`claims`: the paper's statements. `alone`: every arm against each silo alone. `small`: claims on small silos.

    `passes`: claims of weights where silos take steps by passes. `ours`: what was added to the method.
    """

    results: Results
    claims: Mapping[str, Versus]
    alone: Mapping[str, Versus]
    small: Mapping[str, Versus]
    passes: Mapping[str, Versus]
    ours: Mapping[str, Versus]

    def among(self, arms: Sequence[str]) -> list[str]:
        return [arm for arm in arms if arm in self.results]


def findings_of(results: Results) -> Findings:
    others = {arm: (arm, ALONE) for arm in ALL_ARMS if arm != ALONE}
    lorar = {name: pair for name, pair in CLAIMS.items() if name.startswith("Lorar")}
    passes = {name: (by_passes(CLAIMS[name][0]), by_passes(CLAIMS[name][1])) for name in OF_WEIGHTS}
    return Findings(
        results,
        claims=compare(_pairs(results, CLAIMS)),
        alone=compare(_pairs(results, others)),
        small=compare(_pairs(results, lorar, SMALL)),
        passes=compare(_pairs(results, passes)),
        ours=compare(_pairs(results, OURS)),
    )


def micro(results: Results, arm: str) -> float:
    """All right answers in all test questions."""
    cells = results.cells(arm, MAIN, POINT)
    return float(sum(values.sum() for values in cells.values()) / sum(map(len, cells.values())))


def _pairs(
    results: Results, named: Mapping[str, tuple[str, str]], silos: Sequence[str] = ()
) -> dict[str, tuple[Cells, Cells]]:
    def cells(arm: str) -> Cells:
        found = results.cells(arm, MAIN, POINT)
        return {cell: values for cell, values in found.items() if not silos or cell[1] in silos}

    return {
        name: (cells(first), cells(second))
        for name, (first, second) in named.items()
        if first in results and second in results and cells(first)
    }


def sizes_fact(counts: Mapping[str, Mapping[Split, int]]) -> dict[str, str]:
    """How many examples each silo has, as a fact of the report."""
    told = ", ".join(f"{silo} {n['train']}/{n['dev']}/{n['test']}" for silo, n in counts.items())
    return {"examples for training, dev and test": told}
