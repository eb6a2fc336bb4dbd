# SPDX-License-Identifier: Apache-2.0
import io
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from fedqa.answering.answers import Answer
from fedqa.config import load_project, project_of, sample_alliance
from fedqa.data.sample import SAMPLE_SILOS
from fedqa.demo import METHODS, READING, SETTINGS, Questions, Shown, Tried, ask_all, choose, run_demo, show_questions
from fedqa.opening import open_run
from fedqa.serving.training import Trainings
from fedqa.settings import load_settings
from fedqa.store import Store
from fedqa.web.serve import opened

TINY = {"model": "tiny", "rounds": 1, "local": {"steps": 2, "batch": 8, "learning_rate": 1e-2}}


@dataclass(frozen=True)
class Demo:
    out: Path
    shown: str
    progress: str


def demo(out: Path) -> Demo:
    shown, progress = io.StringIO(), io.StringIO()
    with redirect_stdout(shown), redirect_stderr(progress):
        run_demo(out, serve=False, settings=TINY, reading=TINY)
    return Demo(out, shown.getvalue(), progress.getvalue())


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return demo(tmp_path_factory.mktemp("demo"))


def test_the_demo_trains_every_method_and_compares_them(first: Demo) -> None:
    for method in METHODS:
        assert f"training: {method}" in first.progress
        assert re.search(rf"^ ?{method} .*0\.\d{{3}}", first.shown, re.MULTILINE)
        assert load_project(first.out / method / "course.toml").course.method == method


def test_the_demo_shows_the_organisations_and_where_to_look_next(first: Demo) -> None:
    assert re.search(r"hospital +40 +120 +\S+ +205", first.shown.replace("\u202f", ""))
    assert f"fedqa ledger {first.out}" in first.shown
    (report,) = re.findall(r"\S+report\.html", first.shown)
    assert Path(report).exists()


def test_a_second_call_trains_nothing_and_shows_the_same(first: Demo) -> None:
    written = {path: path.stat().st_mtime_ns for path in first.out.glob("*/result.json")}
    second = demo(first.out)
    assert "training:" not in second.progress
    assert second.progress.count("is trained already") == len(METHODS) + len(READING)
    assert second.shown == first.shown
    assert {path: path.stat().st_mtime_ns for path in first.out.glob("*/result.json")} == written


def test_the_hospitals_page_answers_with_what_was_trained_and_can_go_on_training(first: Demo) -> None:
    assert re.search(r"F1 on test questions.*isolated.*fedqas", first.shown, re.DOTALL)
    assert f"fedqa serve {first.out / 'hospital.toml'}" in first.shown
    settings = load_settings(first.out / "hospital.toml")
    plan = Trainings(settings).plan
    assert plan is not None
    assert (plan.skill, plan.run, plan.silos) == ("read", first.out / "fedqas", SAMPLE_SILOS)
    with opened(settings) as parts:
        parts.desk.open()
        reply = parts.desk.ask("On which days can I get my INR checked at Larkmoor?")
        assert reply.answers and "read by fedqas, round 1" in reply.model
        assert parts.store.documents().total == 40


def test_the_store_keeps_the_splits_that_the_models_were_trained_with(first: Demo) -> None:
    with Store.open(first.out / "hospital.sqlite") as store:
        kept = {example.question: example.split for example in store.collection().examples}
    drawn = open_run(first.out / "fedavg").silo("hospital").collection.examples
    assert kept == {example.question: example.split for example in drawn}


def test_questions_are_test_questions_of_three_silos_answered_right(first: Demo) -> None:
    federated = open_run(first.out / "fedavg")
    found = ask_all(open_run(first.out / "zero_shot"), federated)
    assert found.count == 138  # 36 + 59 + 23 + 13 + 7 answerable test questions
    assert 0 < found.right <= found.right_before + found.learnt
    assert len({one.asked.silo for one in found.shown}) == len(found.shown) == 3
    for one in found.shown:
        examples = federated.silo(one.asked.silo).collection.of_split("test")
        (example,) = (example for example in examples if example.question == one.asked.question)
        (answer,) = one.answers
        assert answer.document in {span.document for span in example.evidence}


def tried(silo: str, confidence: float, *, before: bool, after: bool = True, answered: bool = True) -> Tried:
    return Tried(silo, f"{silo} {confidence}?", "Another", before, after, confidence, answered)


def test_a_learnt_question_comes_first_and_the_others_are_the_surest_of_other_silos() -> None:
    known, learnt = tried("bank", 0.9, before=True), tried("bank", 0.3, before=False)
    other, less, wrong = (
        tried("law", 0.8, before=True),
        tried("law", 0.7, before=True),
        tried("insurer", 1.0, before=True, after=False),
    )
    unsure = tried("hospital", 0.1, before=False, answered=False)
    assert choose([known, less, wrong, learnt, other, unsure]) == [learnt, other]
    assert choose([known, other], many=1) == [known]
    assert choose([]) == []


ANSWER = Answer(
    "d", "Title", "First. Because it is so.", "Because it is so.", 7, 24, 3.0, 0.9, "Because it is so.", 7, 24
)


@pytest.mark.parametrize("learnt", [True, False])
def test_what_was_learnt_is_said_and_so_is_that_nothing_was(learnt: bool) -> None:
    asked = (tried("bank", 0.9, before=not learnt), tried("law", 0.9, before=True))
    questions = Questions(("a", "b"), 10, 6, 7, int(learnt), tuple(Shown(one, (ANSWER,)) for one in asked))
    console = Console(width=200, file=io.StringIO())
    show_questions(console, questions, "fedavg")
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "Of 10 test questions, the model as it comes puts a right passage first for 6, fedavg for 7" in text
    assert ("learnt: before, the first passage was from “Another”" in text) is learnt
    assert ("None that fedavg is sure of was wrong before." in text) is not learnt
    assert text.count("Because it is so.") == 2


def test_the_settings_make_an_alliance_of_every_method() -> None:
    for method in METHODS:
        course = project_of(sample_alliance(method, **SETTINGS)).course
        assert [plan.name for plan in course.silos] == list(SAMPLE_SILOS)
