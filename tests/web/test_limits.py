# SPDX-License-Identifier: Apache-2.0
import pytest

from fedqa.web import limits
from fedqa.web.limits import Rate


def test_a_key_may_as_often_as_the_rate_says_and_others_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(limits.time, "monotonic", lambda: now)
    rate = Rate(2, per_s=10)
    assert [rate.allows("a") for _ in range(3)] == [True, True, False]
    assert rate.allows("b")
    now = 109.9
    assert not rate.allows("a")
    now = 110.0  # the first two are ten seconds old
    assert [rate.allows("a") for _ in range(3)] == [True, True, False]


def test_what_was_refused_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(limits.time, "monotonic", lambda: now)
    rate = Rate(1, per_s=10)
    assert rate.allows("a")
    now = 9.0
    assert not rate.allows("a")
    now = 10.0
    assert rate.allows("a")


def test_a_key_can_start_afresh() -> None:
    rate = Rate(1, per_s=1000)
    assert rate.allows("a") and not rate.allows("a")
    rate.forget("a")
    assert rate.allows("a")


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_MOST_KEYS", 3)
    rate = Rate(1, per_s=1000)
    for key in "abcd":
        rate.allows(key)
    assert len(rate) == 3
    assert rate.allows("a"), "the one that came longest ago was forgotten"
