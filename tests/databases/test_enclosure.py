# SPDX-License-Identifier: Apache-2.0
"""Processes of databases are waited for, also those that the system is slow to end."""

import gc
import os
import time
from collections.abc import Iterator

import pytest

from fedqa.databases import enclosure
from fedqa.databases.enclosure import Enclosure


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A system that never ends a process while it is waited for."""
    monkeypatch.setattr(enclosure, "_END_S", 0.0)
    yield
    for process in enclosure._ENDING:
        process.wait(10)


@pytest.mark.usefixtures("impatient")
def test_a_process_that_does_not_end_at_once_is_kept_until_it_has() -> None:
    Enclosure("sqlite").end()
    gc.collect()  # a process that nobody has waited for would warn here, which is an error
    (ending,) = enclosure._ENDING
    deadline = time.monotonic() + 10
    while os.waitid(os.P_PID, ending.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    following = Enclosure("sqlite")
    assert ending not in enclosure._ENDING and ending.returncode is not None
    following.end()


def test_a_process_that_ended_is_not_kept() -> None:
    one = Enclosure("sqlite")
    assert one.alive
    one.end()
    assert not one.alive and not enclosure._ENDING
