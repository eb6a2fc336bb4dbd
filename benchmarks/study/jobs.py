# SPDX-License-Identifier: Apache-2.0
"""Jobs of a study: one a core, each with an outcome in a file of its own, so that only what is missing is done.

A file counts as long as its key, made of all that decides the outcome, is the same.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from fedqa.cores import cores
from fedqa.errors import RunError
from fedqa.files import write_text
from fedqa.runs import load_model
from fedqa.tables import from_table, plain


class Keyed(Protocol):
    @property
    def key(self) -> str: ...


T = TypeVar("T", bound=Keyed)


def path_of(folder: Path, name: str, seed: int) -> Path:
    return folder / f"{''.join(c if c.isalnum() else '_' for c in name)}-{seed}.json"


def kept(cls: type[T], path: Path, key: str) -> T | None:
    """The outcome in this file, if it still counts."""
    if not path.exists():
        return None
    outcome = from_table(cls, json.loads(path.read_text(encoding="utf-8")), str(path))
    return outcome if outcome.key == key else None


def keep(outcome: Keyed, path: Path) -> None:
    # A few numbers for every question: no white space.
    write_text(path, json.dumps(plain(outcome), separators=(",", ":")) + "\n")


def done(title: str, work: Callable[..., T], jobs: Sequence[tuple[str, tuple[Any, ...]]]) -> Iterator[T]:
    """The outcomes as they come; a job is its name, for people, and the arguments of `work`.

    One that fails stops no other; they are named in the end, and nothing but these is done again the next time.
    """
    if not jobs:
        return
    torch.set_num_threads(1)  # a fork must not find threads of its parent half-way through something
    # Forked, so that the study's data function need not be importable by name; one thread each, see training.py.
    processes = min(cores(), len(jobs))
    with ProcessPoolExecutor(processes, get_context("fork")) as pool, bar() as shown:
        task = shown.add_task(title, total=len(jobs))
        futures = {pool.submit(_alone, work, arguments): name for name, arguments in jobs}
        failed = []
        for future in as_completed(futures):
            shown.advance(task)
            if problem := future.exception():
                failed.append(f"{futures[future]}: {problem}")
            else:
                yield future.result()
    if failed:
        raise RunError(f"{len(failed)} of {len(jobs)} trainings failed; first {failed[0]}")


def _alone(work: Callable[..., T], arguments: tuple[Any, ...]) -> T:
    torch.set_num_threads(1)
    return work(*arguments)


# Kept from one job to the next, and with it what its frozen layers make of the texts.
loaded = lru_cache(maxsize=1)(load_model)


def bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, TextColumn("left"), TimeRemainingColumn())
