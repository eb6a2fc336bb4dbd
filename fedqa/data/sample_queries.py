# SPDX-License-Identifier: Apache-2.0
"""The databases of the sample alliance as silos of questions and SQL."""

import tempfile
from pathlib import Path

from fedqa.data.queries import about_database
from fedqa.data.records import Collection
from fedqa.data.sample import sample_database_at, sample_pairs
from fedqa.errors import ConfigError


def sample_queries(name: str, folder: Path) -> Collection:
    """The questions to the database of a sample organisation, `about` a document that tells of its schema.

    The database is built in `folder` at first use.
    """
    return _queries(name, folder / f"{name}.sqlite")


def sample_queries_of(name: str, database: str) -> Collection:
    """The same for a silo that names a file for the database, or none: then it is built only to read its schema."""
    if "://" in database:
        raise ConfigError(
            f'the database of the sample silo {name!r} is built in a file; name one, as in database = "{name}.sqlite"'
        )
    if database:
        return _queries(name, Path(database))
    with tempfile.TemporaryDirectory() as folder:
        return sample_queries(name, Path(folder))


def _queries(name: str, file: Path) -> Collection:
    return about_database(Collection((), sample_pairs(name)), sample_database_at(name, file), name)
