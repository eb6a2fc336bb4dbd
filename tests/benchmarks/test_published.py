# SPDX-License-Identifier: Apache-2.0
import pytest

from benchmarks.study.published import printed, published

PAPER = published("fedmatch")


def test_a_row_has_a_number_for_every_silo_and_their_mean() -> None:
    for rows in PAPER.tables.values():
        for metrics in rows.values():
            assert {len(numbers) for numbers in metrics.values()} == {len(PAPER.silos) + 1}


def test_fedmatch_is_the_same_in_both_tables() -> None:
    assert PAPER.tables["methods"]["FedMatch"] == PAPER.tables["variants"]["H+LR"]


def test_a_silos_number_is_found_by_our_name() -> None:
    assert PAPER.silo("methods", "BERT alone", metric="mrr", silo="insurance") == 0.8520
    assert PAPER.silo("methods", "BERT alone", metric="mrr", silo="forestry") is None
    assert PAPER.silo("methods", "FedBN", metric="mrr", silo="law") is None


def test_the_two_slips_of_the_paper_are_found_and_no_other() -> None:
    # BERT: .6912 + .8650 + .8430 + .8520 + .8888 = 4.1400; FedAvg: .6746 + .8575 + .7798 + .8419 + .8433 = 3.9971
    slips = {(slip.row, slip.metric): (slip.printed, slip.mean) for slip in PAPER.slips("methods")}
    assert slips == {
        ("BERT alone", "mrr"): (0.8278, pytest.approx(0.8280)),
        ("FedAvg", "map"): (0.8006, pytest.approx(0.79942)),
    }
    assert PAPER.slips("variants") == []


def test_a_gain_is_of_the_silos_numbers_not_of_the_printed_means() -> None:
    # .7251 + .8591 + .8047 + .8641 + .8435 = 4.0965, so 0.8193 - 0.79942
    assert PAPER.gain("methods", ("FedMatch", "FedAvg"), "map") == pytest.approx(0.01988)
    assert PAPER.gain("methods", ("FedMatch", "central"), "map") is None


def test_shares_are_printed_as_papers_do() -> None:
    assert (printed(0.81), printed(1.0)) == (".8100", "1.0000")
