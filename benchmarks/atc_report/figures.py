# SPDX-License-Identifier: Apache-2.0
"""What the coordinator saw: who clusters with whom, who is whose neighbour and how near, and whose task can be guessed.

The counterparts of the paper's figures 4 to 6, and the measure of task secrecy.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from benchmarks.atc_report.arms import ALL_SHARED, ATC, FEDAVG, SET_OF, SETS, SILOS, WEIGHTLESS, Part
from benchmarks.atc_secrecy.guessing import Guesses, Sample, guesses
from benchmarks.atc_secrecy.view import Round, Seen
from benchmarks.study.charts import Heat, heat_chart
from benchmarks.study.statistics import Results
from fedqa.evaluation.charts import Chart

ASSIGN, CONTRAST, OWN = "assign", "contrast", "train"  # names of stages
Shares = Mapping[str, Mapping[str, float]]  # silo -> other silo -> share of rounds
Ranks = Mapping[str, Mapping[str, float]]  # silo -> other silo -> mean rank by nearness, from 1
WATCHED = {  # what is sent -> arm and stage
    "assigned tasks, all but the heads": (ATC, ASSIGN),
    "own tasks with contrast, encoder alone": (ATC, CONTRAST),
    "own tasks, encoder alone": (FEDAVG, OWN),
    "own tasks, all but the heads": (ALL_SHARED, OWN),
}


def seen(results: Results, arm: str) -> dict[int, Seen]:
    """What was seen of an arm's trainings, by seed."""
    outcomes = results.by_arm.get(arm, {})
    return {seed: one for seed, outcome in outcomes.items() if (one := Seen.of(outcome))}


def _rounds(results: Results, arm: str, stage: str, *, first: int = 0) -> list[Round]:
    """The rounds of a stage in all trainings of an arm, without its first ones."""
    stages = ([one for one in view.rounds if one.stage == stage] for view in seen(results, arm).values())
    return [one for rounds in stages for one in rounds[first:]]


# -- figures -----------------------------------------------------------------------------------------------------


def mixed_shares(results: Results, arm: str, stage: str) -> Shares:
    """In which share of rounds a silo was given another's update; empty if nobody looked."""
    rounds = _rounds(results, arm, stage)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in rounds:
        for silo, senders in one.mixed.items():
            counts[silo].update(sender for sender in senders if sender != silo)
    silos = _silos(rounds)
    return {silo: {other: counts[silo][other] / len(rounds) for other in silos if other != silo} for silo in silos}


def mean_ranks(results: Results, arm: str) -> Ranks:
    """How near the others' updates were to a silo's own in the second stage, from its second round on.

    In the first there are no neighbours yet, so the contrastive term does nothing.
    """
    rounds = _rounds(results, arm, CONTRAST, first=1)
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for one in rounds:
        for silo, near in one.near.items():
            for rank, other in enumerate(sorted(near, key=lambda name: (-near[name], name)), start=1):
                found[silo][other].append(rank)
    silos = _silos(rounds)
    return {silo: {other: fmean(found[silo][other]) for other in silos if other in found[silo]} for silo in silos}


def _silos(rounds: Sequence[Round]) -> list[str]:
    there = {silo for one in rounds for silo in one.near}
    return [silo for silo in SILOS if silo in there]


def part_ranks(ranks: Ranks, of: Part) -> dict[bool, float]:
    """Mean rank, with silos of a part, of the silos of the same part (True) and of all others (False)."""
    by_kind: dict[bool, list[float]] = defaultdict(list)
    for silo, others in ranks.items():
        if part_of(silo) == of:
            for other, rank in others.items():
                by_kind[part_of(other) == of].append(rank)
    return {kind: fmean(values) for kind, values in by_kind.items()}


def part_of(silo: str) -> Part:
    return SETS[SET_OF[silo]].part


def mixing_chart(results: Results) -> Chart | None:
    """Figures 4 and 5."""
    found = {
        "Same cluster (assign)": mixed_shares(results, ATC, ASSIGN),
        "Neighbour (contrast)": mixed_shares(results, ATC, CONTRAST),
    }
    panels = {title: _share_heat(shares) for title, shares in found.items() if shares}
    if not panels:
        return None
    told = "; ".join(f"{title}: {_by_kind(found[title])}" for title in panels)
    return heat_chart(
        "mixing",
        panels,
        caption="In how many of 100 rounds a silo (row) was given the update of another (column), all seeds together.",
        alt=f"Heat maps of who is mixed with whom, in rounds of 100. {told}.",
    )


