# SPDX-License-Identifier: Apache-2.0
"""The report of the ATC study, made of its outcomes and of the numbers that the paper printed.

FOLDER/report.html   complete in itself: no script, nothing loaded from elsewhere
FOLDER/report.md     the same text, with the charts beside it as SVG files
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.atc_report.arms import (
    ALONE,
    ASSIGNED,
    ATC,
    BEYOND,
    FEDAVG,
    MEANINGS,
    METHODS,
    PARTS,
    POINT,
    SETS,
    WEIGHTLESS,
    Findings,
    Part,
    Safety,
    average_cells,
    findings_of,
    published_gain,
    safety_of,
    set_scores,
)
from benchmarks.atc_report.bytes_sent import bytes_grid
from benchmarks.atc_report.figures import (
    Secrecy,
    mean_ranks,
    mixing_chart,
    mixing_text,
    part_ranks,
    rank_chart,
    secrecy_of,
)
from benchmarks.atc_report.text import difference, lead, tiles
from benchmarks.atc_secrecy.guessing import Guesses
from benchmarks.study.charts import gain_chart
from benchmarks.study.page import Block, Cell, FactList, Grid, Note, Page, Row, Section, notes_of, terminals, write_page
from benchmarks.study.published import printed, published
from benchmarks.study.runner import Outcome
from benchmarks.study.statistics import ROUNDING, Results, Versus, by_seed, overall
from benchmarks.study.tables import (
    MARKS,
    costs_grid,
    difference_cell,
    estimate_cell,
    silos_grid,
    spread,
    versus_grid,
)
from benchmarks.study.wording import unequal_seeds
from fedqa.evaluation.run_scores import POINTS
from fedqa.evaluation.words import DASH, count, listed, metric_name, number, percent, signed
from fedqa.federation.messages import Point

AVERAGE = "average"
SHORT = {"accuracy": "ACC", "rouge_1": "R1", "rouge_2": "R2", "rouge_l": "RL", "bleu_4": "B4", "meteor": "MET"}
SCORES_EXPLAINED = (
    "Average: of every data set the mean of its metrics, then the mean of the data sets, with its 95 % interval. A "
    "data set's numbers are means of its silos. In small print, the published ones: of other data sets of the same "
    "kind, far larger ones, so levels are not comparable."
)
TESTS_EXPLAINED = (
    "A difference is of the same test examples, weighted as in the average, so that every data set counts the same. "
    "Its 95 % interval and p come from a paired bootstrap that resamples the examples within each silo and seed. The "
    "t-test is paired too, but takes the weighted examples of all silos and seeds together. Both are for these "
    "trainings on other examples; by seed: the lowest and the highest difference of a seed."
)
PARTS_EXPLAINED = (
    "What the first stage is worth, followed by FedAvg of the encoder. CLS, QA and NLG are means of two data sets."
)
SAFETY_EXPLAINED = (
    "Differences of dev-selected models to those of silos that trained alone, mean over seeds: on test, of the mean of "
    "the silo's metrics; on dev, of the metric that selects. Training alone first takes as many rounds as the second "
    "stage, so its dev scores need not reach those of the longer isolated training."
)
FIGURES_EXPLAINED = (
    "Nearness is the cosine of updates, from sketches of 4,096 numbers. Ranks are from the second round of the stage "
    "on, where the contrastive term begins."
)
SECRECY_EXPLAINED = (
    "A coordinator that knows the tasks of some silos names, for the direction of another's updates, the task whose "
    "directions are nearest. Known data sets: one of four families (classify, read, summarise, write questions), "
    "learnt from the other seeds, in which the same data sets take part with other examples. What texts are about "
    "helps there too; while tasks are assigned it is all there is to see. Unknown data set: one of three parts (CLS, "
    "QA, NLG), learnt from the other data sets alone. Chance: always the most frequent."
)
POINTS_EXPLAINED = (
    "Received: a silo's encoder as the others made it. Personal: after the silo's own training in the last round. "
    "Best: whichever was best on the silo's own dev examples; this is what all other tables show."
)


def write_report(outcomes: Sequence[Outcome], facts: Mapping[str, str], folder: Path) -> Path:
    """Write the report; returns the HTML page. Facts are shown under "How it was made"."""
    return write_page(page_of(outcomes, facts), folder)


def tables(outcomes: Sequence[Outcome]) -> list[Table]:
    """The main tables for the terminal."""
    found = findings_of(Results.of(outcomes))
    sections = [*_methods(found), *_gains(found), *_safety(found), *_assigned(found), *_secrecy(found), *_bytes(found)]
    return terminals(sections)


def page_of(outcomes: Sequence[Outcome], facts: Mapping[str, str]) -> Page:
    found = findings_of(Results.of(outcomes))
    return Page(
        eyebrow="Study",
        title="ATC: silos of different tasks share an encoder",
        lead=lead(found),
        tiles=tiles(found),
        sections=[
            *_methods(found),
            *_gains(found),
            *_safety(found),
            *_assigned(found),
            *_beyond(found),
            *_figures(found),
            *_secrecy(found),
            _points(found),
            *_bytes(found),
            _made(found.results, facts),
        ],
        footer="Made by fedqa from the outcomes of the study's trainings alone.",
    )


# -- tables 2 and 3 ----------------------------------------------------------------------------------------------


def _methods(found: Findings) -> list[Section]:
    shown = found.among(METHODS)
    if not shown:
        return []
    grids = [_scores_grid("Table 2: test scores of dev-selected models", found, shown, POINT)]
    grids.append(_scores_grid("The same, of personal models in the last round", found, shown, "personal", folded=True))
    notes = notes_of([SCORES_EXPLAINED, unequal_seeds(found.results, shown)])
    return [Section("methods", "Table 2: methods", [*grids, *notes])]


def _scores_grid(caption: str, found: Findings, arms: Sequence[str], point: Point, *, folded: bool = False) -> Grid:
    sets = [name for name in SETS if set_scores(found.results, arms[0], name, point)]
    heads = [
        Cell(name, [SETS[name].paper, " / ".join(SHORT.get(m, metric_name(m)) for m in SETS[name].metrics)])
        for name in sets
    ]
    rows = [_scores_row(found.results, arm, sets, point) for arm in arms]
    return Grid(caption, [Cell(""), Cell("Average"), *heads], rows, folded)


def _scores_row(results: Results, arm: str, sets: Sequence[str], point: Point) -> Row:
    average = estimate_cell(overall(average_cells(results, arm, point)), _printed("methods", arm, ["avg"]))
    cells = [
        Cell(
            " / ".join(number(value) for value in set_scores(results, arm, name, point).values()),
            _printed(name, arm, SETS[name].metrics),
        )
        for name in sets
    ]
    return Row(_named(arm), [average, *cells], strong=arm == ATC)


def _named(arm: str) -> Cell:
    return Cell(arm, [MEANINGS[arm]] if arm in MEANINGS else [])


def _printed(table: str, row: str, metrics: Sequence[str]) -> list[str]:
    """The published numbers of a row, in one text; nothing if it has none."""
    found = [published("atc").printed(table, row, metric) for metric in metrics]
    return [] if None in found else [" / ".join(printed(value) for value in found if value is not None)]


def _assigned(found: Findings) -> list[Section]:
    shown = {row: arm for row, arm in ASSIGNED.items() if arm in found.results}
    if len(shown) < 2:
        return []
    parts = [part for part in PARTS if average_cells(found.results, next(iter(shown.values())), part=part)]
    columns = [Cell(""), *map(Cell, parts), Cell("Average"), Cell("Difference", [f"to {FEDAVG}"])]
    rows = [_assigned_row(found, row, arm, parts) for row, arm in shown.items()]
    grid = Grid("Table 3: what is in the first stage", columns, rows)
    return [Section("assigned", "Table 3: assigned tasks", [grid, Note(PARTS_EXPLAINED), Note(MARKS)])]


def _assigned_row(found: Findings, row: str, arm: str, parts: Sequence[Part]) -> Row:
    columns: Sequence[tuple[str, Part | None]] = [*((part, part) for part in parts), ("avg", None)]
    cells = [
        estimate_cell(overall(average_cells(found.results, arm, part=part)), _printed("assign", row, [name]))
        for name, part in columns
    ]
    versus = found.averaged.get(arm)
    return Row(Cell(row, [arm]), [*cells, difference_cell(versus) if versus else Cell(DASH)])


# -- comparisons -------------------------------------------------------------------------------------------------


def _gains(found: Findings) -> list[Section]:
    drawn = gain_chart(found.alone, over=ALONE, metric=AVERAGE, strong=[ATC])
    if drawn is None:
        return []
    blocks: list[Block] = [
        drawn,
        _versus(f"Average: each arm against {ALONE}", found.alone, ALONE),
        _versus(f"Average: each arm against {FEDAVG}", found.averaged, FEDAVG),
        silos_grid(f"Mean of a silo's metrics minus that of {ALONE}", found.alone, found.results.silos),
        Note(TESTS_EXPLAINED),
        Note(MARKS),
    ]
    kept = [block for block in blocks if not isinstance(block, Grid) or block.rows]
    return [Section("gains", f"Is it better than {ALONE} and {FEDAVG}?", kept, short="Gains")]


def _versus(caption: str, found: Mapping[str, Versus], reference: str) -> Grid:
    return versus_grid(caption, found, paper={arm: published_gain(arm, reference) for arm in found})


def _safety(found: Findings) -> list[Section]:
    safety = safety_of(found.results)
    if not safety:
        return []
    silos = found.results.silos
    columns = [Cell(""), *map(Cell, silos), Cell("Silos below", ["test"]), Cell("Below", ["silos and seeds, dev"])]
    grid = Grid(f"Test scores minus those of {ALONE}", columns, [_safety_row(*one, silos) for one in safety.items()])
    return [Section("safety", "Is any silo worse off?", [grid, Note(SAFETY_EXPLAINED)], short="Worse off?")]


def _safety_row(arm: str, safety: Safety, silos: Sequence[str]) -> Row:
    test, dev = safety.by_silo(safety.test), safety.by_silo(safety.dev)
    cells = [Cell(signed(test[silo]), [f"dev {signed(dev[silo])}"]) for silo in silos]
    below = sum(value < -ROUNDING for value in test.values())
    on_dev = sum(value < -ROUNDING for value in safety.dev.values())
    return Row(Cell(arm), [*cells, Cell(f"{below} of {len(test)}"), Cell(f"{on_dev} of {len(safety.dev)}")])


def _beyond(found: Findings) -> list[Section]:
    arms = found.among((ATC, *BEYOND))
    if len(arms) < 2:
        return []
    told = {"the published probe set": found.probe, "the contrastive term switched off": found.contrast}
    texts = [f"{ATC} differs from {what} by {difference(versus)}." for what, versus in told.items() if versus]
    grid = _scores_grid("Beyond the paper", found, arms, POINT)
    return [Section("beyond", "Beyond the paper", [grid, *notes_of([" ".join(texts)])])]


# -- what the coordinator saw ------------------------------------------------------------------------------------


def _figures(found: Findings) -> list[Section]:
    charts = [chart for chart in (mixing_chart(found.results), rank_chart(found.results)) if chart]
    if not charts:
        return []
    notes = notes_of([mixing_text(found.results), FIGURES_EXPLAINED])
    blocks: list[Block] = [*charts, *_ranks(found.results), *notes]
    return [Section("figures", "Figures 4 to 6: who is near whom", blocks, short="Figures")]


def _ranks(results: Results) -> list[Grid]:
    """How near silos that write are to one another, with the contrastive term and without."""
    found = {
        "with": part_ranks(mean_ranks(results, ATC), "NLG"),
        "without": part_ranks(mean_ranks(results, WEIGHTLESS), "NLG"),
    }
    rows = [
        Row(
            Cell(f"{name} the contrastive term"),
            [Cell(f"{ranks[kind]:.1f}" if kind in ranks else DASH) for kind in (True, False)],
        )
        for name, ranks in found.items()
        if ranks
    ]
    columns = [Cell(""), Cell("Silos that write"), Cell("Others")]
    return [Grid("Mean rank by nearness to a silo that writes", columns, rows)] if rows else []


def _secrecy(found: Findings) -> list[Section]:
    secrecy = secrecy_of(found.results)
    if not secrecy:
        return []
    columns = [
        Cell("Sent"),
        Cell("Guessed", ["known data sets, of four"]),
        Cell("Chance"),
        Cell("Guessed", ["unknown data set, of three"]),
        Cell("Chance"),
    ]
    grid = Grid("How often a silo's task is guessed", columns, [_secrecy_row(*one) for one in secrecy.items()])
    return [Section("secrecy", "Task secrecy", [grid, Note(SECRECY_EXPLAINED)])]


def _secrecy_row(what: str, secrecy: Secrecy) -> Row:
    return Row(Cell(what), [cell for told in (secrecy.known, secrecy.unknown) for cell in _guess_cells(told)])


def _guess_cells(told: Guesses | None) -> list[Cell]:
    if told is None:
        return [Cell(DASH), Cell(DASH)]
    return [Cell(percent(told.accuracy), [f"{told.right} of {told.of}"]), Cell(percent(told.chance))]


# -- the rest ----------------------------------------------------------------------------------------------------


def _points(found: Findings) -> Section:
    columns = [Cell("Average"), *(Cell(point.capitalize()) for point in POINTS), Cell("Best, by seed")]
    rows = []
    for arm in found.results.by_arm:
        cells = [estimate_cell(overall(average_cells(found.results, arm, point))) for point in POINTS]
        seeds = by_seed(average_cells(found.results, arm))
        rows.append(Row(Cell(arm), [*cells, Cell(spread(seeds, signs=False))]))
    grid = Grid("Average at every point", columns, rows)
    return Section("points", "Received, personal, best", [grid, Note(POINTS_EXPLAINED)])


def _bytes(found: Findings) -> list[Section]:
    costs = costs_grid("A training, mean over seeds", found.results, list(found.results.by_arm))
    sent = bytes_grid(found.results)
    note = "Bytes are those that left the silos, all silos together. CPU time is of all silos and of scoring."
    return [Section("costs", "What it cost", [*([sent] if sent else []), costs, Note(note)])]


def _made(results: Results, facts: Mapping[str, str]) -> Section:
    trainings = count(sum(len(of) for of in results.by_arm.values()))
    given = [(name[:1].upper() + name[1:], value) for name, value in facts.items()]
    counted = [("Trainings", trainings), ("Seeds", listed([str(seed) for seed in results.seeds]))]
    shown = [*given, *counted, ("Published numbers", published("atc").source)]
    return Section("made", "How it was made", [FactList("How it was made", shown)])
