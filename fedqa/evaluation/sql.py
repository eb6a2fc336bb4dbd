# SPDX-License-Identifier: Apache-2.0
"""Whether SQL is right, question by question: as a text, as in Zhang et al. (2023), and by what it finds."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from fedqa.databases.database import Database
from fedqa.databases.records import Cell, Limits, QueryError, Table
from fedqa.databases.statement import is_ordered
from fedqa.errors import ConfigError

_TOLERANCE = 1e-9  # how far fractions may be apart: sums depend on the order of rows
_LIMITS = Limits(rows=10_000)  # results are compared whole, and nobody has to read them

Row = tuple[Cell, ...]


def normalised(sql: str) -> str:
    """The text that is compared: in lower case, values too; spaces, quotation marks and the last semicolon alike."""
    text = " ".join(sql.lower().split())
    text = text.replace("( ", "(").replace(" )", ")")
    text = re.sub(" ([;,])", r"\1", text).replace('"', "'")
    return text if text.endswith(";") else text + ";"


def exact_match(predicted: str, gold: str, others: Iterable[str] = ()) -> float:
    """One if the texts are the same, else zero. Any of `others` will do too; the paper compares with gold alone."""
    return float(normalised(predicted) in map(normalised, (gold, *others)))


def execution_match(database: Database, predicted: str, gold: str) -> float | None:
    """One if both find the same, else zero; None if the gold SQL cannot be run to its end within the limits.

    Rows count as often as they are found. Their order counts if the gold SQL gives one; names of columns never do.
    """
    wanted, found = _result(database, gold), _result(database, predicted)
    if wanted is None:
        return None
    ordered = is_ordered(gold, database.dialect)
    return float(found is not None and same_result(found, wanted, ordered=ordered))


def execution_matches(where: str, pairs: Iterable[tuple[str, str]]) -> list[float]:
    """`execution_match` of predicted and gold SQL in a database, without those whose gold SQL cannot be run.

    None at all if the database cannot be opened: a training need not end because a server is away for a moment.
    """
    try:
        with Database.open(where, _LIMITS) as database:
            found = [execution_match(database, predicted, gold) for predicted, gold in pairs]
    except ConfigError:
        return []
    return [match for match in found if match is not None]


def same_result(found: Table, gold: Table, *, ordered: bool) -> bool:
    """Whether two tables hold the same rows, in the same order if `ordered`. Fractions may differ by a billionth."""
    if len(found.columns) != len(gold.columns) or len(found.rows) != len(gold.rows):
        return False
    if ordered:
        return all(map(_same_row, found.rows, gold.rows))
    return _same_rows(found.rows, gold.rows)


def _result(database: Database, sql: str) -> Table | None:
    try:
        table = database.run(sql)
    except QueryError:
        return None
    return None if table.truncated else table


def _same_rows(found: Sequence[Row], gold: Sequence[Row]) -> bool:
    """Rows that are equal are set aside first; of the rest, each needs a partner of its own that is near enough."""
    equal = Counter(found) & Counter(gold)
    left = list((Counter(found) - equal).elements())
    for row in (Counter(gold) - equal).elements():
        partner = next((i for i, other in enumerate(left) if _same_row(other, row)), None)
        if partner is None:
            return False
        del left[partner]
    return True


def _same_row(one: Row, other: Row) -> bool:
    return all(map(_same_cell, one, other))


def _same_cell(one: Cell, other: Cell) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float) and float in (type(one), type(other)):
        return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return one == other
