# SPDX-License-Identifier: Apache-2.0
"""Large messages in pieces: cut without copying, put together without trusting what the sender says of them."""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fedqa.errors import BoundaryError

PIECE = 1 << 20


def cut(parts: Iterable[memoryview]) -> Iterator[tuple[int, bytes | memoryview]]:
    """The bytes of all parts, one after the other, as pieces of PIECE bytes, each with its place; the last is shorter.

    Only what spans two parts is copied. A message of no bytes is one empty piece.
    """
    start, spare = 0, b""
    for part in parts:
        view = part.cast("B")
        if spare:
            taken = PIECE - len(spare)
            spare, view = spare + bytes(view[:taken]), view[taken:]
            if len(spare) < PIECE:
                continue
            yield start, spare
            start, spare = start + PIECE, b""
        whole = len(view) - len(view) % PIECE
        for offset in range(0, whole, PIECE):
            yield start + offset, view[offset : offset + PIECE]
        start, spare = start + whole, bytes(view[whole:])
    if spare or start == 0:
        yield start, spare


@dataclass
class Assembly:
    """One message on its way in. Pieces come in any order, from several threads."""

    size: int
    _missing: set[int] = field(init=False)

    def __post_init__(self) -> None:
        self.data = bytearray(self.size)  # zeros that take no memory until they are written to
        self._missing = set(range(0, self.size, PIECE)) or {0}
        self._turn = threading.Lock()

    def put(self, start: int, piece: bytes | bytearray | memoryview) -> bool:
        """True for the piece that completes the message. Raises BoundaryError for one that does not belong."""
        if start not in self._expected or len(piece) != min(PIECE, self.size - start):
            raise BoundaryError("malformed", "a piece that is not of this message")
        self.data[start : start + len(piece)] = piece
        with self._turn:
            if start not in self._missing:
                raise BoundaryError("malformed", "a piece that was there already")
            self._missing.remove(start)
            return not self._missing

    @property
    def _expected(self) -> range:
        return range(0, max(1, self.size), PIECE)
