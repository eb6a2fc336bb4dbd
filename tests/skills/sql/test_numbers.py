# SPDX-License-Identifier: Apache-2.0
import pytest

from fedqa.skills.sql.numbers import number_said


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("six", "6"),
        ("Twelve", "12"),
        ("1,000", "1000"),
        ("1,234,567.5", "1234567.5"),
        ("6", None),
        ("1,00", None),
        ("", None),
    ],
)
def test_numbers_are_known_in_words_and_in_groups(text: str, number: str | None) -> None:
    assert number_said(text) == number
