# SPDX-License-Identifier: Apache-2.0
"""What became of the examples that people made here: learned in which round, forgotten again, or not yet.

*Learned* is what the trained model makes of the question by itself, round after round; a reader even has the right
document before it. *Answered* is what everybody is told now, from all documents and by all models together.
"""

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
    answered: bool | None  # is it what is answered now? None: not asked again yet


@dataclass(frozen=True)
class Corrections:
    """Newest first. `counts` are of those in `lines`, by state."""

    lines: Sequence[Line]
    total: int
    counts: Mapping[State, int]

    @property
    def words(self) -> str:
        """`3 learned and 1 waiting; 2 of 4 are answered right`."""
        states = [f"{count(self.counts[state])} {said}" for state, said in _SAID.items() if self.counts.get(state)]
        asked = [line.answered for line in self.lines if line.answered is not None]
        right = f"; {count(sum(asked))} of {count(len(asked))} answered right" if asked else ""
        return listed(states) + right


def corrections(store: Store, run: Path | None, silo: str, answered: Mapping[str, bool]) -> Corrections:
    """`answered` is what the desk has found when it asked them again."""
    listings = [store.examples(origin=origin, limit=_MOST) for origin in MADE_HERE]
    seen = learnt(run, silo) if run else {}
    stored = sorted((one for listing in listings for one in listing.items), key=lambda one: one.added_at, reverse=True)
    lines = [_line(one, seen.get(one.example.id), answered.get(one.example.id)) for one in stored]
    return Corrections(lines, sum(listing.total for listing in listings), Counter(line.state for line in lines))


def _line(stored: StoredExample, learning: Learning | None, answered: bool | None) -> Line:
    return Line(
        id=stored.example.id,
        question=stored.example.question,
        by=stored.added_by,
        at=stored.added_at,
        state=learning.state if learning else "waiting",
        words=learning.words if learning else WAITING,
        round=learning.round if learning else None,
        answered=answered,
    )
