# SPDX-License-Identifier: Apache-2.0
"""The rows of tables in a PDF. Programs write a table cell by cell, so a cell of several lines tears its row apart."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from fedqa.intake.pdf_pieces import Cell, Printed


@dataclass
class _Row:
    """A row that is being put together, or a line that may turn out to begin one."""

    lines: list[Printed]
    cells: list[Cell]
    above: Printed | None  # the row above, if there is one on the same page

    def takes(self, line: Printed, leading: float) -> bool:
        """Put a line into the row if it goes on with the cell written last or is a further cell."""
        if line.page != self.lines[0].page or len(line.cells) != 1:
            return False
        (cell,) = line.cells
        if self._goes_on(cell, line, leading):
            last = self.cells.pop()
            cell = Cell(last.left, max(last.right, cell.right), f"{last.text} {cell.text}")
        elif not self._has_place_for(cell, line):
            return False
        self.cells.append(cell)
        self.lines.append(line)
        return True

    def _goes_on(self, cell: Cell, line: Printed, leading: float) -> bool:
        room = (self.lines[-1].y - line.y) / line.em
        return abs(self.cells[-1].left - cell.left) < 0.5 * line.em and 0.3 < room < 1.25 * leading

    def _has_place_for(self, cell: Cell, line: Printed) -> bool:
        """Right of the other cells, not below them, and under a cell of the row above? Cells may be centred."""
        if self.above is None or cell.left < self.cells[-1].right:
            return False
        beside = self.lines[0].y - 0.5 * line.em < line.y < self.above.lowest - 0.5 * line.em
        return beside and any(cell.left < other.right and other.left < cell.right for other in self.above.cells)

    def result(self) -> list[Printed]:
        """The row as one line, or the lines as they came if it is none."""
        if len(self.cells) == 1:
            return self.lines
        heights = [line.y for line in self.lines]
        right = max(cell.right for cell in self.cells)
        text = " ".join(cell.text for cell in self.cells)
        changed = replace(self.lines[0], y=max(heights), lowest=min(heights), right=right)
        return [replace(changed, text=text, cells=tuple(self.cells))]


def whole_rows(lines: Iterable[Printed], leading: float) -> Iterator[Printed]:
    """The lines, with those put together that are one row of a table. `leading` is in letter sizes."""
    row: _Row | None = None
    for line in lines:
        if row and row.takes(line, leading):
            continue
        done = row.result() if row else []
        yield from done
        above = done[-1] if done and len(done[-1].cells) > 1 and done[-1].page == line.page else None
        row = _Row([line], list(line.cells), above)
    if row:
        yield from row.result()


def is_row(line: Printed, other: Printed | None) -> bool:
    """Do the cells of two lines stand under one another: aligned, or with room in common between all of them?"""
    if other is None or min(len(line.cells), len(other.cells)) < 2:
        return False
    if len(line.cells) == len(other.cells) and _have_room_in_common(line.cells, other.cells):
        return True
    return any(_aligned(cell, their, line.em) for cell in line.cells[1:] for their in other.cells[1:])


def _have_room_in_common(cells: Sequence[Cell], others: Sequence[Cell]) -> bool:
    ends = [max(cell.right, other.right) for cell, other in zip(cells, others, strict=True)]
    starts = [min(cell.left, other.left) for cell, other in zip(cells, others, strict=True)]
    return all(end < start for end, start in zip(ends, starts[1:], strict=False))


def _aligned(cell: Cell, other: Cell, em: float) -> bool:
    return min(abs(cell.left - other.left), abs(cell.right - other.right)) < 0.5 * em
