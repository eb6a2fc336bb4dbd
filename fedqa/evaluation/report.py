# SPDX-License-Identifier: Apache-2.0
"""The report of a run: one page to read and to show, made of nothing but the run folder.

    RUN/report/report.html   complete in itself: no script, nothing loaded from elsewhere
    RUN/report/report.md     the same text, with the charts beside it as SVG files

The same run gives the same bytes. Whatever stands in a run's files is text here: names are escaped in both formats.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from fedqa.evaluation import charts, report_charts, words
from fedqa.evaluation.charts import Chart
from fedqa.evaluation.report_tables import (
    Refused,
    ScoreTable,
    Standing,
    WeightTable,
    refusals,
    score_tables,
    standings,
    weight_tables,
)
from fedqa.evaluation.report_text import Facts, chance, costs, course_facts, interval, lead, stage_facts
from fedqa.evaluation.run_scores import POINTS, Estimate, Run, load_run
from fedqa.files import write_text

CHARTS = ("scores", "comparison", "dev", "loss", "bytes")


@dataclass(frozen=True)
class Tile:
    """A number for the top of the page."""

    label: str
    value: str
    note: str


@dataclass(frozen=True)
class Report:
    """All that is on the page, ready to be set."""

    run: Run
    lead: Sequence[str]
    tiles: Sequence[Tile]
    tables: Sequence[ScoreTable]
    standings: Sequence[Standing]
    charts: dict[str, Chart]
    refused: Sequence[Refused]
    weights: Sequence[WeightTable]
    course: Facts
    stages: Sequence[tuple[str, Facts]]
    costs: Facts
    metrics: Sequence[tuple[str, str]]  # names, and what they say


def write_report(run: Path, against: Sequence[Path] = ()) -> Path:
    """Write RUN/report/; returns the HTML page. Runs in `against` are compared, and tested against the first."""
    report = report_of(load_run(run), [load_run(other) for other in against])
    folder = run / "report"
    for name in CHARTS:
        path = folder / f"{name}.svg"
        if name in report.charts:
            write_text(path, charts.as_file(report.charts[name].wide))
        else:
            path.unlink(missing_ok=True)  # of an earlier report
    write_text(folder / "report.md", markdown(report))
    write_text(folder / "report.html", html(report))
    return folder / "report.html"


def report_of(run: Run, others: Sequence[Run] = ()) -> Report:
    tables, compared = score_tables(run), standings(run, others)
    main = tables[0] if tables else None
    course, reported = run.course, {metric for metrics in run.reported.values() for metric in metrics}
    return Report(
        run=run,
        lead=lead(run, main, compared),
        tiles=tiles(run, main, compared),
        tables=tables,
        standings=compared,
        charts=all_charts(run, main, compared),
        refused=refusals(run),
        weights=weight_tables(run),
        course=course_facts(course),
        stages=[(_stage_title(i, s.name, s.rounds), stage_facts(course, s)) for i, s in enumerate(course.stages, 1)],
        costs=costs(run),
        metrics=[meaning for metric, meaning in words.METRICS.items() if metric in reported],
    )


def all_charts(run: Run, main: ScoreTable | None, compared: Sequence[Standing]) -> dict[str, Chart]:
    drawn = [report_charts.dev_chart(run), report_charts.loss_chart(run), report_charts.bytes_chart(run)]
    if main:
        drawn += [report_charts.score_chart(main), report_charts.comparison_chart(compared, main.metric)]
    return {chart.name: chart for chart in drawn if chart}


def tiles(run: Run, main: ScoreTable | None, compared: Sequence[Standing]) -> list[Tile]:
    found = []
    if main and "best" in main.headline.cells:
        best, whose = main.headline.cells["best"], "mean of silos" if main.headline.rolled_up else main.headline.name
        found.append(Tile(f"{main.metric} on test, {whose}", words.number(best.mean), interval(best)))
    this = next((s for s in compared if s.is_this and s.tests), None)
    reference = next((s for s in compared if s.is_reference), None)
    if this and this.tests and reference:
        test = this.tests.bootstrap
        found.append(Tile(f"against {reference.label}", words.signed(test.difference), chance(test.p)))
    up, down = run.result["bytes_up"], run.result["bytes_down"]
    found.append(Tile("left the silos", words.size(up), f"and {words.size(down)} came in"))
    found.append(Tile("rounds", words.count(len(run.records)), words.duration(run.result["seconds"])))
    refused = {silo for _, silo, _ in run.result["refused"]}
    note = f"of {words.plural(len(refused), 'silo')}" if refused else "all were used"
    found.append(Tile("answers refused", words.count(len(run.result["refused"])), note))
    return found


def _stage_title(position: int, name: str, rounds: int) -> str:
    return f"Stage {position}: {name}, {words.plural(rounds, 'round')}"


# -- setting the page --------------------------------------------------------------------------------------------


def html(report: Report) -> str:
    drawn = {name: (Markup(chart.wide), Markup(chart.narrow)) for name, chart in report.charts.items()}
    style = {"fonts": Markup(charts.FONTS), "dark_charts": Markup(charts.dark_rules())}
    return _template("report.html.j2").render(report=report, points=POINTS, drawn=drawn, **style)


def markdown(report: Report) -> str:
    return _template("report.md.j2").render(report=report, points=POINTS)


@cache
def _template(name: str) -> Template:
    """Whatever a template prints is escaped, by Jinja for HTML and by us for Markdown."""
    is_html = name == "report.html.j2"
    page = Environment(
        loader=PackageLoader("fedqa.evaluation"),
        autoescape=is_html,
        finalize=None if is_html else plain_markdown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    page.filters |= _FILTERS
    return page.get_template(name)


def plain_markdown(value: object) -> str:
    """A value as Markdown that means nothing but its characters, on one line."""
    text = re.sub(r"[\x00-\x1f\x7f]+", " ", str(value))
    return re.sub(r"([\\`*_\[\]<>|&~$#])", r"\\\1", text)


def _estimate(estimate: Estimate | None) -> str:
    """All of a cell in one line."""
    if estimate is None:
        return words.DASH
    return " ".join(filter(None, (words.number(estimate.mean), _in_brackets(estimate), estimate.of)))


def _gained(estimate: Estimate | None) -> str:
    return f"{words.signed(estimate.mean)} {_in_brackets(estimate)}".strip() if estimate else words.DASH


def _in_brackets(estimate: Estimate) -> str:
    return f"({interval(estimate)})" if interval(estimate) else ""


_FORMATS = (words.number, words.signed, words.count, words.size, words.percent, words.p_value, words.listed)
_FILTERS: dict[str, Callable[..., str]] = {
    **{function.__name__: function for function in _FORMATS},
    "interval": interval,
    "estimate": _estimate,
    "gained": _gained,
}
