# SPDX-License-Identifier: Apache-2.0
"""What those who wrote a silo's queries show beside the answer.

"Which ward has the most beds?" can be answered by a name, or by a name and a number. No question says which; the silo's
own training examples do.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_SELECT = re.compile(r"select (?:distinct )?(.*?) from ", re.DOTALL)
_ORDERED = re.compile(r"order by ([\w.]+)(?: asc| desc)? limit \d+$")
_COMPARED = re.compile(r" where .*?([\w.]+) (?:[<>]=?|between) \d")
_COUNTED = re.compile(r"(?:having|order by) (count\()")


@dataclass(frozen=True)
class Habits:
    """Whether a query shows what it orders by, what it compares with a number, and what it counts."""

    shows_ordered: bool = False
    shows_compared: bool = True
    shows_counted: bool = True


def habits_of(queries: Iterable[str]) -> Habits:
    """The habits of most queries to which each applies; the default where there are none, or as many of each kind."""
    texts = [" ".join(query.lower().rstrip("; ").split()) for query in queries]
    default = Habits()
    return Habits(
        _most(texts, _ORDERED.search, default.shows_ordered),
        _most(texts, _COMPARED.search, default.shows_compared),
        _most(texts, _COUNTED.search, default.shows_counted),
    )


def _most(texts: Iterable[str], search: Callable[[str], re.Match[str] | None], default: bool) -> bool:
    votes = 0
    for text in texts:
        found, shown = search(text), _SELECT.match(text)
        if found and shown and (found[1].startswith("count(") or "(" not in shown[1]):
            votes += 1 if found[1] in shown[1] else -1
    return votes > 0 if votes else default
