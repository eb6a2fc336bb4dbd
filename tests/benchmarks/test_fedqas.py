# SPDX-License-Identifier: Apache-2.0
"""The FedQAS study: its silos, its arms, and a report of outcomes that were written by hand."""

from collections import Counter
from pathlib import Path

import pytest

from benchmarks import fedqas
from benchmarks.fedqas_report.arms import ALONE, FED, findings_of, refusals_of
from benchmarks.fedqas_report.coverage import Coverage, best_covered, coverage_of, coverage_sections
from benchmarks.fedqas_report.report import Beyond, page_of, tables, write_report
from benchmarks.study.page import Grid
from benchmarks.study.public_data import FOLDER
from benchmarks.study.runner import Outcome
from benchmarks.study.statistics import Results
from benchmarks.study.subjqa import NOT_FOUND
from fedqa.config import Alliance, course_of
from fedqa.data.records import Collection, Document, Example
from fedqa.data.sample import SAMPLE_SILOS
from fedqa.data.splits import check_disjoint
from fedqa.evaluation.words import THIN
from fedqa.models.backbones import load_backbone
from fedqa.tables import from_table

real_data = pytest.mark.skipif(not (FOLDER / "subjqa").exists(), reason=f"subjqa is not in {FOLDER}")
xquad = pytest.mark.skipif(not (FOLDER / "xquad").exists(), reason=f"xquad is not in {FOLDER}")
# Four questions a silo, the last of which has no answer.
Values = dict[str, dict[str, tuple[float, ...]]]  # by arm and silo
F1: Values = {
    ALONE: {"bank": (0.5, 0, 0, 0), "law": (0, 0, 0, 1)},
    FED: {"bank": (1, 0.5, 0, 1), "law": (0.5, 0.5, 0, 0)},
}
REFUSED: Values = {ALONE: {"bank": (0, 0, 1, 0), "law": (0, 0, 0, 1)}, FED: {"bank": (0, 0, 0, 1), "law": (0, 0, 1, 0)}}


def outcome(arm: str) -> Outcome:
    values = {
        silo: {
            "f1": F1[arm][silo],
            "em": tuple(float(value == 1) for value in F1[arm][silo]),
            "refused": REFUSED[arm][silo],
            "no_answer": tuple(float(said == (i == 3)) for i, said in enumerate(REFUSED[arm][silo])),
        }
        for silo in ("bank", "law")
    }
    points = {point: values for point in ("received", "personal", "best")}
    return Outcome(arm, seed=1, key="k", seconds=3.0, rounds=2, bytes_up=1000, dev=points, test=points)


OUTCOMES = {"sample": [outcome(ALONE), outcome(FED)]}


def test_the_sample_alliance_is_split_once_and_for_all() -> None:
    silos = fedqas.sample(1, None)
    assert tuple(silos) == tuple(SAMPLE_SILOS)
    assert silos == fedqas.sample(2, None)
    assert all({example.split for example in silo.examples} == {"train", "dev", "test"} for silo in silos.values())
    assert set(fedqas.quick_sample(1, None)) == set(fedqas.QUICK_SILOS)


@xquad
def test_articles_are_whole_and_in_one_silo_each() -> None:
    silos = fedqas.articles(1, None)
    titles = [{document.title for document in silo.documents} for silo in silos.values()]
    assert sum(map(len, titles)) == len(set().union(*titles)) == 48
    for silo in silos.values():
        assert Counter(example.split for example in silo.examples) == fedqas.ARTICLES
        assert len({example.question for example in silo.examples}) == len(silo.examples)
    assert fedqas.articles(1, None) == silos != fedqas.articles(2, None)


@xquad
def test_a_language_to_each_silo_and_no_article_in_two_of_them() -> None:
    silos = fedqas.languages(1, None)
    assert tuple(silos) == fedqas.COVERED
    titles = [{document.title for document in silo.documents} for silo in silos.values()]
    assert sum(map(len, titles)) == len(set().union(*titles))
    for language, silo in silos.items():
        assert Counter(example.split for example in silo.examples) == fedqas.LANGUAGES
        check_disjoint(silo)
        texts = {document.id: document.text for document in fedqas.xquad(language).documents}
        assert all(texts[document.id] == document.text for document in silo.documents)
        assert all(len(document.text) <= fedqas.LONGEST_PARAGRAPH for document in silo.documents)
    assert fedqas.languages(1, None) == silos != fedqas.languages(2, None)


