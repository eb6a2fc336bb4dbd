# SPDX-License-Identifier: Apache-2.0
"""A silo's database asked by what it has learnt, from its store: trained, asked, corrected and trained on."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fedqa.answering.database_desk import DatabaseDesk
from fedqa.answering.querying import QueryAnswer
from fedqa.answering.reception import Reception
from fedqa.answering.staff import stamp
from fedqa.config import load_project
from fedqa.data.records import Collection
from fedqa.data.sample import sample_database, sample_pairs
from fedqa.databases.records import QueryRefused
from fedqa.errors import ConfigError, RunError
from fedqa.runs import train
from fedqa.serving.learning import learnt
from fedqa.settings import Settings, load_settings
from fedqa.store import Correction, Store

SILO = """
name = "hospital"
store = "store.sqlite"
[runs]
parse = "run"
"""
TRAINING = '[training]\nalliance = "alliance.toml"\nrounds = 1\n'
ALLIANCE = """
name = "beds"
method = "isolated"
model = "tiny"
rounds = 1
[local]
steps = 1
batch = 4
[skills.parse]
max_steps = 24
[[silo]]
name = "hospital"
skill = "parse"
data = { format = "store", path = "hospital.toml", database = "beds.sqlite" }
"""
QUESTION, SQL = "How many beds have we got?", "SELECT SUM(beds) FROM wards"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A silo whose store has documents and queries, and a run that was trained on the queries."""
    folder = tmp_path_factory.mktemp("silo")
    (folder / "hospital.toml").write_text(SILO, encoding="utf-8")
    (folder / "alliance.toml").write_text(ALLIANCE, encoding="utf-8")
    sample_database("hospital", folder).rename(folder / "beds.sqlite")
    found = load_settings(folder / "hospital.toml")
    with Store.open(found.store) as store:
        store.add_document("Ward 3 has visiting hours from two to seven.", "Visits", source="", who="Ada")
        store.add_collection(Collection((), sample_pairs("hospital")[:40]), source="queries.jsonl", who="Ada")
        store.correct(Correction(QUESTION, "Ada", sql=SQL))
    train(load_project(folder / "alliance.toml"), folder / "run", processes=1)
    return found


@pytest.fixture
def desk(settings: Settings) -> Iterator[DatabaseDesk]:
    opened = DatabaseDesk.open(settings)
    yield opened
    opened.close()


def test_a_model_trained_on_the_store_asks_the_database(desk: DatabaseDesk) -> None:
    answer = desk.ask(QUESTION)
    assert isinstance(answer, QueryAnswer) and answer.answered == bool(answer.sql)
    assert desk.words == "isolated, round 1"
    assert desk.run(SQL).rows == ((412,),)
    with pytest.raises(QueryRefused):
        desk.run("DELETE FROM wards")


def test_sql_that_people_gave_is_asked_again_after_every_round(settings: Settings) -> None:
    with Store.open(settings.store) as store:
        stored = store.verified_query(QUESTION)
    assert stored
    found = learnt(settings.folder / "run", "hospital")[stored.example.id]
    assert found.words in ("learned in round 1", "not learned yet")


def test_a_training_that_has_ended_is_noticed(desk: DatabaseDesk, settings: Settings) -> None:
    first = desk._querying
    desk.ask(QUESTION)
    assert desk._querying is first
    result = settings.folder / "run" / "result.json"
    os.utime(result, ns=(0, result.stat().st_mtime_ns + 1))
    desk.ask(QUESTION)
    assert desk._querying is not first


def test_the_run_that_asks_a_database_is_none_of_those_that_answer_from_documents(settings: Settings) -> None:
    assert settings.answering == {} and stamp(settings) == ()
    assert settings.querying == settings.folder / "run"


def test_before_the_first_training_has_ended_that_is_said(settings: Settings) -> None:
    path = settings.folder / "untrained.toml"
    path.write_text(SILO.replace('"run"', '"none"') + TRAINING, encoding="utf-8")
    desk = DatabaseDesk.open(load_settings(path))
    assert desk.words == "no model yet"
    with pytest.raises(RunError, match="no model has learnt to ask the database yet; train it first"):
        desk.ask(QUESTION)
    desk.close()
    with pytest.raises(RunError, match="none does not exist; give the folder"):
        DatabaseDesk.open(replace(load_settings(path), training=None))


def test_a_run_without_a_database_is_refused_with_a_remedy(settings: Settings, tmp_path: Path) -> None:
    """The same run, whose course says that the silo's data are a sample without a database."""
    for entry in (settings.folder / "run").iterdir():
        (tmp_path / entry.name).symlink_to(entry)
    course = tmp_path / "course.toml"
    head, found, _ = course.read_text(encoding="utf-8").partition("[data.hospital]\n")
    assert found
    course.unlink()
    course.write_text(f'{head}{found}sample = "hospital"\npart = "queries"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"\[runs\] parse = .* names no database for 'hospital'; add database = "):
        DatabaseDesk.open(replace(settings, runs={"parse": tmp_path}))


def test_a_reception_asks_it_once_it_is_open(settings: Settings) -> None:
    with Store.open(settings.store) as store:
        reception = Reception(settings, store)
        with pytest.raises(RunError, match="cannot be asked here yet"):
            _ = reception.database
        reception.open()
        assert reception.database.run(SQL).rows == ((412,),)
        reception.close()
