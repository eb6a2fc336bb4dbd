# SPDX-License-Identifier: Apache-2.0
"""The charts of a report: a run's numbers put into the shapes that `charts` draws."""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from statistics import fmean

from fedqa.evaluation import charts
from fedqa.evaluation.charts import Axis, Chart, Dot, Line, Look, Panel, Row
from fedqa.evaluation.report_tables import MACRO, ScoreTable, Standing
from fedqa.evaluation.run_scores import Estimate, Run
from fedqa.evaluation.words import metric_name, number, plural, size
from fedqa.federation.course import POOL
from fedqa.federation.messages import Point

MOST_PANELS = 12  # with more silos than this, they share a panel
POINT_LOOKS: Mapping[Point, Look] = {"received": "received", "personal": "personal", "best": "best"}
CURVE_LOOKS: Mapping[str, Look] = {"received": "received", "personal": "personal"}
CROWD_LOOKS: Mapping[str, Look] = {"mean of silos": "strong", "one silo": "quiet"}
Points = Sequence[tuple[float, float]]
Curves = Mapping[str, Mapping[str, Points]]  # silo -> point -> dev scores


# -- test scores -------------------------------------------------------------------------------------------------


def score_chart(table: ScoreTable) -> Chart | None:
    """Every silo's test scores; with many silos, the table alone must do."""
    shown = [row for row in table.rows if not row.rolled_up or row.name == MACRO]
    if len(shown) > MOST_PANELS + 1:
        return None
    rows = [
        Row(row.name, {look: _dot(row.cells[p]) for p, look in POINT_LOOKS.items() if p in row.cells}, row.rolled_up)
        for row in shown
    ]
    said = (f"{row.name} " + ", ".join(f"{p} {number(e.mean)}" for p, e in row.cells.items()) for row in shown)
    return charts.chart(
        "scores",
        f"{table.metric} on test questions, with 95 % intervals.",
        f"Dots with intervals: {table.metric} on test questions. {'; '.join(said)}.",
        charts.dots(
            rows, x=_score_axis(table.metric, rows), legend={point: look for point, look in POINT_LOOKS.items()}
        ),
    )


def comparison_chart(others: Sequence[Standing], metric: str) -> Chart | None:
    ranked = [(standing, standing.macro, standing.worst) for standing in others if standing.macro and standing.worst]
    if len(ranked) < 2:
        return None
    rows = [
        Row(standing.label, {"personal": _dot(macro), "received": Dot(worst.mean)}, standing.is_this)
        for standing, macro, worst in ranked
    ]
    said = (f"{standing.label} {number(macro.mean)}" for standing, macro, _ in ranked)
    return charts.chart(
        "comparison",
        f"{metric} on the same test questions: mean of silos with its 95 % interval, and the worst silo.",
        f"Dots with intervals: mean of silos in {metric}. {'; '.join(said)}.",
        charts.dots(rows, x=_score_axis(metric, rows), legend={"mean of silos": "personal", "worst silo": "received"}),
    )


def _dot(estimate: Estimate) -> Dot:
    return Dot(estimate.mean, estimate.low, estimate.high)


def _score_axis(metric: str, rows: Sequence[Row]) -> Axis:
    return Axis(f"{metric} on test", _bounds([dot.value for row in rows for dot in row.dots.values()]))


def _bounds(values: Sequence[float]) -> tuple[float, float] | None:
    """Shares stay between 0 and 1; a metric of another kind has no bounds."""
    return (0.0, 1.0) if all(0 <= value <= 1 for value in values) else None


# -- curves ------------------------------------------------------------------------------------------------------


def dev_chart(run: Run) -> Chart | None:
    curves = dev_curves(run)
    if not any(len(points) > 1 for curve in curves.values() for points in curve.values()):
        return None
    kinds = list(dict.fromkeys(run.deciding.values()))
    label = f"{metric_name(kinds[0])} on dev" if len(kinds) == 1 else "score on dev"
    values = [value for curve in curves.values() for points in curve.values() for _, value in points]
    return charts.chart(
        "dev",
        f"{label} after each round: the weights received, and the silo's own model (personal).{_stages(run)}",
        f"Lines: {label} by round. {'; '.join(_ends(silo, curve) for silo, curve in _told(curves).items())}.",
        charts.panels(
            _dev_panels(curves),
            x=Axis("rounds", marks=_stage_starts(run)),
            y=Axis(label, _bounds(values)),
            legend=CROWD_LOOKS if len(curves) > MOST_PANELS else CURVE_LOOKS,
        ),
    )