def rank_chart(results: Results) -> Chart | None:
    """Figure 6: the silos that write."""
    found = {"With the contrastive term": mean_ranks(results, ATC), "Without": mean_ranks(results, WEIGHTLESS)}
    panels = {title: _rank_heat(ranks) for title, ranks in found.items() if any(map(_writes, ranks))}
    if not panels:
        return None
    return heat_chart(
        "ranks",
        panels,
        caption="How near the updates of others (columns) are to those of a silo that writes (row): mean rank, 1 is "
        "the nearest.",
        alt="Heat maps of mean ranks by nearness, with and without the contrastive term.",
    )


def _writes(silo: str) -> bool:
    return part_of(silo) == "NLG"


def _share_heat(shares: Shares) -> Heat:
    def shade(silo: str, other: str) -> tuple[float, str] | None:
        return None if silo == other else (shares[silo][other], f"{100 * shares[silo][other]:.0f}")

    return Heat(list(shares), list(shares), [[shade(silo, other) for other in shares] for silo in shares])


def _rank_heat(ranks: Ranks) -> Heat:
    def shade(silo: str, other: str) -> tuple[float, str] | None:
        if silo == other:
            return None
        farthest = max(1, len(ranks[silo]) - 1)
        return 1 - (ranks[silo][other] - 1) / farthest, f"{ranks[silo][other]:.1f}"

    rows = [silo for silo in ranks if _writes(silo)]
    return Heat(rows, list(ranks), [[shade(silo, other) for other in ranks] for silo in rows])


def _by_kind(shares: Shares) -> str:
    """How often silos of one data set, of one part, and of different parts were mixed, in words."""
    pairs = [(silo, other, share) for silo, others in shares.items() for other, share in others.items()]
    kinds = {
        "one data set": [share for a, b, share in pairs if SET_OF[a] == SET_OF[b]],
        "one part but two data sets": [s for a, b, s in pairs if part_of(a) == part_of(b) and SET_OF[a] != SET_OF[b]],
        "different parts": [share for a, b, share in pairs if part_of(a) != part_of(b)],
    }
    return ", ".join(f"{kind} {100 * fmean(found):.0f}" for kind, found in kinds.items() if found)


def mixing_text(results: Results) -> str:
    """The figures in a sentence each; nothing if nobody looked."""
    stages = {"assigned tasks": ASSIGN, "silos' own tasks": CONTRAST}
    told = [
        f"Of 100 pairs of silos of each kind, mixed in rounds of {name}: {_by_kind(shares)}."
        for name, stage in stages.items()
        if (shares := mixed_shares(results, ATC, stage))
    ]
    return " ".join(told)


# -- secrecy -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Secrecy:
    """How often a task is guessed. `known`: which of four families, by a coordinator that has seen the same data sets
    in other trainings. `unknown`: which of three parts, of a data set that it has never seen; what texts are about
    does not help there.
    """

    known: Guesses | None
    unknown: Guesses | None


def secrecy_of(results: Results) -> dict[str, Secrecy]:
    """By what is sent; what nobody looked at is left out."""
    found = {}
    for what, (arm, stage) in WATCHED.items():
        families = _samples(results, arm, stage, {silo: str(SETS[SET_OF[silo]].family) for silo in SILOS})
        parts = _samples(results, arm, stage, {silo: str(part_of(silo)) for silo in SILOS})
        if families:
            known = guesses(families, lambda sample: sample.training)
            found[what] = Secrecy(known, guesses(parts, lambda sample: SET_OF[sample.silo]))
    return found


def _samples(results: Results, arm: str, stage: str, tasks: Mapping[str, str]) -> list[Sample]:
    return [
        Sample(seed, silo, tasks[silo], np.asarray(direction, dtype=np.float64))
        for seed, view in seen(results, arm).items()
        for silo, direction in view.directions.get(stage, {}).items()
    ]
