# SPDX-License-Identifier: Apache-2.0
"""A database's schema as the text of a document, and back.

The text is that of `fedqa.databases.schema.Schema`, ` | table : column , column | …`. Keys that join tables may stand
behind the tables, as ` | a.x = b.y`. Nothing of a table's content is in it.
"""

import re
from dataclasses import replace

from fedqa.databases.schema import Column, Relation, Schema
from fedqa.errors import DataError

_NAME = r"([^.=|]+?)"
_KEY = re.compile(rf"{_NAME}\.{_NAME}\s*=\s*{_NAME}\.{_NAME}")
_FORM = "write | table : column , column for each table"


def schema_text(schema: Schema) -> str:
    """A schema's text with its keys."""
    keys = (
        f" | {table.name}.{column.name} = {column.references}"
        for table in schema.relations
        for column in table.columns
        if column.references
    )
    return schema.text() + "".join(keys).lower()


def read_schema(text: str) -> Schema:
    """The schema that a text tells of."""
    tables: dict[str, Relation] = {}
    for part in filter(None, (part.strip() for part in text.split("|"))):
        name, colon, columns = part.partition(":")
        if colon:
            given = (column.strip() for column in columns.split(","))
            tables[name.strip()] = Relation(name.strip(), tuple(Column(column) for column in given if column))
        elif not _add_key(tables, part):
            raise DataError(f"a schema says {part[:60]!r}; {_FORM}, and | a.x = b.y for keys of theirs")
    if not tables:
        raise DataError(f"there is no table in the schema {text[:60]!r}; {_FORM}")
    return Schema(tuple(tables.values()))


def _add_key(tables: dict[str, Relation], part: str) -> bool:
    key = _KEY.fullmatch(part)
    if not key or key[1] not in tables or key[2] not in {column.name for column in tables[key[1]].columns}:
        return False
    target = f"{key[3]}.{key[4]}"
    columns = (replace(c, references=target) if c.name == key[2] else c for c in tables[key[1]].columns)
    tables[key[1]] = Relation(key[1], tuple(columns))
    return True
