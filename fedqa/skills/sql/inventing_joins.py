# SPDX-License-Identifier: Apache-2.0
"""Kinds of questions about several tables. Each draws a question with its SQL, or nothing where the schema has none."""

from collections.abc import Callable, Iterator

from fedqa.databases.schema import Relation
from fedqa.skills.sql.conditions import (
    Condition,
    called,
    column_words,
    comparison,
    condition,
    is_value,
    phrase,
    small_number,
)
from fedqa.skills.sql.drawing import Drawing, Join, Pair, is_named, is_person, label, many, participle, single
from fedqa.skills.sql.habits import Habits

_CALLS = (("average", "AVG"), ("total", "SUM"), ("highest", "MAX"), ("lowest", "MIN"))
_MOST_JOINS = 3  # between two tables


def _per_parent(draw: Drawing, habits: Habits) -> Pair | None:
    join = draw.join()
    if join is None:
        return None
    name = f"{join.one.name}.{label(join.one)}"
    given = is_value(draw, join.many, f"{join.many.name}.") if draw.chance(0.3) else None
    said = draw.one_of(
        "How many {m} does each {o} have?", "How many {m} are there for each {o}?", "Count the {m} of each {o}."
    )
    question = said.format(m=_noun(draw, join.many, given), o=single(join.one))
    return question, f"SELECT {name}, COUNT(*) FROM {join.joined(join.one)}{_where(given)} GROUP BY {name}"


def _measured_per_parent(draw: Drawing, habits: Habits) -> Pair | None:
    join = draw.join(lambda one: draw.numbers(one.many))
    if join is None:
        return None
    name, (word, call) = f"{join.one.name}.{label(join.one)}", draw.one_of(*_CALLS)
    column = draw.one_of(*draw.numbers(join.many))
    measured = f"{call}({join.many.name}.{column.name})"
    first, order = draw.one_of(
        ("", ""), (draw.one_of(", highest first", ", largest first"), f" ORDER BY {measured} DESC")
    )
    said = draw.one_of(
        "What is the {w} {c} of the {m} of each {o}", "Show the {w} {c} of {m} by {o}", "Rank the {p} by {w} {c} of {m}"
    )
    question = said.format(
        w=word, c=column_words(draw, join.many, column), m=many(join.many), o=single(join.one), p=many(join.one)
    )
    sql = f"SELECT {name}, {measured} FROM {join.joined(join.one)} GROUP BY {name}{order}"
    return f"{question}{first}{'?' if question.startswith('What') else '.'}", sql


def _of_parent(draw: Drawing, habits: Habits) -> Pair | None:
    join = draw.join(lambda one: is_named(one.one))
    if join is None:
        return None
    value, given = called(draw, join.one), _maybe(draw, join.many, 0.4)
    asked, told = draw.one_of(("How many", "COUNT(*)"), ("Which", _label(join.many)))
    said = draw.one_of(
        "{a} {m} does the {o} {v} have?", "{a} {m} belong to {v}?", "{a} {m} are there at {v}?", "{a} {m} are on {v}?"
    )
    if asked == "Which" and draw.chance(0.4):
        said = draw.one_of("List the {m} of {v}.", "List the {m} at {v}.", "Show the {m} of the {o} {v}.")
    where = " AND ".join([f"{_label(join.one)} = '{value}'", *([given.sql] if given else [])])
    question = said.format(a=asked, m=_noun(draw, join.many, given), o=single(join.one), v=value)
    return question, f"SELECT {told} FROM {join.joined(join.many)} WHERE {where}"


def _what_at_parent(draw: Drawing, habits: Habits) -> Pair | None:
    """Children by what they are, as in "Who is the manager at Elm Street?"."""
    join = draw.join(lambda one: is_named(one.one) and draw.groups(one.many))
    if join is None or not draw.knows_values:
        return None
    column, value = draw.one_of(*draw.groups(join.many)), called(draw, join.one)
    kind = draw.value(join.many, column)
    who = "Who is" if is_person(join.many) else "Which is"
    said = draw.one_of("{w} the {k} at {v}?", "{w} the {k} on {v}?", "{w} the {k} of {v}?", "List each {k} in {v}.")
    where = f"{_label(join.one)} = '{value}' AND {join.many.name}.{column.name} = '{kind}'"
    return said.format(
        w=who, k=kind, v=value
    ), f"SELECT {_label(join.many)} FROM {join.joined(join.many)} WHERE {where}"


