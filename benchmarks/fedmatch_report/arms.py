# SPDX-License-Identifier: Apache-2.0
"""The arms of the FedMatch study: which table or figure each belongs to, and what is compared with what.

Any arm may be missing; whatever cannot be made without it is left out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.study.statistics import Pair, Results, Versus, compare
from fedqa.errors import ConfigError
from fedqa.federation.messages import Point

FEDMATCH, ALONE = "FedMatch", "BERT alone"
BLENDED = "FedMatch blended"  # with what was learnt alone
METRICS = ("map", "mrr")
POINT: Point = "personal"  # after the local step, as in the paper
VARIANTS = ("I+PAL", "I+LR", "O+PAL", "O+LR", "V+PAL", "V+LR", "H+PAL", "H+LR", "H+LR as run")
METHODS = (
    *("BM25", "zero-shot", "ESIM", "RE2", ALONE, "CoverQuery", "LG-FedAvg", "FedPer", "FedBN", "FedAvg"),
    *(FEDMATCH, BLENDED, "FedAvg CS", "FedMatch CS", "central"),
)
RIVALS = (ALONE, "zero-shot", "FedAvg", "central")
BEYOND = ("low-rank", "lorar weights", "nearest weights")
ABLATION = "ablation: "
MEANINGS = {
    "BM25": "words in common",
    "zero-shot": "model as loaded",
    "CoverQuery": "pooled, with decoys",
    BLENDED: "mean with alone",
    "FedAvg CS": "some silos a round",
    "FedMatch CS": "some silos a round",
    "central": "all data pooled",
}


@dataclass(frozen=True)
class Setup:
    """What FedMatch itself is: its variant, and its places in the figures, where they are known."""

    headline: str
    layers: int | None
    width: int | None
    train: int | None

    @classmethod
    def of(cls, facts: Mapping[str, str]) -> "Setup":
        headline = facts.get("headline", "H+LR")
        if headline not in VARIANTS:
            raise ConfigError(f"fact 'headline' is {headline!r}; give one of {', '.join(VARIANTS)}")
        return cls(headline, *(_number(facts, name) for name in ("layers", "width", "train")))

    def variants(self, results: Results) -> dict[str, str]:
        """The arms of Table 2 by variant: FedMatch is the headline's."""
        own = {self.headline: FEDMATCH} if FEDMATCH in results else {}
        return {variant: arm for variant in VARIANTS if (arm := own.get(variant, variant)) in results}


def _number(facts: Mapping[str, str], name: str) -> int | None:
    if name not in facts:
        return None
    if not re.fullmatch(r"[0-9]+", facts[name]):
        raise ConfigError(f"fact {name!r} is {facts[name]!r}; give a whole number, or leave it out")
    return int(facts[name])


# -- figures -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """A figure of the paper: arms `prefix + number + suffix` for each of its series, and what the paper found."""

    name: str
    title: str
    axis: str
    metric: str
    prefix: str
    series: Mapping[str, str]  # the arm that stands at `own` -> suffix of the others
    finding: str

    def arms(self, results: Results, own: int | None) -> dict[str, dict[int, str]]:
        """By series, the arm at every number in rising order; a series with fewer than two is left out."""
        found = {full: self._series(results, full, own) for full in self.series}
        return {full: dict(sorted(arms.items())) for full, arms in found.items() if len(arms) > 1}

    def _series(self, results: Results, full: str, own: int | None) -> dict[int, str]:
        pattern = re.compile(re.escape(self.prefix) + "([0-9]+)" + re.escape(self.series[full]))
        found = {int(match[1]): arm for arm in results.by_arm if (match := pattern.fullmatch(arm))}
        return found | ({own: full} if own is not None and full in results else {})


