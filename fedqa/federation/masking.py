# SPDX-License-Identifier: Apache-2.0
"""Sums without summands: each silo adds masks to its numbers that cancel when all are added up (Bonawitz et al. 2017).

Numbers become integers modulo 2^32, so that masks cancel to the last bit and a masked number is as likely to be one
value as any other. Each two silos draw their mask from a secret that only they have; one adds it, the other takes it
away. Whoever has a sum of some silos but not their secrets learns the sum and nothing else of them.

This holds against a coordinator that listens. One that lies about public keys could put its own in their place; silos
that fear it can compare the keys in another way.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from fedqa.federation.x25519 import agreed

Numbers = npt.NDArray[np.float64]
Masked = npt.NDArray[np.uint32]

STEPS = 1 << 24  # in one unit
LIMIT = 64.0  # sums stay between minus and plus this much, or they would come out wrong
_PURPOSE = "fedqa 2026-11 mask of two silos"


def fixed(numbers: Numbers) -> Masked:
    """Numbers as integers modulo 2^32; what is out of bounds is brought to them."""
    return np.rint(np.clip(numbers, -LIMIT, LIMIT) * STEPS).astype(np.int64).astype(np.uint32)


def unfixed(total: Masked) -> Numbers:
    return total.view(np.int32).astype(np.float64) / STEPS


def masked(numbers: Numbers, own: str, private: bytes, publics: Mapping[str, bytes], context: bytes) -> Masked:
    """A silo's numbers with a mask for each of the other silos in `publics`; `context` makes masks of another use.

    Raises ValueError for a public key that cannot be.
    """
    total = fixed(numbers)
    for other in publics:
        if other != own:
            mask = pair_mask(agreed(private, publics[other]), {own: publics[own], other: publics[other]}, context)
            drawn = np.frombuffer(mask.digest(total.nbytes), dtype="<u4").reshape(total.shape)
            # The first by name adds what the second takes away; both are modulo 2^32.
            total = total + drawn if own < other else total - drawn
    return total


def pair_mask(secret: bytes, publics: Mapping[str, bytes], context: bytes) -> blake3:
    """What two silos draw their mask from: a stream of bytes that depends on all that the two have in common."""
    key = blake3(secret + b"".join(publics[name] for name in sorted(publics)), derive_key_context=_PURPOSE).digest()
    return blake3(context, key=key)


def summed(parts: Sequence[Masked]) -> Numbers:
    """The sum of what silos had before they masked it, if the parts are those of all silos the masks are for."""
    return unfixed(np.sum(np.stack(parts), axis=0, dtype=np.uint32))
