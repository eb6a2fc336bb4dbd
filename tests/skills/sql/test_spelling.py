# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedqa.skills.sql.spelling import CHARACTER, Copied, Spelling

PIECES = ["[UNK]", *"abcdefghijklmnopqrstuvwxyz0123456789", *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz0123456789")]
PIECES += ["##-", "tex", "##as", "o"]
IDS = {piece: i for i, piece in enumerate(PIECES)}
SPELLING = Spelling(IDS)


def spelled(text: str) -> list[str]:
    return [step if isinstance(step, str) else PIECES[step] for step in SPELLING.spelled(text)]


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("texas", ["tex", "##as"]),  # the longest piece first
        ("Texas", ["^", "tex", "##as"]),
        ("TEXAS", ["^^", "tex", "^^", "##as"]),
        ("A", ["^", "a"]),
        ("a1 b", ["a", "##1", "b"]),  # white space between words is not said
        ("%texas%", ["'%'", "tex", "##as", "'%'"]),
        ("% a%", ["'%'", "' '", "a", "'%'"]),  # elsewhere it is
        (" a ", ["' '", "a", "' '"]),
        ("", []),
    ],
)
def test_a_text_is_spelled_by_the_longest_pieces(text: str, steps: list[str]) -> None:
    assert spelled(text) == steps
    assert SPELLING.text(SPELLING.spelled(text)) == text


def test_a_character_without_a_piece_is_spelled_by_its_number() -> None:
    # é is number 233
    assert spelled("aé") == ["a", "##chr", "0", "0", "0", "0", "2", "3", "3"]
    assert spelled("é")[0] == CHARACTER
    assert SPELLING.text(SPELLING.spelled("aéb é")) == "aéb é"


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=30))
def test_every_text_comes_back_but_for_runs_of_white_space(text: str) -> None:
    assert SPELLING.text(SPELLING.spelled(text)).split() == text.split()


def test_copied_texts_are_taken_as_they_are_and_marks_change_their_case() -> None:
    copied = Copied("new york")
    assert SPELLING.text([copied]) == "new york"
    assert SPELLING.text(["^", copied]) == "New York"
    assert SPELLING.text(["^^", copied, "'%'"]) == "NEW YORK%"
    assert SPELLING.text(["_", Copied("BIG"), IDS["a"], IDS["##b"]]) == "big ab"
    assert SPELLING.text([Copied("_"), Copied("^")]) == "_ ^"  # not marks


def test_what_makes_no_sense_is_some_text_all_the_same() -> None:
    assert SPELLING.text(["^", "chr", IDS["a"], "^"]) == ""
    assert SPELLING.text([IDS["##as"], 10**6]) == "as"
    assert SPELLING.text(["chr", *[IDS["9"]] * 7]) == ""  # no character has this number
