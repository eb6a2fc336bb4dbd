# SPDX-License-Identifier: Apache-2.0
"""The ATC study: its silos, its arms, what its coordinator sees, and a report of outcomes that were written by hand."""

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
import torch

from benchmarks import atc
from benchmarks.atc_report.arms import (
    ALL_SHARED,
    ALONE,
    ALONE_FIRST,
    ASSIGNED,
    ATC,
    BEYOND,
    CHOSEN,
    FEDAVG,
    LONGER,
    METHODS,
    NO_CONTRAST,
    PUBLISHED_PROBE,
    SET_OF,
    SETS,
    SILOS,
    WEIGHTLESS,
    average_cells,
    findings_of,
    published_gain,
    safety_of,
    set_scores,
)
from benchmarks.atc_report.bytes_sent import bytes_grid
from benchmarks.atc_report.figures import mean_ranks, mixed_shares, part_ranks, secrecy_of
from benchmarks.atc_report.report import page_of, tables, write_report
from benchmarks.atc_secrecy.guessing import Guesses, Sample, guesses
from benchmarks.atc_secrecy.view import KEPT, Round, Seen, cosines, sketch
from benchmarks.study.charts import Heat, heat_chart
from benchmarks.study.page import write_page
from benchmarks.study.public_data import FOLDER
from benchmarks.study.published import published
from benchmarks.study.runner import Arm, Outcome, Study
from benchmarks.study.statistics import Results, overall
from benchmarks.study.subjqa import NOT_FOUND
from fedqa.config import Alliance, course_of
from fedqa.data.records import Collection, Document, Example, Span, Split
from fedqa.data.splits import check_disjoint
from fedqa.evaluation.words import DASH, MINUS, percent, size
from fedqa.federation.course import Course
from fedqa.runs import build, load_model
from fedqa.tables import from_table, to_table

NEEDED = ("agnews", "rt_polarity", "subjqa", "policyqa", "scitldr", "squad_sentences")
real_data = pytest.mark.skipif(
    not all((FOLDER / name).exists() for name in NEEDED), reason=f"the public data sets are not in {FOLDER}"
)


def course(arm: Arm) -> Course:
    return course_of(from_table(Alliance, {"name": "x", **arm.settings}, arm.name))


BY_NAME = {arm.name: arm for arm in atc.ARMS}


# -- data --------------------------------------------------------------------------------------------------------


@cache
def silos() -> dict[str, Collection]:
    return atc.drawn(1, None)


@real_data
def test_thirteen_silos_with_as_many_questions_as_said_none_in_two_splits_or_silos() -> None:
    assert tuple(silos()) == SILOS and len(SILOS) == 13
    for name, silo in silos().items():
        check_disjoint(silo)
        asked = {(example.question, example.split) for example in silo.examples}
        assert Counter(split for _, split in asked) == atc.counts_of(SETS[SET_OF[name]].family)
        assert {example.about for example in silo.examples} - {""} == {document.id for document in silo.documents}
        assert all(NOT_FOUND not in document.text for document in silo.documents)
    for one in SETS.values():
        questions = [{example.question for example in silos()[name].examples} for name in one.silos]
        if one.paper != "SQuAD":  # "How is the service?" is asked in every domain
            assert sum(map(len, questions)) == len(set().union(*questions))


@real_data
def test_another_seed_draws_other_examples_and_fewer_leave_dev_and_test_as_they_are() -> None:
    name = "policyqa-1"
    whole, few = atc.drawn(1, None, silos=[name]), atc.drawn(1, 10, silos=[name])
    assert whole == {name: silos()[name]} != atc.drawn(2, None, silos=[name])
    asked = {(example.question, example.split) for example in few[name].examples}
    assert Counter(split for _, split in asked) == {"test": 100, "dev": 60, "train": 10}
    assert {example.id for example in few[name].examples} < {example.id for example in whole[name].examples}
    assert all(len(document.text) <= atc.LONGEST for document in whole[name].documents)


# -- arms --------------------------------------------------------------------------------------------------------


def test_every_arm_is_a_course_and_no_two_have_one_name() -> None:
    assert len(BY_NAME) == len(atc.ARMS) == 19
    assert set(BY_NAME) == {*METHODS, *BEYOND, *ASSIGNED.values()}
    for arm in atc.ARMS:
        assert [silo.name for silo in course(arm).silos] == list(SILOS)
    assert {name for name, arm in BY_NAME.items() if arm.witness} == {FEDAVG, ATC, WEIGHTLESS, ALL_SHARED}


