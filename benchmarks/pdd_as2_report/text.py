# SPDX-License-Identifier: Apache-2.0
"""What the PDD-AS2 study found, in sentences made of its numbers: true whatever these are."""

from benchmarks.pdd_as2_report.arms import (
    CENTRAL,
    FED,
    MAIN,
    METHODS,
    ORDER,
    PDD,
    POINT,
    STAR,
    Findings,
    share_of_central,
    step,
    steps_in_order,
)
from benchmarks.study.published import Published
from benchmarks.study.statistics import Versus, overall
from benchmarks.study.tables import SIGNIFICANT
from benchmarks.study.wording import verdict
from fedqa.evaluation.report import Tile
from fedqa.evaluation.report_text import interval
from fedqa.evaluation.words import listed, metric_name, number, percent, plural, signed, size

NAME = metric_name(MAIN)


def lead(found: Findings, paper: Published) -> list[str]:
    return [
        *_reached(found),
        *_over_star(found, paper),
        *_in_order(found, paper),
        *_ranked(found),
        *_of_central(found, paper),
        *_by_size(found),
        *_sent(found),
    ]


def tiles(found: Findings) -> list[Tile]:
    against = {arm: found.star[MAIN][arm] for arm in (PDD, FED) if arm in found.star[MAIN]}
    made = [
        Tile(f"{arm}: {NAME} over {STAR}", signed(v.bootstrap.difference), f"{interval(v.bootstrap)}, {verdict(v)}")
        for arm, v in against.items()
    ]
    share = share_of_central(found.results, FED)
    if share is not None:
        made.append(Tile(f"{FED}: share of central {NAME}", percent(share), "all data pooled is 100 %"))
    if found.traffic:
        vectors, weights = size(found.traffic.vectors), size(found.traffic.weights)
        made.append(Tile("vectors that leave all silos a round", vectors, f"weights: {weights}"))
    return made


def _reached(found: Findings) -> list[str]:
    results = found.results
    trained = f"{plural(len(results.silos), 'silo')} and {plural(len(results.seeds), 'seed')}"
    if FED not in results:
        return [f"{FED} is not among the {plural(len(results.by_arm), 'arm')} of this study of {trained}."]
    cells = results.cells(FED, MAIN, POINT)
    questions = plural(sum(map(len, cells.values())), "test question")
    reached, first = overall(cells), overall(results.cells(FED, "r1", POINT))
    within = f" ({interval(reached)})" if interval(reached) else ""
    return [
        f"On {questions} of {trained}, PDD-AS2 with {FED} reaches an {NAME} of {number(reached.mean)}{within} and an "
        f"R@1 of {number(first.mean)} among all sentences of a silo, in the mean of silos."
    ]


def _over_star(found: Findings, paper: Published) -> list[str]:
    versus = found.star[MAIN].get(FED)
    if versus is None:
        return []
    return [
        f"It differs from {STAR}, each silo alone, by {_difference(versus, paper.gain('methods', (FED, STAR), MAIN))}."
    ]


def _in_order(found: Findings, paper: Published) -> list[str]:
    """The paper's order, step by step; a step is confirmed only if it is sure."""
    steps = found.order[MAIN]
    if not steps:
        return []
    told = [
        f"{name} {_difference(steps[name], paper.gain('methods', (higher, lower), MAIN))}"
        for lower, higher in steps_in_order()
        if (name := step(lower, higher)) in steps
    ]
    sure = [sign for sign in map(direction, steps.values()) if sign]
    counts = {"confirmed": sure.count(1), "reversed": sure.count(-1), "not clear": len(steps) - len(sure)}
    counted = listed([f"{n} {'is' if n == 1 else 'are'} {word}" for word, n in counts.items() if n])
    return [
        f"The paper's order is {' < '.join(ORDER)}; of {plural(len(steps), 'step')} compared, {counted}: "
        f"{'; '.join(told)}."
    ]


def direction(versus: Versus) -> int:
    """1 for a gain, -1 for a loss, 0 where neither stands up to the correction."""
    if versus.holm >= SIGNIFICANT:
        return 0
    return 1 if versus.bootstrap.difference > 0 else -1


def _ranked(found: Findings) -> list[str]:
    """Among the methods trained with the same seeds; pooling is a bound, not a rival."""
    results = found.results
    if FED not in results:
        return []
    seeds = set(results.by_arm[FED])
    arms = [arm for arm in METHODS if arm != CENTRAL and arm in results and set(results.by_arm[arm]) == seeds]
    means = {arm: overall(results.cells(arm, MAIN, POINT)).mean for arm in arms}
    ahead = sorted((arm for arm in arms if means[arm] > means[FED]), key=lambda arm: -means[arm])
    if len(arms) < 3:
        return []
    start = f"Of the {len(arms)} methods that do not pool data,"
    if not ahead:
        return [f"{start} none has a higher {NAME} than {FED}."]
    told = listed([f"{arm} ({number(means[arm])})" for arm in ahead])
    return [f"{start} {told} {'has' if len(ahead) == 1 else 'have'} a higher {NAME} than {FED}."]


def _of_central(found: Findings, paper: Published) -> list[str]:
    told = []
    for arm in (STAR, PDD, FED):
        share, theirs = share_of_central(found.results, arm), published_share(paper, arm)
        if share is not None:
            told.append(f"{arm} {percent(share)}" + (f" ({percent(theirs)} in the paper)" if theirs else ""))
    return [f"Shares of the {NAME} with all data pooled: {listed(told)}."] if told else []


def published_share(paper: Published, arm: str) -> float | None:
    ours, bound = (paper.printed("methods", row, MAIN) for row in (arm, CENTRAL))
    return ours / bound if ours is not None and bound else None


def _by_size(found: Findings) -> list[str]:
    told = [f"{name}: {signed(v.bootstrap.difference)} ({verdict(v)})" for name, v in found.halves.items()]
    return [f"In smaller and larger silos the difference to {STAR} is: {'; '.join(told)}."] if told else []


def _sent(found: Findings) -> list[str]:
    traffic = found.traffic
    if traffic is None:
        return []
    return [
        f"In a round of {FED}, {size(traffic.vectors)} of vectors leave all silos together; in a round of shared "
        f"weights, {size(traffic.weights)}: vectors are {percent(traffic.vectors / traffic.weights)} of weights."
    ]


def _difference(versus: Versus, theirs: float | None = None) -> str:
    published = "" if theirs is None else f"; {signed(theirs)} in the paper"
    return f"{signed(versus.bootstrap.difference)} ({interval(versus.bootstrap)}: {verdict(versus)}{published})"
