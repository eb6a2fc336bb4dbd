# SPDX-License-Identifier: Apache-2.0
"""The file of a silo, as its people write it: where its store and its models are, and how its page is reached.

    name = "hospital"
    store = "hospital.sqlite"            # or a PostgreSQL URL
    [data]                               # read into the store once, when it is empty
    sample = "hospital"                  # or format and path, as in an alliance file
    [runs]                               # where the models are, by skill; a skill without a run is done without
    match = "runs/demo/fedbn"
    parse = "runs/databases"             # asks the database that the run names
    [training]                           # what an owner may start from the page
    alliance = "alliance.toml"           # has a silo of this name whose data are the store
    rounds = 2                           # more, each time
    [page]
    title = "Larkmoor General Hospital"

Paths are relative to the file. Nothing heavy is imported here: managing documents must not wait for the models.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedqa.errors import ConfigError, unknown
from fedqa.tables import from_table

ANSWERING = ("retrieve", "match", "read")  # the skills that take part in an answer from documents, in their order
QUERYING = "parse"  # the one that asks a database


@dataclass(frozen=True)
class PageSettings:
    """[page]: where it is served, and what it is called."""

    host: str = "127.0.0.1"
    port: int = 8642
    title: str = ""
    names: tuple[str, ...] = ()  # other names it is reached by, such as that of a proxy before it

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"port must be from 0 (any that is free) to 65535, got {self.port}")


@dataclass(frozen=True)
class TrainingSettings:
    """[training]: what an owner may start from the page."""

    alliance: Path
    rounds: int = 2

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ConfigError(f"rounds must be at least 1, got {self.rounds}")


@dataclass(frozen=True)
class Settings:
    """A silo's file, with its paths made absolute."""

    path: Path  # of the file itself
    name: str
    store: str | Path  # a database address, or the path of an SQLite file
    data: Mapping[str, Any] = field(default_factory=dict)  # as `data` of a silo in an alliance file; may be empty
    runs: Mapping[str, Path] = field(default_factory=dict)  # by skill
    training: TrainingSettings | None = None
    page: PageSettings = field(default_factory=PageSettings)

    @property
    def folder(self) -> Path:
        """Where relative paths start."""
        return self.path.parent

    @property
    def answering(self) -> dict[str, Path]:
        """The runs whose models answer from documents, by skill."""
        return {skill: run for skill, run in self.runs.items() if skill in ANSWERING}

    @property
    def querying(self) -> Path | None:
        """The run whose model asks the silo's database; None if it has none."""
        return self.runs.get(QUERYING)

    @property
    def kept(self) -> Path:
        """What the page keeps besides the store: its index, how sure it is, the log of its trainings."""
        return self.path.with_suffix(".page")


@dataclass(frozen=True)
class _Training:
    alliance: str
    rounds: int = TrainingSettings.rounds


@dataclass(frozen=True)
class _File:
    name: str
    store: str
    data: Mapping[str, Any] = field(default_factory=dict)
    runs: Mapping[str, str] = field(default_factory=dict)
    training: _Training | None = None
    page: PageSettings = field(default_factory=PageSettings)


def load_settings(path: Path) -> Settings:
    """Read a silo's file; errors name the file and the key."""
    path = path.absolute()
    table = _read(path)
    if "silo" in table or "course" in table:
        raise ConfigError(f"{path} is an alliance or course file; give a silo's own file, which has name and store")
    try:
        return _settings(from_table(_File, table, str(path)), path)
    except ConfigError as problem:  # what is wrong in itself does not know where it was written
        raise ConfigError(str(problem) if str(path) in str(problem) else f"{path}: {problem}") from None


def _settings(file: _File, path: Path) -> Settings:
    for key in ("name", "store"):
        if not getattr(file, key).strip():
            raise ConfigError(f"{key} is empty; give the silo's {'name' if key == 'name' else 'database file'}")
    for skill in file.runs:
        if skill not in (*ANSWERING, QUERYING):
            raise ConfigError(unknown("skill", skill, (*ANSWERING, QUERYING), "[runs]"))
    folder = path.parent
    return Settings(
        path=path,
        name=file.name,
        store=file.store if "://" in file.store else folder / file.store,
        data=file.data,
        runs={skill: folder / run for skill, run in file.runs.items()},
        training=TrainingSettings(folder / file.training.alliance, file.training.rounds) if file.training else None,
        page=file.page,
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}; `fedqa demo` writes one to start from") from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a folder; give the silo's file in it") from None
    except UnicodeDecodeError as problem:
        raise ConfigError(f"{path} is not UTF-8 text (byte {problem.start}); save it as UTF-8") from None
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"{path} is not valid TOML: {problem}") from None