def steps(arm: Arm, *, assigned: bool) -> int:
    """That a silo takes together with others, or in an arm without any: on assigned tasks, or on its own."""
    plan = course(arm)
    stages = [stage for stage in plan.stages if stage.name != "alone" and bool(stage.assign) is assigned]
    return sum(stage.rounds * (plan.local_of("squad-1", stage).steps or 0) for stage in stages)


def test_a_silo_takes_as_many_steps_on_its_own_task_in_every_arm() -> None:
    for name, arm in BY_NAME.items():
        rounds = atc.ROUNDS + (atc.ASSIGN_ROUNDS if name == LONGER else 0)
        assert steps(arm, assigned=False) == rounds * atc.LOCAL["steps"], name  # type: ignore[operator]
    whole = steps(BY_NAME[ATC], assigned=True) + steps(BY_NAME[ATC], assigned=False)
    assert steps(BY_NAME[LONGER], assigned=False) == whole


def test_only_encoders_travel_but_where_an_arm_is_about_more() -> None:
    whole = {"FedAvg-ST", ALL_SHARED}
    for name, arm in BY_NAME.items():
        last = course(arm).stages[-1]
        assert (("!enc", "private") in last.sharing or ("*", "private") in last.sharing) is (name not in whole)


def test_the_arms_differ_in_what_they_are_named_after() -> None:
    stages = {name: course(arm).stages for name, arm in BY_NAME.items()}
    assert [stage.name for stage in stages[ALONE_FIRST]] == ["alone", "assign", "contrast"]
    assert stages[ATC][1].channel_options["probe"]["texts"] == 16
    assert (
        stages[PUBLISHED_PROBE][1].channel_options["probe"] | {"texts": 16, "shuffled": True, "noise": 0.35}
        == (stages[ATC][1].channel_options["probe"])
    )
    assert [term.weight for term in stages[WEIGHTLESS][1].objective] == [1.0, 0.0]
    told = {row: stages[arm][0].assign for row, arm in ASSIGNED.items()}
    assert {row: assign.tasks if assign else () for row, assign in told.items()} == {
        "vanilla": (),
        "+ MLM": ("mlm",),
        "+ DR": ("denoise",),
        "+ MLM & DR": ("mlm", "denoise"),
        "+ MLM & DR & clustering": ("mlm", "denoise"),
    }
    assert stages[ASSIGNED["+ MLM & DR"]][0].mixing.weigher.options["n"] == 1
    assert stages[NO_CONTRAST][0].mixing.weigher.options["n"] == 4


def test_the_quick_study_has_silos_enough_for_a_probe_set() -> None:
    chosen = {arm.name: course(arm) for group in atc.arms(atc.QUICK_SILOS) for arm in group}
    assert set(atc.QUICK) <= set(chosen)
    contrast = chosen[ATC].stages[1]
    assert len(chosen[ATC].silos) >= contrast.options_of("probe").least
    assert len(chosen[ATC].silos) > atc.TWO_STAGES["neighbours"]  # type: ignore[operator]


# -- published numbers -------------------------------------------------------------------------------------------


def test_the_papers_average_is_the_mean_of_six_means() -> None:
    paper = published("atc")
    for method, metrics in paper.tables["methods"].items():
        of_sets = [fmean(paper.tables[name][method][metric][0] for metric in one.metrics) for name, one in SETS.items()]
        assert metrics["avg"][0] == pytest.approx(fmean(of_sets), abs=0.00011), method
    for metrics in paper.tables["assign"].values():
        assert metrics["avg"][0] == pytest.approx(fmean(metrics[part][0] for part in ("CLS", "QA", "NLG")), abs=0.00011)
    assert paper.tables["assign"]["vanilla"]["avg"] == paper.tables["methods"][FEDAVG]["avg"]


def test_the_papers_gains_are_those_it_claims() -> None:
    assert published_gain(ATC, ALONE) == pytest.approx(0.0366)
    assert published_gain(ATC, FEDAVG) == pytest.approx(0.0309)
    assert published_gain(WEIGHTLESS, ALONE) is None


# -- a report of outcomes written by hand ------------------------------------------------------------------------