def _parent_of(draw: Drawing, habits: Habits) -> Pair | None:
    join = draw.join(lambda one: is_named(one.many))
    if join is None:
        return None
    value, column = called(draw, join.many), draw.one_of(*draw.plain(join.one))
    where = f"WHERE {_label(join.many)} = '{value}'"
    if draw.chance(0.6):
        said = draw.one_of(
            "Which {o} does {v} belong to?", "Which {o} is {v} at?", "At which {o} is {v}?", "What is the {o} of {v}?"
        )
        return said.format(
            o=single(join.one), v=value
        ), f"SELECT {_label(join.one)} FROM {join.joined(join.one)} {where}"
    question = f"What is the {column_words(draw, join.one, column)} of the {single(join.one)} of {value}?"
    return question, f"SELECT {join.one.name}.{column.name} FROM {join.joined(join.one)} {where}"


def _detail_of_child(draw: Drawing, habits: Habits) -> Pair | None:
    join = draw.join(lambda one: is_named(one.one))
    if join is None:
        return None
    value, column = called(draw, join.one), draw.one_of(*draw.plain(join.many))
    given = _maybe(draw, join.many, 0.4, values_only=True)
    noun = _noun(draw, join.many, given, plural=False)
    said = draw.one_of(
        "What is the {c} of {v}'s {n}?", "Show the {c} of the {n} of {v}.", "What {c} has {v} on the {n}?"
    )
    words = column_words(draw, join.many, column)
    if participle(column):
        words, said = participle(column), draw.one_of("When was {v} {c} for the {n}?", "When was the {n} of {v} {c}?")
    where = " AND ".join([f"{_label(join.one)} = '{value}'", *([given.sql] if given else [])])
    question = said.format(c=words, v=value, n=noun)
    return question, f"SELECT {join.many.name}.{column.name} FROM {join.joined(join.many)} WHERE {where}"


def _measured_of_parent(draw: Drawing, habits: Habits) -> Pair | None:
    join = draw.join(lambda one: is_named(one.one) and draw.numbers(one.many))
    if join is None:
        return None
    column, value, (word, call) = draw.one_of(*draw.numbers(join.many)), called(draw, join.one), draw.one_of(*_CALLS)
    said = draw.one_of("What is the {w} {c} of {v}'s {m}?", "What is the {w} {c} of the {m} at {v}?")
    question = said.format(w=word, c=column_words(draw, join.many, column), v=value, m=many(join.many))
    told = f"{call}({join.many.name}.{column.name})"
    return question, f"SELECT {told} FROM {join.joined(join.many)} WHERE {_label(join.one)} = '{value}'"


def _without(draw: Drawing, habits: Habits) -> Pair | None:
    join = draw.join()
    if join is None:
        return None
    given = condition(draw, join.many) if draw.chance(0.4) else None
    said = draw.one_of("Which {} have no {}?", "Which {} have never had any {}?", "List the {} without {}.")
    inner = f"SELECT {join.foreign} FROM {join.many.name}{_where(given)}"
    question = said.format(many(join.one), _noun(draw, join.many, given))
    return question, f"SELECT {label(join.one)} FROM {join.one.name} WHERE {join.key} NOT IN ({inner})"


def _with_child(draw: Drawing, habits: Habits) -> Pair | None:
    join = draw.join()
    given = condition(draw, join.many, f"{join.many.name}.") if join else None
    if join is None or given is None:
        return None
    said = draw.one_of("Which {o} have {m}?", "Which {o} have a {m}?", "List the {o} who have {m}.")
    if is_person(join.one):
        said = draw.one_of(said, "Who has {m}?", "Who has had a {m}?")
    noun = _noun(draw, join.many, given, plural="a {m}" not in said)
    if draw.knows_values and given.before and draw.chance(0.4):
        noun = given.before
    shown = _label(join.one)
    if given.measured and habits.shows_compared:
        shown += f", {join.many.name}.{given.column}"
    return said.format(o=many(join.one), m=noun), f"SELECT {shown} FROM {join.joined(join.one)} WHERE {given.sql}"


