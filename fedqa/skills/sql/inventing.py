# SPDX-License-Identifier: Apache-2.0
"""Questions and SQL invented from a schema, for a silo that has few of its own.

Plain questions (how many, which, the highest, for each …) are drawn over the schema's tables, columns and foreign keys.
Where the contents of the database are known, values are real ones, and a question need not say of which column; else
they are made up, and what they teach is to copy them. The SQL is written plainly: bare columns in one table,
`table.column` where tables are joined. What it shows beside the answer follows the silo's own examples.
"""

import numpy as np

from fedqa.databases.contents import Contents
from fedqa.databases.schema import Schema
from fedqa.skills.sql.drawing import Drawing, Pair
from fedqa.skills.sql.habits import Habits
from fedqa.skills.sql.inventing_joins import JOINED
from fedqa.skills.sql.inventing_tables import SINGLE

_TRIES = 20  # drawings for each pair that is wanted, before a small schema is known to have no more


def invented(
    schema: Schema, count: int, seed: int, *, contents: Contents | None = None, habits: Habits | None = None
) -> list[Pair]:
    """At most so many different questions with their SQL; the same seed gives the same ones."""
    draw = Drawing(schema, np.random.default_rng(seed), contents)
    kinds = (*SINGLE, *(JOINED if draw.joins else ()))
    found: dict[str, str] = {}
    for _ in range(count * _TRIES):
        if len(found) == count:
            break
        pair = draw.one_of(*kinds)(draw, habits or Habits())
        if pair:
            found.setdefault(*pair)
    return list(found.items())
