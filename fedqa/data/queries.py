# SPDX-License-Identifier: Apache-2.0
"""Questions with SQL, and the database they are asked of."""

from dataclasses import replace
from pathlib import Path

from fedqa.data.records import Collection, Document
from fedqa.data.schema_text import read_schema, schema_text
from fedqa.databases.database import Database
from fedqa.databases.schema import Schema
from fedqa.errors import ConfigError, DataError


def queries_alone(collection: Collection) -> Collection:
    """The questions with SQL of a silo's store, which holds its documents and what is asked of them too."""
    asked = tuple(replace(example, about="") for example in collection.examples if example.sql)
    if not asked:
        raise DataError(
            "the store holds no question with SQL yet; give some on the page's room Database, or import a file of them"
        )
    return replace(collection, documents=(), examples=asked)


def about_database(collection: Collection, where: str | Path, name: str = "database") -> Collection:
    """The collection with a document that tells of its database's schema, unless it has documents of its own.

    Names of tables and columns are all that is taken from the database. Raises ConfigError if it cannot be opened, or
    has none of the tables that the collection's own documents tell of.
    """
    with Database.open(where) as database:
        schema, where = database.schema(), database.name
    if collection.documents:
        _check_tables(collection, schema, str(where))
        return collection
    document = Document(name, schema_text(schema), title=name)
    return replace(
        collection, documents=(document,), examples=tuple(replace(e, about=name) for e in collection.examples)
    )


def _check_tables(collection: Collection, schema: Schema, where: str) -> None:
    known = {relation.name.lower() for relation in schema.relations}
    for document in collection.documents:
        told = {relation.name.lower() for relation in read_schema(document.text).relations}
        if not told & known:
            raise ConfigError(
                f"the database {where} has no table that the questions are about ({', '.join(sorted(told))}); "
                "name the database that they were written for"
            )