# Right answers of four in each silo that classifies, and ROUGE-L of two texts in the one that writes.
GIVEN = ("rt_polarity-1", "agnews-1", "agnews-2", "squad-1")
RIGHT = {
    ALONE: ((2, 2, 4), (0.3, 0.1)),
    FEDAVG: ((2, 3, 3), (0.2, 0.2)),
    ATC: ((3, 2, 4), (0.4, 0.2)),
    WEIGHTLESS: ((3, 2, 3), (0.4, 0.2)),
    PUBLISHED_PROBE: ((3, 3, 4), (0.4, 0.2)),
    NO_CONTRAST: ((2, 2, 4), (0.4, 0.2)),
    ALL_SHARED: ((1, 1, 1), (0.1, 0.1)),
}
DEV = {ALONE: (0.5, 0.5, 0.5, 0.2), ATC: (0.75, 0.5, 0.25, 0.4)}  # of the metric that selects, by silo


def outcome(arm: str, seed: int = 1) -> Outcome:
    right, rouge = RIGHT[arm]
    scores: dict[str, dict[str, tuple[float, ...]]] = {
        silo: {"accuracy": tuple(float(i < n) for i in range(4))} for silo, n in zip(GIVEN, right, strict=False)
    }
    scores["squad-1"] = {"rouge_l": rouge, "bleu_4": (0.0, 0.0), "meteor": rouge, "em": (0.0, 0.0)}
    chosen = dict(zip(GIVEN, DEV.get(arm, DEV[ALONE]), strict=True))
    dev = {silo: {metric: (chosen[silo],) for metric in metrics} for silo, metrics in scores.items()}
    points = ("received", "personal", "best")
    return Outcome(
        arm,
        seed=seed,
        key="k",
        seconds=3.0,
        rounds=2,
        bytes_up=1000,
        dev=dict.fromkeys(points, dev),
        test=dict.fromkeys(points, scores),
        witnessed=to_table(view(arm)) if arm in (ATC, WEIGHTLESS, FEDAVG, ALL_SHARED) else {},
    )


def view(arm: str) -> Seen:
    """Two rounds of assigned tasks, in one of which three silos cluster, and three of the silos' own."""
    classify = GIVEN[:3]
    apart = {silo: (silo,) for silo in GIVEN}
    near = {
        silo: {other: 0.9 - 0.1 * abs(GIVEN.index(silo) - GIVEN.index(other)) for other in GIVEN if other != silo}
        for silo in GIVEN
    }
    writer = {**near, "squad-1": {"rt_polarity-1": 0.1, "agnews-1": 0.5, "agnews-2": 0.3}}
    assign = [
        Round("assign", "mlm", apart | {silo: classify for silo in classify}, near),
        Round("assign", "denoise", apart, near),
    ]
    own = [
        Round("contrast", "", apart | {"squad-1": ("squad-1", "agnews-2")}, near),
        *[Round("contrast", "", apart, writer)] * 2,
    ]
    stages = {ATC: (*assign, *own), WEIGHTLESS: (*assign, *own[:1] * 3)}
    rounds = stages.get(arm, (Round("train", "", {}, near),))
    directions = {silo: (1.0, 0.1 * i, 0.0) for i, silo in enumerate(classify)} | {"squad-1": (0.0, 0.0, 1.0)}
    return Seen(
        {"updates": 900, "representations": 50}, 400, rounds, dict.fromkeys({one.stage for one in rounds}, directions)
    )


OUTCOMES = [outcome(arm) for arm in RIGHT]


def test_the_average_counts_data_sets_alike_however_many_silos_they_have() -> None:
    results = Results.of(OUTCOMES)
    # rt_polarity 3/4; agnews (2/4 + 4/4) / 2; squad, of 0.4 and 0.2: ROUGE-L 0.3, BLEU 0, METEOR 0.3, so 0.2
    assert overall(average_cells(results, ATC)).mean == pytest.approx((0.75 + 0.75 + 0.2) / 3)
    assert overall(average_cells(results, ATC, part="CLS")).mean == pytest.approx(0.75)
    assert overall(average_cells(results, ATC, part="NLG")).mean == pytest.approx(0.2)
    assert average_cells(results, ATC, part="QA") == {}
    assert set_scores(results, ATC, "squad") == pytest.approx({"rouge_l": 0.3, "bleu_4": 0.0, "meteor": 0.3})
    assert set_scores(results, ATC, "policyqa") == {}


