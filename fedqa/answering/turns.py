# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is to use the models: one at a time, in the order of asking. And how they are exchanged while in use.

A plain lock may be taken again and again by the thread that just gave it back, and somebody's question would wait for
all of a long job in the background. Here it waits for the piece at hand.

Whoever has the turn computes on one thread. Several gain little on models of this size, and lose all of it and more as
soon as something else, a training perhaps, wants the cores: on two busy ones, a question took 0.13 s with one thread
and 0.7 to 1.7 s with two.
"""

import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Generic, TypeVar

import torch

T = TypeVar("T")


class Turns:
    """Use it in a `with`; not to be entered again by the thread that is inside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._taken = False
        self._threads = 1  # of whoever has the turn, before

    def __enter__(self) -> None:
        self._wait()
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)  # for the thread that calls it

    def _wait(self) -> None:
        with self._lock:
            if not self._taken:
                self._taken = True
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        mine.acquire()  # until the one before hands over; it stays taken meanwhile

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        torch.set_num_threads(self._threads)
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False


class Exchangeable(Generic[T]):
    """Something that many use at a time, and that another can take the place of meanwhile."""

    def __init__(self, thing: T) -> None:
        self._thing = thing
        self._users: Counter[int] = Counter()
        self._changed = threading.Condition()

    @property
    def now(self) -> T:
        return self._thing

    @contextmanager
    def use(self) -> Iterator[T]:
        """Whoever is inside keeps what was there when they came."""
        with self._changed:
            thing = self._thing
            self._users[id(thing)] += 1
        try:
            yield thing
        finally:
            with self._changed:
                self._users[id(thing)] -= 1
                self._changed.notify_all()

    def exchange(self, thing: T) -> T:
        """The old one, when nobody uses it any more."""
        with self._changed:
            old, self._thing = self._thing, thing
            self._changed.wait_for(lambda: not self._users[id(old)])
            del self._users[id(old)]
        return old
