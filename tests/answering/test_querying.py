# SPDX-License-Identifier: Apache-2.0
"""Asking a database: from a trained model to SQL that runs, its result and a sentence."""

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from toy_alliance import write_alliance
from toy_database import ALONE, SECRET, write_database, write_towns
from transformers import T5Config, T5ForConditionalGeneration
from typer.testing import CliRunner, Result

from fedqa.answering.assistant import Assistant
from fedqa.answering.querying import Querying
from fedqa.cli import app
from fedqa.config import load_project
from fedqa.databases.database import Database
from fedqa.errors import ConfigError, ModelError, RunError
from fedqa.export import export
from fedqa.federation.channels import CHANNELS
from fedqa.federation.messages import Exchange
from fedqa.files import read_tensors, write_tensors
from fedqa.models.backbones import load_backbone
from fedqa.models.head import HEAD
from fedqa.opening import open_run
from fedqa.parser_export import load_parser
from fedqa.runs import train

QUESTION, SQL = "big is reno ?", "SELECT population FROM city WHERE city_name = 'reno'"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("towns")


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    train(load_project(write_towns(folder)), folder / "run", processes=1)
    return folder / "run"


def fedqa(*words: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


# -- a silo of a run ---------------------------------------------------------------------------------------------


def test_a_question_is_answered_by_sql_its_result_and_a_sentence(run: Path) -> None:
    with Querying.open(run, "north") as querying:
        answer = querying.ask(QUESTION)
    assert answer.answered and answer.table is not None
    assert (answer.sql, answer.tried) == (SQL, 1)
    assert (answer.table.columns, answer.table.rows) == (("population",), ((6000,),))
    assert answer.sentence == "The answer is 6000."
    assert answer.score is not None and answer.score < 0
    assert answer.record is not None and (answer.record.metric, answer.record.questions) == ("ex", 2)


def test_execution_accuracy_is_among_the_scores_of_a_run(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    for silo in ("north", "south"):
        scores = result["silos"][silo]["best"]["test"]
        assert set(scores) == {"em", "ex"}
        assert scores["ex"] >= scores["em"] == 1.0
    assert result["macro"]["best"]["test"]["ex"] == result["micro"]["best"]["test"]["ex"] == 1.0


def test_nothing_that_only_the_database_holds_is_outside_the_silos_folders(run: Path) -> None:
    course = (run / "course.toml").read_text()
    assert "towns.sqlite" in course.partition("[data")[2]  # where the data are: for this machine alone
    assert "towns.sqlite" not in course.partition("[data")[0]
    for file in run.rglob("*"):
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes()
            if file.name != "course.toml":
                assert b"towns.sqlite" not in file.read_bytes()


def test_where_all_examples_are_pooled_the_database_stays_home(tmp_path: Path) -> None:
    changes = ["method=central", "local.epochs=1", "rounds=1", "evaluation.every=0"]
    train(load_project(write_towns(tmp_path), changes), tmp_path / "run", processes=1)
    silo = open_run(tmp_path / "run").silo("north")
    exchange = Exchange(silo.course.fingerprint, 1, "examples", "collect", {})
    sent = bytes(CHANNELS["examples"].answer(silo, exchange)["examples"].numpy())
    assert b"SELECT population" in sent
    assert b"towns.sqlite" not in sent and SECRET.encode() not in sent


def test_without_a_database_there_is_sql_and_how_to_name_one(run: Path, folder: Path, tmp_path: Path) -> None:
    with Querying.open(run, "north") as querying:
        alone = replace(querying, database=None)
        answer = alone.ask(QUESTION)
        assert (answer.sql, answer.table, answer.answered) == (SQL, None, False)
        assert "names no database. Name one with --database, or in the run's course.toml, under [data.north]" in (
            answer.sentence
        )


def test_sql_that_does_not_run_is_never_shown(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE city (name TEXT)")
        connection.commit()
    with Querying.open(run, "north") as querying, Database.open(other) as changed:
        answer = replace(querying, database=changed).ask(QUESTION, beams=2)
    assert (answer.sql, answer.answered, answer.tried) == ("", False, 2)
    assert answer.sentence.startswith(
        "No answer: of the 2 queries that the model wrote, none can be run (the likeliest"
    )
    assert answer.sentence.endswith("Ask in other words, or train on.")
    assert "population" not in answer.sentence


def test_another_database_may_be_asked(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_database(tmp_path / "copy.sqlite")
    with closing(sqlite3.connect(tmp_path / "copy.sqlite")) as connection:
        connection.execute("UPDATE city SET population = 7")
        connection.commit()
    monkeypatch.chdir(tmp_path)
    with Querying.open(run, "north", database="copy.sqlite") as querying:
        assert querying.ask(QUESTION).sentence == "The answer is 7."


def test_what_cannot_be_asked_says_why(run: Path, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no database .*nowhere.sqlite; name the path of an"):
        Querying.open(run, "north", database="nowhere.sqlite")
    with pytest.raises(RunError, match=r"unknown silo 'nroth' in .*did you mean 'north'"):
        Querying.open(run, "nroth")
    with Querying.open(run, "north") as querying:
        with pytest.raises(ConfigError, match="the question is empty; ask something, in quotation marks"):
            querying.ask(" ")
        with pytest.raises(ConfigError, match="beams must be at least 1 query, got 0"):
            querying.ask("big ?", beams=0)


def test_the_assistant_for_documents_says_who_asks_databases(run: Path) -> None:
    with pytest.raises(
        RunError, match=r"'north' learnt 'parse', whose model asks a database and no documents; take fed"
    ):
        Assistant.open(run, "north")


def test_a_silo_of_another_skill_writes_no_sql(tmp_path: Path) -> None:
    project = load_project(write_alliance(tmp_path), ["method=zero_shot", "evaluation.every=0"])
    train(project, tmp_path / "run", processes=1)
    with pytest.raises(RunError, match="silo 'north' learnt 'match', whose model writes no SQL; ask it for its"):
        Querying.open(tmp_path / "run", "north")
    found = fedqa("ask", tmp_path / "run", "north", "Where?", "--database", "x.sqlite", code=2)
    assert "--database is for a silo that learnt 'parse', and 'north' did not; leave it out" in found.stderr


# -- the command line --------------------------------------------------------------------------------------------


def test_ask_shows_the_sql_the_table_and_a_sentence(run: Path) -> None:
    text = fedqa("ask", run, "north", QUESTION).stdout
    sql, tried, table, sentence = (text.index(part) for part in (SQL, "tried 1 of", " 6000 ", "The answer is 6000."))
    assert sql < tried < text.index("population", tried) < table < sentence
    assert "Of the silo's 2 dev questions, this model gets" in text


def test_ask_prints_one_document_for_machines(run: Path) -> None:
    found = json.loads(fedqa("ask", run, "north", QUESTION, "--json").stdout)
    assert (found["answered"], found["sql"], found["columns"], found["rows"]) == (True, SQL, ["population"], [[6000]])
    assert (found["truncated"], found["tried"], found["sentence"]) == (False, 1, "The answer is 6000.")
    assert found["record"]["metric"] == "ex"


def test_ask_takes_a_query_that_finds_nothing_only_if_it_is_told_to(run: Path) -> None:
    first = json.loads(fedqa("ask", run, "north", "big is nowhere ?", "--first", "--json").stdout)
    assert (first["rows"], first["tried"], first["sentence"]) == ([], 1, "No rows: nothing in the database fits.")
    assert json.loads(fedqa("ask", run, "north", "big is nowhere ?", "--json").stdout)["tried"] > 1


# -- a model alone -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(run: Path, folder: Path) -> Path:
    return export(run, "north", folder / "model").parent


def test_an_exported_model_answers_as_the_run_does(run: Path, exported: Path, folder: Path) -> None:
    with Querying.open(run, "north") as ours, Querying.exported(exported, str(folder / "towns.sqlite")) as theirs:
        one, other = ours.ask("where is omaha ?"), theirs.ask("where is omaha ?")
    assert one.sql == other.sql
    assert one.score == pytest.approx(other.score)
    assert other.sentence == f"The answer is {SECRET}."


def test_the_lines_of_its_card_run(
    exported: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = (exported / "README.md").read_text()
    assert "| EX | " in card and "# north: questions into SQL" in card
    write_database(tmp_path / "database.sqlite")
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(card.partition("```python\n")[2].partition("```")[0], found)
    assert found["answer"].sql.startswith("SELECT")


def test_ask_takes_an_exported_model(exported: Path, folder: Path) -> None:
    found = fedqa("ask", exported, "north", QUESTION, "--database", folder / "towns.sqlite")
    assert "The answer is 6000." in found.stdout
    assert "model alone; name the database to ask" in fedqa("ask", exported, "north", QUESTION, code=2).stderr
    assert "unknown silo 'south'" in fedqa("ask", exported, "south", QUESTION, "--database", "x", code=2).stderr


@pytest.mark.parametrize(
    ("changes", "patch"),
    [
        (["skills.parse.train_encoder=true", "method=lorar", 'method_options.patch="low_rank"'], True),
        (["freeze_layers=1"], False),
    ],
)
def test_all_that_was_trained_is_in_the_folder(changes: list[str], patch: bool, tmp_path: Path) -> None:
    project = load_project(write_towns(tmp_path, ALONE), ["local.epochs=1", "rounds=1", "evaluation.every=0", *changes])
    train(project, tmp_path / "run", processes=1)
    folder = export(tmp_path / "run", "north", tmp_path / "model").parent
    assert bool(load_parser(folder).model.get_parameter("bias").any())
    where = str(tmp_path / "towns.sqlite")
    with Querying.open(tmp_path / "run", "north") as ours, Querying.exported(folder, where) as theirs:
        pairs = zip(ours.model.named_parameters(), theirs.model.named_parameters(), strict=True)
        same = [name for (name, one), (other, two) in pairs if name == other and bool((one == two).all())]
        assert len(same) == len(list(ours.model.parameters()))
        assert any("patch" in name for name in same) is patch
        one, other = (q.skill.candidates(q.model, q.features, QUESTION, beams=2) for q in (ours, theirs))
        assert [p.sql for p in one] == [p.sql for p in other]


def test_a_folder_that_is_no_exported_parser_says_so(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"has no {HEAD}; give a folder that `fedqa export` wrote"):
        load_parser(tmp_path)
    (tmp_path / HEAD).write_bytes(b"nothing")
    with pytest.raises(ModelError, match=r"cannot be read .*; export the model again"):
        load_parser(tmp_path)
    write_tensors(tmp_path / HEAD, {}, {"skill": "match"})
    with pytest.raises(ModelError, match="holds a model of the skill 'match', which writes no SQL; ask the run it"):
        load_parser(tmp_path)
    copy = shutil.copytree(exported, tmp_path / "copy")
    weights, (name, *_) = read_tensors(exported / HEAD), sorted(read_tensors(exported / HEAD))
    with safe_open(exported / HEAD, "pt") as file:
        write_tensors(copy / HEAD, {key: weights[key] for key in weights if key != name}, file.metadata())
    with pytest.raises(ModelError, match=f"does not fit the model, first at '{name}'; set the options of 'parse'"):
        load_parser(copy)


def small_t5(folder: Path) -> Path:
    """A random encoder-decoder with the tokenizer of the model `tiny`, as a folder."""
    tokenizer = load_backbone("tiny").tokenizer
    sizes: dict[str, Any] = {
        "d_model": 16,
        "d_kv": 8,
        "d_ff": 32,
        "num_layers": 1,
        "num_decoder_layers": 1,
        "num_heads": 2,
    }
    special: dict[str, Any] = {"decoder_start_token_id": 0, "eos_token_id": tokenizer.sep_token_id, "pad_token_id": 0}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = T5ForConditionalGeneration(T5Config(vocab_size=len(tokenizer), **sizes, **special))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_an_encoder_decoder_is_exported_whole(tmp_path: Path) -> None:
    model = small_t5(tmp_path / "t5")
    changes = ["local.epochs=1", "rounds=1", "evaluation.every=0", f'model="{model}"', "skills.parse={max_steps=24}"]
    train(load_project(write_towns(tmp_path, ALONE), changes), tmp_path / "run", processes=1)
    folder = export(tmp_path / "run", "north", tmp_path / "model").parent
    assert not read_tensors(folder / HEAD)
    where = str(tmp_path / "towns.sqlite")
    with Querying.open(tmp_path / "run", "north") as ours, Querying.exported(folder, where) as theirs:
        state = theirs.model.state_dict()
        assert all(bool((value == state[name]).all()) for name, value in ours.model.state_dict().items())
        assert [q.ask(QUESTION, beams=2).sql for q in (ours, theirs)] == ["", ""]  # one step has taught it no SQL