def dev_curves(run: Run) -> Curves:
    """Dev scores by the rounds behind a model: what is received in round 3 has two behind it.

    In central training there is one curve, that of the coordinator's pool.
    """
    deciding = dict(run.deciding)
    if deciding and any(POOL in record.metrics for record in run.records):
        deciding = {POOL: next(iter(deciding.values()))}
    finals = run.summaries("received", "dev", {silo: m for silo, m in deciding.items() if silo != POOL})
    curves = {}
    for silo, metric in deciding.items():
        final = [(float(run.course.rounds), finals[silo].mean)] if silo in finals else []
        received = [*_dev_points(run, silo, f"received/dev/{metric}", 1), *final]
        curves[silo] = {"received": received, "personal": _dev_points(run, silo, f"personal/dev/{metric}", 0)}
    return {silo: curve for silo, curve in curves.items() if any(curve.values())}


def _dev_points(run: Run, silo: str, key: str, behind: int) -> list[tuple[float, float]]:
    found = ((record.round, record.metrics.get(silo, {}).get(key)) for record in run.records)
    return [(float(number - behind), summary[1]) for number, summary in found if summary and summary[0]]


def _dev_panels(curves: Curves) -> list[Panel]:
    if len(curves) > MOST_PANELS:
        return [Panel(point, _crowd([curve[point] for curve in curves.values()])) for point in CURVE_LOOKS]
    return [
        Panel(silo, [Line(curve[point], look) for point, look in CURVE_LOOKS.items() if curve[point]])
        for silo, curve in curves.items()
    ]


def _crowd(curves: Sequence[Points]) -> list[Line]:
    """A thin line for each silo, and their mean."""
    return [*(Line(points, "quiet") for points in curves if points), Line(_mean(curves), "strong")]


def _mean(curves: Sequence[Points]) -> Points:
    at: dict[float, list[float]] = {}
    for x, y in (point for points in curves for point in points):
        at.setdefault(x, []).append(y)
    return [(x, fmean(values)) for x, values in sorted(at.items())]


def _told(curves: Curves) -> Curves:
    """What is said of the curves in words: of a crowd, only the mean."""
    if len(curves) <= MOST_PANELS:
        return curves
    points = next(iter(curves.values()))
    return {f"mean of {len(curves)} silos": {p: _mean([curve[p] for curve in curves.values()]) for p in points}}


def _ends(silo: str, curve: Mapping[str, Points]) -> str:
    said = (f"{point} {number(p[0][1])} to {number(p[-1][1])}" for point, p in curve.items() if p)
    return f"{silo} {', '.join(said)}"


def loss_chart(run: Run) -> Chart | None:
    """Each round from the first to the last step's loss, in a band from the smallest to the largest."""
    silos = dict.fromkeys(silo for record in run.records for silo in record.accepted)
    if not silos:
        return None
    crowded = len(silos) > MOST_PANELS
    ends = {silo: {"last step": _last_losses(run, silo)} for silo in silos}
    crowd = Panel("all silos", _crowd([curve["last step"] for curve in ends.values()]))
    return charts.chart(
        "loss",
        f"Task loss in training, {'at the last step of each round' if crowded else 'round by round'}.{_stages(run)}",
        f"Lines: task loss in training. {'; '.join(_ends(silo, curve) for silo, curve in _told(ends).items())}.",
        charts.panels(
            [crowd] if crowded else [_loss_panel(run, silo) for silo in silos],
            x=Axis("rounds", marks=_stage_starts(run)),
            y=Axis("task loss"),
            legend=CROWD_LOOKS if crowded else {"first to last step": "steps"},
            band="" if crowded else "smallest to largest",
        ),
    )


def _last_losses(run: Run, silo: str) -> Points:
    return [(float(r.round), r.accepted[silo].loss_last) for r in run.records if silo in r.accepted]


def _loss_panel(run: Run, silo: str) -> Panel:
    rounds = [(record.round, record.accepted[silo]) for record in run.records if silo in record.accepted]
    points = [p for n, work in rounds for p in ((n - 1.0, work.loss_first), (float(n), work.loss_last), charts.GAP)]
    band = [(x, work.loss_min, work.loss_max) for n, work in rounds for x in (n - 1.0, float(n), math.nan)]
    return Panel(silo, [Line(points, "steps")], band)


def _stage_starts(run: Run) -> list[float]:
    """Where a stage after the first begins, in rounds done before it."""
    return [run.course.first_round(i) - 1.0 for i in range(1, len(run.course.stages))]


def _stages(run: Run) -> str:
    return " A new stage begins at each dotted line." if _stage_starts(run) else ""


# -- bytes -------------------------------------------------------------------------------------------------------


def bytes_chart(run: Run) -> Chart | None:
    if not run.records:
        return None
    up = list(accumulate((record.bytes_up for record in run.records), initial=0))
    down = list(accumulate((record.bytes_down for record in run.records), initial=0))
    rounds = [0, *(record.round for record in run.records)]
    return charts.chart(
        "bytes",
        "Bytes in the rounds so far, from the silos (up) and to them (down).",
        f"Areas: bytes so far by round. After {plural(rounds[-1], 'round')}: {size(up[-1])} up, {size(down[-1])} down.",
        charts.stacked_bytes(rounds, up, down, x=Axis("rounds")),
    )
