# SPDX-License-Identifier: Apache-2.0
"""examples/databases.toml, much smaller: the sample's two databases, trained on and asked."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedqa.answering.querying import Querying
from fedqa.cli import app
from fedqa.config import load_project
from fedqa.databases.contents import contents_of
from fedqa.errors import ConfigError
from fedqa.evaluation.run_scores import best_of_both, load_run
from fedqa.runs import databases_of, read_silo, train

EXAMPLE = Path(__file__).parents[1] / "examples" / "databases.toml"
SMALL = ["model=tiny", "rounds=1", "local.epochs=1", "skills.parse={synthetic=5, max_steps=16}", "evaluation.every=1"]
QUESTION = "How many patients are there?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with twelve questions a silo, in a folder of its own: its databases are built beside it."""
    folder = tmp_path_factory.mktemp("project") / "examples"
    folder.mkdir()
    text = EXAMPLE.read_text(encoding="utf-8")
    assert text.count('skill = "parse"') == 2
    limited = text.replace('skill = "parse"', 'skill = "parse"\nlimit = 12')
    (folder / EXAMPLE.name).write_text(limited, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    runs = folder.parent / "runs"
    for name, more in (("one", []), ("two", ["method=isolated", "method_options={}"])):
        train(load_project(folder / EXAMPLE.name, [*SMALL, *more]), runs / name, processes=1)
    return runs / "one"


def test_the_databases_are_built_where_the_file_says(run: Path, folder: Path) -> None:
    assert {path.name for path in (folder.parent / "runs" / "sample").iterdir()} == {"hospital.sqlite", "bank.sqlite"}
    project = load_project(run / "course.toml")
    assert project.data["bank"].database == "../sample/bank.sqlite"
    assert all(Path(where).is_file() for where in databases_of(project).values())
    silo = read_silo("bank", project.data["bank"], project.folder, 13)
    assert [document.id for document in silo.documents] == ["bank"]
    assert all(example.sql and example.split for example in silo.examples)


def test_execution_accuracy_is_shown_by_silo_and_in_all(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    assert result["questions"]["hospital"]["best"]["test"] == {"em": 3, "ex": 3}
    for rollup in ("macro", "micro", "worst"):
        assert 0 <= result[rollup]["best"]["test"]["ex"] <= 1
    shown = CliRunner().invoke(app, ["evaluate", str(run)])
    assert shown.exit_code == 0, shown.output
    assert "best EX" in shown.stdout and "agree with result.json" in shown.stdout


def test_values_that_were_looked_up_and_invented_with_stay_out_of_the_run_folder(run: Path) -> None:
    contents = contents_of(run.parent / "sample" / "bank.sqlite")
    names = contents.texts["customers", "full_name"]
    assert len(names) > 20
    for file in (file for file in run.rglob("*") if file.is_file()):
        text = file.read_bytes()
        assert not [name for name in names if name.encode() in text], file


def test_runs_are_compared_wherever_their_databases_are(run: Path) -> None:
    one, other = load_run(run), load_run(run.with_name("two"))
    assert "database" not in one.data["bank"] and one.data["bank"]["part"] == "queries"
    assert set(best_of_both(one, other)) == {"hospital", "bank"}


def test_a_model_that_has_learnt_nothing_gives_no_answer_or_one_that_runs(run: Path) -> None:
    with Querying.open(run, "hospital") as querying:
        answer = querying.ask(QUESTION)
        assert answer.answered == bool(answer.sql)
        assert answer.sentence


def test_another_file_with_the_same_tables_may_be_asked_and_none_is_built(run: Path, tmp_path: Path) -> None:
    copy = shutil.copy(run.parent / "sample" / "hospital.sqlite", tmp_path / "copy.sqlite")
    with Querying.open(run, "hospital", database=str(copy)) as querying:
        assert querying.database is not None and querying.database.name == str(copy)
    with pytest.raises(
        ConfigError, match=r"there is no database .*other.sqlite; name the path of an SQLite file, or a URL"
    ):
        Querying.open(run, "hospital", database=str(tmp_path / "other.sqlite"))
    assert [path.name for path in tmp_path.iterdir()] == ["copy.sqlite"]
