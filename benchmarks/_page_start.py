# SPDX-License-Identifier: Apache-2.0
"""A silo's page as people meet it: `fedqa serve` started as a process of its own, asked from its first moment on."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from fedqa.settings import load_settings
from fedqa.store import Store

_LOOK_S = 0.1  # between looks whether the models are loaded, which cost the page time too
_PATIENCE_S = 300.0
_EACH = 20  # questions of one person: the page allows 30 a minute
_PASSWORD = "four words are good"


@dataclass(frozen=True)
class PageTimes:
    """Seconds from before the interpreter starts; of later questions, from their asking."""

    there: float
    by_keywords: float  # the first answer
    by_models: float  # the first of these
    later: list[float]


def sessions(silo_file: Path, questions: int) -> list[str]:
    """The tokens of as many people as it takes to ask so many questions."""
    with Store.open(load_settings(silo_file).store) as store:
        people = store.people()
        names = [f"Person {number}" for number in range(questions // _EACH + 1)]
        return [people.start_session(people.accept(people.invite("reader"), name, _PASSWORD)) for name in names]


def page_times(silo_file: Path, questions: Sequence[str], tokens: Sequence[str]) -> PageTimes:
    """Start the page, ask at once, ask again as soon as the models are loaded, then ask all questions."""
    began = time.perf_counter()
    with _served(silo_file) as address:
        _got(f"{address}/api/health")
        there = time.perf_counter() - began
        first = _asked(address, questions[0], tokens[0])
        by_keywords = time.perf_counter() - began
        while not _got(f"{address}/api/health")["loaded"]:
            time.sleep(_LOOK_S)
        second = _asked(address, questions[0], tokens[0])
        by_models = time.perf_counter() - began
        if [first["provisional"], second["provisional"]] != [True, False]:
            raise RuntimeError("the first answer was not by keywords, or the second not of the models")
        later = [_seconds(address, *one) for one in zip(questions, cycle(tokens), strict=False)]
    return PageTimes(there, by_keywords, by_models, later)


@contextmanager
def _served(silo_file: Path) -> Iterator[str]:
    """The address of the page, as soon as it is told."""
    command = [sys.executable, "-u", "-m", "fedqa", "serve", str(silo_file), "--port", "0"]
    root = Path(__file__).parents[1]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            said = process.stdout.readline()  # NAME: ADDRESS/ (Ctrl-C stops it)
            yield said.partition(": ")[2].partition("/ ")[0]
        finally:
            process.terminate()


def _seconds(address: str, question: str, token: str) -> float:
    began = time.perf_counter()
    _asked(address, question, token)
    return time.perf_counter() - began


def _asked(address: str, question: str, token: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = json.dumps({"question": question}).encode()
    reply: dict[str, Any] = _got(Request(f"{address}/api/ask", body, headers))["reply"]
    return reply


def _got(request: str | Request) -> dict[str, Any]:
    with urlopen(request, timeout=_PATIENCE_S) as response:
        answer: dict[str, Any] = json.load(response)
    return answer
