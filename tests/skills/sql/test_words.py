# SPDX-License-Identifier: Apache-2.0
import pytest

from fedqa.skills.sql.words import related, says_something, stem, stems, stems_of


@pytest.mark.parametrize(
    ("word", "short"),
    [("Wards", "ward"), ("cities", "city"), ("boxes", "box"), ("classes", "class"), ("status", "status"), ("is", "is")],
)
def test_the_ending_of_a_plural_is_left_out(word: str, short: str) -> None:
    assert stem(word) == short


def test_names_and_values_are_cut_into_words_and_marks_of_a_question_keep_their_place() -> None:
    assert stems("Birth_Dates") == stems("birth-date") == ("birth", "date")
    assert stems_of(["Who", "'", "s", "?"]) == ("who", "", "s", "")


def test_words_are_related_if_they_begin_alike_for_more_than_half() -> None:
    assert related("ward", "ward") and related("join", "joined") and related("prescribed", "prescription")
    assert not related("start", "status")  # three letters
    assert not related("card", "cardiology")  # four of ten
    assert not related("", "a")


def test_words_of_any_question_say_nothing() -> None:
    assert [word for word in ("the", "f", "which", "ward") if says_something(word)] == ["ward"]
