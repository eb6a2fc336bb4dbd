# SPDX-License-Identifier: Apache-2.0
"""Batches of similar length in a random order."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")

_POOL = 16  # batches that are sorted by length together


def batched(
    items: Sequence[T], size: int, rng: np.random.Generator, length: Callable[[T], int]
) -> Iterator[Sequence[T]]:
    """Every item once, `size` in a batch; padding is little, because those of a batch are about equally long."""
    drawn = [items[i] for i in rng.permutation(len(items))]
    batches = [batch for pool in cut(drawn, size * _POOL) for batch in cut(sorted(pool, key=length), size)]
    for i in rng.permutation(len(batches)):
        yield batches[i]


def cut(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
