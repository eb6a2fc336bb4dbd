# SPDX-License-Identifier: Apache-2.0
"""Alliance files and course files: read, changed, written, and every way they can be wrong."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedqa.config import (
    Alliance,
    SiloData,
    course_of,
    load_project,
    project_of,
    sample_alliance,
    save_project,
)
from fedqa.errors import ConfigError
from fedqa.methods import METHODS
from fedqa.tables import from_table
from fedqa.training import Local

ALLIANCE = """
name = "two"
method = "fedprox"
seed = 3
model = "tiny"
rounds = 2

[method_options]
proximal_weight = 1
sample = 1

[local]
batch = 4
learning_rate = 1e-3

[skills.match]
max_passage = 24

[evaluation]
every = 2

[[silo]]
name = "ward"
data = { format = "squad", path = "data/ward.json", delimiter = ";" }
limit = 5
local = { epochs = 2 }
group = "clinic"

[[silo]]
name = "bank"
data = { sample = "bank" }
"""


@pytest.fixture
def alliance(tmp_path: Path) -> Path:
    path = tmp_path / "alliance.toml"
    path.write_text(ALLIANCE, encoding="utf-8")
    return path


def write(path: Path, old: str, new: str) -> Path:
    assert old in ALLIANCE
    path.write_text(ALLIANCE.replace(old, new), encoding="utf-8")
    return path


def test_an_alliance_file_becomes_a_course_and_where_data_are(alliance: Path) -> None:
    project = load_project(alliance)
    course = project.course
    assert (course.name, course.method, course.seed, course.model, course.rounds) == ("two", "fedprox", 3, "tiny", 2)
    (stage,) = course.stages
    assert stage.local == Local(batch=4, learning_rate=1e-3)
    assert [(term.name, term.weight) for term in stage.objective] == [("task", 1.0), ("prox", 1.0)]
    assert stage.participation.sample == 1
    assert course.evaluation.every == 2
    ward, bank = course.silos
    assert (ward.skill, ward.group, ward.local) == ("match", "clinic", {"epochs": 2})
    assert ward.skill_options == bank.skill_options == {"max_passage": 24}
    assert project.data["ward"] == SiloData("squad", "data/ward.json", "", 5, {"delimiter": ";"})
    assert project.data["bank"] == SiloData(sample="bank")
    assert project.folder == alliance.parent


def test_nothing_that_is_a_silos_own_business_is_in_the_course(alliance: Path) -> None:
    one = load_project(alliance).course.fingerprint
    other = load_project(write(alliance, "data/ward.json", "elsewhere/x.json")).course.fingerprint
    assert one == other
    assert load_project(write(alliance, "limit = 5", "limit = 6")).course.fingerprint == one


def test_defaults_are_those_of_the_records() -> None:
    course = course_of(sample_alliance("fedavg"))
    assert (course.seed, course.model, course.rounds, course.evaluation.every) == (13, "embedded", 3, 1)
    assert course.stages[0].local == Local()
    assert len(course.silos) == 5


# -- changes -----------------------------------------------------------------------------------------------------


def test_changes_are_values_of_the_file(alliance: Path) -> None:
    changes = ["rounds=7", "local.batch = 8", "method=fedavg", "method_options={}", 'model="x=y"', "evaluation.every=0"]
    course = load_project(alliance, changes).course
    assert (course.rounds, course.method, course.model, course.evaluation.every) == (7, "fedavg", "x=y", 0)
    assert course.stages[0].local == Local(batch=8, learning_rate=1e-3)


def test_a_change_may_begin_a_table(alliance: Path) -> None:
    write(alliance, "[evaluation]\nevery = 2", "")
    assert load_project(alliance, ["evaluation.every=5"]).course.evaluation.every == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("rounds", r"--set takes key=value, such as --set rounds=5 .* got 'rounds'"),
        ("=3", r"--set takes key=value, .* got '=3'"),
        ("name.first=3", r"--set name.first: 'name' is not a table"),
        ("silo.name=x", r"--set silo.name: 'silo' is not a table"),
        ("round=3", "unknown key 'round' in .*did you mean 'rounds'"),
        ("rounds=many", "rounds must be a whole number, got 'many'"),
        ("rounds=0", r'rounds must be at least 1, got 0 \(use method = "zero_shot" to train nothing\)'),
        ("local.batch=0", "batch must be at least 1, got 0"),
    ],
)
def test_a_change_that_cannot_be_is_refused(alliance: Path, change: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_project(alliance, [change])


# -- what can be wrong -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "two"', "", "alliance.toml needs the key 'name', which is missing"),
        ('name = "two"', 'nmae = "two"', "unknown key 'nmae' in .*alliance.toml; did you mean 'name'"),
        ('method = "fedprox"', 'method = "fedprx"', "unknown method 'fedprx'; did you mean 'fedprox'"),
        ("proximal_weight = 1", "weight = 1", r"unknown key 'weight' in \[method_options\] of method 'fedprox'"),
        ("proximal_weight = 1", "proximal_weight = -1", "objective term 'prox' needs a weight of at least 0, got -1"),
        ("proximal_weight = 1", "proximal_weight = nan", "proximal_weight must be a finite number, got nan"),
        ("sample = 1", "sample = 3", "stage 'train' samples 3 silos, but there are only 2"),
        ("sample = 1", 'weights = "fair"', "weights: unknown value 'fair'"),
        ("batch = 4", "batches = 4", "local: .*|unknown key 'batches'"),
        ("[skills.match]", "[skills.read]", r"\[skills.read\] is for a skill that no silo has \(silos have: match\)"),
        ("max_passage = 24", "max_pasage = 24", r"unknown key 'max_pasage' in \[skills.match\]"),
        ("max_passage = 24", "max_passage = 2", "max_passage must be at least 8, got 2"),
        ('group = "clinic"', 'skill = "mach"', r"unknown skill 'mach'.*did you mean 'match'"),
        ("limit = 5", "limit = 0", "limit must be at least 1 question, got 0"),
        ("epochs = 2", "epoch = 2", "unknown key 'epoch' in local settings of silo 'ward'; did you mean 'epochs'"),
        ('name = "bank"', 'name = "ward"', "silo names must differ, ward stands more than once"),
        ('{ sample = "bank" }', "{}", "data needs either"),
        ('{ sample = "bank" }', '{ format = "csv" }', "data needs both format and path, got format = 'csv', path = ''"),
        ('{ sample = "bank" }', '{ sample = "bank", format = "csv", path = "x" }', "data needs either"),
        ('{ sample = "bank" }', '{ sample = "bank", key = 1 }', "'key' goes with a format, not with a sample"),
        (
            '{ sample = "bank" }',
            '{ sample = "bank", part = "queries" }',
            "data of silo 'bank': part is for a silo that asks a database, but its skill is 'match'; set skill = ",
        ),
        (
            '{ sample = "bank" }',
            '{ sample = "bank", database = "bank.sqlite" }',
            "data of silo 'bank': database is for a silo that asks a database, but its skill is 'match'",
        ),
        (
            '{ sample = "bank" }',
            '{ format = "csv", path = "x", part = "queries" }',
            "data of silo 'bank': part = \"queries\" goes with a sample, as in",
        ),
        ('{ sample = "bank" }', '{ sample = "bank", part = "query" }', "part: unknown value 'query'"),
        (
            '{ sample = "bank" }',
            '{ sample = "bank" }\nskill = "parse"',
            'notes of a sample hold no SQL to learn from; write { sample = "bank", part = "queries" }',
        ),
        ('{ sample = "bank" }', "3", r"silo\[1\]: data must be a table, got 3"),
        ("seed = 3", "seed = 3\nseed = 4", "alliance.toml is not valid TOML: .*line 5"),
    ],
)
def test_a_file_that_is_wrong_says_where(alliance: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_project(write(alliance, old, new))


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no file .*nowhere.toml; .*examples/ has some to start from"):
        load_project(tmp_path / "nowhere.toml")
    with pytest.raises(ConfigError, match="is a folder; give the alliance file in it"):
        load_project(tmp_path)
    (tmp_path / "latin.toml").write_bytes('name = "Bär"'.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"latin.toml is not UTF-8 text \(byte 9\); save it as UTF-8"):
        load_project(tmp_path / "latin.toml")


# -- course files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_course_file_is_the_same_course_for_every_method(method: str, tmp_path: Path) -> None:
    skill = "retrieve" if method in ("dense", "pdd_as2") else "match"
    alliance = sample_alliance(method, local={"steps": 3}, skills={skill: {"scale": 5}})
    project = project_of(replace(alliance, silo=tuple(replace(entry, skill=skill) for entry in alliance.silo)))
    save_project(project, tmp_path / "course.toml")
    again = load_project(tmp_path / "course.toml")
    assert again.course == project.course
    assert again.course.fingerprint == project.course.fingerprint
    assert again.data == project.data


def test_a_course_file_finds_the_data_from_where_it_stands(alliance: Path, tmp_path: Path) -> None:
    project = load_project(alliance)
    path = tmp_path / "runs" / "one" / "course.toml"
    save_project(project, path)
    again = load_project(path)
    assert again.data["ward"].path == "../../data/ward.json"
    assert (again.folder / again.data["ward"].path).resolve() == (alliance.parent / "data" / "ward.json").resolve()
    assert again.data["ward"].options == {"delimiter": ";"}
    assert again.data["bank"] == project.data["bank"]
    assert again.course.fingerprint == project.course.fingerprint


def test_an_absolute_path_stays(alliance: Path, tmp_path: Path) -> None:
    project = load_project(write(alliance, "data/ward.json", "/srv/ward.json"))
    save_project(project, tmp_path / "deep" / "course.toml")
    assert load_project(tmp_path / "deep" / "course.toml").data["ward"].path == "/srv/ward.json"


def test_a_course_file_can_be_changed_too(alliance: Path, tmp_path: Path) -> None:
    save_project(load_project(alliance), tmp_path / "course.toml")
    assert load_project(tmp_path / "course.toml", ["course.seed=99"]).course.seed == 99


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("data.bank", "data.banc", "unknown silo 'banc' in .data.; did you mean 'bank'"),
        ("[course]", "more = 1\n[course]", "unknown key 'more' in .*course.toml"),
        (
            "rounds = 2",
            "rounds = 2\nruonds = 3",
            r"unknown key 'ruonds' in .*course: stages\[0\]; did you mean 'rounds'",
        ),
        ('"embeddings"', '"embedings"', "unknown selector 'embedings' in stage 'train'"),
        ('name = "size"', 'name = "sice"', "unknown weigher 'sice' in mixing; did you mean 'size'"),
    ],
)
def test_a_course_file_that_is_wrong_says_where(
    alliance: Path, tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "course.toml"
    save_project(load_project(alliance), path)
    text = path.read_text(encoding="utf-8")
    assert old in text, text
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_project(path)


def test_every_silo_of_a_course_file_needs_data(alliance: Path, tmp_path: Path) -> None:
    path = tmp_path / "course.toml"
    save_project(load_project(alliance), path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: text.index("[data.bank]")], encoding="utf-8")
    with pytest.raises(ConfigError, match=r"silo 'bank' has no data; add \[data.bank\] with format and path"):
        load_project(path)


@pytest.mark.parametrize("text", ["course = 3", 'course = 3\ndata = "x"'])
def test_a_course_that_is_no_table_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "course.toml").write_text(text)
    with pytest.raises(ConfigError, match="course must be a table, got 3"):
        load_project(tmp_path / "course.toml")


# -- the sample alliance -----------------------------------------------------------------------------------------


def test_the_sample_alliance_can_be_set(tmp_path: Path) -> None:
    alliance = sample_alliance("fedper", rounds=1, model="tiny", local={"batch": 2})
    assert isinstance(alliance, Alliance)
    assert {entry.data["sample"] for entry in alliance.silo} == {entry.name for entry in alliance.silo}
    assert course_of(alliance).stages[0].local.batch == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ronds": 1}, "unknown key 'ronds' in the sample alliance"),
        ({"rounds": -1}, "rounds must be at least 1, got -1"),
    ],
)
def test_a_setting_of_the_sample_alliance_that_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        course_of(sample_alliance("fedavg", **settings))


def test_a_silo_entry_needs_data() -> None:
    with pytest.raises(ConfigError, match=r"here: silo\[0\] needs the key 'data', which is missing"):
        from_table(Alliance, {"name": "a", "method": "fedavg", "silo": [{"name": "x"}]}, "here")


def test_a_database_is_found_from_where_a_course_file_stands_unless_it_is_a_url(alliance: Path, tmp_path: Path) -> None:
    url = "postgresql://reader@host/bank"
    asking = '{ sample = "bank", part = "queries", database = "WHERE" }\nskill = "parse"'
    for where, expected in (("db/bank.sqlite", "../../db/bank.sqlite"), (url, url), ("/x/y.sqlite", "/x/y.sqlite")):
        project = load_project(write(alliance, '{ sample = "bank" }', asking.replace("WHERE", where)))
        save_project(project, tmp_path / "runs" / "one" / "course.toml")
        again = load_project(tmp_path / "runs" / "one" / "course.toml")
        assert again.data["bank"].database == expected
        assert again.data["bank"].part == "queries"
        assert again.course.fingerprint == project.course.fingerprint
    assert SiloData(sample="bank", database="a.sqlite").database_from(Path("/b")) == "/b/a.sqlite"
    assert SiloData(sample="bank", database=url).database_from(Path("/b")) == url
    assert SiloData(sample="bank").database_from(Path("/b")) == ""
