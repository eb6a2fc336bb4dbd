# SPDX-License-Identifier: Apache-2.0
"""The report of the PDD-AS2 study, made of its outcomes and of the numbers that the paper printed.

    FOLDER/report.html   complete in itself: no script, nothing loaded from elsewhere
    FOLDER/report.md     the same text, with the charts beside it as SVG files

Scores are of the model a silo has when all is over (`POINT`); all points are in a table of their own.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.pdd_as2_report.arms import (
    CENTRAL,
    COMPARED,
    FED,
    MAIN,
    MEANINGS,
    NEGATIVES,
    NOISES,
    OWN,
    PASSAGES,
    PDD,
    POINT,
    POOLS,
    SENTENCES,
    STAR,
    Findings,
    findings_of,
    pairs,
    share_of_central,
    step,
    steps_in_order,
    unplaced,
)
from benchmarks.pdd_as2_report.curves import figure_sections
from benchmarks.pdd_as2_report.text import lead, published_share, tiles
from benchmarks.study.charts import gain_chart
from benchmarks.study.page import Block, Cell, FactList, Grid, Note, Page, Row, Section, notes_of, terminals, write_page
from benchmarks.study.published import Published, published
from benchmarks.study.runner import Outcome
from benchmarks.study.statistics import Results, compare, overall
from benchmarks.study.tables import (
    MARKS,
    METHOD_OF_TESTS,
    Beside,
    Scored,
    costs_grid,
    difference_cell,
    estimate_cell,
    points_grid,
    scores_grid,
    silos_grid,
    versus_grid,
)
from benchmarks.study.wording import unequal_seeds
from fedqa.evaluation.words import DASH, count, listed, metric_name, percent, size

NAME = metric_name(MAIN)
PUBLISHED = (
    "In small print: the 95 % interval of the mean of silos and, in three digits, the published number. The paper used "
    "DistilBERT on ten sections of NewsQA, so levels are not comparable; the order of methods and the size of gains "
    "are, with care. It does not say whether its means are of silos or of questions."
)
NEGATIVES_EXPLAINED = (
    "The paper's tables do not fit its others: “dense, BM25, 8 negatives” has the numbers of BM25 itself in Table "
    "3.1, and “customised, 200 negatives” is in part the customised row of Table 4.1 and in part close to the "
    "Fed-Negative row, which is why both are here."
)
POOLS_EXPLAINED = (
    "PDD-AS2 with 10 negatives a question, drawn from so many nearest sentences: the nearest of all may be answers "
    "that nobody labelled. The paper's row for 300 is that of PDD-AS2 with 8 negatives in Table 3.1."
)
NOISES_EXPLAINED = (
    "Fed-Negative with more or less noise on the vectors that silos send one another; 0.02 is the default. What can be "
    "read from such vectors is told by fedqa bench leak."
)
POINTS_EXPLAINED = (
    "Received: what a silo has when all is over, the shared weights and whatever is its own; this is what all other "
    "tables show, and what the paper's PDD-AS2 is. Personal: the silo's model after its own training in the last "
    "round. Best: whichever of them was best on the silo's own dev questions; nothing is chosen on test. Where "
    "nothing is shared in the last round, received and personal are one."
)
BYTES_EXPLAINED = (
    f"Bytes that leave all silos together. Weights: in a round of {PDD}. Vectors: in each of the rounds that {FED} has "
    "beyond it, where questions and the sentences found for them are exchanged as bytes with noise."
)


def write_report(outcomes: Sequence[Outcome], facts: Mapping[str, str], folder: Path) -> Path:
    """Write the report; returns the HTML page.

    Facts are shown under "How it was made". Those of `sizes_facts` say how many training questions each silo has, which
    Figure 3.4 needs.
    """
    return write_page(page_of(outcomes, facts), folder)


def tables(outcomes: Sequence[Outcome], facts: Mapping[str, str] | None = None) -> list[Table]:
    """The main tables for the terminal."""
    found, paper = findings_of(Results.of(outcomes), facts or {}), published("pdd_as2")
    sections = [*_methods(found, paper), *_order(found, paper), *_central(found, paper), *_negatives(found, paper)]
    sections += [*_pools(found, paper), *_noises(found, paper), *_bytes(found)]
    return terminals(sections)


def page_of(outcomes: Sequence[Outcome], facts: Mapping[str, str]) -> Page:
    found, paper = findings_of(Results.of(outcomes), facts), published("pdd_as2")
    return Page(
        eyebrow="Study",
        title="PDD-AS2: answer sentences found together",
        lead=lead(found, paper),
        tiles=tiles(found),
        sections=[
            *_gains(found, paper),
            *_order(found, paper),
            *_methods(found, paper),
            *_central(found, paper),
            *_negatives(found, paper),
            *_pools(found, paper),
            *_noises(found, paper),
            *figure_sections(found),
            *_bytes(found),
            *_others(found, paper),
            *_points(found),
            _costs(found.results),
            _made(found.results, facts),
        ],
        footer="Made by fedqa from the outcomes of the study's trainings alone.",
    )


# -- comparisons -------------------------------------------------------------------------------------------------


def _gains(found: Findings, paper: Published) -> list[Section]:
    drawn = gain_chart(found.star[MAIN], over=STAR, metric=NAME, strong=[PDD, FED])
    if drawn is None:
        return []
    grids = [
        versus_grid(
            f"{metric_name(metric)}: each method against {STAR}",
            of,
            paper={arm: paper.gain("methods", (arm, STAR), metric) for arm in of},
            folded=metric != MAIN,
        )
        for metric, of in found.star.items()
    ]
    blocks = [drawn, *_silo_by_silo(found), *grids, Note(METHOD_OF_TESTS), Note(MARKS)]
    return [Section("comparisons", "Is it better than alone?", blocks)]


def _silo_by_silo(found: Findings) -> list[Block]:
    shown = {arm: found.star[MAIN][arm] for arm in (PDD, OWN, FED) if arm in found.star[MAIN]}
    return [silos_grid(f"{NAME} minus that of {STAR}, silo by silo", shown, found.results.silos)] if shown else []


def _order(found: Findings, paper: Published) -> list[Section]:
    names = {step(lower, higher): (higher, lower) for lower, higher in steps_in_order()}
    grids = [
        versus_grid(
            f"{metric_name(metric)}: each method of the paper's order against the one below it",
            found.order[metric],
            paper={name: paper.gain("methods", rows, metric) for name, rows in names.items()},
            folded=metric != MAIN,
        )
        for metric in COMPARED
        if found.order[metric]
    ]
    return [Section("order", "Is the order the paper's?", [*grids, Note(MARKS)], short="Order")] if grids else []


def _central(found: Findings, paper: Published) -> list[Section]:
    rows = [
        Row(
            Cell(arm),
            [
                estimate_cell(overall(found.results.cells(arm, MAIN, POINT))),
                difference_cell(versus),
                _share_cell(share_of_central(found.results, arm)),
                _share_cell(published_share(paper, arm)),
            ],
        )
        for arm, versus in found.central.items()
    ]
    columns = [Cell(""), Cell(NAME), Cell("Difference", ["to central"]), Cell("Share", ["of central"])]
    grid = Grid(f"Share of the {NAME} with all data pooled", [*columns, Cell("Published", ["share"])], rows)
    return [Section("central", "How near to pooling?", [grid, Note(MARKS)])] if rows else []


def _share_cell(share: float | None) -> Cell:
    return Cell(DASH if share is None else percent(share))


# -- tables of the paper -----------------------------------------------------------------------------------------


def _methods(found: Findings, paper: Published) -> list[Section]:
    arms = found.methods()
    if not arms:
        return []
    grids = _scores(found.results, "Tables 3.1 and 4.1: methods", {arm: arm for arm in arms}, Beside(paper, "methods"))
    notes = [PUBLISHED, unusable_note(paper), unequal_seeds(found.results, arms)]
    return [Section("methods", "Methods", [*grids, *notes_of(notes)])]


def _negatives(found: Findings, paper: Published) -> list[Section]:
    """Shown if any kind was trained with two numbers of negatives."""
    labels = list(NEGATIVES)
    kinds = [
        (fewer, more)
        for fewer, more in zip(labels[::2], labels[1::2], strict=True)
        if NEGATIVES[fewer] in found.results and NEGATIVES[more] in found.results
    ]
    if not kinds:
        return []
    shown = {label: NEGATIVES[label] for kind in kinds for label in kind}
    grids = _scores(found.results, "Tables 3.2 and 4.2: number of negatives", shown, Beside(paper, "negatives"))
    named = [(NEGATIVES[more], NEGATIVES[fewer], f"{more}, over fewer") for fewer, more in kinds]
    gains = {f"{more}, over fewer": paper.gain("negatives", (more, fewer), MAIN) for fewer, more in kinds}
    versus = versus_grid(
        f"{NAME}: more negatives against fewer", compare(pairs(found.results, MAIN, named)), paper=gains
    )
    notes = [unusable_note(paper), NEGATIVES_EXPLAINED, unequal_seeds(found.results, list(shown.values())), MARKS]
    return [Section("negatives", "Number of negatives", [*grids, versus, *notes_of(notes)])]


def _pools(found: Findings, paper: Published) -> list[Section]:
    arms = [arm for n in POOLS if (arm := f"pool={n}") in found.results]
    if len(arms) < 2:
        return []
    grid = scores_grid(
        "Table 3.3: how many nearest sentences negatives are drawn from, with the published scores below",
        [_scored(found.results, arm, arm, ("r1", "p_r1", MAIN)) for arm in arms],
        silos=[],
        beside=Beside(paper, "pools"),
    )
    first, others = arms[0], arms[1:]
    compared = compare(pairs(found.results, "r1", [(arm, first, f"{arm} over {first}") for arm in others]))
    gains = {f"{arm} over {first}": paper.gain("pools", (arm, first), "r1") for arm in others}
    versus = versus_grid(f"R@1: larger pools against {first}", compared, paper=gains)
    notes = [POOLS_EXPLAINED, unequal_seeds(found.results, arms), MARKS]
    return [Section("pools", "Where negatives are drawn from", [grid, versus, *notes_of(notes)], short="Pool")]


def _noises(found: Findings, paper: Published) -> list[Section]:
    arms = {label: arm for label, arm in NOISES.items() if arm in found.results}
    if len(arms) < 2:
        return []
    lines = [_scored(found.results, arm, label, ("r1", MAIN, "r20")) for label, arm in arms.items()]
    (first, without), *others = arms.items()
    compared = compare(pairs(found.results, MAIN, [(arm, without, f"{label} over {first}") for label, arm in others]))
    versus = versus_grid(f"{NAME}: more noise against {first}", compared, paper={})
    notes = [NOISES_EXPLAINED, unequal_seeds(found.results, list(arms.values())), MARKS]
    grid = scores_grid("Noise on the vectors that are sent", lines, silos=[], beside=Beside(paper, "methods"))
    return [Section("noise", "What the guard costs", [grid, versus, *notes_of(notes)], short="Guard")]


def _scores(results: Results, caption: str, arms: Mapping[str, str], beside: Beside) -> list[Grid]:
    """A table for sentences and one for passages, since eight metrics do not fit into one; arms are by their label."""
    return [
        scores_grid(
            f"{caption}; right {kind} on test, with the published scores below",
            [_scored(results, arm, label, metrics) for label, arm in arms.items()],
            silos=[],
            beside=beside,
        )
        for kind, metrics in (("sentences", SENTENCES), ("passages", PASSAGES))
    ]


def _scored(results: Results, arm: str, label: str, metrics: Sequence[str]) -> Scored:
    cells = {metric: results.cells(arm, metric, POINT) for metric in metrics}
    return Scored(label, cells, label, MEANINGS.get(label, ""), strong=arm == FED)


def unusable_note(paper: Published) -> str:
    """Which published numbers are not to be used; nothing if all are."""
    said = "; ".join(f"{metric_name(metric)}: {why}" for metric, why in paper.unusable.items())
    return f"In brackets, numbers of the paper that are not to be used: {said}." if said else ""


# -- bytes, other arms, points, costs, facts ---------------------------------------------------------------------


def _bytes(found: Findings) -> list[Section]:
    traffic = found.traffic
    if traffic is None:
        return []
    rows = [
        Row(Cell(f"Weights, {PDD}"), [Cell(size(traffic.weights)), Cell(percent(1.0))]),
        Row(Cell(f"Vectors, {FED}"), [Cell(size(traffic.vectors)), Cell(percent(traffic.vectors / traffic.weights))]),
    ]
    columns = [Cell(""), Cell("Bytes a round"), Cell("Share", ["of the weights"])]
    grid = Grid(f"What {FED} sends, against weights", columns, rows)
    return [Section("bytes", "What is sent", [grid, Note(BYTES_EXPLAINED)])]


def _others(found: Findings, paper: Published) -> list[Section]:
    arms = unplaced(found.results)
    if not arms:
        return []
    grids = _scores(found.results, "Other arms", {arm: arm for arm in arms}, Beside(paper, "methods"))
    return [Section("others", "Other arms", grids)]


def _points(found: Findings) -> list[Section]:
    arms = found.methods()
    if not arms:
        return []
    grids = [
        points_grid(
            f"Mean of silos in {metric_name(m)} at every point", found.results, arms, metric=m, folded=m != MAIN
        )
        for m in COMPARED
    ]
    return [Section("points", "Received, personal, best", [*grids, Note(POINTS_EXPLAINED)])]


def _costs(results: Results) -> Section:
    grid = costs_grid("A training, mean over seeds", results, list(results.by_arm))
    text = (
        f"Bytes are those that left the silos, all silos together; those of {CENTRAL} are documents and examples in "
        "clear. CPU time is of all silos and of scoring."
    )
    return Section("costs", "What it cost", [grid, Note(text)])


def _made(results: Results, facts: Mapping[str, str]) -> Section:
    first = next(iter(results.by_arm.values()))
    questions = {silo: len(values[MAIN]) for outcome in first.values() for silo, values in outcome.test[POINT].items()}
    given = [(name[:1].upper() + name[1:], value) for name, value in facts.items()]
    counted = [
        ("Trainings", count(sum(len(of) for of in results.by_arm.values()))),
        ("Seeds", listed([str(seed) for seed in results.seeds])),
        ("Test questions a seed", listed([f"{silo} {count(n)}" for silo, n in questions.items()], len(questions))),
        ("Published numbers", published("pdd_as2").source),
    ]
    shown = [*given, *(row for row in counted if row[0].lower() not in facts)]
    return Section("made", "How it was made", [FactList("How it was made", shown)])
