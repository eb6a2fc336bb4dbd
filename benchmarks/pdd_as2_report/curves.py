# SPDX-License-Identifier: Apache-2.0
"""Figures 3.3 and 3.4 of the PDD-AS2 study, and the numbers behind them in tables.

Of the published figures only what the text says of them is known, which stands in the captions.
"""

from collections.abc import Mapping

from benchmarks.pdd_as2_report.arms import (
    FED,
    MAIN,
    PDD,
    POINT,
    STAR,
    Findings,
    gains_by_size,
    pairs,
    share_arms,
    sized_arms,
)
from benchmarks.study.charts import Curve, line_chart
from benchmarks.study.page import Block, Cell, Grid, Note, Row, Section
from benchmarks.study.statistics import Results, Versus, compare, overall
from benchmarks.study.tables import MARKS, difference_cell, estimate_cell, versus_grid
from fedqa.evaluation.charts import Chart, Look
from fedqa.evaluation.run_scores import Estimate
from fedqa.evaluation.words import DASH, metric_name

SHARE_LOOKS: Mapping[str, Look] = {PDD: "personal", STAR: "received"}
SIZE_LOOKS: Mapping[str, Look] = {FED: "personal", PDD: "received"}
SHARE_METRICS = ("r1", MAIN)  # the paper's figure has the first
SIZE_AXIS, SHARE_AXIS = "training questions of a silo", "percent of the training questions"
SHARE_FINDING = (
    "The paper finds PDD-AS2 above each silo alone at every share, and more so at small ones (R@1, its Figure 3.3)."
)
SIZE_FINDING = "The paper finds that small silos gain most and that some large ones lose (its Figure 3.4)."


def figure_sections(found: Findings) -> list[Section]:
    return [*_by_share(found.results), *_by_size(found)]


# -- figure 3.3 --------------------------------------------------------------------------------------------------


def _by_share(results: Results) -> list[Section]:
    arms = share_arms(results)
    if not arms:
        return []
    title = "Figure 3.3: how much there is to learn from"
    blocks: list[Block] = [_share_chart(results, arms), _share_grid(results, arms), Note(MARKS)]
    return [Section("shares", title, blocks, short="Figure 3.3")]


def _share_chart(results: Results, arms: Mapping[str, Mapping[int, str]]) -> Chart:
    numbers = _numbers(arms)
    panels = {
        metric_name(metric): [
            Curve(
                full,
                SHARE_LOOKS[full],
                [(numbers.index(n), overall(results.cells(arm, metric, POINT))) for n, arm in of.items()],
            )
            for full, of in arms.items()
        ]
        for metric in SHARE_METRICS
    }
    caption = (
        "Mean of silos on test with 95 % intervals, by the share of every silo's training questions. The intervals are "
        f"of levels: differences, which are of the same questions, are surer (see the table). {SHARE_FINDING}"
    )
    ticks = [f"{n} %" for n in numbers]
    return line_chart("figure-shares", panels, caption=caption, x=SHARE_AXIS, y="mean of silos", ticks=ticks)


def _share_grid(results: Results, arms: Mapping[str, Mapping[int, str]]) -> Grid:
    ours, alone = arms.get(PDD, {}), arms.get(STAR, {})
    both = [(ours[n], alone[n], str(n)) for n in ours if n in alone]
    found = {metric: compare(pairs(results, metric, both)) for metric in SHARE_METRICS}
    rows = [
        Row(
            Cell(f"{n} %"),
            [
                *(_score_cell(results, of.get(n), metric) for metric in SHARE_METRICS for of in arms.values()),
                *(_difference(found[metric].get(str(n))) for metric in SHARE_METRICS),
            ],
        )
        for n in _numbers(arms)
    ]
    heads = [Cell(full, [metric_name(metric)]) for metric in SHARE_METRICS for full in arms]
    differences = [Cell("Difference", [metric_name(metric)]) for metric in SHARE_METRICS]
    return Grid(f"{PDD} and {STAR} by {SHARE_AXIS}", [Cell("Share"), *heads, *differences], rows)


def _score_cell(results: Results, arm: str | None, metric: str) -> Cell:
    return Cell(DASH) if arm is None else estimate_cell(overall(results.cells(arm, metric, POINT)))


def _difference(versus: Versus | None) -> Cell:
    return Cell(DASH) if versus is None else difference_cell(versus)


def _numbers(arms: Mapping[str, Mapping[int, str]]) -> list[int]:
    return sorted({n for of in arms.values() for n in of})


# -- figure 3.4 --------------------------------------------------------------------------------------------------


def _by_size(found: Findings) -> list[Section]:
    gains = {arm: gains_by_size(found.results, found.sizes, arm) for arm in sized_arms(found.results, found.sizes)}
    gains = {arm: of for arm, of in gains.items() if len(of) > 1}
    if not gains:
        return []
    text = (
        "Which silo has which size is drawn by the seed, so a size is one silo a seed, and its topic plays a part in "
        "its gain too; the two halves have more questions to go by."
    )
    halves = versus_grid(f"Smaller and larger silos: gain in {metric_name(MAIN)} over {STAR}", found.halves, paper={})
    blocks: list[Block] = [_size_chart(gains), halves, _size_grid(gains), Note(text), Note(MARKS)]
    return [Section("sizes", "Figure 3.4: who gains", blocks, short="Figure 3.4")]


def _size_chart(gains: Mapping[str, Mapping[int, Versus]]) -> Chart:
    numbers = _sizes(gains)
    curves = [
        Curve(arm, SIZE_LOOKS[arm], [(numbers.index(n), _estimate(versus)) for n, versus in of.items()])
        for arm, of in gains.items()
    ]
    name = metric_name(MAIN)
    caption = f"Gain in {name} over {STAR} with 95 % intervals; above the line is better. {SIZE_FINDING}"
    ticks = [str(n) for n in numbers]
    panels = {f"Gain over {STAR}": curves}
    return line_chart("figure-sizes", panels, caption=caption, x=SIZE_AXIS, y=f"gain in {name}", ticks=ticks, zero=True)


def _size_grid(gains: Mapping[str, Mapping[int, Versus]]) -> Grid:
    rows = [Row(Cell(str(n)), [_difference(of.get(n)) for of in gains.values()]) for n in _sizes(gains)]
    columns = [Cell(SIZE_AXIS.capitalize()), *(Cell(arm, ["gain"]) for arm in gains)]
    return Grid(f"Gain in {metric_name(MAIN)} over {STAR} by {SIZE_AXIS}", columns, rows, folded=True)


def _estimate(versus: Versus) -> Estimate:
    return Estimate(versus.bootstrap.difference, versus.bootstrap.low, versus.bootstrap.high)


def _sizes(gains: Mapping[str, Mapping[int, Versus]]) -> list[int]:
    return sorted({n for of in gains.values() for n in of})
