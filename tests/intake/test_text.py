# SPDX-License-Identifier: Apache-2.0
"""Plain text in paragraphs, however its lines were wrapped."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedqa.intake.records import Extracted, IntakeError, Limits
from fedqa.intake.text import read


def text_of(typed: str) -> str:
    return read(typed.encode(), Limits()).text


def test_lines_that_were_wrapped_are_one_paragraph_again_and_a_divided_word_is_whole() -> None:
    typed = """\
Do not eat anything for six hours before the exami-
nation. You may drink small amounts of clear water
until two hours before it. If you take blood-thin-
ning medication, telephone the unit. The examina-
tion takes ten minutes; blood-thinning tablets are
listed overleaf, and the examination is free.

Most people go home the same day.
"""
    first = (
        "Do not eat anything for six hours before the examination. You may drink small amounts of clear water "
        "until two hours before it. If you take blood-thinning medication, telephone the unit. The examination "
        "takes ten minutes; blood-thinning tablets are listed overleaf, and the examination is free."
    )
    assert text_of(typed) == f"{first}\n\nMost people go home the same day."


def test_a_hyphen_that_belongs_to_a_word_stays() -> None:
    typed = "It is closed on the twenty-\nfourth and after a Covid-\n19 wave, see pages 4-\n5 of the plan.\n"
    assert text_of(typed) == "It is closed on the twenty-fourth and after a Covid-19 wave, see pages 4-5 of the plan."


def test_a_text_whose_editor_did_not_wrap_has_a_paragraph_on_each_line() -> None:
    long = (
        "This line goes on and on because nobody pressed a key at the end of the screen. " * 2 + "So it is a paragraph."
    )
    assert text_of(f"{long}\n{long}\nShort.\n") == f"{long}\n\n{long}\n\nShort."


def test_a_heading_joins_the_paragraph_below_and_its_underline_is_gone() -> None:
    typed = "Fasting\n=======\n\nSix hours.\n\nBEFORE YOU COME\n\nTelephone us.\n"
    assert read(typed.encode(), Limits()) == Extracted(
        "Fasting", "Fasting\nSix hours.\n\nBEFORE YOU COME\nTelephone us.", "text"
    )


def test_lists_keep_their_items_and_short_lines_stay_lines() -> None:
    typed = """\
Please bring with you the following things when you come:
* this letter and a list of all the medicines that you are
  taking now
* your glasses

Larkmoor General Hospital
12 Mill Lane
Larkmoor
"""
    assert text_of(typed) == (
        "Please bring with you the following things when you come:\n"
        "- this letter and a list of all the medicines that you are taking now\n- your glasses\n\n"
        "Larkmoor General Hospital\n12 Mill Lane\nLarkmoor"
    )


def test_columns_of_a_typed_table_are_separated_by_bars() -> None:
    assert text_of("Food         Hours\nSolid food   6\nWater        2\n") == "Food | Hours\nSolid food | 6\nWater | 2"
    assert text_of("a\tb\nc\td\n") == "a | b\nc | d"


def test_one_wide_gap_is_no_table() -> None:
    assert text_of("Dear Sir     or Madam,\nwe write to you.\n") == "Dear Sir or Madam, we write to you."


def test_paragraphs_may_begin_with_an_indentation_instead_of_a_blank_line() -> None:
    first = "   The first paragraph begins with a small\nindentation and goes on.\n"
    typed = f"{first}   The second one does so too, and it is as\nlong.\n"
    assert text_of(typed) == (
        "The first paragraph begins with a small indentation and goes on.\n\n"
        "The second one does so too, and it is as long."
    )


def test_a_text_that_is_too_long_is_refused_before_it_is_put_together() -> None:
    with pytest.raises(IntakeError, match="its text has 30 characters; at most 20 are taken; split it"):
        read(b"word " * 5 + b"0123456789", Limits(characters=20))


@settings(derandomize=True, database=None, deadline=None)
@given(st.text(alphabet=st.sampled_from("ab Z1.-\u00ad:;,\t\n\r|*\u2022()=\u3042"), max_size=200))
def test_no_letter_is_lost_or_invented_and_there_is_no_passage_without_text(typed: str) -> None:
    text = text_of(typed)
    letters = [character for character in typed if character.isalnum()]
    assert [character for character in text if character.isalnum()] == letters
    assert "\n\n\n" not in text
    assert text == text.strip("\n")
