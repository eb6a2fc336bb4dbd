# SPDX-License-Identifier: Apache-2.0
"""The demonstration: the sample alliance trained in several ways, compared, asked, and a page served for one silo.

First it learns to find the passage that answers, in four ways; then to read the exact words in it, alone and together.
The hospital's page answers with both, from a store of its own, and can go on training.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedqa.answering.answers import Answer
from fedqa.answering.assistant import Assistant
from fedqa.config import Project, load_project, project_of, sample_alliance, sample_table
from fedqa.console import RunWatcher, make_console
from fedqa.console_tables import comparison_table, plain_table, show_answers
from fedqa.data.passages import passages
from fedqa.data.sample import SAMPLE_SILOS, sample_silo
from fedqa.evaluation.metrics import macro
from fedqa.evaluation.report import write_report
from fedqa.evaluation.run_scores import Run, load_run
from fedqa.evaluation.words import count
from fedqa.federation.silo import Silo
from fedqa.files import write_json, write_text
from fedqa.opening import OpenRun, open_run
from fedqa.runs import train
from fedqa.serving.filling import fill
from fedqa.settings import load_settings
from fedqa.skills.match import MatchFeatures
from fedqa.skills.questions import judged_questions
from fedqa.store import Store
from fedqa.tables import from_table, plain
from fedqa.training import one_thread

BASELINE = "zero_shot"
METHODS = (BASELINE, "isolated", "fedavg", "fedbn")
FEDERATED = ("fedavg", "fedbn")
WHOLE = "whole_model"  # the folder of the whole model's scores
READING = ("isolated", "fedqas")
PAGE = "hospital"

# All of it, reading included, is to end within four minutes on two cores. Two layers of the embedded model learn fast
# enough for that, at a rate that suits so small a model; the whole of it starts much higher, which the demo says beside
# the table.
SETTINGS: Mapping[str, Any] = {
    "model": "embedded:2",
    "rounds": 3,
    "local": {"learning_rate": 3e-4},
    "skills": {"match": {"train_negatives": 1}},
    "evaluation": {"every": 3},
}
# Reading costs more: all but the last layer stay as they come, and documents are read in short windows. With so few
# examples and one layer that learns, F1 is some 0.3.
READING_SETTINGS: Mapping[str, Any] = {
    "model": "embedded",
    "freeze_layers": 5,
    "rounds": 3,
    "local": {"learning_rate": 2e-4, "batch": 8},
    "skills": {"read": {"window": 128, "overlap": 32}},
    "evaluation": {"every": 3},
}


def run_demo(
    out: Path,
    serve: bool = True,
    *,
    settings: Mapping[str, Any] = SETTINGS,
    reading: Mapping[str, Any] = READING_SETTINGS,
) -> None:
    """Train, compare, ask and serve the hospital's page; what is trained already is not trained again."""
    console, progress = make_console(), make_console(stderr=True)
    console.print(
        "Five organisations that may not show each other their texts train one question-answering model together: "
        "what leaves them is how their copy of the model changed. Below, this is compared with the model as it comes "
        "and with every organisation training alone."
    )
    console.print(organisations_table())
    for method in METHODS:
        _train(out / method, method, settings, progress)
    runs = [load_run(out / method) for method in METHODS]
    console.print(comparison_table(runs))
    _show_whole_model(console, out / WHOLE, settings, progress)
    best = best_on_dev([run for run in runs if run.course.method in FEDERATED])
    show_questions(console, _questions(out, runs[METHODS.index(BASELINE)], best, progress), best.course.method)
    silo = write_page(out, reading)
    console.print()
    console.print("Then they learn to read: the exact words of a passage that answer, or that there are none.")
    console.print(comparison_table(_read_runs(out, progress)))
    _show_next(console, out, best, silo)
    if serve:
        serve_page(console, silo)


def _show_whole_model(console: Console, folder: Path, settings: Mapping[str, Any], progress: Console) -> None:
    """What the demo gives away by training two layers only: the score of all six, untrained."""
    whole, cut, _ = settings["model"].partition(":")
    if cut:
        _train(folder, BASELINE, {**settings, "model": whole}, progress)
        score = load_run(folder).result["macro"]["best"]["test"]["map"]
        console.print(
            f"The whole model {whole!r}, untrained, has a mean of {score:.3f}. This demo trains its first layers only, "
            "to end in minutes; to train all of it, see the last line below."
        )


