# SPDX-License-Identifier: Apache-2.0
"""The data sets and arms of the ATC study, and what is compared with what. Any arm may be missing.

The average is the paper's: of every data set the mean of its metrics, then the mean of the data sets, however many
silos each has. All of it is linear, so an example can be given one value, the mean of its metrics, and a weight; means
of such values over silos are averages, and are resampled and compared like any other score.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

import numpy as np

from benchmarks.study.published import published
from benchmarks.study.statistics import Array, Cells, Pair, Results, Versus, compare, overall
from fedqa.data.records import Split
from fedqa.federation.messages import Point

Part = Literal["CLS", "QA", "NLG"]  # the columns of table 3
Family = Literal["classify", "read", "summarise", "ask"]
POINT: Point = "best"  # what a silo serves: the model that did best on its dev examples


@dataclass(frozen=True)
class DataSet:
    """A data set, its silos, and the one of the paper that it stands for."""

    paper: str
    part: Part
    family: Family
    metrics: tuple[str, ...]
    silos: tuple[str, ...]


SETS: Mapping[str, DataSet] = {
    "rt_polarity": DataSet("IMDB", "CLS", "classify", ("accuracy",), ("rt_polarity-1", "rt_polarity-2")),
    "agnews": DataSet("AGNews", "CLS", "classify", ("accuracy",), ("agnews-1", "agnews-2", "agnews-3")),
    "subjqa": DataSet("SQuAD", "QA", "read", ("em", "f1"), ("subjqa-electronics", "subjqa-restaurants")),
    "policyqa": DataSet("NewsQA", "QA", "read", ("em", "f1"), ("policyqa-1", "policyqa-2")),
    "scitldr": DataSet("CNN/DM", "NLG", "summarise", ("rouge_1", "rouge_2", "rouge_l"), ("scitldr-1", "scitldr-2")),
    "squad": DataSet("MSQG", "NLG", "ask", ("rouge_l", "bleu_4", "meteor"), ("squad-1", "squad-2")),
}
SET_OF = {silo: name for name, one in SETS.items() for silo in one.silos}
SILOS = tuple(SET_OF)
PARTS: tuple[Part, ...] = ("CLS", "QA", "NLG")
SELECTS: Mapping[Family, str] = {"classify": "accuracy", "read": "f1", "summarise": "rouge_l", "ask": "rouge_l"}

ALONE, FEDAVG, ATC = "isolated", "FedAvg", "ATC"
NO_ASSIGN, NO_CONTRAST = "ATC w/o assign", "ATC w/o contrast"
PUBLISHED_PROBE, WEIGHTLESS = "ATC, published probe", "ATC, weight 0"
ALONE_FIRST, ALL_SHARED = "ATC, alone first", "everything shared"
LONGER = "isolated, longer"
METHODS = (ALONE, FEDAVG, "FedAvg-ST", "FedProx", "Ditto", "FedBN", "PerCFL", "SPFL", ATC, NO_ASSIGN, NO_CONTRAST)
BEYOND = (LONGER, ALONE_FIRST, PUBLISHED_PROBE, WEIGHTLESS, ALL_SHARED)
ASSIGNED = {  # row of table 3 -> arm
    "vanilla": FEDAVG,
    "+ MLM": "assign mlm",
    "+ DR": "assign denoise",
    "+ MLM & DR": "assign both",
    "+ MLM & DR & clustering": NO_CONTRAST,
}
MEANINGS = {
    ALONE: "every silo by itself",
    FEDAVG: "encoder shared",
    "FedAvg-ST": "all but the head shared, by skill",
    LONGER: "as many steps as ATC in both stages",
    ALONE_FIRST: "and the model trained alone may be chosen",
    PUBLISHED_PROBE: "texts mixed plainly",
    WEIGHTLESS: "neighbours, but no contrastive term",
    ALL_SHARED: "FedAvg of all but the heads",
}


@dataclass(frozen=True)
class Findings:
    """`alone` and `averaged`: every arm's average against each silo alone, and against FedAvg."""

    results: Results
    alone: Mapping[str, Versus]
    averaged: Mapping[str, Versus]
    probe: Versus | None  # the private probe set against the published one
    contrast: Versus | None  # ATC against its contrastive term switched off

    def among(self, arms: Sequence[str]) -> list[str]:
        return [arm for arm in arms if arm in self.results]


def findings_of(results: Results) -> Findings:
    return Findings(
        results,
        alone=_against(results, ALONE),
        averaged=_against(results, FEDAVG),
        probe=_one(results, ATC, PUBLISHED_PROBE),
        contrast=_one(results, ATC, WEIGHTLESS),
    )


# -- one arm -----------------------------------------------------------------------------------------------------


def average_cells(results: Results, arm: str, point: Point = POINT, part: Part | None = None) -> Cells:
    """Test scores whose mean over cells is the paper's average, of all data sets or of those of a part."""
    values = values_of(results, arm, point)
    shown = {cell: one for cell, one in values.items() if part in (None, SETS[SET_OF[cell[1]]].part)}
    weights = _weights([silo for _, silo in shown])
    return {cell: one * weights[cell[1]] for cell, one in shown.items()}


def values_of(results: Results, arm: str, point: Point = POINT, split: Split = "test") -> Cells:
    """Of every example the mean of its metrics."""
    return {
        (seed, silo): _value(scores, SETS[SET_OF[silo]].metrics)
        for seed, outcome in results.by_arm[arm].items()
        for silo, scores in (outcome.test if split == "test" else outcome.dev)[point].items()
        if silo in SET_OF
    }


