# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from fedqa.errors import ConfigError
from fedqa.settings import PageSettings, TrainingSettings, load_settings

WHOLE = """\
name = "hospital"
store = "hospital.sqlite"
[data]
sample = "hospital"
[runs]
match = "runs/fedbn"
read = "/elsewhere/fedqas"
[training]
alliance = "../alliance.toml"
rounds = 3
[page]
host = "0.0.0.0"
port = 80
title = "Larkmoor General Hospital"
names = ["qa.example"]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "hospital.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, WHOLE)
    monkeypatch.chdir(tmp_path)
    settings = load_settings(Path("hospital.toml"))
    assert settings == load_settings(path)
    assert settings.store == tmp_path / "hospital.sqlite"
    assert settings.data == {"sample": "hospital"}
    assert settings.runs == {"match": tmp_path / "runs/fedbn", "read": Path("/elsewhere/fedqas")}
    assert settings.training == TrainingSettings(tmp_path / "../alliance.toml", 3)
    assert settings.page == PageSettings("0.0.0.0", 80, "Larkmoor General Hospital", ("qa.example",))
    assert settings.kept == tmp_path / "hospital.page"


def test_a_name_and_a_store_are_enough(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, 'name = "law"\nstore = "postgresql+psycopg://me@db/law"'))
    assert settings.store == "postgresql+psycopg://me@db/law"
    assert (settings.data, settings.runs, settings.training) == ({}, {}, None)
    assert (settings.page.host, settings.page.port) == ("127.0.0.1", 8642)


NEEDED = 'name = "law"\nstore = "law.sqlite"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "law"', r"hospital\.toml needs the key 'store'"),
        (NEEDED + "colour = 1", r"unknown key 'colour' in .*hospital\.toml"),
        (NEEDED + "[page]\nports = 1", "unknown key 'ports'.*did you mean 'port'"),
        (NEEDED + "[page]\nport = 70000", r"hospital\.toml: port must be from 0 .* to 65535, got 70000"),
        (NEEDED + '[page]\nport = "x"', "page: port must be a whole number, got 'x'"),
        (NEEDED + '[runs]\nmach = "x"', r"hospital\.toml: unknown skill 'mach' in \[runs\]; did you mean 'match'"),
        (NEEDED + '[training]\nalliance = "a"\nrounds = 0', "rounds must be at least 1, got 0"),
        ('name = " "\nstore = "x"', "name is empty; give the silo's name"),
        ('name = "law"\nstore = ""', "store is empty; give the silo's database file"),
        ('name = "x"\nmethod = "fedavg"\n[[silo]]\nname = "y"', "is an alliance or course file; give a silo's own"),
        ("name = ", "is not valid TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_settings(written(tmp_path, text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no file .*law\.toml; `fedqa demo` writes one"):
        load_settings(tmp_path / "law.toml")
    with pytest.raises(ConfigError, match="is a folder; give the silo's file in it"):
        load_settings(tmp_path)
    (tmp_path / "latin.toml").write_bytes('name = "Köln"'.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"is not UTF-8 text \(byte 9\)"):
        load_settings(tmp_path / "latin.toml")
