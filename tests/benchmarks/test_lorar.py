# SPDX-License-Identifier: Apache-2.0
"""The Lorar study: its silos, its arms, and a report of outcomes that were written by hand."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import lorar, lorar_start
from benchmarks.lorar_report.arms import (
    ALL_ARMS,
    ALONE,
    ALONE_LONGER,
    BEST,
    BOUNDED,
    CENTRAL,
    LONGER,
    OWN_END,
    PASSES,
    WEIGHTINGS,
    WINDOWS,
    by_passes,
    findings_of,
    micro,
)
from benchmarks.lorar_report.curves import curve_sections
from benchmarks.lorar_report.report import page_of, tables, write_report
from benchmarks.lorar_report.rounds import Rounds, RoundWitness
from benchmarks.study.page import Grid
from benchmarks.study.public_data import FOLDER
from benchmarks.study.runner import Outcome
from benchmarks.study.statistics import Results
from fedqa.config import Alliance, course_of
from fedqa.evaluation.charts import Chart
from fedqa.evaluation.words import percent
from fedqa.federation.course import Choice
from fedqa.federation.run_folder import Accepted, RoundRecord
from fedqa.models.backbones import load_backbone
from fedqa.models.head import HEAD
from fedqa.tables import from_table

real_data = pytest.mark.skipif(not (FOLDER / "text2sql").exists(), reason=f"text2sql is not in {FOLDER}")
SILOS = ("geography", "yelp")
RIGHT = {ALONE: (2, 0), CENTRAL: (3, 1), "FedOPT": (2, 0), BEST: (3, 2), "FedOPT-lr": (1, 1)}  # of 4 and 2 questions


def outcome(arm: str, right: tuple[int, int]) -> Outcome:
    values = {
        silo: {"em": tuple(float(i < n) for i in range(of))} for silo, n, of in zip(SILOS, right, (4, 2), strict=True)
    }
    points = {point: values for point in ("received", "personal", "best")}
    return Outcome(arm, seed=1, key="k", seconds=3.0, rounds=2, bytes_up=1000, dev=points, test=points)


OUTCOMES = [outcome(arm, right) for arm, right in RIGHT.items()]


@real_data
def test_eight_silos_of_at_most_the_examples_said() -> None:
    silos = lorar.drawn(1, None)
    assert tuple(silos) == lorar.SILOS
    counts = {name: Counter(example.split for example in silo.examples) for name, silo in silos.items()}
    assert counts["atis"] == {"train": 4347, "dev": 30, "test": 100}
    assert counts["yelp"] == {"train": 76, "dev": 26, "test": 26}
    assert all(len(silo.documents) == 1 for silo in silos.values())
    assert lorar.drawn(1, None) == silos != lorar.drawn(2, None)
    fewer = lorar.drawn(1, 50, silos=["atis"])["atis"]
    assert Counter(example.split for example in fewer.examples)["train"] == 50
    assert {example.id for example in fewer.examples} < {example.id for example in silos["atis"].examples}


def test_every_arm_is_a_course_and_no_two_have_one_name() -> None:
    names = [arm.name for arm in lorar.ARMS]
    assert set(names) == set(ALL_ARMS) and len(names) == len(set(names))
    for arm in lorar.ARMS:
        course = course_of(from_table(Alliance, {"name": "x", **arm.settings}, arm.name))
        assert len(course.silos) == 8
        stage = course.stages[0]
        local = [course.local_of(name, stage) for name in ("atis", "yelp")]
        told = [(one.steps, one.learning_rate) for one in local]
        pooled = [(140, 1e-3)] * 2  # the steps of all silos together
        rate = 1e-3 if arm.name in (ALONE, ALONE_LONGER) else 2e-3
        alike, passes = [(10, rate), (20, rate)], [(41, rate), (3, rate)]
        assert told == (pooled if arm.name == CENTRAL else passes if arm.name in PASSES else alike)


def test_passes_are_a_fifth_of_the_papers() -> None:
    examples = (2629, 4347, 549, 227, 499, 118, 78, 76)  # for training
    passed = [n * 6 / 128 if n > 1000 else n * 12 / 64 for n in examples]
    assert list(lorar.PASSES.values()) == [round(steps / 5) for steps in passed]


def test_the_weightings_are_those_of_the_paper() -> None:
    by_name = {arm.name: course_of(from_table(Alliance, {"name": "x", **arm.settings}, "x")) for arm in lorar.ARMS}
    weights = {name: by_name[name].stages[0].mixing.weigher.name for name in WEIGHTINGS}
    assert weights == {"FedOPT": "size", BEST: "lorar", "FedOPT-lr": "loss_reduction", "FedOPT-equal": "uniform"}
    assert by_name["FedProx-Lorar"].stages[0].objective[1].weight == 1e-4
    assert by_name["FedAvg"].stages[0].mixing.optimiser == Choice("none")
    bounds = [by_name[name].stages[0].mixing.weigher.options["cap_factor"] for name in (BEST, BOUNDED)]
    assert bounds == [1e6, 3.0]  # the published method has none
    probes = {name: by_name[name].stages[0].loss_probe for name in (BEST, BOUNDED, WINDOWS, "FedOPT")}
    assert probes == {BEST: 16, BOUNDED: 16, WINDOWS: 0, "FedOPT": 16}
    longer = {LONGER, OWN_END, ALONE_LONGER}
    assert {name for name, course in by_name.items() if course.rounds == 2 * lorar.ROUNDS} == longer
    together, own = by_name[OWN_END].stages
    assert (together.rounds, own.rounds) == (lorar.ROUNDS, lorar.ROUNDS)
    assert by_name[OWN_END].local_of("yelp", own) == by_name[ALONE].local_of("yelp", by_name[ALONE].stages[0])


def test_what_a_study_starts_from_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"MODEL": "tiny", "QUESTIONS": 60, "STEPS": 1}.items():
        monkeypatch.setattr(lorar_start, name, value)
    folder = lorar_start.started(tmp_path / "start" / "model")
    head = load_backbone(str(folder)).head
    assert head is not None and head.skill == "parse"
    stamp = (folder / HEAD).stat().st_mtime_ns
    assert lorar_start.started(folder) == folder and (folder / HEAD).stat().st_mtime_ns == stamp


def test_claims_are_differences_of_the_mean_of_silos() -> None:
    found = findings_of(Results.of(OUTCOMES))
    # FedOPT-Lorar has 3/4 and 2/2, FedOPT 2/4 and 0/2: 0.25 and 1 more
    assert found.claims["Lorar helps FedOPT"].bootstrap.difference == pytest.approx(0.625)
    assert found.claims["pooling helps"].bootstrap.difference == pytest.approx((0.25 + 0.5) / 2)
    assert found.small["Lorar helps FedOPT"].bootstrap.difference == pytest.approx(1.0)  # of yelp alone
    assert "Lorar helps FedAvg" not in found.claims
    assert micro(found.results, BEST) == pytest.approx(5 / 6)


def test_the_report_says_what_was_found(tmp_path: Path) -> None:
    page = page_of(OUTCOMES, {"command": "fedqa bench lorar"})
    assert page.lead[0].startswith("On 6 test questions of 2 silos and 1 seed, FedOPT-Lorar reaches an EM of 0.875")
    assert "change FedOPT by +0.625" in page.lead[1]
    assert [tile.value for tile in page.tiles] == ["+0.625"]
    path = write_report(OUTCOMES, {"command": "fedqa bench lorar"}, tmp_path)
    text = path.read_text(encoding="utf-8")
    assert "what Lorar changes, silo by silo" in text
    assert "Table 3: weightings of FedOPT" in text and "micro 0.833" in text
    assert (tmp_path / "report.md").exists() and (tmp_path / "gains.svg").exists()
    assert 'scope="col">Published' not in text  # as nothing is
    assert len(tables(OUTCOMES)) == 4


def test_weights_are_compared_again_where_steps_are_by_passes() -> None:
    passes = [outcome(by_passes(arm), right) for arm, right in {"FedOPT": (2, 1), BEST: (4, 0)}.items()]
    page = page_of([*OUTCOMES, *passes], {})
    # 4/4 and 0/2 against 2/4 and 1/2
    assert any("large ones work more: Lorar helps FedOPT: 0.000 (" in sentence for sentence in page.lead)
    (section,) = (one for one in page.sections if one.id == "passes")
    scores = section.blocks[0]
    assert isinstance(scores, Grid) and [row.name.text for row in scores.rows] == [by_passes("FedOPT"), by_passes(BEST)]
    assert not [one for one in page_of(OUTCOMES, {}).sections if one.id == "passes"]


def record(number: int, losses: tuple[float, float], shares: tuple[float, float] | None) -> RoundRecord:
    accepted = {
        silo: Accepted(1.0, 1.0, 10, 10, 5, loss, loss / 2, loss, loss / 2)
        for silo, loss in zip(SILOS, losses, strict=True)
    }
    metrics = {
        silo: {"received/dev/em": (n, share, 0.0), "personal/dev/em": (n, 1.0, 0.0)}
        for silo, n, share in zip(SILOS, (30, 10), shares or (), strict=False)
    }
    weights = {"*": {"geography": 0.8, "yelp": 0.2}}
    return RoundRecord(number, "only", SILOS, accepted, (), False, weights, metrics, 0, 0, 1.0)


def test_curves_are_of_what_the_rounds_left() -> None:
    witness = RoundWitness(course_of(from_table(Alliance, {"name": "x", **lorar.ARMS[0].settings}, "x")))
    records = [record(1, (4.0, 3.0), None), record(2, (2.0, 3.5), (0.2, 0.6)), record(3, (1.0, 3.0), (0.4, 0.8))]
    watched = [replace(outcome(arm, (1, 1)), witnessed=witness.told(records)) for arm in ("FedOPT", BEST)]
    rounds = Rounds.of(watched[0])
    assert [one.losses["yelp"] for one in rounds.rounds] == [3.0, 3.5, 3.0]
    assert list(rounds.scored()) == [2, 3] and rounds.rounds[2].dev == {"geography": (30, 0.4), "yelp": (10, 0.8)}
    losses, scores, weights = curve_sections(findings_of(Results.of(watched)))
    assert isinstance(losses.blocks[0], Chart) and "yelp: FedOPT 3.000 at 1, 3.000 at 3" in losses.blocks[0].alt
    assert isinstance(scores.blocks[1], Chart)
    # Of all questions, (30 * 0.4 + 10 * 0.8) / 40; the mean of silos is (0.4 + 0.8) / 2.
    assert "mean of silos: FedOPT 0.400 at 2, 0.600 at 3" in scores.blocks[1].alt
    assert "all questions: FedOPT 0.300 at 2, 0.500 at 3" in scores.blocks[1].alt
    assert isinstance(weights.blocks[0], Grid)
    assert [cell.text for cell in weights.blocks[0].rows[0].cells] == [percent(0.8), percent(0.2)]
    counted = f"FedOPT {percent(1.0)} and 0.375; FedOPT-Lorar {percent(1.0)} and 0.375"  # of 4 and 2 questions, 1 each
    assert any(counted in sentence for sentence in page_of(watched, {}).lead)
    assert curve_sections(findings_of(Results.of(OUTCOMES))) == []


def test_a_report_needs_no_particular_arm(tmp_path: Path) -> None:
    page = page_of([outcome("FedAvg", (1, 1))], {})
    assert page.lead == ["FedOPT-Lorar is not among the 1 arm of this study of 2 silos and 1 seed."]
    assert [section.id for section in page.sections] == ["methods", "points", "costs", "made"]
