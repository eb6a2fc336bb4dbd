# SPDX-License-Identifier: Apache-2.0
"""What silos sent in a training of ATC, by kind, and what representations would have been as plain numbers."""

from collections.abc import Sequence
from statistics import fmean

from benchmarks.atc_report.arms import ATC
from benchmarks.atc_report.figures import seen
from benchmarks.atc_secrecy.view import REPRESENTATIONS, Seen
from benchmarks.study.page import Cell, Grid, Row
from benchmarks.study.statistics import Results
from fedqa.evaluation.words import DASH, percent, size


def bytes_grid(results: Results) -> Grid | None:
    """Nothing if nobody looked."""
    views = list(seen(results, ATC).values())
    if not views:
        return None
    kinds = list(dict.fromkeys(kind for view in views for kind in view.bytes))
    columns = [Cell("Sent"), Cell("Bytes"), Cell("Before", ["as plain numbers"]), Cell("Share")]
    return Grid(f"What silos send in a training of {ATC}", columns, [_row(kind, views) for kind in kinds])


def _row(kind: str, views: Sequence[Seen]) -> Row:
    sent = fmean(view.bytes.get(kind, 0) for view in views)
    before = fmean(view.unpacked for view in views) if kind == REPRESENTATIONS else 0.0
    told = [Cell(size(before)), Cell(percent(sent / before))] if before else [Cell(DASH), Cell(DASH)]
    return Row(Cell(kind), [Cell(size(sent)), *told])
