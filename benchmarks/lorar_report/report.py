# SPDX-License-Identifier: Apache-2.0
"""The report of the Lorar study, made of its outcomes.

FOLDER/report.html   complete in itself: no script, nothing loaded from elsewhere
FOLDER/report.md     the same text, with the charts beside it as SVG files
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.table import Table

from benchmarks.lorar_report.arms import (
    ALL_ARMS,
    ALONE,
    BEST,
    BEYOND,
    CENTRAL,
    MAIN,
    MEANINGS,
    METHODS,
    PAPER,
    PASSES,
    POINT,
    WEIGHTINGS,
    Findings,
    findings_of,
    micro,
)
from benchmarks.lorar_report.curves import curve_sections
from benchmarks.lorar_report.text import lead, tiles
from benchmarks.study.charts import gain_chart
from benchmarks.study.page import FactList, Note, Page, Section, notes_of, terminals, write_page
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
from fedqa.evaluation.words import count, listed, metric_name, number

NAME = metric_name(MAIN)
SCORES_EXPLAINED = (
    f"{NAME}: the SQL is the gold one as a text, values included. Overall is the mean of silos (the paper's MacroAvg), "
    "with its 95 % interval. Scores are of the one model that serves everybody; of those that are alone, or have an "
    "own end, of each silo's own."
)
CLAIMS_EXPLAINED = (
    "Statements of the paper, each as the difference of the arm it names first and the one it names second. The "
    "paper's numbers were not at hand, so only directions are compared."
)
PASSES_EXPLAINED = (
    "Silos take steps by passes over their data, as in the paper: a large one works more in a round than a small one. "
    "In all other tables they take about as many, whatever their size."
)
POINTS_EXPLAINED = (
    "Received: the shared weights as a silo has them when all is over; this is what all other tables show. Personal: "
    "after its own training in the last round. Best: whichever was best on the silo's own dev questions."
)


def write_report(outcomes: Sequence[Outcome], facts: Mapping[str, str], folder: Path) -> Path:
    """Write the report; returns the HTML page. Facts are shown under "How it was made"."""
    return write_page(page_of(outcomes, facts), folder)


def tables(outcomes: Sequence[Outcome]) -> list[Table]:
    """The main tables for the terminal."""
    found = findings_of(Results.of(outcomes))
    return terminals([*_claims(found), *_methods(found), *_weightings(found), *_passes(found), *_beyond(found)])


def page_of(outcomes: Sequence[Outcome], facts: Mapping[str, str]) -> Page:
    found = findings_of(Results.of(outcomes))
    return Page(
        eyebrow="Study",
        title="Lorar: databases asked together",
        lead=lead(found),
        tiles=tiles(found),
        sections=[
            *_gains(found),
            *_claims(found),
            *_methods(found),
            *_weightings(found),
            *_passes(found),
            *curve_sections(found),
            *_beyond(found),
            _points(found),
            _costs(found.results),
            _made(found.results, facts),
        ],
        footer="Made by fedqa from the outcomes of the study's trainings alone.",
    )


def _gains(found: Findings) -> list[Section]:
    drawn = gain_chart(found.alone, over=ALONE, metric=NAME, strong=[BEST])
    if drawn is None:
        return []
    by_silo = silos_grid(f"{NAME} minus that of {ALONE}, silo by silo", found.alone, found.results.silos)
    grid = versus_grid(f"{NAME}: each arm against {ALONE}", found.alone, paper={}, folded=True)
    return [Section("gains", "Is it better than alone?", [drawn, by_silo, grid, Note(METHOD_OF_TESTS), Note(MARKS)])]


def _claims(found: Findings) -> list[Section]:
    if not found.claims:
        return []
    grids = [versus_grid(f"{NAME}: what the paper says", found.claims, paper={})]
    lorar = {name: versus for name, versus in found.claims.items() if name.startswith("Lorar")}
    if lorar:
        grids.append(silos_grid(f"{NAME}: what Lorar changes, silo by silo", lorar, found.results.silos))
    if found.small:
        grids.append(versus_grid(f"{NAME}: Lorar in the small silos", found.small, paper={}, folded=True))
    notes = [Note(CLAIMS_EXPLAINED), Note(MARKS)]
    return [Section("claims", "Does it hold what the paper says?", [*grids, *notes], short="Claims")]


def _methods(found: Findings) -> list[Section]:
    return _scores(found, METHODS, Section("methods", "Table 2: methods", []))


def _weightings(found: Findings) -> list[Section]:
    return _scores(found, WEIGHTINGS, Section("weightings", "Table 3: weightings of FedOPT", [], short="Weightings"))


def _passes(found: Findings) -> list[Section]:
    title = "Table 3 again, with steps by passes"
    grid = versus_grid(f"{NAME}: what the paper says of weights, with steps by passes", found.passes, paper={})
    scores = _scores(found, PASSES, Section("passes", title, [], short="Passes"))
    return [replace(one, blocks=[*one.blocks, grid, Note(PASSES_EXPLAINED)]) for one in scores if found.passes]


def _beyond(found: Findings) -> list[Section]:
    grid = versus_grid(f"{NAME}: what was added", found.ours, paper={})
    scores = _scores(found, BEYOND, Section("beyond", "Beyond the paper", [], short="Beyond"))
    return [replace(one, blocks=[*one.blocks, grid]) for one in scores if found.ours]


def _scores(found: Findings, arms: Sequence[str], section: Section) -> list[Section]:
    shown = found.among(arms)
    if not shown:
        return []
    lines = [
        Scored(
            arm,
            {MAIN: found.results.cells(arm, MAIN, POINT)},
            note=f"{MEANINGS.get(arm, '')}; micro {number(micro(found.results, arm))}",
            strong=arm == BEST,
        )
        for arm in shown
    ]
    grid = scores_grid(section.title, lines, silos=found.results.silos, beside=Beside(PAPER, MAIN))
    notes = notes_of([SCORES_EXPLAINED, unequal_seeds(found.results, shown)])
    return [Section(section.id, section.title, [grid, *notes], section.short)]


def _points(found: Findings) -> Section:
    arms = found.among(ALL_ARMS)
    grid = points_grid(f"Mean of silos in {NAME} at every point", found.results, arms, metric=MAIN)
    return Section("points", "Received, personal, best", [grid, Note(POINTS_EXPLAINED)])


def _costs(results: Results) -> Section:
    grid = costs_grid("A training, mean over seeds", results, list(results.by_arm))
    text = (
        f"Bytes are those that left the silos, all silos together; those of {CENTRAL} are schemas, questions and SQL "
        "in clear. CPU time is of all silos and of scoring."
    )
    return Section("costs", "What it cost", [grid, Note(text)])


def _made(results: Results, facts: Mapping[str, str]) -> Section:
    trainings = count(sum(len(of) for of in results.by_arm.values()))
    given = [(name[:1].upper() + name[1:], value) for name, value in facts.items()]
    counted = [("Trainings", trainings), ("Seeds", listed([str(seed) for seed in results.seeds]))]
    shown = [*given, *(row for row in counted if row[0].lower() not in facts), ("Published numbers", PAPER.source)]
    return Section("made", "How it was made", [FactList("How it was made", shown)])
