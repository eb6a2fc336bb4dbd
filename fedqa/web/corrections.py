# SPDX-License-Identifier: Apache-2.0
"""What became of the examples that people made here: learned in which round, forgotten again, or not yet."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from fedqa.evaluation.words import count, listed
from fedqa.serving.learning import Learning, learnt
from fedqa.store import Origin, Store, StoredExample

State = Literal["learned", "forgotten", "not yet", "waiting"]
MADE_HERE: tuple[Origin, ...] = ("annotated", "corrected")
WAITING = "waiting for the next training"
_MOST = 500  # of each origin, the newest
_SAID: Mapping[State, str] = {
    "learned": "learned",
    "forgotten": "forgotten again",
    "not yet": "not learned yet",
    "waiting": "waiting",
}


@dataclass(frozen=True)
class Line:
    id: str
    question: str
    by: str
    at: datetime
    state: State
    words: str
    round: int | None  # in which it was learned, or last right


@dataclass(frozen=True)
class Corrections:
    """Newest first. `counts` are of those in `lines`, by state."""

    lines: Sequence[Line]
    total: int
    counts: Mapping[State, int]

    @property
    def words(self) -> str:
        """`3 learned and 1 waiting`."""
        return listed(
            [f"{count(self.counts[state])} {said}" for state, said in _SAID.items() if self.counts.get(state)]
        )


def corrections(store: Store, run: Path | None, silo: str) -> Corrections:
    listings = [store.examples(origin=origin, limit=_MOST) for origin in MADE_HERE]
    seen = learnt(run, silo) if run else {}
    stored = sorted((one for listing in listings for one in listing.items), key=lambda one: one.added_at, reverse=True)
    lines = [_line(one, seen.get(one.example.id)) for one in stored]
    return Corrections(lines, sum(listing.total for listing in listings), Counter(line.state for line in lines))


def _line(stored: StoredExample, learning: Learning | None) -> Line:
    return Line(
        id=stored.example.id,
        question=stored.example.question,
        by=stored.added_by,
        at=stored.added_at,
        state=learning.state if learning else "waiting",
        words=learning.words if learning else WAITING,
        round=learning.round if learning else None,
    )
