# SPDX-License-Identifier: Apache-2.0
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from html import unescape
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from rich.console import Console

from benchmarks.fedmatch_report.report import page_of, tables, write_report
from benchmarks.study.page import Grid, Note, Page
from benchmarks.study.runner import Outcome
from benchmarks.study.statistics import Versus
from benchmarks.study.tables import mark
from benchmarks.study.wording import verdict
from fedqa.errors import ConfigError, RunError
from fedqa.evaluation.significance import Comparison
from fedqa.evaluation.words import MINUS
from fedqa.seeds import generator

SILOS = {
    "law": (0.62, 30),
    "biomedical": (0.80, 40),
    "financial": (0.72, 50),
    "insurance": (0.70, 40),
    "medical": (0.75, 20),
}
SKILL = {  # how far an arm is above BERT alone, made up
    **{"BM25": -0.15, "zero-shot": -0.09, "ESIM": -0.12, "RE2": -0.10, "BERT alone": 0.0, "CoverQuery": -0.01},
    **{"LG-FedAvg": 0.0, "FedPer": 0.03, "FedBN": 0.04, "FedAvg": 0.035, "FedMatch": 0.06, "FedAvg CS": 0.01},
    **{"FedMatch CS": 0.05, "central": 0.07, "low-rank": 0.055, "lorar weights": 0.05, "nearest weights": 0.06},
    **{"FedMatch blended": 0.08},
    **{name: 0.05 for name in ("I+PAL", "I+LR", "O+PAL", "O+LR", "V+PAL", "V+LR", "H+PAL", "H+LR as run")},
    **{"layers=0": 0.0, "layers=2": 0.03, "layers=4": 0.05, "width=16": 0.04, "width=32": 0.05, "width=256": 0.03},
    **{"every=2": 0.05, "every=3": 0.03, "ablation: hinge loss": -0.02, "ablation: norms shared": 0.05},
    **{f"train={n} FedMatch": 0.06 - 4 / n for n in (50, 100, 200)},
    **{f"train={n} alone": -8 / n for n in (50, 100, 200)},
}
FACTS = {
    "command": "fedqa bench fedmatch",
    "headline": "H+LR",
    "model": "embedded, first 6 layers",
    "rounds": "6",
    "layers": "6",
    "width": "64",
    "train": "400",
    "versions": "fedqa 0.1, torch 2.13",
}


def outcome(arm: str, seed: int, gain: float) -> Outcome:
    """Questions have a difficulty of their own, the same for all arms; each arm adds its skill and some noise."""
    dev, test = (
        {
            point: {silo: scores(arm, seed, silo, split=split, gain=gain + more) for silo in SILOS}
            for point, more in (("received", -0.02), ("personal", 0.0), ("best", 0.01))
        }
        for split in ("dev", "test")
    )
    sent = 0 if arm in ("BM25", "zero-shot", "BERT alone") else 1_200_000 if arm == "low-rank" else 54_000_000
    rounds = 0 if arm in ("BM25", "zero-shot") else 6
    return Outcome(arm, seed, "key", 83.4 + seed, rounds, sent * rounds, dev, test)


def scores(arm: str, seed: int, silo: str, *, split: str, gain: float) -> dict[str, list[float]]:
    level, n = SILOS[silo]
    hard, own = generator(seed, silo, split), generator(seed, silo, split, arm)
    value = np.clip(level + gain + hard.normal(0, 0.25, n) + own.normal(0, 0.06, n), 0, 1).round(5)
    better = np.clip(value + 0.04, 0, 1).round(5)
    return {"map": value.tolist(), "mrr": better.tolist(), "p1": (value > 0.5).astype(float).tolist()}


@cache
def outcomes(*arms: str, seeds: int = 2) -> tuple[Outcome, ...]:
    return tuple(outcome(arm, seed, SKILL[arm]) for arm in arms or SKILL for seed in range(seeds))