def set_scores(results: Results, arm: str, name: str, point: Point = POINT) -> dict[str, float]:
    """A data set's metrics, each the mean of its silos and seeds; none if it has no silo here."""
    outcomes = results.by_arm[arm].values()
    there = [
        outcome.test[point][silo] for outcome in outcomes for silo in SETS[name].silos if silo in outcome.test[point]
    ]
    return {metric: fmean(fmean(scores[metric]) for scores in there) for metric in SETS[name].metrics if there}


def _value(scores: Mapping[str, Sequence[float]], metrics: Sequence[str]) -> Array:
    found: Array = np.mean([np.asarray(scores[metric], dtype=np.float64) for metric in metrics], axis=0)
    return found


def _weights(silos: Sequence[str]) -> dict[str, float]:
    """How much more a silo counts in the average than in the mean of silos."""
    distinct = set(silos)
    sizes = Counter(SET_OF[silo] for silo in distinct)
    return {silo: len(distinct) / (len(sizes) * sizes[SET_OF[silo]]) for silo in distinct}


# -- two arms ----------------------------------------------------------------------------------------------------


def _against(results: Results, reference: str) -> dict[str, Versus]:
    arms = [arm for arm in results.by_arm if arm != reference] if reference in results else []
    return _compared(results, {arm: (arm, reference) for arm in arms})


def _one(results: Results, first: str, second: str) -> Versus | None:
    there = first in results and second in results
    return _compared(results, {"": (first, second)}).get("") if there else None


def _compared(results: Results, named: Mapping[str, tuple[str, str]]) -> dict[str, Versus]:
    """Differences of averages; those by silo are of the silo's own values, whatever it counts in the average."""
    pairs: dict[str, Pair] = {
        name: (average_cells(results, first), average_cells(results, second)) for name, (first, second) in named.items()
    }
    weights = _weights([silo for silo in results.silos if silo in SET_OF])
    return {
        name: replace(versus, by_silo={silo: value / weights[silo] for silo, value in versus.by_silo.items()})
        for name, versus in compare(pairs).items()
    }


def published_gain(arm: str, reference: str) -> float | None:
    return published("atc").gain("methods", (arm, reference), "avg")


def part_gains(results: Results) -> dict[Part, tuple[float, float]]:
    """How far ATC is above isolated in each kind of task, and how far it is in the paper."""
    if ATC not in results or ALONE not in results:
        return {}
    found: dict[Part, tuple[float, float]] = {}
    for part in PARTS:
        ours, theirs = (average_cells(results, arm, part=part) for arm in (ATC, ALONE))
        if ours:
            found[part] = (overall(ours).mean - overall(theirs).mean, _published_part(part))
    return found


def _published_part(part: Part) -> float:
    gains = []
    for name, one in SETS.items():
        if one.part == part:
            of_set = [published("atc").gain(name, (ATC, ALONE), metric) for metric in one.metrics]
            gains.append(fmean(gain for gain in of_set if gain is not None))
    return fmean(gains)


# -- is anybody worse off? ---------------------------------------------------------------------------------------

CHOSEN = "ATC or isolated"


@dataclass(frozen=True)
class Safety:
    """An arm's dev-selected models beside those of silos that trained alone, silo by silo in each training.

    `dev` is of the metric that selects; `test`, of the mean of a silo's metrics.
    """

    dev: Mapping[tuple[int, str], float]
    test: Mapping[tuple[int, str], float]

    def by_silo(self, differences: Mapping[tuple[int, str], float]) -> dict[str, float]:
        silos = dict.fromkeys(silo for _, silo in differences)
        return {silo: fmean(d for (_, own), d in differences.items() if own == silo) for silo in silos}


def safety_of(results: Results) -> dict[str, Safety]:
    """Of ATC, of ATC after training alone, and of whichever of ATC and alone is better on a silo's dev examples."""
    if ALONE not in results:
        return {}
    found = {arm: _safety(results, arm) for arm in (ATC, ALONE_FIRST) if arm in results}
    return {**found, **({CHOSEN: _chosen(found[ATC])} if ATC in found else {})}


def _safety(results: Results, arm: str) -> Safety:
    def difference(ours: Cells, theirs: Cells) -> dict[tuple[int, str], float]:
        return {cell: float(ours[cell].mean() - theirs[cell].mean()) for cell in ours if cell in theirs}

    dev = difference(_selecting(results, arm), _selecting(results, ALONE))
    return Safety(dev, difference(values_of(results, arm), values_of(results, ALONE)))


def _chosen(safety: Safety) -> Safety:
    """Where training alone did better on dev its model is taken, and there is no difference."""
    better = {cell for cell, difference in safety.dev.items() if difference >= 0}
    dev, test = (
        {cell: value if cell in better else 0.0 for cell, value in side.items()} for side in (safety.dev, safety.test)
    )
    return Safety(dev, test)


def _selecting(results: Results, arm: str) -> Cells:
    return {
        (seed, silo): np.asarray(scores[SELECTS[SETS[SET_OF[silo]].family]], dtype=np.float64)
        for seed, outcome in results.by_arm[arm].items()
        for silo, scores in outcome.dev[POINT].items()
        if silo in SET_OF
    }
