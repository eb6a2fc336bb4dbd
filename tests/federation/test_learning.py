# SPDX-License-Identifier: Apache-2.0
"""What a silo notes of its checks, round after round."""

from pathlib import Path

from fedqa.federation.learning import FILE, Learning, note, noted


def line(round_number: int, right: bool, point: str = "personal") -> Learning:
    return Learning(round_number, point, "3", 12, 1, {"e1": right})  # type: ignore[arg-type]


def test_rounds_are_read_back_in_order_and_the_last_answer_to_a_round_counts(tmp_path: Path) -> None:
    for one in (line(1, False), line(2, False), line(2, True), line(3, True, "best")):
        note(tmp_path, one)
    assert noted(tmp_path) == [line(1, False), line(2, True), line(3, True, "best")]


def test_half_a_line_of_a_killed_run_is_passed_over(tmp_path: Path) -> None:
    note(tmp_path, line(1, True))
    with (tmp_path / FILE).open("a") as file:
        file.write('{"round": 2, "po')
    assert noted(tmp_path) == [line(1, True)]
    note(tmp_path, line(2, False))
    assert noted(tmp_path) == [line(1, True), line(2, False)]


def test_nothing_noted_is_nothing(tmp_path: Path) -> None:
    assert noted(tmp_path / "nowhere") == []
