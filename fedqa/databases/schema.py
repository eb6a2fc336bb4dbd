# SPDX-License-Identifier: Apache-2.0
"""The tables and columns of a database, and the text in which models are told of them."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Column:
    """`references` is the column that a foreign key points to, as in `wards.ward_id`; empty for others."""

    name: str
    type: str = ""
    primary_key: bool = False
    references: str = ""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or a view."""

    name: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Schema:
    """What may be asked for, in the order in which it was made."""

    relations: tuple[Relation, ...]
    namespace: str = ""  # in which the relations stand: a query may name it before a table
    functions_of_rows: tuple[str, ...] = field(default=(), repr=False)  # called by a dot, as in `ward.to_json`

    def text(self) -> str:
        """For a model's input: ` | table : column , column` for each table, in lower case."""
        return "".join(
            f" | {relation.name} : {' , '.join(column.name for column in relation.columns)}"
            for relation in self.relations
        ).lower()
