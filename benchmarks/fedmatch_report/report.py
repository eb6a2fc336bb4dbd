# SPDX-License-Identifier: Apache-2.0
"""The report of the FedMatch study, made of its outcomes and of the numbers that the paper printed.

    FOLDER/report.html   complete in itself: no script, nothing loaded from elsewhere
    FOLDER/report.md     the same text, with the charts beside it as SVG files

Scores are of the `personal` point, after the local step, as in the paper; all points are in a table of their own.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.fedmatch_report.arms import (
    ALONE,
    BLENDED,
    FEDMATCH,
    MEANINGS,
    METRICS,
    Compared,
    Findings,
    Setup,
    findings_of,
)
from benchmarks.fedmatch_report.curves import figure_sections
from benchmarks.fedmatch_report.text import lead, tiles
from benchmarks.study.charts import gain_chart
from benchmarks.study.page import Block, FactList, Grid, Note, Page, Section, notes_of, terminals, write_page
from benchmarks.study.published import Published, published
from benchmarks.study.runner import Outcome
from benchmarks.study.statistics import Results
from benchmarks.study.tables import (
    MARKS,
    METHOD_OF_TESTS,
    Beside,
    Scored,
    against_grid,
    costs_grid,
    points_grid,
    scores_grid,
    silos_grid,
    slips_note,
    versus_grid,
)
from benchmarks.study.wording import unequal_seeds
from fedqa.evaluation.words import count, listed, metric_name
from fedqa.federation.messages import Point

LABELS = {  # facts that the report itself uses
    "headline": "FedMatch is",
    "layers": "Layers it shares",
    "width": "Width of its patch",
    "train": "Training questions a silo",
}
PUBLISHED = (
    "In small print: the 95 % interval of the mean of silos and, in four digits, the published number. The paper used "
    "BERT-base and its own selection of questions, so levels are not comparable; the order of methods and the size of "
    "gains are, with care."
)
VARIANTS_EXPLAINED = (
    "I: inside each sub-layer; O: beside each sub-layer; V: after the last layer; H: beside each layer or, “as run”, "
    "beside the whole stack with a normalisation of its own, as in the code released with the paper. LR: low-rank; "
    "PAL: projected attention. In bold: FedMatch itself."
)
BEYOND_EXPLAINED = (
    "Differences are to FedMatch on the same test questions, after the local step, with 95 % intervals. Bytes are "
    "those that left all silos together in a round."
)
POINTS_EXPLAINED = (
    "Received: the shared weights after the last round. Personal: the silo's own model after its training in the last "
    "round. Best: whichever of them, in any round, was best on the silo's own dev questions; nothing is chosen on "
    "test. Methods without training or with one model for all have the same model at several points."
)


def write_report(outcomes: Sequence[Outcome], facts: Mapping[str, str], folder: Path) -> Path:
    """Write the report; returns the HTML page.

    Facts are shown under "How it was made". Of these, `headline` says which variant FedMatch is (H+LR if missing), and
    `layers`, `width` and `train` are FedMatch's own numbers of shared layers, patch width and training questions.
    """
    return write_page(page_of(outcomes, facts), folder)


def tables(outcomes: Sequence[Outcome], facts: Mapping[str, str] | None = None) -> list[Table]:
    """The main tables for the terminal."""
    found = findings_of(Results.of(outcomes), Setup.of(facts or {}))
    paper = published("fedmatch")
    sections = [*_methods(found, paper), *_variants(found, paper), *_comparisons(found, paper), *_beyond(found)]
    return terminals(sections)


def page_of(outcomes: Sequence[Outcome], facts: Mapping[str, str]) -> Page:
    found = findings_of(Results.of(outcomes), Setup.of(facts))
    paper = published("fedmatch")
    return Page(
        eyebrow="Study",
        title="FedMatch: shared backbone, private patches",
        lead=lead(found, paper),
        tiles=tiles(found),
        sections=[
            *_comparisons(found, paper),
            *_methods(found, paper),
            *_variants(found, paper),
            *figure_sections(found),
            *_beyond(found),
            *_points(found, paper),
            _costs(found.results),
            _made(found.results, facts),
        ],
        footer="Made by fedqa from the outcomes of the study's trainings alone.",
    )


# -- comparisons -------------------------------------------------------------------------------------------------


def _comparisons(found: Findings, paper: Published) -> list[Section]:
    against = [block for metric in METRICS for block in _versus(found, paper, metric)]
    if not against:
        return []
    drawn = gain_chart(found.alone["map"], over=ALONE, metric="MAP", strong=[FEDMATCH, BLENDED])
    blocks = [*([drawn] if drawn else []), *_silo_by_silo(found), *against, Note(METHOD_OF_TESTS), Note(MARKS)]
    return [Section("comparisons", "Is it better?", blocks)]


def _versus(found: Findings, paper: Published, metric: str) -> list[Block]:
    """The second metric's tables are folded."""
    name, folded = metric_name(metric), metric != METRICS[0]
    alone, rivals = found.alone[metric], found.rivals[metric]
    over = {arm: paper.gain("methods", (arm, ALONE), metric) for arm in alone}
    ours = {arm: paper.gain("methods", (FEDMATCH, arm), metric) for arm in rivals}
    grids = [
        versus_grid(f"{name}: each method against {ALONE}", alone, paper=over, folded=folded),
        versus_grid(f"{name}: {FEDMATCH} against other methods", rivals, paper=ours, folded=folded),
        versus_grid(f"{name}: {BLENDED} against other methods", found.blended[metric], paper=ours, folded=folded),
    ]
    return [grid for grid in grids if grid.rows]


