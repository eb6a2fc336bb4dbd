# SPDX-License-Identifier: Apache-2.0
"""Conditions on the rows of a table, in words and in SQL, for questions that are invented."""

import calendar
from dataclasses import dataclass

from fedqa.databases.schema import Column, Relation
from fedqa.skills.sql.drawing import Drawing, label, participle, words
from fedqa.skills.sql.numbers import NUMBER_WORDS

_MONTHS = "January February March April May June July August September October November December"
_COMPARISONS = (
    ("more than", ">"),
    ("over", ">"),
    ("above", ">"),
    ("fewer than", "<"),
    ("less than", "<"),
    ("under", "<"),
    ("at least", ">="),
    ("at most", "<="),
)


@dataclass(frozen=True)
class Condition:
    """Words that say it of rows in three ways, of which `before` may be empty; `column` is what it is about."""

    after: str  # as in "wards with more than 20 beds"
    states: str  # as in "which wards have more than 20 beds"
    sql: str
    column: str
    before: str = ""  # as in "private wards"
    measured: bool = False  # it compares, so that people may want to see the column too


def comparison(draw: Drawing) -> tuple[str, str]:
    return draw.one_of(*_COMPARISONS)


def small_number(draw: Drawing, low: int, high: int) -> tuple[str, int]:
    """In words or digits, and the number."""
    number = draw.number(low, high)
    return (NUMBER_WORDS[number] if draw.chance(0.6) else str(number)), number


def condition(draw: Drawing, table: Relation, prefix: str = "") -> Condition | None:
    """Some condition on a table, whose columns get a prefix in SQL; None if it has no column for one."""
    ways = [_is] * 4 * bool(draw.groups(table)) + [_is_not] * bool(draw.groups(table))
    ways += [_compares, _compares, _between] * bool(draw.numbers(table))
    ways += [_in_time, _in_time] * bool(draw.dates(table))
    ways += [_missing] * bool(draw.plain(table))
    return draw.one_of(*ways)(draw, table, prefix) if ways else None


def is_value(draw: Drawing, table: Relation, prefix: str = "") -> Condition | None:
    """That a row has a value, in a column of which several may have the same."""
    return _is(draw, table, prefix) if draw.groups(table) else None


def called(draw: Drawing, table: Relation) -> str:
    """The name of a row, real where contents are known."""
    return draw.value(table, next(column for column in table.columns if column.name == label(table)))


def column_words(draw: Drawing, table: Relation, column: Column) -> str:
    """The name of a column as people may say it: the table's own name in it is often left out."""
    own, said = words(table.name).rstrip("s"), words(column.name)
    if said in ("full name", "birth date"):
        return draw.one_of(said, {"full name": "name", "birth date": "date of birth"}[said])
    if said.startswith(f"{own} ") and draw.chance(0.5):
        rest = said.removeprefix(f"{own} ")
        return draw.one_of(rest, f"{rest} of {own}")
    return said


def _is(draw: Drawing, table: Relation, prefix: str) -> Condition:
    column = draw.one_of(*draw.groups(table))
    value, said = draw.value(table, column), column_words(draw, table, column)
    sql = f"{prefix}{column.name} = '{value}'"
    named = draw.one_of(f"with {said} {value}", f"whose {said} is {value}", f"with the {said} {value}")
    if not draw.knows_values or draw.chance(0.25):  # nothing else tells of which column it is a value
        return Condition(named, draw.one_of(f"have the {said} {value}", f"have {said} {value}"), sql, column.name)
    after = draw.one_of(f"that are {value}", f"for {value}", f"on {value}", f"in {value}", named)
    states = draw.one_of(f"are {value}", f"were {value}", f"have {value}", f"are in {value}", f"are for {value}")
    return Condition(after, states, sql, column.name, before=value)


def _is_not(draw: Drawing, table: Relation, prefix: str) -> Condition:
    column = draw.one_of(*draw.groups(table))
    value, said = draw.value(table, column), column_words(draw, table, column)
    sql = f"{prefix}{column.name} <> '{value}'"
    if draw.knows_values and draw.chance(0.6):
        return Condition(f"that are not {value}", f"are not {value}", sql, column.name)
    return Condition(f"with a {said} other than {value}", f"have another {said} than {value}", sql, column.name)


def _compares(draw: Drawing, table: Relation, prefix: str) -> Condition:
    column, (more, sign) = draw.one_of(*draw.numbers(table)), comparison(draw)
    said, number = column_words(draw, table, column), _amount(draw)
    written = f"{number:,}" if draw.chance(0.3) else str(number)
    after = draw.one_of(f"with {more} {written} {said}", f"with a {said} of {more} {written}")
    states = draw.one_of(f"have {more} {written} {said}", f"have a {said} of {more} {written}")
    return Condition(after, states, f"{prefix}{column.name} {sign} {number}", column.name, measured=True)


def _amount(draw: Drawing) -> int:
    return draw.one_of(draw.number(2, 100), draw.number(100, 3000), 1000 * draw.number(1, 500))


def _between(draw: Drawing, table: Relation, prefix: str) -> Condition:
    column = draw.one_of(*draw.numbers(table))
    low = draw.number(13, 1000)
    high = low + draw.number(1, 1000)
    said = f"a {column_words(draw, table, column)} between {low} and {high}"
    sql = f"{prefix}{column.name} BETWEEN {low} AND {high}"
    return Condition(f"with {said}", f"have {said}", sql, column.name, measured=True)


def _in_time(draw: Drawing, table: Relation, prefix: str) -> Condition:
    column = draw.one_of(*draw.dates(table))
    when, sql = _year(draw, prefix + column.name) if column.name.endswith("year") else _date(draw, prefix + column.name)
    done = participle(column)
    if done:
        return Condition(f"{done} {when}", draw.one_of(f"were {done} {when}", f"{done} {when}"), sql, column.name)
    said = f"a {column_words(draw, table, column)} {when}"
    return Condition(f"with {said}", f"have {said}", sql, column.name)


def _year(draw: Drawing, column: str) -> tuple[str, str]:
    year = draw.number(1900, 2026)
    word, sign = draw.one_of(("in", "="), ("before", "<"), ("after", ">"), ("since", ">="))
    return f"{word} {year}", f"{column} {sign} {year}"


def _date(draw: Drawing, column: str) -> tuple[str, str]:
    year, month = draw.number(1950, 2027), draw.number(1, 13)
    if draw.chance(0.3):
        last = calendar.monthrange(year, month)[1]
        sql = f"{column} BETWEEN '{year}-{month:02}-01' AND '{year}-{month:02}-{last}'"
        return f"in {_MONTHS.split()[month - 1]} {year}", sql
    return draw.one_of(
        (f"in {year}", f"{column} BETWEEN '{year}-01-01' AND '{year}-12-31'"),
        (f"before {year}", f"{column} < '{year}-01-01'"),
        (f"since {year}", f"{column} >= '{year}-01-01'"),
        (f"after {year}", f"{column} > '{year}-12-31'"),
    )


def _missing(draw: Drawing, table: Relation, prefix: str) -> Condition:
    column = draw.one_of(*draw.plain(table))
    done, said, sql = participle(column), column_words(draw, table, column), f"{prefix}{column.name} IS NULL"
    if done:
        return Condition(f"not yet {done}", f"have not been {done}", sql, column.name)
    return Condition(draw.one_of(f"with no {said}", f"without a {said}"), f"have no {said}", sql, column.name)


def phrase(draw: Drawing, noun: str, given: Condition) -> str:
    """A noun with a condition on it."""
    return f"{given.before} {noun}" if given.before and draw.chance(0.6) else f"{noun} {given.after}"
