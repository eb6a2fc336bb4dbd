# SPDX-License-Identifier: Apache-2.0
"""Messages in pieces: cut anywhere and put together in any order they are the same bytes; what does not fit is not."""

import random

import pytest

from fedqa.engines.network.pieces import PIECE, Assembly, cut
from fedqa.errors import BoundaryError


def pieces_of(*parts: bytes) -> list[tuple[int, bytes]]:
    return [(start, bytes(piece)) for start, piece in cut([memoryview(part) for part in parts])]


@pytest.mark.parametrize(
    "sizes",
    [
        (),
        (0,),
        (1,),
        (PIECE,),
        (PIECE + 1,),
        (10, PIECE),
        (10, 20, 3 * PIECE - 30),
        (PIECE - 1, 1),
        (7, 2 * PIECE, 5, 0),
    ],
)
def test_pieces_in_any_order_make_the_message_again(sizes: tuple[int, ...]) -> None:
    rng = random.Random(1)
    parts = [rng.randbytes(size) for size in sizes]
    whole = b"".join(parts)
    found = pieces_of(*parts)
    assert [start for start, _ in found] == list(range(0, max(1, len(whole)), PIECE))
    assert {len(piece) for _, piece in found[:-1]} <= {PIECE}
    rng.shuffle(found)
    assembly = Assembly(len(whole))
    assert [assembly.put(start, piece) for start, piece in found] == [False] * (len(found) - 1) + [True]
    assert assembly.data == whole


def test_large_parts_are_not_copied() -> None:
    data = bytearray(2 * PIECE)
    views = [piece for _, piece in cut([memoryview(data)])]
    data[0] = data[PIECE] = 7
    assert [view[0] for view in views] == [7, 7]


@pytest.mark.parametrize(
    ("start", "length"),
    [(1, PIECE), (PIECE, 4), (PIECE, 6), (2 * PIECE, 0), (0, PIECE - 1), (0, PIECE + 1), (1 << 62, 5)],
)
def test_a_piece_that_is_not_of_the_message_is_refused(start: int, length: int) -> None:
    with pytest.raises(BoundaryError, match="a piece that is not of this message"):
        Assembly(PIECE + 5).put(start, bytes(length))


def test_a_piece_that_was_there_already_is_refused() -> None:
    assembly = Assembly(PIECE + 5)
    assembly.put(0, bytes(PIECE))
    with pytest.raises(BoundaryError, match="was there already"):
        assembly.put(0, bytes(PIECE))
