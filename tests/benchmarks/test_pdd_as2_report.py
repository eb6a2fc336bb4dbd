# SPDX-License-Identifier: Apache-2.0
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from rich.console import Console

from benchmarks import pdd_as2
from benchmarks.pdd_as2_report.arms import METRICS, gains_by_size, sizes_facts, sizes_of, unplaced
from benchmarks.pdd_as2_report.report import page_of, tables, write_report
from benchmarks.study.charts import Curve, line_chart
from benchmarks.study.page import Grid, Note, Page
from benchmarks.study.public_data import FOLDER
from benchmarks.study.published import Published, printed, published
from benchmarks.study.runner import Outcome
from benchmarks.study.statistics import Results
from fedqa.data.splits import by_question
from fedqa.errors import ConfigError, RunError
from fedqa.evaluation.charts import GREY
from fedqa.evaluation.run_scores import Estimate
from fedqa.evaluation.words import MINUS
from fedqa.seeds import generator

PAPER = published("pdd_as2")
SILOS = ("topic-0", "topic-1", "topic-2", "topic-3")
SIZES = {0: (200, 100, 60, 40), 1: (40, 60, 100, 200)}  # by seed, of the silos in turn
FACTS = {
    "command": "fedqa bench pdd_as2",
    **sizes_facts({seed: dict(zip(SILOS, sizes, strict=True)) for seed, sizes in SIZES.items()}),
}
SKILL = {  # how far an arm is above STAR, made up
    **{"BM25": -0.15, "zero-shot": -0.1, "hybrid": -0.05, "dense, random": -0.04, "dense, BM25": -0.03},
    **{"dense, STAR": 0.0, "PDD-AS2": 0.06, "customised": 0.09, "Fed-Negative": 0.12, "central": 0.2},
    **{f"share={n} PDD-AS2": 0.06 - 3 / n for n in (25, 50, 75)},
    **{f"share={n} STAR": -5 / n for n in (25, 50, 75)},
    **{"dense, BM25, 2 negatives": -0.06, "dense, STAR, 2 negatives": -0.03, "PDD-AS2, 2 negatives": 0.03},
    **{"customised, 10 negatives": 0.07, "Fed-Negative, 10 negatives": 0.1},
    **{f"pool={n}": 0.06 - 1 / n for n in (10, 50, 100, 300)},
    **{"Fed-Negative, noise 0": 0.13, "Fed-Negative, noise 0.1": 0.05},
}
UNTRAINED = ("BM25", "zero-shot", "hybrid")
WEIGHTS, VECTORS = 50_000_000, 2_000_000  # bytes a round


def outcome(arm: str, seed: int) -> Outcome:
    """Questions have a difficulty of their own, the same for all arms; each arm adds its skill and some noise."""
    test = {
        point: {silo: scores(arm, seed, silo, gain=SKILL[arm] + more) for silo in SILOS}
        for point, more in (("received", 0.0), ("personal", 0.03), ("best", 0.04))
    }
    own = 2 if arm.startswith(("customised", "Fed-Negative")) else 0  # rounds after the shared ones
    rounds = 0 if arm in UNTRAINED else 6 + own
    alone = arm in UNTRAINED or arm.startswith("dense") or "STAR" in arm
    sent = (0 if alone else 6 * WEIGHTS) + (own * VECTORS if arm.startswith("Fed") else 0)
    return Outcome(arm, seed, "key", 83.4 + seed, rounds, sent, test, test)


def scores(arm: str, seed: int, silo: str, *, gain: float) -> dict[str, list[float]]:
    hard, own = generator(seed, silo), generator(seed, silo, arm)
    value = np.clip(0.4 + gain + hard.normal(0, 0.2, 12) + own.normal(0, 0.03, 12), 0, 1)
    return {m: np.clip(value + 0.02 * i, 0, 1).round(4).tolist() for i, m in enumerate(METRICS)}


@cache
def outcomes(*arms: str, seeds: int = 2) -> tuple[Outcome, ...]:
    return tuple(outcome(arm, seed) for arm in arms or SKILL for seed in range(seeds))


def shifted(arm: str, by: float | Mapping[int, float], seeds: int = 2) -> list[Outcome]:
    """An arm that differs from STAR by the same amount on every question; or by an amount for each size of silo."""
    size_of = sizes_of(FACTS)

    def moved(seed: int, values: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, dict[str, list[float]]]:
        amounts = {silo: by[size_of[seed, silo]] if isinstance(by, Mapping) else by for silo in values}
        return {silo: {m: [v + amounts[silo] for v in row] for m, row in of.items()} for silo, of in values.items()}

    return [
        replace(one, arm=arm, test={point: moved(one.seed, of) for point, of in one.test.items()})
        for one in outcomes("dense, STAR", seeds=seeds)
    ]


