# SPDX-License-Identifier: Apache-2.0
"""The alliance file: the whole of a federated training, as people write it. A method makes a course of it."""

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import tomli_w

from fedqa.errors import ConfigError, unknown
from fedqa.federation.course import Course, Evaluation, SiloPlan
from fedqa.files import write_text
from fedqa.methods import patches_of, stages_of
from fedqa.methods.method import Plan
from fedqa.skills import make_skill
from fedqa.tables import from_table, to_table
from fedqa.training import Local

SAMPLE = "sample"  # the name of the sample alliance wherever a file is expected


@dataclass(frozen=True)
class SiloData:
    """Where a silo's data are. Never part of a course."""

    format: str = ""
    path: str = ""
    sample: str = ""  # an organisation of the sample alliance, instead of format and path
    limit: int | None = None  # questions, drawn by the seed
    options: Mapping[str, Any] = field(default_factory=dict)  # of the format
    part: Literal["notes", "queries"] = "notes"  # of the sample organisation: its texts, or questions to its database
    database: str = ""  # that questions are asked of: an SQLite file, or a URL of PostgreSQL

    def __post_init__(self) -> None:
        if self.part != "notes" and not self.sample:
            raise ConfigError(
                f'part = "{self.part}" goes with a sample, as in {{ sample = "hospital", part = "queries" }}'
            )
        if bool(self.sample) == bool(self.format or self.path):
            raise ConfigError('data needs either { format = "…", path = "…" } or { sample = "hospital" }')
        if bool(self.format) != bool(self.path):
            raise ConfigError(f"data needs both format and path, got format = {self.format!r}, path = {self.path!r}")
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit must be at least 1 question, got {self.limit}")

    def database_from(self, folder: Path) -> str:
        """The database for whoever opens it; a relative path starts at the folder."""
        return self.database if not self.database or "://" in self.database else str(folder / self.database)


@dataclass(frozen=True)
class SiloEntry:
    """A [[silo]] of the alliance file."""

    name: str
    data: Mapping[str, Any]
    skill: str = "match"
    limit: int | None = None
    local: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""

    def silo_data(self) -> SiloData:
        known = {f.name for f in fields(SiloData)} - {"options", "limit"}
        plain = {key: value for key, value in self.data.items() if key in known}
        options = {key: value for key, value in self.data.items() if key not in known}
        if plain.get("sample") and options:
            raise ConfigError(
                f"data of silo {self.name!r}: {sorted(options)[0]!r} goes with a format, not with a sample"
            )
        where = f"data of silo {self.name!r}"
        try:
            return from_table(SiloData, {**plain, "options": options, "limit": self.limit}, where)
        except ConfigError as problem:  # what contradicts itself does not know where it was written
            raise ConfigError(str(problem) if where in str(problem) else f"{where}: {problem}") from None


@dataclass(frozen=True)
class Alliance:
    name: str
    method: str
    silo: tuple[SiloEntry, ...]
    seed: int = 13
    model: str = "embedded"
    freeze_layers: int = 0  # the lowest, that stay as loaded: faster, and fewer bytes
    rounds: int = 3
    method_options: Mapping[str, Any] = field(default_factory=dict)
    local: Local = field(default_factory=Local)
    skills: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # [skills.match] and so on
    evaluation: Evaluation = field(default_factory=Evaluation)


@dataclass(frozen=True)
class Project:
    """A course, and where its silos' data are: what `fedqa train` works on."""

    course: Course
    data: Mapping[str, SiloData]
    folder: Path  # relative paths start here


@dataclass(frozen=True)
class CourseFile:
    """What `save_project` writes."""

    course: Course
    data: Mapping[str, SiloData] = field(default_factory=dict)


def load_project(path: Path, changes: Sequence[str] = ()) -> Project:
    """Read an alliance file or a course file, with `key=value` changes; errors name the file and the key.

    Where there is no file called `sample`, that name means the sample alliance.
    """
    table = sample_table() if str(path) == SAMPLE and not path.exists() else read_toml(path)
    table = changed(table, changes)
    if "course" in table:
        return _course_project(table, path)
    if "silo" not in table:
        raise ConfigError(f"{path} names no silo; add a [[silo]] with name and data for each")
    alliance = from_table(Alliance, table, str(path))
    data = {entry.name: entry.silo_data() for entry in alliance.silo}
    for entry in alliance.silo:
        _check_fits(entry, data[entry.name])
    return Project(course_of(alliance), data, path.parent)