def test_gains_are_differences_of_averages_and_those_by_silo_of_its_own_scores() -> None:
    found = findings_of(Results.of([*OUTCOMES, *(outcome(arm, 2) for arm in (ALONE, ATC))]))
    # alone: rt 2/4, agnews 3/4, squad 0.4/3; ATC 0.25 more in rt, 0.2/3 more in squad
    assert found.alone[ATC].bootstrap.difference == pytest.approx((0.25 + 0 + 0.2 / 3) / 3)
    assert found.alone[ATC].by_silo == pytest.approx(
        {"rt_polarity-1": 0.25, "agnews-1": 0, "agnews-2": 0, "squad-1": 0.2 / 3}
    )
    # FedAvg: rt 2/4, agnews 3/4, squad 0.4/3
    assert found.averaged[ATC].bootstrap.difference == pytest.approx((0.25 + 0 + 0.2 / 3) / 3)
    assert found.probe is not None and found.contrast is not None
    assert found.probe.bootstrap.difference == pytest.approx(-0.125 / 3)
    assert found.contrast.bootstrap.difference == pytest.approx(0.125 / 3)


def test_who_is_worse_off_is_told_for_dev_and_test() -> None:
    found = safety_of(Results.of(OUTCOMES))
    assert set(found) == {ATC, CHOSEN}
    assert found[ATC].dev == pytest.approx(
        {(1, "rt_polarity-1"): 0.25, (1, "agnews-1"): 0.0, (1, "agnews-2"): -0.25, (1, "squad-1"): 0.2}
    )
    assert found[CHOSEN].dev[1, "agnews-2"] == found[CHOSEN].test[1, "agnews-2"] == 0.0
    assert found[CHOSEN].test[1, "rt_polarity-1"] == 0.25
    assert safety_of(Results.of([outcome(ATC)])) == {}


def test_the_report_says_what_was_found(tmp_path: Path) -> None:
    page = page_of(OUTCOMES, {"command": "fedqa bench atc"})
    assert page.lead[0].startswith("On 14 test examples of 4 silos and 1 seed, ATC reaches an average of 0.567 (")
    assert page.lead[1].startswith("It differs from isolated by +0.106 (")
    assert "in the paper +0.037 and from FedAvg by +0.106 (" in page.lead[1]
    # rt 0.25 and agnews 0 more; in the paper IMDB .0091 and AGNews .0082, CNN/DM .0077 and MSQG .0432
    assert page.lead[2].endswith("CLS +0.125 (paper +0.009), NLG +0.067 (paper +0.025).")
    assert "with ATC, 0 of 4 silos on test in the mean of seeds, and on dev 1 of 4 silos and seeds" in page.lead[4]
    assert f"changes the average by {MINUS}0.042" in page.lead[5] and page.lead[5].endswith("at most 0.003, it misses.")
    assert [tile.value for tile in page.tiles] == ["+0.106", "+0.106", f"{MINUS}0.042"]
    text = write_page(page, tmp_path).read_text(encoding="utf-8")
    assert ".4904" in text and "0.750" in text and ".2814 / .0312 / .1639" in text
    assert "Table 3: assigned tasks" in text
    assert {"report.md", "gains.svg", "mixing.svg", "ranks.svg"} <= {file.name for file in tmp_path.iterdir()}


def test_the_tables_of_the_terminal_are_those_of_the_page(tmp_path: Path) -> None:
    few = [outcome(arm) for arm in (ALONE, FEDAVG, NO_CONTRAST)]
    titles = [str(table.title) for table in tables(few)]
    assert "Table 2: test scores of dev-selected models" in titles and "Table 3: what is in the first stage" in titles
    assert write_report([outcome(ALONE)], {}, tmp_path) == tmp_path / "report.html"


def test_bytes_of_representations_stand_beside_what_they_would_have_been() -> None:
    grid = bytes_grid(Results.of(OUTCOMES))
    assert grid is not None
    told = {row.name.text: [cell.text for cell in row.cells] for row in grid.rows}
    assert told["representations"] == [size(50), size(400), percent(0.125)]
    assert told["updates"] == [size(900), DASH, DASH]


