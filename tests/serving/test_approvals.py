# SPDX-License-Identifier: Apache-2.0
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fedqa.errors import ConfigError
from fedqa.serving.approvals import Approvals


def test_nothing_is_approved_before_somebody_said_so(tmp_path: Path) -> None:
    approvals = Approvals(tmp_path / "page" / "approvals.jsonl")
    assert approvals.of("f00d") is None
    assert not approvals.approved("f00d")
    assert approvals.all() == []


def test_the_newest_decision_about_a_course_counts_and_all_are_kept(tmp_path: Path) -> None:
    approvals = Approvals(tmp_path / "page" / "approvals.jsonl")
    approvals.decide("f00d", True, "Ada")
    approvals.decide("beef", False, "Ada")
    assert approvals.approved("f00d")
    assert not approvals.approved("beef")
    approvals.decide("f00d", False, "Bo\u2028b\n")
    again = Approvals(approvals.path)
    assert not again.approved("f00d")
    assert [(d.course, d.approved, d.who) for d in again.all()] == [
        ("f00d", True, "Ada"),
        ("beef", False, "Ada"),
        ("f00d", False, "Bo\u2028b\n"),
    ]
    assert abs((datetime.now(UTC) - again.all()[-1].when).total_seconds()) < 60


def test_half_a_line_does_not_count_and_does_not_spoil_the_next(tmp_path: Path) -> None:
    approvals = Approvals(tmp_path / "approvals.jsonl")
    approvals.decide("f00d", True, "Ada")
    with approvals.path.open("a") as file:
        file.write('{"course": "beef", "appr')
    assert [decision.course for decision in approvals.all()] == ["f00d"]
    approvals.decide("cafe", True, "Ada")
    assert [decision.course for decision in approvals.all()] == ["f00d", "cafe"]


@pytest.mark.parametrize(
    "line",
    ["nonsense", "[]", "3", '{"course": "f00d"}', '{"course": "f00d", "approved": 1, "who": "", "at": "2026-01-01"}'],
)
def test_a_line_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path, line: str) -> None:
    path = tmp_path / "approvals.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"line 1 of approvals\.jsonl"):
        Approvals(path).all()
