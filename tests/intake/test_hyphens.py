# SPDX-License-Identifier: Apache-2.0
"""Which hyphens at the ends of lines belong to their words. The document itself has to tell."""

from fedqa.intake.hyphens import words_of

PLAIN = ["a line of text that says nothing about any hyphen"] * 20


def test_a_word_that_stands_elsewhere_as_a_whole_was_divided() -> None:
    words = words_of([*PLAIN, "the examination and the exami-", "nation"])
    assert words.is_divided("the exami-", "nation")


def test_a_word_that_stands_elsewhere_with_its_hyphen_was_not() -> None:
    words = words_of([*PLAIN, "Blood-thinning tablets and blood-", "thinning drops"])
    assert not words.is_divided("and blood-", "thinning drops")


def test_two_words_that_both_stand_elsewhere_make_a_compound() -> None:
    words = words_of(["the examination of the exami-", "nation", "a long stay, a short term, a long-", "term stay"])
    assert not words.is_divided("a long-", "term stay")
    assert words.is_divided("the labora-", "tory")


def test_numbers_keep_their_hyphen_and_so_does_what_goes_on_with_a_capital_or_a_digit() -> None:
    words = words_of(["exami-", "nation"])
    assert not words.is_divided("twenty-", "four hours")
    assert not words.is_divided("Covid-", "19")
    assert not words.is_divided("Larkmoor-", "Hill")
    assert not words.is_divided("a dash -", "here")


def test_where_hardly_a_line_ends_in_a_hyphen_a_hyphen_is_one() -> None:
    assert not words_of([*PLAIN, "take blood-", "thinning tablets"]).is_divided("take blood-", "thinning tablets")


def test_where_many_lines_end_in_a_hyphen_words_are_divided() -> None:
    lines = [*PLAIN, "the exami-", "nation in", "the labora-", "tory"]  # two in 24 lines are more than 8 per cent
    assert words_of(lines).is_divided("the labora-", "tory")
