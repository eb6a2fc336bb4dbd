# SPDX-License-Identifier: Apache-2.0
"""Flat vectors from memory that is used again. Touching fresh memory costs several times the arithmetic done in it."""

import sys

import numpy as np
import torch
from torch import Tensor

_HELD_BY_POOL = 3  # references to an array nobody uses: the list, the loop's variable, the call that counts


class VectorPool:
    """Lends float32 vectors; one is lent again when no tensor over its memory is left, wherever it went."""

    def __init__(self) -> None:
        self._arrays: list[np.ndarray] = []

    def take(self, size: int) -> Tensor:
        """A vector of any content."""
        for array in self._arrays:
            if array.size == size and sys.getrefcount(array) == _HELD_BY_POOL:
                return torch.from_numpy(array)
        self._arrays.append(np.empty(size, dtype=np.float32))
        return torch.from_numpy(self._arrays[-1])
