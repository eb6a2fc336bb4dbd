# SPDX-License-Identifier: Apache-2.0
"""Characters come out as people see them."""

import pytest

from fedqa.intake.characters import clean, raised


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("one\r\ntwo\rthree\x0cfour\u2028five", "one\ntwo\nthree\nfour\nfive"),
        ("exami\u00adnation", "examination"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("10\u00a0000\u202fEUR", "10 000 EUR"),
        ("e\u0301", "é"),
        ("e\ufb03cient \ufb01le", "efficient file"),
        ("abc\u202ecba\u202c", "abccba"),  # marks of direction can make a text read otherwise than it is
        ("plain" + "".join(chr(0xE0000 + ord(c)) for c in "hidden"), "plain"),
        ("bell\x07 and escape\x1b[0m", "bell  and escape [0m"),
        ("half \ud800 pair", "half \N{REPLACEMENT CHARACTER} pair"),
        ("family \U0001f468\u200d\U0001f469", "family \U0001f468\u200d\U0001f469"),  # the joiner belongs to the emoji
    ],
)
def test_what_cannot_be_seen_is_gone_and_each_letter_is_one_character(written: str, seen: str) -> None:
    assert clean(written) == seen


def test_superscript_numbers_stay_superscripts_and_words_stay_words() -> None:
    assert raised("6") == "⁶"
    assert raised("-12") == "⁻¹²"
    assert raised("th") == "th"
