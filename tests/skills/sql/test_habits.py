# SPDX-License-Identifier: Apache-2.0
import pytest

from fedqa.skills.sql.habits import Habits, habits_of


def test_without_examples_habits_are_the_usual() -> None:
    assert habits_of([]) == habits_of(["SELECT COUNT(*) FROM a WHERE b > 3"]) == Habits()


@pytest.mark.parametrize(
    ("habit", "shown", "hidden"),
    [
        ("shows_ordered", "SELECT a, b FROM t ORDER BY b DESC LIMIT 1", "SELECT a FROM t ORDER BY b LIMIT 1;"),
        ("shows_compared", "SELECT t.a, t.b FROM t WHERE c = 'x' AND t.b >= 5", "SELECT a FROM t WHERE b < 5"),
        (
            "shows_counted",
            "SELECT a, COUNT(*) FROM t GROUP BY a HAVING COUNT(*) > 2",
            "SELECT a FROM t GROUP BY a ORDER BY COUNT(*)",
        ),
    ],
)
def test_a_habit_is_what_most_do(habit: str, shown: str, hidden: str) -> None:
    assert getattr(habits_of([shown, shown, hidden]), habit) is True
    assert getattr(habits_of([shown, hidden, hidden.lower()]), habit) is False
    assert getattr(habits_of([shown, hidden]), habit) is getattr(Habits(), habit)
