# SPDX-License-Identifier: Apache-2.0
"""Numbers printed in papers, to stand beside ours: one JSON file a paper in `papers/`.

A row of a table has, for every metric, the silos' numbers in the order of `silos` and then the printed mean of them; a
paper that prints means alone has no silos. What a paper prints of a metric in `unusable` contradicts itself: it is
shown as such, and no gain is made of it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import fmean

from fedqa.tables import from_table

FOLDER = Path(__file__).parent / "papers"
MOST_BY_ROUNDING = 0.00011  # four printed digits: half a unit in each addend, half a unit in the mean


@dataclass(frozen=True)
class Slip:
    """A printed mean that is not the mean of what is printed beside it."""

    row: str
    metric: str
    printed: float
    mean: float


@dataclass(frozen=True)
class Published:
    source: str
    silos: Mapping[str, str]  # our silo -> the paper's data set
    tables: Mapping[str, Mapping[str, Mapping[str, tuple[float, ...]]]]  # table -> row -> metric -> numbers
    digits: int = 4  # as printed
    unusable: Mapping[str, str] = field(default_factory=dict)  # metric -> why

    def silo(self, table: str, row: str, *, metric: str, silo: str) -> float | None:
        numbers = self._numbers(table, row, metric)
        return numbers[list(self.silos).index(silo)] if numbers and silo in self.silos else None

    def printed(self, table: str, row: str, metric: str) -> float | None:
        """The mean of silos as printed."""
        numbers = self._numbers(table, row, metric)
        return numbers[-1] if numbers else None

    def mean(self, table: str, row: str, metric: str) -> float | None:
        """The mean of the silos' printed numbers; without silos, as printed."""
        numbers = self._numbers(table, row, metric)
        return fmean(numbers[:-1] or numbers) if numbers else None

    def gain(self, table: str, rows: tuple[str, str], metric: str) -> float | None:
        """How far the first row's mean is above the second's."""
        if metric in self.unusable:
            return None
        first, second = (self.mean(table, row, metric) for row in rows)
        return None if first is None or second is None else first - second

    def slips(self, table: str) -> list[Slip]:
        found = [
            Slip(row, metric, numbers[-1], fmean(numbers[:-1] or numbers))
            for row, metrics in self.tables[table].items()
            for metric, numbers in metrics.items()
        ]
        return [slip for slip in found if abs(slip.printed - slip.mean) > MOST_BY_ROUNDING]

    def _numbers(self, table: str, row: str, metric: str) -> Sequence[float] | None:
        return self.tables[table].get(row, {}).get(metric)


@cache
def published(paper: str) -> Published:
    path = FOLDER / f"{paper}.json"
    return from_table(Published, json.loads(path.read_text(encoding="utf-8")), str(path))


def printed(value: float, digits: int = 4) -> str:
    """As papers print shares: without a leading zero."""
    return f"{value:.{digits}f}".removeprefix("0")