# -- what is on a page -------------------------------------------------------------------------------------------


@cache
def whole() -> Page:
    return page_of(outcomes(), FACTS)


def grid_of(page: Page, start: str) -> Grid:
    every = (block for section in page.sections for block in section.blocks)
    return next(block for block in every if isinstance(block, Grid) and block.caption.startswith(start))


def notes(page: Page) -> str:
    return " ".join(block.text for section in page.sections for block in section.blocks if isinstance(block, Note))


def cells_of(grid: Grid, name: str) -> list[str]:
    return next([cell.text for cell in row.cells] for row in grid.rows if row.name.text == name)


def lead_of(given: Sequence[Outcome], facts: Mapping[str, str] = FACTS) -> str:
    return " ".join(page_of(given, facts).lead)


# -- the page ----------------------------------------------------------------------------------------------------


def test_the_page_is_complete_in_itself_and_the_markdown_has_its_charts(tmp_path: Path) -> None:
    html = write_report(outcomes(), FACTS, tmp_path).read_text(encoding="utf-8")
    assert not re.search(r"<script|<link|<img|<iframe|https?:|url\((?!#)|@import", html)
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    charts = re.findall(r"\]\(([a-z-]+\.svg)\)", markdown)
    assert charts == ["gains.svg", "figure-shares.svg", "figure-sizes.svg"]
    assert all((tmp_path / name).read_text(encoding="utf-8").startswith("<svg") for name in charts)


def test_the_page_has_every_part_of_the_study() -> None:
    assert [section.id for section in whole().sections] == [
        *("comparisons", "order", "methods", "central", "negatives", "pools", "noise", "shares", "sizes"),
        *("bytes", "points", "costs", "made"),
    ]


def test_every_arm_of_the_study_has_a_place_and_a_file_of_its_own() -> None:
    names = [arm.name for arm in pdd_as2.ARMS]
    assert set(names) <= set(SKILL)
    assert unplaced(Results.of(outcomes())) == []
    assert len({re.sub("[^A-Za-z0-9]", "_", name) for name in names}) == len(names)


def test_an_arm_that_belongs_nowhere_is_shown_all_the_same() -> None:
    page = page_of([*outcomes("dense, STAR"), *shifted("something else", 0.1)], {})
    assert [row.name.text for row in grid_of(page, "Other arms").rows] == ["something else"]


@pytest.mark.parametrize("arm", ["Fed-Negative", "BM25", "pool=10", "share=25 STAR"])
def test_a_study_of_one_arm_and_one_seed_has_a_page(arm: str, tmp_path: Path) -> None:
    text = write_report(outcomes(arm, seeds=1), {}, tmp_path).read_text(encoding="utf-8")
    assert ("Fed-Negative is not among the 1 arm" in text) == (arm != "Fed-Negative")


def test_the_terminal_shows_the_main_tables() -> None:
    shown = StringIO()
    for table in tables(outcomes(), FACTS):
        Console(width=200, file=shown).print(table)
    for title in ("Tables 3.1", "Tables 3.2", "Table 3.3", "MRR@10: each method of the paper's order", "Share of the"):
        assert title in shown.getvalue()


# -- tables ------------------------------------------------------------------------------------------------------


def test_a_row_has_the_scores_when_all_is_over_with_the_published_ones_below() -> None:
    grid = grid_of(whole(), "Tables 3.1")
    row = next(row for row in grid.rows if row.name.text == "PDD-AS2")
    every = [fmean(of["mrr10"]) for one in outcomes("PDD-AS2") for of in one.test["received"].values()]
    assert grid.columns[1].text == "MRR@10" and row.cells[0].text == f"{fmean(every):.3f}"
    assert row.cells[0].notes[-1] == ".261"


def test_the_passage_recall_that_contradicts_itself_is_in_brackets_and_no_gain_is_made_of_it() -> None:
    rows = PAPER.tables["methods"]
    assert sum(row["p_r20"][0] < row["r20"][0] for row in rows.values()) == 7  # all but BM25, .345 over .343
    assert len(rows) == 8
    grid = grid_of(whole(), "Tables 3.1 and 4.1: methods; right passages")
    assert grid.columns[3].text == "passage R@20"
    cell = next(row for row in grid.rows if row.name.text == "PDD-AS2").cells[2]
    assert cell.notes[-1] == "(.479)"
    assert "passage R@20: it is below the R@20 of sentences in seven of the eight rows" in notes(whole())
    assert PAPER.gain("methods", ("PDD-AS2", "dense, STAR"), "p_r20") is None


