# SPDX-License-Identifier: Apache-2.0
import pytest

from fedqa.skills.sql.question import LONGEST_SPAN, Question

ASKED = Question('How big is  "New York" (4.5 stars, H. V. Jagadish)?')


def test_words_are_runs_of_letters_and_digits_and_single_marks() -> None:
    assert ASKED.words[:8] == ["How", "big", "is", '"', "New", "York", '"', "("]
    assert ASKED.words[8:11] == ["4", ".", "5"]


@pytest.mark.parametrize(
    ("text", "first", "length", "said"),
    [("new york", 4, 2, "New York"), ("4.5", 8, 3, "4.5"), ("h. v.  jagadish", 13, 5, "H. V. Jagadish")],
)
def test_a_span_is_found_whatever_its_case_and_said_as_it_stands(text: str, first: int, length: int, said: str) -> None:
    span = ASKED.span(text)
    assert span == first * LONGEST_SPAN + length - 1
    assert ASKED.said(span) == said


@pytest.mark.parametrize("text", ["", "york new", "4 . 5", "yor", " ".join("abcdefghijk")])
def test_what_the_question_does_not_say_is_not_found(text: str) -> None:
    assert ASKED.span(text) is None


def test_words_that_are_not_there_say_nothing() -> None:
    assert ASKED.said(99 * LONGEST_SPAN) == ""
    assert Question("").said(0) == ""
