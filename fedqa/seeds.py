# SPDX-License-Identifier: Apache-2.0
"""Random numbers come from (seed, what for), never from global state: any round of any silo can be repeated alone."""

import hashlib

import numpy as np


def derive(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed for one purpose, such as `derive(13, "train", round, silo)`."""
    text = "\x1f".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *purpose: str | int) -> np.random.Generator:
    return np.random.default_rng(derive(seed, *purpose))