def test_a_report_needs_no_particular_arm() -> None:
    page = page_of([replace(outcome(FEDAVG), witnessed={})], {})
    assert page.lead == ["ATC is not among the 1 arm of this study of 4 silos and 1 seed."]
    assert [section.id for section in page.sections] == ["methods", "points", "costs", "made"]


# -- what the coordinator sees -----------------------------------------------------------------------------------


def test_who_is_mixed_with_whom_is_a_share_of_rounds() -> None:
    results = Results.of(OUTCOMES)
    assigned = mixed_shares(results, ATC, "assign")
    assert assigned["agnews-1"] == {"rt_polarity-1": 0.5, "agnews-2": 0.5, "squad-1": 0.0}
    assert mixed_shares(results, ATC, "contrast")["squad-1"] == pytest.approx(
        {"rt_polarity-1": 0.0, "agnews-1": 0.0, "agnews-2": 1 / 3}
    )
    assert mixed_shares(results, ALONE, "assign") == {}


def test_ranks_are_by_nearness_without_the_first_round() -> None:
    results = Results.of(OUTCOMES)
    assert mean_ranks(results, ATC)["squad-1"] == {"rt_polarity-1": 3.0, "agnews-1": 1.0, "agnews-2": 2.0}
    assert mean_ranks(results, WEIGHTLESS)["squad-1"] == {"rt_polarity-1": 3.0, "agnews-1": 2.0, "agnews-2": 1.0}
    assert part_ranks(mean_ranks(results, ATC), "NLG") == {False: 2.0}
    # the others that classify are first and second; with agnews-2, squad-1 is as near as agnews-1 and before the third
    assert part_ranks(mean_ranks(results, ATC), "CLS")[True] == pytest.approx((1 + 2 + 1 + 2 + 1 + 3) / 6)


def test_a_sketch_keeps_angles_and_is_the_same_whenever_it_is_made() -> None:
    rng = np.random.default_rng(1)
    first, noise = rng.normal(size=(2, 50_000))
    second = 0.8 * first + 0.6 * noise  # the cosine of first and second is about 0.8
    found = cosines({"a": sketch(torch.from_numpy(first).float()), "b": sketch(torch.from_numpy(second).float())})
    assert found["a"]["b"] == found["b"]["a"] == pytest.approx(0.8, abs=0.05)
    assert np.array_equal(sketch(torch.from_numpy(first).float()), sketch(torch.from_numpy(first).float()))
    assert cosines({"a": np.zeros(3), "b": np.ones(3)}) == {"a": {"b": 0.0}, "b": {"a": 0.0}}


# -- guessing ----------------------------------------------------------------------------------------------------


def samples(directions: dict[str, tuple[float, ...]], trainings: int = 2) -> list[Sample]:
    """The first letter of a silo's name is its task."""
    return [
        Sample(training, silo, silo[0], np.array(direction))
        for training in range(trainings)
        for silo, direction in directions.items()
    ]


def test_tasks_whose_updates_go_their_own_way_are_guessed() -> None:
    told = {
        "a1": (9.0, 1.0, 0.0),
        "a2": (9.0, 0.9, 0.1),
        "b1": (9.0, 0.0, 1.0),
        "b2": (9.0, 0.1, 0.9),
        "b3": (9.0, 0.0, 1.2),
    }
    assert guesses(samples(told), lambda sample: sample.training) == Guesses(10, 10, 0.6)
    assert guesses(samples(told), lambda sample: sample.silo) == Guesses(10, 10, 0.6)


def test_a_silo_that_moves_like_the_others_is_taken_for_one_of_them() -> None:
    told = {"a1": (0.0, 1.0), "a2": (0.0, 1.0), "b1": (1.0, 0.0), "b2": (0.0, 1.0)}
    found = guesses(samples(told, trainings=1), lambda sample: sample.silo)
    # b2 moves as a1 and a2 do: without b1 both tasks go one way, and the first by name is said; without b2, b is b1
    assert found is not None and (found.right, found.of, found.chance) == (2, 4, 0.5)
    assert found.accuracy == 0.5


def test_without_two_kinds_nothing_is_guessed() -> None:
    assert guesses(samples({"a1": (1.0,)}, trainings=1), lambda sample: sample.training) is None