def test_the_order_is_checked_step_by_step_with_the_published_steps_beside() -> None:
    grid = grid_of(whole(), "MRR@10: each method of the paper's order")
    # .232 - .172, .261 - .232, .289 - .261, .309 - .289
    assert {row.name.text: row.cells[-1].text for row in grid.rows} == {
        "dense, STAR over BM25": "+0.060",
        "PDD-AS2 over dense, STAR": "+0.029",
        "customised over PDD-AS2": "+0.028",
        "Fed-Negative over customised": "+0.020",
    }


def test_the_share_of_central_is_a_ratio_of_means() -> None:
    page = page_of([*shifted("Fed-Negative", 0.1), *shifted("central", 0.3), *outcomes("dense, STAR")], {})
    star = fmean(fmean(of["mrr10"]) for one in outcomes("dense, STAR") for of in one.test["received"].values())
    shown = cells_of(grid_of(page, "Share of the"), "Fed-Negative")
    # in the paper .309 / .338 = 0.9142
    assert shown[-2:] == [f"{100 * (star + 0.1) / (star + 0.3):.1f}\u202f%", "91.4\u202f%"]
    assert shown[1].startswith(f"{MINUS}0.200")


def test_kinds_with_one_number_of_negatives_are_not_in_that_table() -> None:
    page = page_of(outcomes("dense, STAR", "dense, STAR, 2 negatives", "PDD-AS2"), {})
    grid = grid_of(page, "Tables 3.2")
    assert [row.name.text for row in grid.rows] == ["dense, STAR, 2 negatives", "dense, STAR, 8 negatives"]
    # .232 - .201
    assert [row.cells[-1].text for row in grid_of(page, "MRR@10: more negatives").rows] == ["+0.031"]


def test_pools_have_the_two_metrics_of_the_paper_and_ours() -> None:
    grid = grid_of(whole(), "Table 3.3")
    assert [column.text for column in grid.columns] == ["", "R@1", "passage R@1", "MRR@10"]
    assert [row.cells[1].notes[-1] for row in grid.rows] == [".235", ".379", ".352", ".395"]


def test_more_noise_is_compared_with_none() -> None:
    grid = grid_of(whole(), "Noise on the vectors")
    assert [row.name.text for row in grid.rows] == ["noise 0", "noise 0.02", "noise 0.1"]
    versus = grid_of(whole(), "MRR@10: more noise")
    assert [row.name.text for row in versus.rows] == ["noise 0.02 over noise 0", "noise 0.1 over noise 0"]
    none = page_of([one for one in outcomes() if ", noise" not in one.arm], FACTS)
    assert "noise" not in [section.id for section in none.sections]


def test_vectors_are_what_the_rounds_beyond_pdd_as2_send() -> None:
    grid = grid_of(whole(), "What Fed-Negative sends")
    # 6 rounds of 50 MB, then 2 of 2 MB
    assert [[cell.text for cell in row.cells] for row in grid.rows] == [
        ["50.0\u202fMB", "100.0\u202f%"],
        ["2.0\u202fMB", "4.0\u202f%"],
    ]


# -- figures -----------------------------------------------------------------------------------------------------


def test_the_margin_over_alone_is_paired_at_every_share_of_the_training_data() -> None:
    given = [*shifted("share=25 PDD-AS2", 0.05), *shifted("share=25 STAR", -0.05)]
    page = page_of([*given, *shifted("PDD-AS2", 0.02), *outcomes("dense, STAR")], {})
    grid = grid_of(page, "PDD-AS2 and dense, STAR by percent")
    assert [(row.name.text, row.cells[-1].text.split()[0]) for row in grid.rows] == [
        ("25 %", "+0.100"),
        ("100 %", "+0.020"),
    ]


def test_gains_are_by_the_size_a_silo_has_in_each_seed() -> None:
    gain = {40: 0.2, 60: 0.1, 100: 0.0, 200: -0.1}
    given = [*outcomes("dense, STAR"), *shifted("PDD-AS2", gain)]
    found = gains_by_size(Results.of(given), sizes_of(FACTS), "PDD-AS2")
    assert {n: round(versus.bootstrap.difference, 6) for n, versus in found.items()} == gain
    lead = lead_of(given)
    assert "PDD-AS2, 40 to 60 training questions: +0.150" in lead
    assert f"PDD-AS2, 100 to 200 training questions: {MINUS}0.050" in lead


def test_without_sizes_there_is_no_figure_of_them() -> None:
    assert "sizes" not in [section.id for section in page_of(outcomes("dense, STAR", "PDD-AS2"), {}).sections]


