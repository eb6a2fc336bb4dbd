# SPDX-License-Identifier: Apache-2.0
"""The tables of a study: scores with published ones beside, comparisons with their tests, points, and costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.study.page import Cell, Grid, Row
from benchmarks.study.published import Published, printed
from benchmarks.study.statistics import ROUNDING, Cells, Results, Versus, by_seed, by_silo, overall
from fedqa.evaluation.report_text import interval
from fedqa.evaluation.run_scores import POINTS, Estimate
from fedqa.evaluation.words import DASH, duration, metric_name, number, p_value, percent, signed, size

OVERALL = "Overall"
SIGNIFICANT = 0.05
MARKS = (
    "† p < .05 in the bootstrap, ‡ also after Holm's correction for all comparisons of the table; the sign of the "
    "difference says in whose favour."
)
METHOD_OF_TESTS = (
    "A difference is of the same test questions, averaged within each silo and training and then over these, so that "
    "every silo counts the same. Its 95 % interval and p come from a paired bootstrap that resamples the questions "
    "within each silo and seed. The t-test is paired too, but takes all questions of all silos and seeds alike. Both "
    "are for these trainings on other questions, and count a question as often as seeds have drawn it; by seed: the "
    "lowest and the highest difference of a seed."
)


@dataclass(frozen=True)
class Scored:
    """A line of a table of scores: its test scores by metric, and its row in the published table, if it has one."""

    label: str
    cells: Mapping[str, Cells]
    published: str = ""
    note: str = ""
    strong: bool = False


@dataclass(frozen=True)
class Beside:
    """A table of a paper."""

    paper: Published
    table: str

    def silo(self, row: str, silo: str, metrics: Sequence[str]) -> list[str]:
        found = [self.paper.silo(self.table, row, metric=metric, silo=silo) for metric in metrics]
        return [" / ".join(printed(value) for value in found if value is not None)] if None not in found else []

    def overall(self, row: str, metric: str) -> list[str]:
        value = self.paper.printed(self.table, row, metric)
        if value is None:
            return []
        told = printed(value, self.paper.digits)
        slipped = any((slip.row, slip.metric) == (row, metric) for slip in self.paper.slips(self.table))
        return [f"({told})" if metric in self.paper.unusable else told + ("*" if slipped else "")]


# -- scores ------------------------------------------------------------------------------------------------------


def scores_grid(
    caption: str, lines: Sequence[Scored], *, silos: Sequence[str], beside: Beside, folded: bool = False
) -> Grid:
    """Each silo's mean scores, and the mean of silos with its interval; the published ones under them.

    Without silos the means stand alone.
    """
    names = [metric_name(metric) for metric in lines[0].cells]
    totals = [Cell(OVERALL, [name]) if silos else Cell(name) for name in names]
    sets = ([theirs] if (theirs := beside.paper.silos.get(silo)) else [] for silo in silos)
    heads = [Cell(silo, [*theirs, " / ".join(names)]) for silo, theirs in zip(silos, sets, strict=True)]
    return Grid(caption, [Cell(""), *totals, *heads], [_scores_row(line, silos, beside) for line in lines], folded)


def _scores_row(line: Scored, silos: Sequence[str], beside: Beside) -> Row:
    metrics = list(line.cells)
    means = {metric: by_silo(cells) for metric, cells in line.cells.items()}
    by_column = [
        Cell(
            " / ".join(number(means[metric][silo]) if silo in means[metric] else DASH for metric in metrics),
            beside.silo(line.published, silo, metrics),
        )
        for silo in silos
    ]
    totals = [estimate_cell(overall(line.cells[m]), beside.overall(line.published, m)) for m in metrics]
    return Row(Cell(line.label, [line.note] if line.note else []), [*totals, *by_column], line.strong)


def estimate_cell(estimate: Estimate, notes: Sequence[str] = ()) -> Cell:
    return Cell(number(estimate.mean), [text for text in (interval(estimate), *notes) if text])


def slips_note(beside: Beside) -> str:
    """Which printed means are not the means of the numbers beside them; nothing if all are."""
    slips = beside.paper.slips(beside.table)
    said = "; ".join(
        f"{slip.row} {metric_name(slip.metric)} is printed as {printed(slip.printed)}, but its silos' mean is "
        f"{printed(slip.mean)}"
        for slip in slips
    )
    return f"* An arithmetic slip of the paper: {said}. Published gains are made of the means." if slips else ""


# -- points ------------------------------------------------------------------------------------------------------


def points_grid(caption: str, results: Results, arms: Sequence[str], *, metric: str, folded: bool = False) -> Grid:
    """The mean of silos at every point, and how far the personal one varies with the seed."""
    columns = [Cell(metric_name(metric)), *(Cell(point.capitalize()) for point in POINTS), Cell("Personal, by seed")]
    return Grid(caption, columns, [_points_row(results, arm, metric) for arm in arms], folded)


def _points_row(results: Results, arm: str, metric: str) -> Row:
    cells = [estimate_cell(overall(results.cells(arm, metric, point))) for point in POINTS]
    return Row(Cell(arm), [*cells, Cell(spread(by_seed(results.cells(arm, metric)), signs=False))])


def spread(values: Mapping[int, float], *, signs: bool = True) -> str:
    """`lowest to highest`; of one seed there is no spread."""
    if len(values) < 2:
        return DASH
    told = signed if signs else number
    return f"{told(min(values.values()))} to {told(max(values.values()))}"


# -- comparisons -------------------------------------------------------------------------------------------------


def versus_grid(
    caption: str, found: Mapping[str, Versus], *, paper: Mapping[str, float | None], folded: bool = False
) -> Grid:
    """Differences with all that is known of their certainty; `paper` has the published ones, if any."""
    p_values = [Cell("p", [how]) for how in ("bootstrap", "t-test", "Holm")]
    columns = [
        Cell(""),
        Cell("Difference", ["95 % interval"]),
        *p_values,
        Cell("By seed", ["lowest to highest"]),
    ]
    rows = [_versus_row(name, versus) for name, versus in found.items()]
    if any(value is not None for value in paper.values()):
        columns.append(Cell("Published", ["difference"]))
        rows = [replace(row, cells=[*row.cells, _published(paper.get(row.name.text))]) for row in rows]
    return Grid(caption, columns, rows, folded)


def _versus_row(name: str, versus: Versus) -> Row:
    p_values = (versus.bootstrap.p, versus.t_test.p, versus.holm)
    cells = [difference_cell(versus), *(Cell(p_value(p)) for p in p_values), Cell(spread(versus.by_seed))]
    return Row(Cell(name), cells)


def _published(difference: float | None) -> Cell:
    return Cell(DASH if difference is None else signed(difference))


def difference_cell(versus: Versus) -> Cell:
    return Cell(signed(versus.bootstrap.difference) + mark(versus), [interval(versus.bootstrap)])


def mark(versus: Versus) -> str:
    """How sure a difference is."""
    if versus.holm < SIGNIFICANT:
        return " ‡"
    return " †" if versus.bootstrap.p < SIGNIFICANT else ""


def silos_grid(caption: str, found: Mapping[str, Versus], silos: Sequence[str]) -> Grid:
    """Differences silo by silo, and in how many silos they are negative."""
    rows = [
        Row(
            Cell(name),
            [
                *(Cell(signed(versus.by_silo[silo]) if silo in versus.by_silo else DASH) for silo in silos),
                Cell(f"{len(below(versus))} of {len(versus.by_silo)}"),
            ],
        )
        for name, versus in found.items()
    ]
    return Grid(caption, [Cell(""), *map(Cell, silos), Cell("Silos below")], rows)


def below(versus: Versus) -> list[str]:
    """The silos in which the first arm has the lower mean."""
    return [silo for silo, difference in versus.by_silo.items() if difference < -ROUNDING]


def against_grid(caption: str, results: Results, reference: str, found: Mapping[str, Mapping[str, Versus]]) -> Grid:
    """Arms beside a reference arm: scores, differences to it by metric, and bytes with their share of its own."""
    metrics = list(found)
    heads = [Cell(metric_name(m)) for m in metrics] + [Cell("Difference", [metric_name(m)]) for m in metrics]
    columns = [Cell(""), *heads, Cell("Bytes a round"), Cell("Share", [f"of {reference}'s"])]
    arms = [reference, *(arm for arm in found[metrics[0]] if arm != reference)]
    return Grid(caption, columns, [_against_row(results, arm, reference, found) for arm in arms])


def _against_row(results: Results, arm: str, reference: str, found: Mapping[str, Mapping[str, Versus]]) -> Row:
    scores = [estimate_cell(overall(results.cells(arm, metric))) for metric in found]
    differences = [difference_cell(of[arm]) if arm in of else Cell(DASH) for of in found.values()]
    share = bytes_share(results, arm, reference)
    told = [_bytes_cell(results, arm), Cell(DASH if share is None else percent(share))]
    return Row(Cell(arm), [*scores, *differences, *told], strong=arm == reference)


# -- costs -------------------------------------------------------------------------------------------------------


def costs_grid(caption: str, results: Results, arms: Sequence[str]) -> Grid:
    columns = [Cell(""), Cell("Rounds"), Cell("Bytes a round"), Cell("Bytes in all"), Cell("CPU time")]
    return Grid(caption, columns, [_costs_row(results, arm) for arm in arms])


def _costs_row(results: Results, arm: str) -> Row:
    outcomes = list(results.by_arm[arm].values())
    rounds = sorted({outcome.rounds for outcome in outcomes})
    told = str(rounds[0]) if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
    total = size(sum(outcome.bytes_up for outcome in outcomes) / len(outcomes))
    return Row(Cell(arm), [Cell(told), _bytes_cell(results, arm), Cell(total), Cell(duration(results.seconds(arm)))])


def _bytes_cell(results: Results, arm: str) -> Cell:
    a_round = results.bytes_a_round(arm)
    return Cell(DASH if a_round is None else size(a_round))


def bytes_share(results: Results, arm: str, reference: str) -> float | None:
    """An arm's bytes a round in those of another."""
    ours, theirs = results.bytes_a_round(arm), results.bytes_a_round(reference)
    return ours / theirs if ours is not None and theirs else None