class Reader(HTMLParser):
    """Elements and ids of a page, the text outside of charts, and every row of every table by its first cell."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.sections: list[str] = []
        self.ids: list[str] = []
        self.text = ""
        self.rows: list[list[str]] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append(tag)
        self.ids += [found["id"] or ""] if "id" in found else []
        self.sections += [found["id"] or ""] if tag == "section" else []
        self._open += [] if tag in ("meta", "br") else [tag]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"svg", "style"} & set(self._open):
            return
        self.text += data
        if {"td", "th"} & set(self._open):
            self.rows[-1][-1] = " ".join(f"{self.rows[-1][-1]} {data}".split())


@cache
def written(tmp: Path) -> tuple[str, str]:
    page = write_report(outcomes(), FACTS, tmp)
    return page.read_text(encoding="utf-8"), (tmp / "report.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("study")


def lead_of(*given: Outcome, **facts: str) -> str:
    return " ".join(page_of(given, facts).lead)


def shifted(source: str, arm: str, by: float, seeds: int = 2) -> list[Outcome]:
    """An arm that differs from another by the same amount on every question."""

    def moved(
        values: Mapping[str, Mapping[str, Mapping[str, list[float]]]],
    ) -> dict[str, dict[str, dict[str, list[float]]]]:
        return {
            point: {silo: {m: [v + by for v in row] for m, row in metrics.items()} for silo, metrics in of.items()}
            for point, of in values.items()
        }

    return [replace(o, arm=arm, dev=moved(o.dev), test=moved(o.test)) for o in outcomes(source, seeds=seeds)]


# -- the page ----------------------------------------------------------------------------------------------------


def test_the_page_is_complete_in_itself(folder: Path) -> None:
    html, _ = written(folder)
    page = Reader(html)
    assert not {"script", "link", "img", "iframe"} & set(page.elements)
    assert not re.search(r"https?:|url\((?!#)|@import", html)
    assert len(page.ids) == len(set(page.ids))
    assert "prefers-color-scheme: dark" in html and 'name="viewport"' in html


def test_the_page_has_every_part_of_the_study(folder: Path) -> None:
    page = Reader(written(folder)[0])
    figures = ["layers", "width", "every", "train"]
    assert page.sections == ["comparisons", "methods", "variants", *figures, "beyond", "points", "costs", "made"]
    assert {row[0] for row in page.rows} >= set(SKILL)
    for text in (
        "fedqa bench fedmatch",
        "FiQA is the most robust",
        "FedAvg MAP is printed as .8006",
        "its own Table 3",
    ):
        assert text in page.text


def test_the_markdown_says_the_same_and_its_charts_are_there(folder: Path) -> None:
    html, markdown = written(folder)
    charts = re.findall(r"\]\(([a-z-]+\.svg)\)", markdown)
    assert charts == ["gains.svg", *(f"figure-{name}.svg" for name in ("layers", "width", "every", "train"))]
    assert all((folder / name).read_text(encoding="utf-8").startswith("<svg") for name in charts)
    tables = [line.count("|") for line in markdown.splitlines() if line.startswith("|:--")]
    assert len(tables) == Reader(html).elements.count("table") - 1  # the facts are a list
    lead = re.search(r'<p class="lead">(.*?)</p>', html)
    assert lead and unescape(lead[1]) in markdown


def test_the_same_outcomes_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    assert written(folder) == written(tmp_path)


def test_names_are_text_and_nothing_else(tmp_path: Path) -> None:
    arms = [*outcomes("FedMatch"), *shifted("FedMatch", "ablation: <b>a|b</b>", 0.0)]
    html = write_report(arms, {"note": "<script>1</script>"}, tmp_path).read_text(encoding="utf-8")
    assert "<script>" not in html and "&lt;b&gt;a|b&lt;/b&gt;" in html
    assert r"\<b\>a\|b\</b\>" in (tmp_path / "report.md").read_text(encoding="utf-8")


# -- tables ------------------------------------------------------------------------------------------------------


def test_a_row_has_our_scores_with_the_published_ones_below() -> None:
    grid = grid_of(page_of(outcomes("FedMatch", "BERT alone", "FedAvg"), {}), "Table 3")
    assert [column.text for column in grid.columns] == ["", "Overall", "Overall", *SILOS]
    assert grid.columns[3].notes == ["PrivacyQA", "MAP / MRR"]
    row = next(row for row in grid.rows if row.name.text == "FedAvg")
    law = [fmean(o.test["personal"]["law"]["map"]) for o in outcomes("FedAvg")]
    assert row.cells[2].text.split(" / ")[0] == f"{fmean(law):.3f}" and row.cells[2].notes == [".6746 / .6746"]
    every = [fmean(v["map"]) for o in outcomes("FedAvg") for v in o.test["personal"].values()]
    assert row.cells[0].text == f"{fmean(every):.3f}" and row.cells[0].notes[-1] == ".8006*"


def test_the_headline_variant_is_shown_from_fedmatch() -> None:
    arms = outcomes("FedMatch", "I+LR", "H+LR as run")
    assert row_names(arms, "Table 2") == ["I+LR", "H+LR", "H+LR as run"]
    other = [*arms, *shifted("FedMatch", "H+LR", -0.01)]
    page = page_of(other, {"headline": "O+LR"})
    assert [row.name.text for row in grid_of(page, "Table 2").rows] == ["I+LR", "O+LR", "H+LR", "H+LR as run"]
    assert "FedMatch is O+LR here, H+LR in the paper." in notes(page)


def test_an_arm_that_belongs_nowhere_is_shown_all_the_same() -> None:
    arms = [*outcomes("FedMatch"), *shifted("FedMatch", "something else", 0.01), *shifted("FedMatch", "H+LR", 0.0)]
    assert row_names(arms, "Other arms") == ["FedMatch", "something else", "H+LR"]


def test_a_low_rank_arm_is_shown_with_its_share_of_bytes() -> None:
    grid = grid_of(page_of(outcomes("FedMatch", "low-rank"), {}), "Beyond the paper")
    ours = grid.rows[1]
    # 1.2 MB of 54 MB
    assert [cell.text for cell in ours.cells[-2:]] == ["1.2\u202fMB", "2.2\u202f%"]


def test_the_blended_model_is_compared_with_alone() -> None:
    arms = [*shifted("BERT alone", "FedMatch", -0.1), *shifted("BERT alone", "FedMatch blended", 0.1)]
    page = page_of([*outcomes("BERT alone"), *arms], {})
    rows = {row.name.text: [cell.text for cell in row.cells] for row in grid_of(page, "Never worse").rows}
    assert rows["FedMatch blended"] == ["+0.100"] * 5 + ["0 of 5"]
    assert rows["FedMatch"][-1] == "5 of 5"
    assert "from BERT alone by +0.100" in " ".join(page.lead)
    assert "and is below BERT alone in no silo" in " ".join(page.lead)
    assert [(tile.label, tile.value) for tile in page.tiles] == [("FedMatch blended: MAP against BERT alone", "+0.100")]


def test_arms_with_fewer_seeds_are_named() -> None:
    arms = [*outcomes("FedMatch", "FedAvg"), *outcomes("BERT alone", seeds=1)]
    assert "Not all arms have all seeds (BERT alone 1 of 2)" in " ".join(notes(page_of(arms, {})))
    assert not any("Not all arms" in note for note in notes(page_of(outcomes("FedMatch", "FedAvg"), {})))


def test_the_terminal_shows_the_main_tables() -> None:
    shown = StringIO()
    for table in tables(outcomes("FedMatch", "BERT alone", "low-rank")):
        Console(width=160, file=shown).print(table)
    text = shown.getvalue()
    for title in ("Table 3", "Table 2", "Never worse", "MAP: each method", "Beyond the paper"):
        assert title in text
    assert "MRR: each method" not in text  # folded on the page


# -- figures -----------------------------------------------------------------------------------------------------


def test_a_figure_needs_two_points_and_fedmatch_is_one_if_its_number_is_known() -> None:
    arms = outcomes("FedMatch", "layers=2", "width=32", "every=2")
    assert "layers" not in sections(arms) and "width" not in sections(arms)
    assert "every" in sections(arms)  # FedMatch mixes after every epoch
    assert "layers" in sections(arms, layers="6")
    # what is in no figure is in a table
    assert row_names(arms, "Other arms") == ["FedMatch", "layers=2", "width=32"]


def test_points_stand_in_the_order_of_their_numbers() -> None:
    page = page_of(outcomes("FedMatch", "width=256", "width=16", "width=32"), {"width": "64"})
    assert [row.name.text for row in grid_of(page, "Mean of silos by patch width").rows] == ["16", "32", "64", "256"]


def test_the_margin_over_alone_is_paired_at_every_amount_of_training_data() -> None:
    arms = [*shifted("BERT alone", "train=50 FedMatch", 0.05), *shifted("BERT alone", "train=50 alone", -0.05)]
    arms += [*shifted("BERT alone", "FedMatch", 0.02), *outcomes("BERT alone")]
    grid = grid_of(page_of(arms, {"train": "400"}), "Mean of silos by training")
    assert [row.cells[-1].text.split()[0] for row in grid.rows] == ["+0.100", "+0.020"]


# -- sentences ---------------------------------------------------------------------------------------------------


def test_the_lead_says_so_where_fedmatch_is_better() -> None:
    lead = lead_of(*outcomes("BERT alone", "zero-shot"), *shifted("BERT alone", "FedMatch", 0.1))
    assert "from BERT alone by +0.100 (0.100 to 0.100: a gain)" in lead
    # the paper: 0.8193 - 0.7937
    assert "has +0.026 against BERT alone." in lead


def test_the_lead_says_so_where_fedmatch_is_worse() -> None:
    lead = lead_of(*outcomes("BERT alone", "zero-shot"), *shifted("BERT alone", "FedMatch", -0.2))
    assert f"from BERT alone by {MINUS}0.200 ({MINUS}0.200 to {MINUS}0.200: a loss)" in lead


def test_the_lead_says_so_where_there_is_no_difference() -> None:
    lead = lead_of(*outcomes("BERT alone"), *shifted("BERT alone", "FedMatch", 0.0))
    assert "from BERT alone by 0.000 (0.000 to 0.000: no clear difference)" in lead


def test_a_difference_that_does_not_survive_the_correction_is_said_to_be_so() -> None:
    test = Comparison(10, -0.1, -0.2, -0.01, 0.03)
    versus = Versus(test, test, 0.06, {}, {})
    assert verdict(versus) == "a loss only before Holm's correction"
    assert (mark(versus), mark(replace(versus, holm=0.04))) == (" †", " ‡")


@pytest.mark.parametrize("arm", ["FedMatch", "BERT alone", "H+LR as run", "layers=2", "low-rank"])
def test_a_study_of_one_arm_and_one_seed_has_a_page(arm: str, tmp_path: Path) -> None:
    page = Reader(write_report(outcomes(arm, seeds=1), {}, tmp_path).read_text(encoding="utf-8"))
    assert {"costs", "made"} <= set(page.sections)
    assert ("FedMatch is not among" in page.text) == (arm != "FedMatch")


# -- wrong input -------------------------------------------------------------------------------------------------


def test_wrong_facts_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'headline' is 'X\+LR'; give one of I\+PAL"):
        page_of(outcomes("FedMatch"), {"headline": "X+LR"})
    with pytest.raises(ConfigError, match="'layers' is 'six'; give a whole number"):
        page_of(outcomes("FedMatch"), {"layers": "six"})


def test_no_outcome_is_no_report(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no outcome"):
        write_report([], {}, tmp_path)


# -- what is on a page -------------------------------------------------------------------------------------------


def grid_of(page: Page, start: str) -> Grid:
    every = (block for section in page.sections for block in section.blocks)
    return next(block for block in every if isinstance(block, Grid) and block.caption.startswith(start))


def notes(page: Page) -> list[str]:
    return [block.text for section in page.sections for block in section.blocks if isinstance(block, Note)]


def row_names(arms: Sequence[Outcome], caption: str) -> list[str]:
    return [row.name.text for row in grid_of(page_of(arms, {}), caption).rows]


def sections(arms: Sequence[Outcome], **facts: str) -> list[str]:
    return [section.id for section in page_of(arms, facts).sections]