def test_a_chart_of_differences_has_a_line_at_zero() -> None:
    panels = {"a": [Curve("one", "personal", [(0, Estimate(0.31)), (1, Estimate(0.34))])]}
    with_line, without = (
        line_chart("c", panels, caption="", x="x", y="y", ticks=["1", "2"], zero=zero).wide for zero in (True, False)
    )
    assert ">0.0<" in with_line and ">0.0<" not in without  # the axis reaches down to it
    assert GREY in with_line and GREY not in without


# -- sentences ---------------------------------------------------------------------------------------------------


def test_the_lead_confirms_an_order_that_is_there() -> None:
    arms = {"BM25": -0.1, "PDD-AS2": 0.1, "customised": 0.15, "Fed-Negative": 0.2}
    given = [*outcomes("dense, STAR"), *(one for arm, by in arms.items() for one in shifted(arm, by))]
    lead = lead_of(given)
    assert "of 4 steps compared, 4 are confirmed: dense, STAR over BM25 +0.100 (0.100 to 0.100: a gain; +0.060" in lead
    assert "none has a higher MRR@10 than Fed-Negative" in lead


def test_the_lead_says_where_the_order_is_another() -> None:
    arms = {"BM25": 0.1, "PDD-AS2": 0.0, "Fed-Negative": 0.05}
    given = [*outcomes("dense, STAR"), *(one for arm, by in arms.items() for one in shifted(arm, by))]
    lead = lead_of(given)
    assert "of 2 steps compared, 1 is reversed and 1 is not clear" in lead
    assert f"dense, STAR over BM25 {MINUS}0.100 ({MINUS}0.100 to {MINUS}0.100: a loss; +0.060 in the paper)" in lead
    assert "BM25 (0." in lead and "has a higher MRR@10 than Fed-Negative" in lead


# -- facts and wrong input ---------------------------------------------------------------------------------------


def test_sizes_are_read_as_they_were_written() -> None:
    facts = sizes_facts({1: {"a b": 40, "c": 200}})
    assert facts == {"training questions, seed 1": "c 200, a b 40"}
    assert sizes_of({**facts, "command": "x"}) == {(1, "a b"): 40, (1, "c"): 200}


@pytest.mark.parametrize(
    ("name", "value"), [("training questions, seed 1", "many"), ("training questions, seed x", "a 1")]
)
def test_wrong_sizes_are_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"fact '{name}' is '{value}'; give it as"):
        page_of(outcomes("BM25"), {name: value})


def test_no_outcome_is_no_report(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no outcome"):
        write_report([], {}, tmp_path)


# -- the study ---------------------------------------------------------------------------------------------------


def test_a_share_of_unequal_silos_is_in_percent_rounded_up() -> None:
    assert [pdd_as2.part(size, 25) for size in (200, 130, 50, 40)] == [50, 33, 13, 10]
    assert pdd_as2.part(130, None) == pdd_as2.part(130, 100) == 130


@pytest.mark.skipif(not (FOLDER / "squad_sentences").exists(), reason=f"squad_sentences is not in {FOLDER}")
def test_a_share_of_the_training_questions_leaves_all_else_as_it_is() -> None:
    every, half = pdd_as2.articles(1, None), pdd_as2.articles(1, 50)
    for name, silo in every.items():
        kept = by_question(half[name].examples)
        left_out = [same for question, same in by_question(silo.examples).items() if question not in kept]
        assert {example.split for same in left_out for example in same} == {"train"}
        assert len(left_out) * 2 == len(by_question(silo.of_split("train")))  # all sizes are even
        assert set(half[name].examples) < set(silo.examples) and half[name].documents == silo.documents


def test_every_silo_alone_trains_for_as_many_rounds_as_the_shared_stages_have() -> None:
    arms = {arm.name: arm.settings for arm in pdd_as2.ARMS}
    for name in ("dense, random", "dense, BM25"):
        assert arms[name]["rounds"] == arms["dense, STAR"]["rounds"] + pdd_as2.WARM


# -- papers that print means alone -------------------------------------------------------------------------------


def test_a_paper_without_silos_has_the_printed_numbers_as_means_and_no_slips() -> None:
    paper = Published("x", {}, {"t": {"a": {"m": (0.3,)}, "b": {"m": (0.1,)}}}, digits=3)
    assert paper.mean("t", "a", "m") == 0.3 and paper.slips("t") == []
    assert paper.gain("t", ("a", "b"), "m") == pytest.approx(0.2)
    assert replace(paper, unusable={"m": "why"}).gain("t", ("a", "b"), "m") is None
    assert printed(0.3, paper.digits) == ".300"
