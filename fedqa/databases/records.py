# SPDX-License-Identifier: Apache-2.0
"""What a query may cost, what it gives, and the two ways it can end without an answer.

The messages hold no text of the data and none of the query: a database's own words ("invalid number: 'Jane Roe'") would
carry both into logs and, from there, out of the silo.
"""

from dataclasses import dataclass, fields

from fedqa.errors import ConfigError, FedQAError

Cell = None | bool | int | float | str  # dates and the like are texts, as the database writes them


@dataclass(frozen=True, slots=True)
class Limits:
    """What one query may cost. An answer beyond `rows` or `bytes` is cut off; beyond the others there is none."""

    seconds: float = 2.0
    rows: int = 200
    bytes: int = 1_000_000  # of the answer as JSON; in SQLite also of any single value on the way to it
    memory: int = 128_000_000  # bytes that the process which runs the query may take for it

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ConfigError(f"the limit {field.name!r} must be above 0, got {getattr(self, field.name)!r}")


@dataclass(frozen=True, slots=True)
class Table:
    """The answer to a query. `truncated` says that there is more of it."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    truncated: bool
    seconds: float

    def is_numeric(self, column: int) -> bool:
        """Are all its cells numbers, but for those with nothing in them?"""
        cells = [row[column] for row in self.rows if row[column] is not None]
        return all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)


class QueryError(FedQAError):
    """A query without an answer."""

    _kind = "has no answer"

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"the query {self._kind}: {reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy


class QueryRefused(QueryError):
    """It was not run, or stopped by what guards the database: it is not one plain SELECT from the schema's tables."""

    _kind = "was refused"


class QueryFailed(QueryError):
    """It was run, and the database could not answer it, or not within the limits."""

    _kind = "failed"