def _with_many(draw: Drawing, habits: Habits) -> Pair | None:
    join = draw.join()
    if join is None:
        return None
    (more, sign), (said, n) = comparison(draw), small_number(draw, 1, 10)
    name = _label(join.one)
    told = f"{name}, COUNT(*)" if habits.shows_counted else name
    question = f"Which {many(join.one)} {draw.one_of('have', 'hold', 'have had')} {more} {said} {many(join.many)}?"
    return question, f"SELECT {told} FROM {join.joined(join.one)} GROUP BY {name} HAVING COUNT(*) {sign} {n}"


def _with_most(draw: Drawing, habits: Habits) -> Pair | None:
    join = draw.join()
    if join is None:
        return None
    name, given = _label(join.one), _maybe(draw, join.many, 0.3)
    word, order = draw.one_of(("most", " DESC"), ("largest number of", " DESC"), ("fewest", ""))
    said = draw.one_of("Which {o} has the {w} {m}?", "Which {o} has had the {w} {m}?")
    if is_person(join.one) and draw.chance(0.3):
        said = "Who has the {w} {m}?"
    question = said.format(o=single(join.one), w=word, m=_noun(draw, join.many, given))
    told = f"{name}, COUNT(*)" if habits.shows_counted else name
    sql = f"SELECT {told} FROM {join.joined(join.one)}{_where(given)} GROUP BY {name} ORDER BY COUNT(*){order} LIMIT 1"
    return question, sql


def _far_apart(draw: Drawing, habits: Habits) -> Pair | None:
    """Tables that others join, as in "Who has been given aspirin?"."""
    start = draw.table(is_named)
    paths = [path for path in _paths(draw, start) if is_named(path[-1][1])] if start else []
    if start is None or not paths:
        return None
    path = draw.one_of(*paths)
    end = path[-1][1]
    value = called(draw, end)
    froms = [start, *(table for _, table in path)]
    joins = "".join(f" JOIN {to.name} ON {join.on(near)}" for near, (join, to) in zip(froms, path, strict=False))
    said = draw.one_of("Which {s} have {v}?", "Which {s} have had {v}?", "Which {s} have had the {e} {v}?")
    if is_person(start):
        said = draw.one_of(said, "Who has {v}?", "Who has been given {v}?", "Who has had {v}?")
    told = f"DISTINCT {_label(start)}"
    if draw.chance(0.2):
        said, told = "How many {s} have had {v}?", f"COUNT(DISTINCT {_label(start)})"
    question = said.format(s=many(start), v=value, e=single(end))
    return question, f"SELECT {told} FROM {start.name}{joins} WHERE {_label(end)} = '{value}'"


def _paths(draw: Drawing, start: Relation) -> Iterator[tuple[tuple[Join, Relation], ...]]:
    """The ways of two joins or more from a table to others, through no table twice."""
    going: list[tuple[tuple[Join, Relation], ...]] = [()]
    for length in range(1, _MOST_JOINS + 1):
        going = [(*path, step) for path in going for step in _steps(draw, start, path)]
        yield from going if length > 1 else ()


def _steps(draw: Drawing, start: Relation, path: tuple[tuple[Join, Relation], ...]) -> Iterator[tuple[Join, Relation]]:
    seen = [start, *(table for _, table in path)]
    for join in draw.joins:
        for here, there in ((join.one, join.many), (join.many, join.one)):
            if here is seen[-1] and all(there is not table for table in seen):
                yield join, there


def _label(table: Relation) -> str:
    return f"{table.name}.{label(table)}"


def _maybe(draw: Drawing, table: Relation, share: float, *, values_only: bool = False) -> Condition | None:
    if not draw.chance(share):
        return None
    return (is_value if values_only else condition)(draw, table, f"{table.name}.")


def _noun(draw: Drawing, table: Relation, given: Condition | None, *, plural: bool = True) -> str:
    noun = many(table) if plural else single(table)
    return phrase(draw, noun, given) if given else noun


def _where(given: Condition | None) -> str:
    return f" WHERE {given.sql}" if given else ""


Kind = Callable[[Drawing, Habits], Pair | None]
JOINED: tuple[Kind, ...] = (
    _per_parent,
    _measured_per_parent,
    _of_parent,
    _of_parent,
    _what_at_parent,
    _parent_of,
    _detail_of_child,
    _measured_of_parent,
    _without,
    _with_child,
    _with_many,
    _with_most,
    _far_apart,
)