def _train(folder: Path, method: str, settings: Mapping[str, Any], progress: Console) -> None:
    _train_project(folder, project_of(sample_alliance(method, **settings)), method, progress)


def _train_project(folder: Path, project: Project, name: str, progress: Console) -> None:
    if (folder / "result.json").exists():
        progress.print(Text(f"{name} is trained already", style="dim"))
    else:
        progress.print(Text(f"training: {name}", style="bold"))
    with RunWatcher(progress) as watcher:
        train(project, folder, resume=True, watcher=watcher)


def organisations_table() -> Table:
    rows = []
    for name in SAMPLE_SILOS:
        collection = sample_silo(name)
        n_passages = sum(len(passages(document)) for document in collection.documents)
        n_words = sum(len(document.text.split()) for document in collection.documents)
        counts = (len(collection.documents), n_passages, n_words, len(collection.examples))
        rows.append([name, *map(count, counts)])
    return plain_table("The sample alliance", ["organisation"], ["documents", "passages", "words", "questions"], rows)


def best_on_dev(runs: list[Run]) -> Run:
    """Chosen as a silo would choose, on dev; test questions decide nothing."""
    return max(runs, key=lambda run: macro(run.summaries("best", "dev", run.deciding).values()).mean)


# -- questions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tried:
    """A test question, asked of the model as it comes and of the federated one."""

    silo: str
    question: str
    before: str  # the title of the document that the model as it comes puts first
    right_before: bool
    right: bool  # the federated model puts a right passage first
    confidence: float
    answered: bool  # the federated model is sure enough

    @property
    def learnt(self) -> bool:
        return self.right and not self.right_before


@dataclass(frozen=True)
class Shown:
    """A question with the federated model's answers."""

    asked: Tried
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class Questions:
    """Some questions to show, and how all test questions went."""

    courses: tuple[str, ...]  # fingerprints of the two runs
    count: int
    right_before: int
    right: int
    learnt: int
    shown: tuple[Shown, ...]


def ask_all(zero_shot: OpenRun, federated: OpenRun) -> Questions:
    """Ask every test question, and choose three to show from three silos."""
    assistants, tried = {}, []
    for name in SAMPLE_SILOS:
        silo = federated.silo(name)
        assistants[name] = Assistant.of(silo)
        with one_thread():
            tried += list(try_silo(silo, Assistant.of(zero_shot.silo(name)), assistants[name]))
    shown = [Shown(one, tuple(assistants[one.silo].ask(one.question, 1))) for one in choose(tried)]
    return Questions(
        courses=(zero_shot.course.fingerprint, federated.course.fingerprint),
        count=len(tried),
        right_before=sum(one.right_before for one in tried),
        right=sum(one.right for one in tried),
        learnt=sum(one.learnt for one in tried),
        shown=tuple(shown),
    )


def try_silo(silo: Silo, before: Assistant, after: Assistant) -> Iterator[Tried]:
    assert isinstance(silo.features, MatchFeatures)
    passages = silo.features.passages
    for question in judged_questions(silo.collection.of_split("test"), passages):
        right = {passages[position].id for position in question.relevant}
        (found,), (first,) = (assistant.finder.find(question.text, 1) for assistant in (after, before))
        document = before.documents[first.passage.document]
        yield Tried(
            silo=silo.name,
            question=question.text,
            before=document.title or document.id,
            right_before=first.passage.id in right,
            right=found.passage.id in right,
            confidence=found.confidence,
            answered=found.confidence >= after.threshold,
        )


def choose(tried: Sequence[Tried], many: int = 3) -> list[Tried]:
    """Of different silos, the surest that are right; the first is one that was learnt, if there is any."""
    good = sorted((one for one in tried if one.right and one.answered), key=lambda one: -one.confidence)
    chosen = sorted(good, key=lambda one: not one.learnt)[:1]
    for one in good:
        if one.silo not in {other.silo for other in chosen}:
            chosen.append(one)
    return chosen[:many]