def _check_fits(entry: SiloEntry, data: SiloData) -> None:
    """Only questions with SQL teach `parse`, and only `parse` asks a database."""
    if entry.skill != "parse" and (data.database or data.part == "queries"):
        what = "database" if data.database else "part"
        raise ConfigError(
            f"data of silo {entry.name!r}: {what} is for a silo that asks a database, but its skill is "
            f'{entry.skill!r}; set skill = "parse", or leave {what} out'
        )
    if entry.skill == "parse" and data.sample and data.part != "queries":
        raise ConfigError(
            f"data of silo {entry.name!r}: the notes of a sample hold no SQL to learn from; "
            f'write {{ sample = "{data.sample}", part = "queries" }}'
        )


def course_of(alliance: Alliance) -> Course:
    stages = stages_of(alliance.method, Plan(_rounds(alliance.rounds), alliance.local), alliance.method_options)
    used = {entry.skill for entry in alliance.silo}
    for skill in alliance.skills:
        if skill not in used:
            raise ConfigError(
                f"[skills.{skill}] is for a skill that no silo has (silos have: {', '.join(sorted(used))})"
            )
    plans = tuple(
        SiloPlan(entry.name, entry.skill, alliance.skills.get(entry.skill, {}), entry.local, entry.group)
        for entry in alliance.silo
    )
    for plan in plans:
        learnt = make_skill(plan.skill, plan.skill_options, f"[skills.{plan.skill}]")
        for stage in stages:
            learnt.check_draws(stage.draws, f"stage {stage.name!r}")
    return Course(
        name=alliance.name,
        method=alliance.method,
        seed=alliance.seed,
        model=alliance.model,
        silos=plans,
        stages=stages,
        evaluation=alliance.evaluation,
        freeze_layers=alliance.freeze_layers,
        patches=patches_of(alliance.method, alliance.method_options),
    )


def sample_table(method: str = "fedavg") -> dict[str, Any]:
    """The sample alliance as a file would say it."""
    from fedqa.data.sample import SAMPLE_SILOS

    silos = [{"name": name, "data": {"sample": name}} for name in SAMPLE_SILOS]
    return {"name": SAMPLE, "method": method, "silo": silos}


def sample_alliance(method: str, **settings: Any) -> Alliance:
    """The sample alliance with a method."""
    return from_table(Alliance, sample_table(method) | settings, "the sample alliance")


def project_of(alliance: Alliance) -> Project:
    return Project(course_of(alliance), {entry.name: entry.silo_data() for entry in alliance.silo}, Path())


def save_project(project: Project, path: Path) -> None:
    """Write a course file; its data paths are relative to where it stands, so it can be given to `fedqa train`."""
    data = {name: _moved(entry, project.folder, path.parent) for name, entry in project.data.items()}
    table = {"course": to_table(project.course), "data": {name: to_table(entry) for name, entry in data.items()}}
    write_text(path, tomli_w.dumps(table))


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"there is no file {path}; `fedqa demo` needs none, and examples/ has some to start from"
        ) from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a folder; give the alliance file in it") from None
    except UnicodeDecodeError as problem:
        raise ConfigError(f"{path} is not UTF-8 text (byte {problem.start}); save it as UTF-8") from None
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"{path} is not valid TOML: {problem}") from None


def _course_project(table: Mapping[str, Any], path: Path) -> Project:
    file = from_table(CourseFile, table, str(path))
    names = {silo.name for silo in file.course.silos}
    for name in file.data:
        if name not in names:
            raise ConfigError(f"{path}: " + unknown("silo", name, names, "[data]"))
    for name in sorted(names - set(file.data)):
        raise ConfigError(f"{path}: silo {name!r} has no data; add [data.{name}] with format and path")
    return Project(file.course, file.data, path.parent)


def changed(table: dict[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """The table with `key=value` changes made in it; a dotted key reaches into tables."""
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set takes key=value, such as --set rounds=5 or --set local.batch=8, got {change!r}")
        *parents, last = key.strip().split(".")
        place = table
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise ConfigError(f"--set {key}: {parent!r} is not a table")
        place[last] = _value(text.strip())
    return table


def _value(text: str) -> Any:
    """A TOML value; a bare word is a text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _rounds(rounds: int) -> int:
    if rounds < 1:
        raise ConfigError(f'rounds must be at least 1, got {rounds} (use method = "zero_shot" to train nothing)')
    return rounds


def _moved(entry: SiloData, old: Path, new: Path) -> SiloData:
    """The data as a file in another folder names them."""
    database = entry.database if "://" in entry.database else _relative(entry.database, old, new)
    return replace(entry, path=_relative(entry.path, old, new), database=database)


def _relative(path: str, old: Path, new: Path) -> str:
    if not path or Path(path).is_absolute():
        return path
    return Path(os.path.relpath((old / path).resolve(), new.resolve())).as_posix()
