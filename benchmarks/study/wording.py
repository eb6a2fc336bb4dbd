# SPDX-License-Identifier: Apache-2.0
"""Sentences that every study's report says of its numbers."""

from collections.abc import Sequence

from benchmarks.study.statistics import Results, Versus
from benchmarks.study.tables import SIGNIFICANT
from fedqa.evaluation.words import listed


def verdict(versus: Versus) -> str:
    """In words; a difference counts if it stands up to the correction for all comparisons made with it."""
    if versus.bootstrap.p >= SIGNIFICANT:
        return "no clear difference"
    kind = "a gain" if versus.bootstrap.difference > 0 else "a loss"
    return kind if versus.holm < SIGNIFICANT else f"{kind} only before Holm's correction"


def unequal_seeds(results: Results, arms: Sequence[str]) -> str:
    """A warning where arms were trained with fewer seeds than others; nothing if all are alike."""
    every = len(results.seeds)
    fewer = [f"{arm} {len(results.by_arm[arm])} of {every}" for arm in arms if len(results.by_arm[arm]) < every]
    if not fewer:
        return ""
    return f"Not all arms have all seeds ({listed(fewer)}): their means are of other questions; comparisons are not."