def test_secrecy_is_measured_in_each_stage_that_was_seen() -> None:
    results = Results.of([*OUTCOMES, *(outcome(arm, 2) for arm in (ATC, FEDAVG, ALL_SHARED))])
    found = secrecy_of(results)
    assert len(found) == 4
    known = found["assigned tasks, all but the heads"].known
    assert known == Guesses(8, 8, 0.75)  # in both trainings the three that classify go one way, the writer another


# -- the whole of it, small --------------------------------------------------------------------------------------


WORDS = ("red", "green", "blue", "white", "black", "brown")
WHERE: tuple[Split, ...] = ("train", "train", "train", "train", "dev", "test")


def small(seed: int, train: int | None) -> dict[str, Collection]:
    """Silos that classify, read and write, with a few texts each."""
    told = list(zip(WORDS, WHERE, strict=True))
    return {
        "rt_polarity-1": Collection(
            (), tuple(_asked("rt", word, split, ("ends", "goes on")[i % 2]) for i, (word, split) in enumerate(told))
        ),
        "policyqa-1": _read([(f"The door is {word}.", word, split) for word, split in told]),
        "squad-1": Collection((), tuple(_asked("squad", word, split, f"what is {word}?") for word, split in told)),
    }


def _asked(silo: str, word: str, split: Split, answer: str) -> Example:
    return Example(f"{silo}-{word}", f"a {word} thing of {silo}", answers=(answer,), split=split)


def _read(told: list[tuple[str, str, Split]]) -> Collection:
    documents = tuple(Document(word, text) for text, word, _ in told)
    examples = tuple(
        Example(
            f"read-{word}",
            f"What is {word}?",
            (Span(word, text.index(word), text.index(word) + len(word)),),
            (word,),
            split=split,
            about=word,
        )
        for text, word, split in told
    )
    return Collection(documents, examples)


def tiny(arm: Arm, **options: object) -> Arm:
    """The same with the tiny model and one step a round."""
    settings = {**arm.settings, "model": "tiny", "local": {"batch": 2, "steps": 1}}
    settings["method_options"] = {**settings["method_options"], **options}
    return replace(arm, settings=settings)


def test_silos_of_all_skills_agree_in_every_arm_on_what_travels(tmp_path: Path) -> None:
    loaded, data = load_model("tiny", 0, 1), small(1, None)
    for number, arm in enumerate(arm for group in atc.arms(list(data)) for arm in group):
        plan = course(tiny(arm))
        setting = build(plan, data, tmp_path / str(number), loaded)
        sizes = [setting.start_of(stage).layout.n_shared for stage in range(len(plan.stages))]
        assert all(size > 0 for size in sizes[-1:]) is (arm.name not in (ALONE, LONGER)), arm.name


def test_a_training_is_watched_and_what_was_seen_is_kept(tmp_path: Path) -> None:
    whole = atc.arm(ATC, "atc", atc.TWO_STAGES, silos=list(small(1, None)), rounds=2)
    probe = {"items": 4, "length": 8, "texts": 1}
    watched = tiny(whole, neighbours=2, assign_rounds=1, clusters=2, probe=probe)
    study = Study("small", [watched], (1,), small, tmp_path, metrics=())
    (trained,) = study.run()
    (kept,) = study.run()
    view = Seen.of(kept)
    assert view is not None and view == Seen.of(trained)
    assert [one.stage for one in view.rounds] == ["assign", "contrast", "contrast"]
    assert view.rounds[0].task in ("mlm", "denoise") and view.rounds[1].task == ""
    assert set(view.rounds[1].near) == set(small(1, None)) and len(view.rounds[1].mixed["squad-1"]) == 2
    assert len(view.directions["contrast"]["squad-1"]) == KEPT
    assert view.unpacked == 3 * 4 * 32 * 4  # silos, texts, numbers of a vector, bytes of each; in one round
    assert view.bytes["probe"] > 0 and view.bytes["representations"] > 0
    assert set(kept.test["best"]["rt_polarity-1"]) == {"accuracy"}
    assert {"em", "f1"} <= set(kept.test["best"]["policyqa-1"])
    assert {"rouge_l", "bleu_4", "meteor"} <= set(kept.test["best"]["squad-1"])


def test_a_heat_map_says_what_is_written_in_it() -> None:
    drawn = heat_chart("heat", {"one": Heat(["a"], ["x", "y"], [[(0.5, "50"), None]])}, caption="c", alt="told")
    assert ">50<" in drawn.wide and ">50<" in drawn.narrow and drawn.alt == "told"
