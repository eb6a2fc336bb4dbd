# SPDX-License-Identifier: Apache-2.0
"""The databases of the sample alliance as silos of questions and SQL."""

from dataclasses import replace
from pathlib import Path

from fedqa.data.records import Collection, Document
from fedqa.data.sample import sample_database, sample_pairs
from fedqa.data.schema_text import schema_text
from fedqa.databases.database import Database


def sample_queries(name: str, folder: Path) -> Collection:
    """The questions to the database of a sample organisation, `about` a document that tells of its schema.

    The database is built in `folder` at first use.
    """
    with Database.open(sample_database(name, folder)) as database:
        schema = Document(name, schema_text(database.schema()), title=name)
    return Collection((schema,), tuple(replace(pair, about=name) for pair in sample_pairs(name)))
