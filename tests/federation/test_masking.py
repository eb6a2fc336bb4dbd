# SPDX-License-Identifier: Apache-2.0
"""Masked numbers: the sum is exact, and one silo's message looks the same whatever it holds."""

from collections.abc import Mapping

import numpy as np
import pytest
from scipy import stats

from fedqa.federation.masking import LIMIT, STEPS, Masked, Numbers, fixed, masked, summed, unfixed
from fedqa.federation.x25519 import public_key

PRIVATE = {name: bytes([number]) * 32 for number, name in enumerate(("ash", "birch", "cedar", "dogwood"), start=1)}
PUBLIC = {name: public_key(private) for name, private in PRIVATE.items()}


def hidden(numbers: Mapping[str, Numbers], context: bytes = b"one use") -> dict[str, Masked]:
    publics = {name: PUBLIC[name] for name in numbers}
    return {name: masked(values, name, PRIVATE[name], publics, context) for name, values in numbers.items()}


def drawn(size: int) -> dict[str, Numbers]:
    rng = np.random.default_rng(3)
    return {name: rng.normal(0, 3, size=size) for name in PRIVATE}


def test_the_sum_of_masked_numbers_is_the_sum_of_the_numbers_to_the_last_bit() -> None:
    numbers = drawn(1000)
    plain = np.sum([np.rint(values * STEPS).astype(np.int64) for values in numbers.values()], axis=0)
    assert (summed(list(hidden(numbers).values())) * STEPS).tolist() == plain.tolist()


def test_shapes_and_signs_survive() -> None:
    numbers = {"ash": np.array([[0.5, -0.25]]), "birch": np.array([[-2.0, 1.0]])}
    assert summed(list(hidden(numbers).values())).tolist() == [[-1.5, 0.75]]


def test_without_one_of_the_silos_nothing_can_be_read() -> None:
    parts = hidden({name: np.zeros(4096) for name in PRIVATE})
    without = summed([part for name, part in parts.items() if name != "cedar"])
    assert np.abs(without).max() > LIMIT  # noise over the whole range of integers
    assert not summed(list(parts.values())).any()


@pytest.mark.parametrize(
    "values",
    [np.zeros(1 << 15), np.full(1 << 15, 1.5), np.linspace(-LIMIT, LIMIT, 1 << 15), drawn(1 << 15)["birch"]],
    ids=["zeros", "one value", "all values", "like states"],
)
def test_one_silos_message_cannot_be_told_from_noise(values: Numbers) -> None:
    part = hidden({"ash": values, "birch": values, "cedar": values})["ash"]
    data = np.frombuffer(part.tobytes(), dtype=np.uint8)
    # Once in 10,000 runs chance alone would fail one of these; the keys are fixed, so it passes always or never.
    assert stats.chisquare(np.bincount(data, minlength=256)).pvalue > 1e-4
    pairs = data[0::2].astype(int) // 16 * 16 + data[1::2] // 16  # each byte with the next
    assert stats.chisquare(np.bincount(pairs, minlength=256)).pvalue > 1e-4
    bits = np.unpackbits(data)
    assert stats.binomtest(int(bits.sum()), len(bits)).pvalue > 1e-4
    assert stats.kstest(part / 2**32, "uniform").pvalue > 1e-4


def test_messages_of_different_numbers_have_the_same_distribution() -> None:
    one = hidden({"ash": np.zeros(1 << 15), "birch": np.zeros(1 << 15)}, b"first")["ash"]
    other = hidden({"ash": np.full(1 << 15, 7.0), "birch": np.zeros(1 << 15)}, b"second")["ash"]
    counts = [np.bincount(np.frombuffer(part.tobytes(), dtype=np.uint8), minlength=256) for part in (one, other)]
    assert stats.chi2_contingency(np.stack(counts)).pvalue > 1e-4


def test_a_message_says_nothing_about_the_numbers_it_hides() -> None:
    numbers = drawn(1 << 15)
    part = hidden(numbers)["ash"]
    assert stats.pearsonr(numbers["ash"], part.astype(float)).pvalue > 1e-4


def test_another_use_has_other_masks() -> None:
    numbers = {name: np.zeros(64) for name in PRIVATE}
    first, second = hidden(numbers, b"first")["ash"], hidden(numbers, b"second")["ash"]
    assert (first != second).all()


def test_other_company_has_other_masks_for_the_whole_but_the_same_for_a_pair() -> None:
    """So whoever asks must make the company part of the use; the channel does."""
    all_four = hidden({name: np.zeros(64) for name in PRIVATE})["ash"]
    three = hidden({name: np.zeros(64) for name in ("ash", "birch", "cedar")})["ash"]
    with_dogwood = hidden({name: np.zeros(64) for name in ("ash", "dogwood")})["ash"]
    assert (all_four - three == with_dogwood).all()


def test_numbers_out_of_bounds_are_brought_to_them() -> None:
    numbers = np.array([1e30, -1e30, LIMIT, 0.3])
    assert unfixed(fixed(numbers)).tolist() == [LIMIT, -LIMIT, LIMIT, pytest.approx(0.3, abs=1 / STEPS)]


def test_rounding_costs_half_a_step_for_each_silo_at_most() -> None:
    numbers = drawn(1000)
    exact = np.sum(list(numbers.values()), axis=0)
    assert np.abs(summed(list(hidden(numbers).values())) - exact).max() <= len(numbers) * 0.5 / STEPS


def test_a_key_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="shared key"):
        masked(np.zeros(1), "ash", PRIVATE["ash"], {"ash": PUBLIC["ash"], "birch": bytes(32)}, b"")
