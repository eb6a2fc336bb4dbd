# SPDX-License-Identifier: Apache-2.0
"""What became of each correction: did the silo's model learn it, in which round, and has it forgotten it again?"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedqa.federation.learning import noted, silo_folder

State = Literal["learned", "forgotten", "not yet"]


@dataclass(frozen=True)
class Learning:
    """A correction, as it was checked after every round since it was made."""

    rounds: Mapping[int, bool]  # by round, in order: was it right?
    served: bool | None = None  # is it right with the model that answers now? None while a training goes on

    @property
    def state(self) -> State:
        if self._right_now:
            return "learned"
        return "forgotten" if any(self.rounds.values()) else "not yet"

    @property
    def round(self) -> int | None:
        """The round in which it was learned, or was last right."""
        right = [number for number, was_right in self.rounds.items() if was_right]
        if not right or not self._right_now:
            return right[-1] if right else None
        wrong_before = [number for number, was_right in self.rounds.items() if not was_right and number < right[-1]]
        return next(number for number in right if number > max(wrong_before, default=0))

    @property
    def words(self) -> str:
        if self.state == "learned":
            return f"learned in round {self.round}" if self.round else "learned"
        if self.state == "forgotten":
            return f"forgotten again (was right in round {self.round})"
        return "not learned yet"

    @property
    def _right_now(self) -> bool:
        return self.served if self.served is not None else bool(self.rounds) and list(self.rounds.values())[-1]


def learnt(run: Path, silo: str) -> dict[str, Learning]:
    """By the example's id; examples that no training has met yet are not in it."""
    lines = noted(silo_folder(run, silo))
    rounds: dict[str, dict[int, bool]] = {}
    served: Mapping[str, bool] = {}
    last = 0
    for line in lines:
        if line.point == "personal":
            last, served = line.round, {}  # a training goes on: what answered before says nothing of it
        elif line.round > last:
            served = line.right
        for example, right in line.right.items():
            of_example = rounds.setdefault(example, {})
            if line.point == "personal":
                of_example[line.round] = right
    return {example: Learning(seen, served.get(example)) for example, seen in rounds.items()}
