# SPDX-License-Identifier: Apache-2.0
"""Consoles, and what people see in one while a run goes on. Progress goes to stderr, results to stdout."""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from fedqa.evaluation.words import duration, metric_name, number, size
from fedqa.federation.run_folder import RoundRecord

_PIPE_WIDTH = 120  # of what is not shown but piped into a file or another program
_MANY_SILOS = 12  # beyond them, only those at work have a bar


def make_console(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else _PIPE_WIDTH
    return Console(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)


# -- while a run goes on -----------------------------------------------------------------------------------------


class RunWatcher:
    """Bars for the rounds and the silos at work, and a line for every round that is done; use it in a `with`.

    Where stderr is no terminal there are the lines alone. Bars are drawn when something happens, not by a thread:
    engines fork, and a fork takes only the calling thread along.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[note]}"),
        )
        self._progress = Progress(*columns, console=console, auto_refresh=False, transient=True)
        self._rounds: TaskID | None = None
        self._silos: dict[str, TaskID] = {}
        self._shares: dict[str, float] = {}  # of its work in this round that a silo has done
        self._behind = 0  # rounds that are done
        self._drawn = 0.0

    def __enter__(self) -> "RunWatcher":
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._progress.stop()

    def say(self, text: str) -> None:
        self._console.print(Text(text, style="dim"))

    def round_begins(self, number: int, of: int, stage: str, silos: Sequence[str]) -> None:
        self._begin(number, of)
        self._behind = number - 1
        self._show_silos(f"round {number}/{of} ({stage})", silos)

    def silo_works(self, silo: str, done: int, total: int) -> None:
        if silo in self._silos:
            self._shares[silo] = done / max(1, total)
            note = "at work" if not total else "scoring" if done == total else f"{done}/{total} steps"
            self._progress.update(self._silos[silo], completed=done, total=max(1, total), note=note, visible=True)
            self._advance()

    def silo_answered(self, silo: str) -> None:
        if silo in self._silos:
            self._shares[silo] = 1.0
            few = len(self._silos) <= _MANY_SILOS
            self._progress.update(self._silos[silo], completed=1, total=1, note="done", visible=few)
            self._advance(now=True)

    def round_ends(self, record: RoundRecord) -> None:
        self._behind = record.round
        self._console.print(round_line(record, self._of))

    def scoring_begins(self, silos: Sequence[str]) -> None:
        self._begin(1, 1)  # of a course without rounds
        if not self._console.is_terminal:
            self.say("scoring")
        self._show_silos("scoring", silos)

    def _begin(self, number: int, of: int) -> None:
        if self._rounds is None:
            self._rounds = self._progress.add_task("", total=of, note="")
            self._began, self._first, self._of = time.monotonic(), number, of

    def _show_silos(self, title: str, silos: Sequence[str]) -> None:
        assert self._rounds is not None
        for task in self._silos.values():
            self._progress.remove_task(task)
        few = len(silos) <= _MANY_SILOS
        self._silos = {s: self._progress.add_task(f"  {s}", total=1, note="waiting", visible=few) for s in silos}
        self._shares = dict.fromkeys(silos, 0.0)
        self._progress.update(self._rounds, description=title)
        self._advance(now=True)

    def _advance(self, *, now: bool = False) -> None:
        if now or time.monotonic() - self._drawn > 0.1:
            assert self._rounds is not None
            done = min(self._of, self._behind + sum(self._shares.values()) / len(self._shares))
            self._progress.update(self._rounds, completed=done, note=self._time_left(done))
            self._progress.refresh()
            self._drawn = time.monotonic()

    def _time_left(self, done: float) -> str:
        """From the pace since this process began; a resumed run has earlier rounds behind it."""
        here = done - (self._first - 1)
        spent = time.monotonic() - self._began
        if here < 0.05 or spent < 2 or done == self._of:
            return ""
        return f"{duration(spent / here * (self._of - done))} left"


def round_line(record: RoundRecord, of: int) -> Text:
    """A round in a line: who was accepted and refused, the loss, the scores on dev, time and bytes."""
    parts = [Text(f"round {record.round:>{len(str(of))}}/{of}"), Text(f"{len(record.accepted)} accepted")]
    parts += [Text(f"{silo} refused: {code}", style="bold red") for silo, code in record.refused]
    if record.void:
        parts.append(Text("below the quorum: nothing changed", style="bold red"))
    parts += [Text(part) for part in (_losses(record), _dev_scores(record)) if part]
    parts.append(Text(f"{duration(record.seconds)}  {size(record.bytes_up)} up", style="dim"))
    return Text("  ").join(parts)


def _losses(record: RoundRecord) -> str:
    silos = record.accepted.values()
    if not silos:
        return ""
    first, last = (sum(getattr(a, name) for a in silos) / len(silos) for name in ("loss_first", "loss_last"))
    return f"loss {number(first)} → {number(last)}"


def _dev_scores(record: RoundRecord) -> str:
    """The mean over silos of the metric that each names first."""
    shown = []
    for point in ("received", "personal"):
        firsts = [_first_of(scores, f"{point}/dev/") for scores in record.metrics.values()]
        found = [first for first in firsts if first is not None]
        if found:
            metrics = {metric for metric, _ in found}
            name = metric_name(metrics.pop()) if len(metrics) == 1 else "score"
            shown.append((name, f"{point} {number(sum(mean for _, mean in found) / len(found))}"))
    return f"dev {shown[0][0]} {', '.join(text for _, text in shown)}" if shown else ""


def _first_of(scores: Mapping[str, tuple[int, float, float]], prefix: str) -> tuple[str, float] | None:
    for key, (n, mean, _) in scores.items():
        if key.startswith(prefix) and n:
            return key.removeprefix(prefix), mean
    return None
