# SPDX-License-Identifier: Apache-2.0
"""Figures 5 to 8 of the FedMatch study: curves by silo, and the numbers behind them in a table.

The published figures have no numbers, so what the paper says of them stands in the captions.
"""

from collections.abc import Mapping

from benchmarks.fedmatch_report.arms import (
    ALONE,
    FEDMATCH,
    FIGURES,
    METRICS,
    Figure,
    Findings,
    curve_differences,
    own_number,
)
from benchmarks.study.charts import Curve, line_chart
from benchmarks.study.page import Cell, Grid, Row, Section
from benchmarks.study.statistics import Cells, Results, by_silo, overall
from benchmarks.study.tables import OVERALL, difference_cell, estimate_cell
from fedqa.evaluation.charts import Chart, Look
from fedqa.evaluation.words import DASH, metric_name

LOOKS: Mapping[str, Look] = {FEDMATCH: "personal", ALONE: "received"}


def figure_sections(found: Findings) -> list[Section]:
    """A section for every figure that has a curve of two points or more."""
    drawn = [(figure, figure.arms(found.results, own_number(figure, found.setup))) for figure in FIGURES]
    return [
        Section(
            figure.name,
            figure.title,
            [_curves(found.results, figure, arms), _curve_grid(found.results, figure, arms)],
            short=figure.title.partition(":")[0],
        )
        for figure, arms in drawn
        if arms
    ]


def _curves(results: Results, figure: Figure, arms: Mapping[str, Mapping[int, str]]) -> Chart:
    numbers = _numbers(arms)
    cells = {arm: results.cells(arm, figure.metric) for of in arms.values() for arm in of.values()}
    panels = {
        title: [
            Curve(
                full, LOOKS[full], [(numbers.index(n), overall(_of_silo(cells[arm], title))) for n, arm in of.items()]
            )
            for full, of in arms.items()
        ]
        for title in (OVERALL, *(silo for silo in results.silos if all(silo in by_silo(of) for of in cells.values())))
    }
    name = metric_name(figure.metric)
    caption = (
        f"{name} on test with 95 % intervals; each panel has its own level, all the same scale. The intervals are of "
        f"levels: differences, which are of the same questions, are surer (see the table). {figure.finding}"
    )
    ticks = [str(n) for n in numbers]
    return line_chart(f"figure-{figure.name}", panels, caption=caption, x=figure.axis, y=name, ticks=ticks)


def _curve_grid(results: Results, figure: Figure, arms: Mapping[str, Mapping[int, str]]) -> Grid:
    """The means of silos and, paired by question, what the curve is about: the difference to FedMatch or to alone."""
    of, found = curve_differences(results, figure, arms)
    heads = [Cell(full, [metric_name(metric)]) for full in arms for metric in METRICS]
    rows = [
        Row(
            Cell(str(n)),
            [
                *(_overall_cell(results, series.get(n), metric) for series in arms.values() for metric in METRICS),
                difference_cell(found[n]) if n in found else Cell(DASH),
            ],
        )
        for n in _numbers(arms)
    ]
    columns = [Cell(figure.axis), *heads, Cell("Difference", [f"{metric_name(figure.metric)}, {of}"])]
    return Grid(f"Mean of silos by {figure.axis}", columns, rows, folded=True)


def _numbers(arms: Mapping[str, Mapping[int, str]]) -> list[int]:
    return sorted({n for of in arms.values() for n in of})


def _overall_cell(results: Results, arm: str | None, metric: str) -> Cell:
    return Cell(DASH) if arm is None else estimate_cell(overall(results.cells(arm, metric)))


def _of_silo(cells: Cells, title: str) -> Cells:
    return cells if title == OVERALL else {cell: values for cell, values in cells.items() if cell[1] == title}
