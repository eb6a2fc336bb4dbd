# SPDX-License-Identifier: Apache-2.0
"""Where each parameter stands in a model's flat vector, and which part of that vector travels."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from math import prod


@dataclass(frozen=True, slots=True)
class Entry:
    """One parameter's place in a flat vector."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class Layout:
    """The flat view of a model under one sharing rule: `[private | shared | synced]`, frozen ones outside."""

    private: tuple[Entry, ...]
    shared: tuple[Entry, ...]
    synced: tuple[Entry, ...]
    frozen: tuple[Entry, ...]

    @property
    def changeable(self) -> tuple[Entry, ...]:
        """All that is in the flat vector, in its order."""
        return (*self.private, *self.shared, *self.synced)

    @property
    def received(self) -> tuple[Entry, ...]:
        """What is sent down, in its order."""
        return (*self.shared, *self.synced)

    @property
    def n_private(self) -> int:
        return _total(self.private)

    @property
    def n_shared(self) -> int:
        """Numbers sent up in an update."""
        return _total(self.shared)

    @property
    def n_received(self) -> int:
        """Numbers sent down to a silo: shared and synced."""
        return self.n_shared + _total(self.synced)

    @cached_property
    def fingerprint(self) -> str:
        """Of what travels: names and shapes. Silos with different heads agree on it if they share the same backbone."""
        lines = [f"{mode} {entry.name} {entry.shape}" for mode, entry in self._travelling()]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def _travelling(self) -> list[tuple[str, Entry]]:
        return [("shared", e) for e in self.shared] + [("synced", e) for e in self.synced]


def _total(entries: tuple[Entry, ...]) -> int:
    return sum(entry.size for entry in entries)
