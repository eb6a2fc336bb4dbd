# SPDX-License-Identifier: Apache-2.0
"""Beam search for any model that says, row by row, which steps are likely next; one beam is greedy search.

What may be written can be bound by a rule for each source: it is asked before every step, so that nothing is ever
written that the rule forbids.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

SYMBOL, PIECE, ITEM, SPAN = range(4)  # kinds of steps: of a fixed list, of a vocabulary, of items, of words read


@dataclass(frozen=True, slots=True)
class Step:
    """One thing written: its kind, and which one of that kind."""

    kind: int
    index: int


class Likely(NamedTuple):
    """A step and the logarithm of its probability."""

    score: float
    step: Step


@dataclass(frozen=True, eq=False, slots=True)
class Allowed:
    """What may come next."""

    symbols: npt.NDArray[np.bool_]  # [symbols]
    items: npt.NDArray[np.bool_]  # [items]
    pieces: bool
    spans: bool


class Rule(Protocol):
    """What may be written, after all that was written so far."""

    def allowed(self) -> Allowed: ...

    def after(self, step: Step) -> "Rule": ...


class Stepper(Protocol):
    """A model in the middle of writing, one row for each text it is about to go on with."""

    def likely(self, last: Sequence[Step | None], k: int, allowed: Sequence[Allowed] | None) -> list[list[Likely]]:
        """The `k` best next steps of each row; `last` is what each wrote last, None at the start."""

    def take(self, rows: Sequence[int]) -> None:
        """Go on with these rows, of which one may stand several times."""


@dataclass(frozen=True, slots=True)
class Search:
    longest: int = 200  # steps
    beams: int = 1


class Written(NamedTuple):
    """Steps without the end; `score` is the mean logarithm of their probabilities, the end's included.

    With a penalty on length other than 1 it is their sum over their number to that power.
    """

    steps: tuple[Step, ...]
    score: float


class _Row(NamedTuple):
    source: int
    steps: tuple[Step, ...]
    total: float
    rule: Rule | None


class _Next(NamedTuple):
    total: float
    parent: int
    step: Step


def searched(
    stepper: Stepper,
    sources: int,
    search: Search,
    *,
    end: Step,
    rules: Sequence[Rule] | None = None,
    penalty: float = 1.0,
) -> list[list[Written]]:
    """What a model writes for each source, the best first. What had no end in time is given only if nothing had."""
    live = [_Row(i, (), 0.0, rules[i] if rules else None) for i in range(sources)]
    done: list[list[Written]] = [[] for _ in range(sources)]
    for _ in range(search.longest):
        if not live:
            break
        allowed = [row.rule.allowed() for row in live if row.rule] if rules else None
        found = stepper.likely([row.steps[-1] if row.steps else None for row in live], search.beams, allowed)
        chosen = list(_chosen(live, found, search.beams))
        for one in chosen:
            if one.step == end:
                row = live[one.parent]
                done[row.source].append(Written(row.steps, one.total / (len(row.steps) + 1) ** penalty))
        going = [one for one in chosen if one.step != end and len(done[live[one.parent].source]) < search.beams]
        live = [_grown(live[one.parent], one) for one in going]
        if live:
            stepper.take([one.parent for one in going])
    for row in live:
        if not done[row.source]:
            done[row.source].append(Written(row.steps, row.total / max(1, len(row.steps)) ** penalty))
    return [sorted(written, key=lambda one: -one.score) for written in done]


def _chosen(live: Sequence[_Row], found: Sequence[Sequence[Likely]], beams: int) -> Iterator[_Next]:
    """The best continuations of each source."""
    by_source: dict[int, list[_Next]] = {}
    for parent, (row, likely) in enumerate(zip(live, found, strict=True)):
        nexts = [_Next(row.total + score, parent, step) for score, step in likely]
        by_source.setdefault(row.source, []).extend(nexts)
    for nexts in by_source.values():
        yield from sorted(nexts, key=lambda one: -one.total)[:beams]


def _grown(row: _Row, chosen: _Next) -> _Row:
    return _Row(row.source, (*row.steps, chosen.step), chosen.total, row.rule.after(chosen.step) if row.rule else None)
