# SPDX-License-Identifier: Apache-2.0
"""How alike the updates of a round are, and rows of weights made of it."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

Matrix = np.ndarray  # [recipients, senders], float64

_SLAB = 1 << 16  # columns compared at a time: in double precision, all of them would need twice the updates' memory


def products(deltas: Sequence[Tensor]) -> Tensor:
    """The inner product of each two updates, in double precision."""
    found = torch.zeros(len(deltas), len(deltas), dtype=torch.float64)
    size = deltas[0].numel() if deltas else 0
    for start in range(0, size, _SLAB):
        slab = torch.stack([delta[start : start + _SLAB] for delta in deltas]).double()
        found += slab @ slab.T
    return found


def cosines(deltas: Sequence[Tensor]) -> Matrix:
    """The cosine of each two updates; nan where one of them is zero and has no direction."""
    return cosines_of(products(deltas))


def cosines_of(inner: Tensor) -> Matrix:
    norms = inner.diagonal().sqrt()
    # Rounded, so that the order of sums does not decide between silos that are equally near.
    result: Matrix = (inner / (norms[:, None] * norms)).round(decimals=12).numpy()
    return result


def normalised(matrix: Matrix) -> Matrix:
    """Rows divided by their sums; a row of zeros stays."""
    sums = matrix.sum(axis=1, keepdims=True)
    result: Matrix = np.divide(matrix, sums, out=np.zeros_like(matrix), where=sums > 0)
    return result
