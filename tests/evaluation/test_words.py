# SPDX-License-Identifier: Apache-2.0
import re
from pathlib import Path

import pytest

import fedqa
from fedqa.evaluation import words
from fedqa.federation.refusals import REFUSALS

THIN = "\u202f"


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "0.500"), (-0.25, "\u22120.250"), (-0.0001, "0.000"), (0.0, "0.000"), (12.3456, "12.346")]
)
def test_a_number_has_three_decimals_and_a_zero_has_no_sign(value: float, text: str) -> None:
    assert words.number(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.5, "+0.500"), (-0.5, "\u22120.500"), (0.0004, "0.000")])
def test_a_gain_has_a_sign_unless_it_is_zero(value: float, text: str) -> None:
    assert words.signed(value) == text


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (999_950, "1.0 MB"), (2.5e12, "2.5 TB")],
)
def test_sizes_go_up_in_steps_of_a_thousand(n_bytes: float, text: str) -> None:
    assert words.size(n_bytes) == text.replace(" ", THIN)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0.0 s"), (59.94, "59.9 s"), (59.96, "1 min 0 s"), (3725, "1 h 2 min")]
)
def test_durations_are_told_in_two_units_at_most(seconds: float, text: str) -> None:
    assert words.duration(seconds).replace(THIN, " ") == text


def test_thousands_are_set_apart_by_a_thin_space() -> None:
    assert words.count(1234567) == f"1{THIN}234{THIN}567"


def test_a_small_p_is_not_told_as_zero() -> None:
    assert (words.p_value(0.0004), words.p_value(0.0005)) == ("<0.001", "0.001")


def test_a_list_ends_with_and_and_a_long_one_with_how_many_more() -> None:
    assert words.listed(["a"]) == "a"
    assert words.listed(["a", "b", "c"]) == "a, b and c"
    assert words.listed(list("abcdef"), most=4) == "a, b, c and 3 others"


def test_long_names_are_cut_with_a_sign_that_they_were() -> None:
    assert words.shortened("a name of length", 8) == "a name…"
    assert words.shortened("short", 8) == "short"


def test_a_metric_that_is_not_known_keeps_its_name() -> None:
    assert (words.metric_name("map"), words.metric_name("bleu")) == ("MAP", "bleu")


def test_every_code_that_can_be_written_down_has_words() -> None:
    sources = [path.read_text(encoding="utf-8") for path in Path(fedqa.__file__).parent.rglob("*.py")]
    found = {code for text in sources for code in re.findall(r'BoundaryError\(\s*"(\w+)"', text)}
    found |= {code for text in sources for code in re.findall(r'refuse\([\w.]+, "(\w+)"\)', text)}
    assert {"absurd_norm", "not_finite", "no_examples"} <= found
    assert sorted(found - REFUSALS.keys() - words.SCREENED.keys()) == []


def test_a_code_of_a_later_version_is_told_as_such() -> None:
    assert words.why_refused("late") == "no answer before the deadline"
    assert words.why_refused("brand_new") == "a reason that has no words here"
