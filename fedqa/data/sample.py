# SPDX-License-Identifier: Apache-2.0
"""The sample alliance that comes with the package: five organisations, their notes, and for two of them a database."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path

from fedqa.data import notes, text2sql_pairs
from fedqa.data.records import Collection, Example
from fedqa.errors import ConfigError, unknown

SAMPLE_SILOS = ("hospital", "insurer", "bank", "law", "biomedical")
_SCHEMA, _PAIRS = "database.sql", "database_questions.jsonl"


def sample_silo(name: str) -> Collection:
    """The documents and questions of a sample organisation."""
    with as_file(_folder(name)) as folder:
        return notes.read(folder)


def sample_pairs(name: str) -> tuple[Example, ...]:
    """The questions to the database of a sample organisation, with their SQL."""
    with as_file(_database_file(name, _PAIRS)) as file:
        return text2sql_pairs.read(file).examples


def sample_database(name: str, folder: Path) -> Path:
    """The SQLite database of a sample organisation, built in `folder` at first use; complete or not there at all."""
    return sample_database_at(name, folder / f"{name}.sqlite")


def sample_database_at(name: str, target: Path) -> Path:
    """The same, in a file of any name; what is there already stays."""
    script = _database_file(name, _SCHEMA).read_text(encoding="utf-8")
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with _moved_to(target) as unfinished, closing(sqlite3.connect(unfinished)) as connection:
            connection.executescript(script)
            connection.commit()
    return target


@contextmanager
def _moved_to(target: Path) -> Iterator[Path]:
    """A file beside the target that takes its place if all went well."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    try:
        yield Path(name)
        os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)


def _folder(name: str) -> Traversable:
    if name not in SAMPLE_SILOS:
        raise ConfigError(unknown("sample silo", name, SAMPLE_SILOS))
    return files("fedqa.data").joinpath("sample", name)


def _database_file(name: str, file: str) -> Traversable:
    found = _folder(name).joinpath(file)
    if not found.is_file():
        having = [silo for silo in SAMPLE_SILOS if _folder(silo).joinpath(file).is_file()]
        raise ConfigError(f"the sample silo {name!r} has no database (those with one: {', '.join(having)})")
    return found
