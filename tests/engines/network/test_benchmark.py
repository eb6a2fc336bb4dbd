# SPDX-License-Identifier: Apache-2.0
"""The measurement of the network measures: what goes out comes back, by all three ways."""

from benchmarks import network


def test_an_exchange_is_measured_by_all_three_ways() -> None:
    plain, local, far, n_bytes = network.measured(3, 1)  # several pieces
    assert min(plain, local, far) > 0
    assert 6_000_000 < n_bytes < 6_002_000  # 750,000 numbers of four bytes each way, and headers


def test_a_coordinators_round_with_simulated_silos_accepts_them_all() -> None:
    seconds, _ = network.simulated(3)
    assert seconds > 0
