# SPDX-License-Identifier: Apache-2.0
"""Beam search over a toy model whose probabilities are written down."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from fedqa.models.search import SYMBOL, Allowed, Likely, Search, Step, Written, searched

END = Step(SYMBOL, 0)
A, B, C = (Step(SYMBOL, i) for i in (1, 2, 3))

# What follows what was written so far, with its probability.
TREE: dict[tuple[Step, ...], dict[Step, float]] = {
    (): {A: 0.6, B: 0.4},
    (A,): {C: 0.55, END: 0.45},
    (B,): {END: 1.0},
    (A, C): {END: 1.0},
}


class Toy:
    """Keeps what each row has written, as a model keeps its states."""

    def __init__(self, sources: int, tree: dict[tuple[Step, ...], dict[Step, float]] = TREE) -> None:
        self.rows: list[tuple[Step, ...]] = [()] * sources
        self.tree, self.calls = tree, 0

    def likely(self, last: Sequence[Step | None], k: int, allowed: Sequence[Allowed] | None) -> list[list[Likely]]:
        self.calls += 1
        self.rows = [row if step is None else (*row, step) for row, step in zip(self.rows, last, strict=True)]
        found = [self.tree[row] for row in self.rows]
        if allowed is not None:
            found = [
                {step: p for step, p in row.items() if mask.symbols[step.index]}
                for row, mask in zip(found, allowed, strict=True)
            ]
        best = [sorted(row.items(), key=lambda item: -item[1])[:k] for row in found]
        return [[Likely(math.log(p), step) for step, p in row] for row in best]

    def take(self, rows: Sequence[int]) -> None:
        self.rows = [self.rows[row] for row in rows]


def test_one_beam_takes_the_likeliest_step_each_time() -> None:
    ((written,),) = searched(Toy(1), 1, Search(beams=1), end=END)
    assert written.steps == (A, C)
    assert written.score == pytest.approx(math.log(0.6 * 0.55) / 3)


def test_more_beams_find_what_is_likelier_as_a_whole() -> None:
    (found,) = searched(Toy(1), 1, Search(beams=2), end=END)
    # B and the end have 0.4 in two steps; A, C and the end 0.33 in three, which is more a step
    assert [one.steps for one in found] == [(A, C), (B,)]
    assert [math.exp(one.score * (len(one.steps) + 1)) for one in found] == pytest.approx([0.33, 0.4])


def test_sources_are_written_for_side_by_side() -> None:
    toy = Toy(3)
    found = searched(toy, 3, Search(beams=1), end=END)
    assert [one.steps for (one,) in found] == [(A, C)] * 3
    assert toy.calls == 3


def test_what_finds_no_end_is_cut_and_given_only_if_nothing_else_is_there() -> None:
    endless = {(A,) * n: {A: 1.0} for n in range(9)}
    assert searched(Toy(1, endless), 1, Search(longest=4), end=END) == [[Written((A,) * 4, 0.0)]]
    (found,) = searched(Toy(1), 1, Search(longest=2, beams=2), end=END)
    assert [one.steps for one in found] == [(B,)]


class NoC:
    """A rule by which C is never written."""

    def allowed(self) -> Allowed:
        return Allowed(np.array([True, True, True, False]), np.zeros(0, dtype=bool), pieces=False, spans=False)

    def after(self, step: Step) -> "NoC":
        assert step != C
        return self


def test_a_rule_binds_every_step() -> None:
    ((written,),) = searched(Toy(1), 1, Search(), end=END, rules=[NoC()])
    assert written.steps == (A,)


def test_no_sources_need_no_steps() -> None:
    assert searched(Toy(0), 0, Search(), end=END) == []
