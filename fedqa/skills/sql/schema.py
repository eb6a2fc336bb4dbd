# SPDX-License-Identifier: Apache-2.0
"""The tables and columns of a database, numbered, as the skill `parse` copies them."""

from dataclasses import dataclass
from functools import cached_property

from fedqa.databases.schema import Schema


@dataclass(frozen=True, slots=True)
class Item:
    """A column of a table, or the table itself where `column` is empty."""

    table: str
    column: str = ""

    @property
    def words(self) -> str:
        """The item as a short text for an encoder."""
        said = f"{self.table} : {self.column}" if self.column else f"table {self.table}"
        return said.replace("_", " ").lower()


class SchemaItems:
    """All that a query can name: the tables, then the columns of each. Case does not count."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        columns = (Item(table.name, column.name) for table in schema.relations for column in table.columns)
        self.items = (*(Item(table.name) for table in schema.relations), *columns)
        self._positions = {(item.table.lower(), item.column.lower()): i for i, item in enumerate(self.items)}

    def __getitem__(self, i: int) -> Item:
        return self.items[i]

    def find(self, table: str, column: str = "") -> int | None:
        return self._positions.get((table.lower(), column.lower()))

    def table_of(self, item: int) -> int:
        """The table of a column; of a table, itself."""
        return self._positions[self.items[item].table.lower(), ""]

    def having(self, column: str) -> list[int]:
        """All columns of that name."""
        return [i for i, item in enumerate(self.items) if item.column and item.column.lower() == column.lower()]

    @cached_property
    def keys(self) -> frozenset[frozenset[int]]:
        """The pairs of columns that a foreign key joins."""
        found = set()
        for table in self.schema.relations:
            for column in (one for one in table.columns if one.references):
                pair = self.find(table.name, column.name), self.find(*column.references.split(".", 1))
                if None not in pair:
                    found.add(frozenset(i for i in pair if i is not None))
        return frozenset(found)