@xquad
def test_the_silos_have_the_languages_that_the_tokenizer_knows_best() -> None:
    assert set(best_covered(fedqas.covered(), len(fedqas.COVERED))) == set(fedqas.COVERED)


@real_data
def test_silos_of_reviews_have_as_many_questions_as_said_and_none_in_two_splits() -> None:
    silos = fedqas.reviews(1, None)
    assert set(silos) == {*fedqas.DOMAINS, fedqas.POLICIES}
    for silo in silos.values():
        asked = {(example.question, example.split) for example in silo.examples}
        assert len(asked) == len({question for question, _ in asked})
        assert Counter(split for _, split in asked) == fedqas.REVIEWS
        assert all(NOT_FOUND not in document.text for document in silo.documents)
        assert {example.about for example in silo.examples} == {document.id for document in silo.documents}
    assert fedqas.reviews(1, None) == silos != fedqas.reviews(2, None)


def test_every_arm_is_a_course_in_which_all_see_as_much() -> None:
    for arm in fedqas.arms(5):
        silo = {"name": "bank", "skill": "read", "data": {"sample": "bank"}}
        course = course_of(from_table(Alliance, {"name": "x", "silo": [silo], **arm.settings}, arm.name))
        assert course.rounds == (0 if arm.name == "zero-shot" else 5)


def test_findings_are_derived_by_hand() -> None:
    found = findings_of("sample", Results.of(OUTCOMES["sample"]))
    # bank: 2.5/4 against 0.5/4; law: 1/4 against 1/4
    assert found.alone["f1"][FED].bootstrap.difference == pytest.approx((0.5 + 0.0) / 2)
    said = refusals_of(found.results, FED)  # refused two, one of which has no answer; of two without, one refused
    assert (said.precision, said.recall) == (0.5, 0.5)


def test_the_report_says_what_was_found(tmp_path: Path) -> None:
    page = page_of(OUTCOMES, {"command": "fedqa bench fedqas"})
    assert page.lead[0].startswith("F1 of FedQAS over that of every silo alone: sample +0.250 (")
    assert [tile.value for tile in page.tiles] == ["+0.250"]
    text = write_report(OUTCOMES, {"command": "fedqa bench fedqas"}, tmp_path).read_text(encoding="utf-8")
    assert "sample: no answer" in text
    assert (tmp_path / "report.md").exists()
    assert len(tables(OUTCOMES)) >= 3


def test_a_round_costs_its_share_of_the_training() -> None:
    costs = next(section for section in page_of(OUTCOMES, {}).sections if section.id == "costs-sample")
    grid = next(block for block in costs.blocks if isinstance(block, Grid) and block.caption == "sample: a round")
    # 3 seconds, 2 rounds
    assert [[cell.text for cell in row.cells] for row in grid.rows] == [[f"1.5{THIN}s"] * 3] * 2


def test_unknown_tokens_are_counted_by_hand() -> None:
    collection = Collection((Document("d", "the bank"),), (Example("e", "a \u2603 bank"),))
    # the, bank, a, bank, and a snowman that no vocabulary holds; 8 and 8 characters
    assert coverage_of(collection, load_backbone("tiny").tokenizer) == Coverage(tokens=5, unknown=1, characters=16)


def test_the_report_says_which_languages_the_tokenizer_knows() -> None:
    found = {"xx": Coverage(10, 5, 20), "en": Coverage(100, 0, 400), "de": Coverage(100_000, 5, 200_000)}
    assert best_covered(found, 2) == ["en", "de"]
    (section,) = coverage_sections(found, ["en", "de"])
    shares = [row.cells[2].text for row in section.blocks[0].rows] if isinstance(section.blocks[0], Grid) else []
    assert shares == [f"0.0{THIN}%", f"0.005{THIN}%", f"50.0{THIN}%"]
    page = page_of(OUTCOMES, {}, Beyond(languages=found))
    assert "tokenizer" in [section.id for section in page.sections]
    assert "tokenizer" not in [section.id for section in page_of(OUTCOMES, {}).sections]


def test_a_report_needs_no_particular_arm() -> None:
    assert page_of({"sample": [outcome(ALONE)]}, {}).lead == ["sample: FedQAS is not among the arms."]
