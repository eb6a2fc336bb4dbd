# SPDX-License-Identifier: Apache-2.0
"""How often something may be done, counted in memory: by name, by address, by person."""

import threading
import time
from collections import OrderedDict, deque

_MOST_KEYS = 10_000


class Rate:
    """At most `most` times in any `per_s` seconds for each key. Thread-safe; the least recent keys are forgotten."""

    def __init__(self, most: int, *, per_s: float) -> None:
        self.most = most
        self.per_s = per_s
        self._times: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def allows(self, key: str) -> bool:
        """Count one more for this key; False (and not counted) when it was too often."""
        now = time.monotonic()
        with self._lock:
            times = self._times.setdefault(key, deque())
            self._times.move_to_end(key)
            while times and times[0] <= now - self.per_s:
                times.popleft()
            if len(times) >= self.most:
                return False
            times.append(now)
            if len(self._times) > _MOST_KEYS:
                self._times.popitem(last=False)
        return True

    def forget(self, key: str) -> None:
        """Start afresh for a key: who signs in at last was not guessing."""
        with self._lock:
            self._times.pop(key, None)

    def __len__(self) -> int:
        return len(self._times)
