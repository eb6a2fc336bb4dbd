# SPDX-License-Identifier: Apache-2.0
"""The report of the FedQAS study, made of its outcomes and of the numbers that the paper printed.

FOLDER/report.html   complete in itself: no script, nothing loaded from elsewhere
FOLDER/report.md     the same text, with the charts beside it as SVG files
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean

from rich.table import Table

from benchmarks.fedqas_corrections import Followed
from benchmarks.fedqas_report.arms import (
    ALONE,
    CENTRAL,
    COMPARED,
    EXACT,
    FED,
    MAIN,
    MEANINGS,
    POINT,
    Findings,
    f1_of_answerable,
    findings_of,
    refusals_of,
)
from benchmarks.fedqas_report.corrections import corrections_lead, corrections_sections, corrections_tiles
from benchmarks.fedqas_report.coverage import Coverage, coverage_sections
from benchmarks.fedqas_report.text import NAME, lead, tiles
from benchmarks.study.charts import gain_chart
from benchmarks.study.page import Block, Cell, FactList, Grid, Note, Page, Row, Section, notes_of, terminals, write_page
from benchmarks.study.published import Published, published
from benchmarks.study.runner import Outcome
from benchmarks.study.statistics import Results
from benchmarks.study.tables import (
    MARKS,
    METHOD_OF_TESTS,
    Beside,
    Scored,
    costs_grid,
    points_grid,
    scores_grid,
    silos_grid,
    versus_grid,
)
from benchmarks.study.wording import unequal_seeds
from fedqa.evaluation.words import DASH, duration, metric_name, number

Outcomes = Mapping[str, Sequence[Outcome]]  # by set of silos
LANGUAGES = "languages"  # the set whose silos are named after them
PUBLISHED = (
    "In small print: the 95 % interval and, in two digits, the published number. The paper trained BERT on SQuAD, cut "
    "at random into five, and left out what was too long, so levels are not comparable."
)
A_ROUND = (
    "A round's CPU time is that of a whole training, in one process, divided by its rounds: with what is done once, "
    "such as loading the model, what its frozen layers make of each text, and scoring. A training that follows another "
    "one of the same seed in the same process finds the texts done already."
)
NO_ANSWER = (
    "Of all test questions of all silos and seeds. Precision: of the questions that were given no answer, the share "
    "that have none. Recall: of those that have none, the share that were given none."
)


@dataclass(frozen=True)
class Beyond:
    """What the report tells besides the sets of silos: corrections, and what the tokenizer knows, by language."""

    corrections: Sequence[Followed] = ()
    languages: Mapping[str, Coverage] = field(default_factory=dict)


NOTHING = Beyond()


def write_report(outcomes: Outcomes, facts: Mapping[str, str], folder: Path, beyond: Beyond = NOTHING) -> Path:
    """Write the report; returns the HTML page. Facts are shown under "How it was made"."""
    return write_page(page_of(outcomes, facts, beyond), folder)


def tables(outcomes: Outcomes, beyond: Beyond = NOTHING) -> list[Table]:
    """The main tables for the terminal."""
    per_set = [section for one in _findings(outcomes) for section in (_methods(one), _alone(one), _costs(one))]
    return terminals([*per_set, *_beyond(outcomes, beyond)])


def page_of(outcomes: Outcomes, facts: Mapping[str, str], beyond: Beyond = NOTHING) -> Page:
    found = _findings(outcomes)
    per_set = [section for one in found for section in (_alone(one), _methods(one), _points(one), _costs(one))]
    given = [(name[:1].upper() + name[1:], value) for name, value in facts.items()]
    source = ("Published numbers", published("fedqas").source)
    made = Section("made", "How it was made", [FactList("How it was made", [*given, source])])
    return Page(
        eyebrow="Study",
        title="FedQAS: silos learn to read together",
        lead=[*lead(found), *corrections_lead(beyond.corrections)],
        tiles=[*tiles(found), *corrections_tiles(beyond.corrections)],
        sections=[*per_set, *_beyond(outcomes, beyond), made],
        footer="Made by fedqa from the outcomes of the study's trainings alone.",
    )


def _beyond(outcomes: Outcomes, beyond: Beyond) -> list[Section]:
    known = coverage_sections(beyond.languages, _languages(outcomes))
    return [*known, *corrections_sections(beyond.corrections)]


def _languages(outcomes: Outcomes) -> list[str]:
    """The silos of the set of languages, if it was run."""
    return Results.of(outcomes[LANGUAGES]).silos if outcomes.get(LANGUAGES) else []


def _findings(outcomes: Outcomes) -> list[Findings]:
    return [findings_of(name, Results.of(some)) for name, some in outcomes.items() if some]


def _alone(found: Findings) -> Section:
    drawn = gain_chart(found.alone[MAIN], over=ALONE, metric=NAME, strong=[FED])
    grids = [
        versus_grid(
            f"{found.name}, {metric_name(metric)}: each method against {ALONE}",
            of,
            paper={},
            folded=metric != MAIN,
        )
        for metric, of in found.alone.items()
        if of
    ]
    pooled = versus_grid(f"{found.name}, {NAME}: each method against {CENTRAL}", found.central, paper={}, folded=True)
    shown = {FED: found.alone[MAIN][FED]} if FED in found.alone[MAIN] else {}
    by_silo = [silos_grid(f"{found.name}: {NAME} minus that of {ALONE}", shown, found.results.silos)] if shown else []
    charts = [replace(drawn, name=f"gains-{found.name}")] if drawn else []
    blocks: list[Block] = [
        *charts,
        *by_silo,
        *grids,
        *([pooled] if found.central else []),
        Note(METHOD_OF_TESTS),
        Note(MARKS),
    ]
    return Section(f"alone-{found.name}", f"{found.name}: is it better than alone?", blocks, short=found.name)


def _methods(found: Findings) -> Section:
    paper = published("fedqas")
    lines = [
        Scored(
            arm,
            {metric: found.results.cells(arm, metric, POINT) for metric in COMPARED},
            arm,
            MEANINGS[arm],
            strong=arm == FED,
        )
        for arm in found.methods()
    ]
    scores = scores_grid(f"{found.name}: test scores", lines, silos=[], beside=Beside(paper, "methods"))
    notes = [PUBLISHED, _unusable(paper), unequal_seeds(found.results, found.methods()), NO_ANSWER]
    return Section(f"methods-{found.name}", f"{found.name}: methods", [scores, _refusals(found), *notes_of(notes)])


def _refusals(found: Findings) -> Grid:
    columns = [Cell(""), Cell("Precision", ["no answer"]), Cell("Recall", ["no answer"]), Cell(NAME, ["answerable"])]
    rows = []
    for arm in found.methods():
        said = refusals_of(found.results, arm)
        values = (said.precision, said.recall, f1_of_answerable(found.results, arm))
        rows.append(Row(Cell(arm), [Cell(DASH if value is None else number(value)) for value in values]))
    return Grid(f"{found.name}: no answer", columns, rows)


def _unusable(paper: Published) -> str:
    said = "; ".join(f"{metric_name(metric)}: {why}" for metric, why in paper.unusable.items())
    return f"In brackets, numbers of the paper that are not to be used: {said}." if said else ""


def _points(found: Findings) -> Section:
    grids = [
        points_grid(
            f"{found.name}: {metric_name(metric)} at every point",
            found.results,
            found.methods(),
            metric=metric,
            folded=metric != MAIN,
        )
        for metric in (MAIN, EXACT)
    ]
    return Section(f"points-{found.name}", f"{found.name}: received, personal, best", grids)


def _costs(found: Findings) -> Section:
    grid = costs_grid(f"{found.name}: a training, mean over seeds", found.results, found.methods())
    return Section(f"costs-{found.name}", f"{found.name}: what it cost", [grid, _round_times(found), Note(A_ROUND)])


def _round_times(found: Findings) -> Grid:
    rows = []
    for arm in found.methods():
        each = [outcome.seconds / outcome.rounds for outcome in found.results.by_arm[arm].values() if outcome.rounds]
        if each:
            told = (fmean(each), min(each), max(each))
            rows.append(Row(Cell(arm), [Cell(duration(seconds)) for seconds in told]))
    columns = [Cell(""), Cell("CPU time a round", ["mean over seeds"]), Cell("Lowest"), Cell("Highest")]
    return Grid(f"{found.name}: a round", columns, rows)
