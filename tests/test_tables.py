# SPDX-License-Identifier: Apache-2.0
"""Tables into records and back, and every way a table can be wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from fedqa.errors import ConfigError
from fedqa.tables import from_table, plain, to_table


@dataclass(frozen=True)
class Inner:
    size: int = 1
    name: str | None = None


@dataclass(frozen=True)
class Outer:
    title: str
    rate: float = 0.5
    on: bool = True
    mode: Literal["fast", "slow"] = "fast"
    inner: Inner = field(default_factory=Inner)
    parts: tuple[Inner, ...] = ()
    pair: tuple[str, int] = ("a", 1)
    options: Mapping[str, Any] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    count: int | None = None
    either: int | str = 0


FULL = {
    "title": "t",
    "rate": 2,
    "on": False,
    "mode": "slow",
    "inner": {"size": 3, "name": "n"},
    "parts": [{"size": 1}, {}],
    "pair": ["b", 2],
    "options": {"x": [1, 2]},
    "sizes": {"s": 4},
    "count": 5,
    "either": "text",
}


def test_a_table_becomes_a_record_with_all_that_is_in_it() -> None:
    record = from_table(Outer, FULL, "here")
    assert record == Outer(
        "t", 2.0, False, "slow", Inner(3, "n"), (Inner(1), Inner()), ("b", 2), {"x": [1, 2]}, {"s": 4}, 5, "text"
    )
    assert isinstance(record.rate, float)


def test_what_is_left_out_has_its_default() -> None:
    assert from_table(Outer, {"title": "t"}, "here") == Outer("t")


def test_a_record_becomes_a_table_and_back() -> None:
    record = from_table(Outer, FULL, "here")
    assert from_table(Outer, to_table(record), "here") == record


def test_what_is_none_is_left_out_of_a_table() -> None:
    assert to_table(Inner()) == {"size": 1}
    assert "count" not in to_table(Outer("t"))


def test_plain_values_are_what_files_can_hold() -> None:
    assert plain({"a": (Inner(2, "x"), [1, (2,)])}) == {"a": [{"size": 2, "name": "x"}, [1, [2]]]}
    assert plain("text") == "text"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "here needs the key 'title', which is missing"),
        ({"title": "t", "rte": 1}, r"unknown key 'rte' in here; did you mean 'rate'\? \(known: count, either"),
        ({"title": 3}, "here: title must be a text, got 3"),
        ({"title": None}, "here: title must be a text, got None"),
        ({"title": "t", "rate": "fast"}, "here: rate must be a number, got 'fast'"),
        ({"title": "t", "rate": True}, "here: rate must be a number, got True"),
        ({"title": "t", "rate": float("nan")}, "here: rate must be a finite number, got nan"),
        ({"title": "t", "rate": float("inf")}, "here: rate must be a finite number, got inf"),
        ({"title": "t", "rate": 10**400}, "here: rate must be a finite number, got 1000"),
        ({"title": "t", "on": 1}, "here: on must be true or false, got 1"),
        ({"title": "t", "mode": "fats"}, "here: mode: unknown value 'fats'; did you mean 'fast'"),
        ({"title": "t", "inner": 3}, "here: inner must be a table, got 3"),
        ({"title": "t", "inner": {"size": 1.5}}, "here: inner: size must be a whole number, got 1.5"),
        ({"title": "t", "inner": {"size": True}}, "here: inner: size must be a whole number, got True"),
        ({"title": "t", "inner": {"depth": 1}}, "unknown key 'depth' in here: inner"),
        ({"title": "t", "parts": "no"}, "here: parts must be a list, got 'no'"),
        ({"title": "t", "parts": [{}, {"size": "x"}]}, r"here: parts\[1\]: size must be a whole number, got 'x'"),
        ({"title": "t", "pair": ["a"]}, r"here: pair must be a list of 2 values, got \['a'\]"),
        ({"title": "t", "pair": ["a", "b"]}, r"here: pair\[1\] must be a whole number, got 'b'"),
        ({"title": "t", "options": [1]}, r"here: options must be a table, got \[1\]"),
        ({"title": "t", "sizes": {"s": "x"}}, "here: sizes.s must be a whole number, got 'x'"),
        ({"title": "t", "count": "x"}, "here: count must be a whole number, got 'x'"),
        ({"title": "t", "either": [1]}, r"here: either must be a whole number, got \[1\]"),
        ({"title": "t", "either": None}, "here: either must be a value, got None"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(table: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_table(Outer, table, "here")


def test_a_record_of_a_class_is_taken_as_it_is() -> None:
    @dataclass(frozen=True)
    class Holder:
        value: complex

    assert from_table(Holder, {"value": 1j}, "here").value == 1j
    with pytest.raises(ConfigError, match="here: value must be a complex, got 'x'"):
        from_table(Holder, {"value": "x"}, "here")