def _questions(out: Path, baseline: Run, federated: Run, progress: Console) -> Questions:
    """Asked once and kept: this takes longer than all else that is not training."""
    path, courses = out / "questions.json", (baseline.course.fingerprint, federated.course.fingerprint)
    if path.exists():
        kept = from_table(Questions, json.loads(path.read_text(encoding="utf-8")), str(path))
        if kept.courses == courses:
            return kept
    progress.print(Text("asking the test questions", style="dim"))
    questions = ask_all(open_run(baseline.folder), open_run(federated.folder))
    write_json(path, plain(questions))
    return questions


def show_questions(console: Console, questions: Questions, method: str) -> None:
    console.print(Text("Asked over all passages of an organisation", style="bold"))
    console.print(
        f"Of {questions.count} test questions, the model as it comes puts a right passage first for "
        f"{questions.right_before}, {method} for {questions.right}; {questions.learnt} were learnt."
    )
    if not any(one.asked.learnt for one in questions.shown):
        console.print(f"None that {method} is sure of was wrong before.")
    console.print(f"Some that {method} gets right:")
    for one in questions.shown:
        console.print()
        console.print(Text(f"{one.asked.silo}: {one.asked.question}", style="bold cyan"))
        if one.asked.learnt:
            console.print(Text(f"   learnt: before, the first passage was from “{one.asked.before}”", style="dim"))
        show_answers(console, one.answers)


# -- the page ----------------------------------------------------------------------------------------------------


def write_page(out: Path, reading: Mapping[str, Any]) -> Path:
    """The hospital's file, the alliance it trains in, and its store with its data; what is there stays."""
    silo, alliance = out / f"{PAGE}.toml", out / "alliance.toml"
    if not alliance.exists():
        table = sample_table(READING[-1]) | {"name": "sample reading"} | dict(reading)
        for entry in table["silo"]:
            entry["skill"] = "read"
            if entry["name"] == PAGE:
                entry["data"] = {"format": "store", "path": silo.name}
        write_text(alliance, tomli_w.dumps(table))
    if not silo.exists():
        write_text(silo, _PAGE_FILE.format(name=PAGE, match=_best_match(out).folder.name, read=READING[-1]))
    settings = load_settings(silo)
    with Store.open(settings.store) as store:
        fill(settings, store)
    return silo


def _best_match(out: Path) -> Run:
    """Which of the models that were trained to find passages did best on the hospital's own dev questions."""
    folders = [out / name for name in (*FEDERATED, WHOLE) if (out / name / "result.json").exists()]
    return max(map(load_run, folders), key=lambda run: run.summaries("best", "dev", run.deciding)[PAGE].mean)


def _read_runs(out: Path, progress: Console) -> list[Run]:
    """The sample alliance learns to read, each silo alone and all together."""
    for method in READING:
        folder = out / _folder_of(method)
        project = load_project(out / "alliance.toml", [f"method={method}"])
        _train_project(folder, project, f"reading, {method}", progress)
    return [load_run(out / _folder_of(method)) for method in READING]


def _folder_of(method: str) -> str:
    return method if method == READING[-1] else f"read_{method}"


def serve_page(console: Console, silo: Path) -> None:
    from fedqa.web.serve import serve  # brings the web server, which the rest does without

    console.print()
    serve(silo, say=lambda text: console.print(text, soft_wrap=True))


_PAGE_FILE = """\
# The page of the sample hospital: fedqa serve {name}.toml
name = "{name}"
store = "{name}.sqlite"

[data]
sample = "{name}"

[runs]
match = "{match}"
read = "{read}"

[training]
alliance = "alliance.toml"
rounds = 1

[page]
title = "Larkmoor General Hospital"
"""


# -- the end -----------------------------------------------------------------------------------------------------


def _show_next(console: Console, out: Path, best: Run, page: Path) -> None:
    report = write_report(best.folder, [out / method for method in METHODS if out / method != best.folder])
    console.print()
    console.print(Text("Where to look next", style="bold"))
    silo = SAMPLE_SILOS[0]
    for what, how in (
        ("a report with charts", str(report)),
        ("all that left a silo", f"fedqa ledger {best.folder} {silo}"),
        ("ask it yourself", f'fedqa ask {out / READING[-1]} {silo} "…"'),
        ("its page", f"fedqa serve {page}"),
        ("train it otherwise", "fedqa train sample --out runs/mine --set method=fedprox --set model=embedded"),
    ):
        console.print(Text(f"  {what:<22}", style="dim").append(how, style="not dim"), soft_wrap=True)