def _silo_by_silo(found: Findings) -> list[Block]:
    if not found.silos:
        return []
    return [
        silos_grid(
            f"Never worse than alone? MAP minus that of {ALONE}, silo by silo", found.silos, found.results.silos
        ),
        Note(
            f"“{BLENDED}” trains alone first, then together, each as long as the other methods; a silo's own model is "
            "the mean of both, its patch kept whole."
        ),
    ]


# -- tables 2 and 3 ----------------------------------------------------------------------------------------------


def _methods(found: Findings, paper: Published) -> list[Section]:
    lines = [_scored(found.results, arm, note=MEANINGS.get(arm, "")) for arm in found.methods()]
    if not lines:
        return []
    beside = Beside(paper, "methods")
    grid = scores_grid(
        "Table 3: methods, test scores after the local step, with the published ones below",
        lines,
        silos=found.results.silos,
        beside=beside,
    )
    notes = [PUBLISHED, slips_note(beside), _headline_note(found), unequal_seeds(found.results, found.methods())]
    return [Section("methods", "Methods", [grid, *notes_of(notes)])]


def _variants(found: Findings, paper: Published) -> list[Section]:
    arms = found.setup.variants(found.results)
    if not arms:
        return []
    grid = scores_grid(
        "Table 2: places and kinds of patch, test scores after the local step, with the published ones below",
        [_scored(found.results, arm, label=variant) for variant, arm in arms.items()],
        silos=found.results.silos,
        beside=Beside(paper, "variants"),
    )
    notes = [VARIANTS_EXPLAINED, unequal_seeds(found.results, list(arms.values()))]
    return [Section("variants", "Variants of the patch", [grid, *notes_of(notes)])]


def _scored(results: Results, arm: str, *, label: str = "", point: Point = "personal", note: str = "") -> Scored:
    """A line of a table; the paper's scores are of the personal point, so only there they stand beside."""
    cells = {metric: results.cells(arm, metric, point) for metric in METRICS}
    published = label or arm if point == "personal" else ""
    return Scored(label or arm, cells, published, note, strong=arm in (FEDMATCH, BLENDED))


def _headline_note(found: Findings) -> str:
    headline = found.setup.headline
    return (
        f"FedMatch is {headline} here, H+LR in the paper." if headline != "H+LR" and FEDMATCH in found.results else ""
    )


# -- beyond the paper --------------------------------------------------------------------------------------------


def _beyond(found: Findings) -> list[Section]:
    grids = [
        _against(found, "Beyond the paper: other things shared, other weights of silos", found.beyond),
        _against(found, "Ablations: FedMatch with one thing changed", found.ablations),
        _against(found, "Other arms", found.others),
    ]
    blocks = [grid for grid in grids if grid]
    return [Section("beyond", "Beyond the paper", [*blocks, Note(BEYOND_EXPLAINED), Note(MARKS)])] if blocks else []


def _against(found: Findings, caption: str, compared: Compared) -> Grid | None:
    return against_grid(caption, found.results, FEDMATCH, compared) if compared["map"] else None


# -- all points, costs, facts ------------------------------------------------------------------------------------


def _points(found: Findings, paper: Published) -> list[Section]:
    arms = list(dict.fromkeys([*found.methods(), *found.setup.variants(found.results).values()]))
    if not arms:
        return []
    overalls = [
        points_grid(
            f"Mean of silos in {metric_name(m)} at every point", found.results, arms, metric=m, folded=m != "map"
        )
        for m in METRICS
    ]
    others: tuple[Point, ...] = ("received", "best")
    each = [
        scores_grid(
            f"Silo by silo, {point}",
            [_scored(found.results, arm, point=point) for arm in arms],
            silos=found.results.silos,
            beside=Beside(paper, "methods"),
            folded=True,
        )
        for point in others
    ]
    return [Section("points", "Received, personal, best", [*overalls, *each, Note(POINTS_EXPLAINED)])]


def _costs(results: Results) -> Section:
    grid = costs_grid("A training, mean over seeds", results, list(results.by_arm))
    text = "Bytes are those that left the silos, all silos together. CPU time is of all silos and of scoring."
    return Section("costs", "What it cost", [grid, Note(text)])


def _made(results: Results, facts: Mapping[str, str]) -> Section:
    cells = next(iter(results.by_arm.values()))
    questions = {
        silo: len(values["map"]) for outcome in cells.values() for silo, values in outcome.test["personal"].items()
    }
    given = [(LABELS.get(name, name[:1].upper() + name[1:]), value) for name, value in facts.items()]
    counted = [
        ("Trainings", count(sum(len(of) for of in results.by_arm.values()))),
        ("Seeds", listed([str(seed) for seed in results.seeds])),
        ("Test questions a seed", listed([f"{silo} {count(n)}" for silo, n in questions.items()])),
    ]
    return Section(
        "made",
        "How it was made",
        [FactList("How it was made", [*given, *(row for row in counted if row[0].lower() not in facts)])],
    )