FIGURES = (
    Figure(
        "layers",
        "Figure 5: how many layers are shared",
        "shared layers",
        "mrr",
        "layers=",
        {FEDMATCH: ""},
        "The paper finds that the mean falls as fewer layers are shared, that FiQA is the most robust, and that BioASQ "
        "and FiQA peak below the full number.",
    ),
    Figure(
        "width",
        "Figure 6: how wide the patch is",
        "patch width",
        "map",
        "width=",
        {FEDMATCH: ""},
        "The paper finds that beyond some width quality falls, which it puts down to over-fitting, and that PrivacyQA "
        "peaks at 128.",
    ),
    Figure(
        "every",
        "Figure 7: how often is mixed",
        "local epochs a round",
        "map",
        "every=",
        {FEDMATCH: ""},
        "The paper finds one local epoch best for PrivacyQA, InQA and MedQuAD, two slightly best for BioASQ and FiQA, "
        "and a sharp drop of PrivacyQA at two.",
    ),
    Figure(
        "train",
        "Figure 8: how much there is to learn from",
        "training questions a silo",
        "map",
        "train=",
        {FEDMATCH: " FedMatch", ALONE: " alone"},
        "The paper, on InQA alone, finds FedMatch always above BERT, by 7.23 % MAP with a fifth of the training data "
        "and 2.60 % with all of it; its own Table 3 makes the latter 7.22 %.",
    ),
)


def own_number(figure: Figure, setup: Setup) -> int | None:
    """Where FedMatch itself stands in a figure."""
    return {"layers": setup.layers, "width": setup.width, "every": 1, "train": setup.train}[figure.name]


def curve_differences(
    results: Results, figure: Figure, arms: Mapping[str, Mapping[int, str]]
) -> tuple[str, dict[int, Versus]]:
    """Along a curve, FedMatch against BERT alone where both are drawn, else each arm against FedMatch itself."""
    ours, alone = arms.get(FEDMATCH, {}), arms.get(ALONE, {})
    named = [(ours[n], alone[n], str(n)) for n in ours if n in alone]
    if not alone:
        named = [(arm, FEDMATCH, str(n)) for n, arm in ours.items() if arm != FEDMATCH]
    found = compare(_pairs(results, figure.metric, named))
    return f"to {ALONE if alone else FEDMATCH}", {int(n): versus for n, versus in found.items()}


# -- findings ----------------------------------------------------------------------------------------------------

Compared = Mapping[str, Mapping[str, Versus]]  # metric -> name -> comparison


@dataclass(frozen=True)
class Findings:
    """The study's comparisons, each family corrected for its own number.

    `alone`: every method against BERT alone. `rivals`: FedMatch against some. `beyond`, `ablations`, `others`: arms
    against FedMatch. `silos`: against BERT alone at like points. `chosen`: whose model each silo would keep.
    """

    results: Results
    setup: Setup
    alone: Compared
    rivals: Compared
    blended: Compared
    beyond: Compared
    ablations: Compared
    others: Compared
    silos: Mapping[str, Versus]

    def methods(self) -> list[str]:
        return [arm for arm in METHODS if arm in self.results]


def findings_of(results: Results, setup: Setup) -> Findings:
    return Findings(
        results=results,
        setup=setup,
        alone={m: compare(_pairs(results, m, [(a, ALONE, a) for a in METHODS if a != ALONE])) for m in METRICS},
        rivals={m: compare(_pairs(results, m, [(FEDMATCH, arm, arm) for arm in RIVALS])) for m in METRICS},
        blended={m: compare(_pairs(results, m, [(BLENDED, a, a) for a in (*RIVALS, FEDMATCH)])) for m in METRICS},
        beyond=_against_fedmatch(results, [arm for arm in BEYOND if arm in results]),
        ablations=_against_fedmatch(results, [arm for arm in results.by_arm if arm.startswith(ABLATION)]),
        others=_against_fedmatch(results, unplaced(results, setup)),
        silos=compare(_pairs(results, "map", [(arm, ALONE, arm) for arm in (FEDMATCH, BLENDED)])),
    )


def unplaced(results: Results, setup: Setup) -> list[str]:
    """Arms that belong to no table and no figure."""
    drawn = {
        arm
        for figure in FIGURES
        for arms in figure.arms(results, own_number(figure, setup)).values()
        for arm in arms.values()
    }
    placed = {*setup.variants(results).values(), *METHODS, *BEYOND, *drawn}
    return [arm for arm in results.by_arm if arm not in placed and not arm.startswith(ABLATION)]


def _pairs(results: Results, metric: str, named: Sequence[tuple[str, str, str]]) -> dict[str, Pair]:
    """Pairs of arms (first, second, name)."""
    return {
        name: (results.cells(first, metric, POINT), results.cells(second, metric, POINT))
        for first, second, name in named
        if first in results and second in results
    }


def _against_fedmatch(results: Results, arms: Sequence[str]) -> Compared:
    return {m: compare(_pairs(results, m, [(arm, FEDMATCH, arm) for arm in arms])) for m in METRICS}
