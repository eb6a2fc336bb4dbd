# SPDX-License-Identifier: Apache-2.0
"""Kinds of questions about one table. Each draws a question with its SQL, or nothing where the schema has none."""

from collections.abc import Callable

from fedqa.databases.schema import Column, Relation
from fedqa.skills.sql.conditions import called, column_words, comparison, condition, is_value, phrase, small_number
from fedqa.skills.sql.drawing import Drawing, Pair, is_date, is_named, is_person, label, many, participle, single, words
from fedqa.skills.sql.habits import Habits

_HIGH = ("highest", "most", "largest", "biggest", "greatest")
_LOW = ("lowest", "smallest", "fewest", "least")
_CALLS = (("average", "AVG"), ("mean", "AVG"), ("total", "SUM"), ("highest", "MAX"), ("lowest", "MIN"))
# What people say of rows instead of naming a column, by a part of the column's name: for high values, and for low ones.
_ADJECTIVES = (
    (("cost", "price", "fee", "premium"), ("most expensive", "dearest"), ("cheapest", "least expensive")),
    (("salary", "wage"), ("best paid", "highest paid"), ("worst paid", "lowest paid")),
    (("birth",), ("youngest",), ("oldest",)),
    (("opened", "founded", "built", "created", "issued"), ("newest", "most recent"), ("oldest", "earliest")),
    (("joined", "hired"), ("newest", "most recent"), ("longest serving", "first")),
)


def _counted(draw: Drawing, habits: Habits) -> Pair | None:
    table = draw.table()
    given = condition(draw, table) if table and draw.chance(0.75) else None
    if table is None:
        return None
    if given and draw.chance(0.5):
        question = f"How many {many(table)} {given.states}?"
    else:
        said = draw.one_of(
            "How many {} are there?", "How many {} do we have?", "What is the number of {}?", "Count the {}."
        )
        question = said.format(phrase(draw, many(table), given) if given else many(table))
    return question, f"SELECT COUNT(*) FROM {table.name}{f' WHERE {given.sql}' if given else ''}"


def _listed(draw: Drawing, habits: Habits) -> Pair | None:
    table = draw.table()
    given = condition(draw, table) if table else None
    if table is None or given is None:
        return None
    more = is_value(draw, table) if draw.chance(0.3) else None
    more = more if more and more.column != given.column else None
    noun = phrase(draw, many(table), more) if more else many(table)
    said = draw.one_of(
        "Which {n} {s}?", "Which {n} {s}?", "List the {n} {a}.", "Show the {n} {a}.", "Name the {n} {a}."
    )
    if is_person(table) and draw.chance(0.4):
        said = draw.one_of("Give me the names of the {n} {a}.", "Who are the {n} {a}?")
    shown = _shown(table, given.column, given.measured and habits.shows_compared)
    where = " AND ".join(one.sql for one in (more, given) if one)
    return said.format(n=noun, s=given.states, a=given.after), f"SELECT {shown} FROM {table.name} WHERE {where}"


def _by_value_alone(draw: Drawing, habits: Habits) -> Pair | None:
    """People call rows by what they are: "the cashiers" are staff whose job title is cashier."""
    table = draw.table(draw.groups)
    if table is None or not draw.knows_values:
        return None
    column = draw.one_of(*draw.groups(table))
    value = draw.value(table, column)
    if not value[-1:].isalpha():
        return None
    asked, told = draw.one_of(
        ("How many {} are there?", "COUNT(*)"),
        ("How many {} do we have?", "COUNT(*)"),
        ("List the {}.", label(table)),
        ("Give me the names of the {}.", label(table)),
        ("Who are our {}?" if is_person(table) else "Which are our {}?", label(table)),
    )
    return asked.format(_plural(value)), f"SELECT {told} FROM {table.name} WHERE {column.name} = '{value}'"


def _column_of_all(draw: Drawing, habits: Habits) -> Pair | None:
    table = draw.table()
    if table is None:
        return None
    column = draw.one_of(*draw.plain(table))
    said = column_words(draw, table, column)
    if draw.chance(0.5):
        form = draw.one_of("Which different {} do the {} have?", "What {} are there among the {}?")
        return form.format(said, many(table)), f"SELECT DISTINCT {column.name} FROM {table.name}"
    form = draw.one_of("List the {} of all {}.", "Show the {} of the {}.", "Give me the {} of the {}.")
    return form.format(said, many(table)), f"SELECT {column.name} FROM {table.name}"


def _looked_up(draw: Drawing, habits: Habits) -> Pair | None:
    table = draw.table(is_named)
    if table is None:
        return None
    others = [column for column in draw.plain(table) if column.name != label(table)] or draw.plain(table)
    column, value = draw.one_of(*others), called(draw, table)
    sql = f"SELECT {column.name} FROM {table.name} WHERE {label(table)} = '{value}'"
    if participle(column) and draw.chance(0.7):
        said = draw.one_of("When was {v} {c}?", "In which year was {v} {c}?", "When did {v} get {c}?")
        return said.format(v=value, c=participle(column)), sql
    said = draw.one_of(
        "What is the {c} of {v}?",
        "What is the {c} for {v}?",
        "What is the {c} for {v} {t}?",
        "What {c} does {v} have?",
        "What {c} is {v}?",
        "Tell me the {c} of the {t} {v}.",
    )
    return said.format(c=column_words(draw, table, column), v=value, t=single(table)), sql


def _looked_up_by_value(draw: Drawing, habits: Habits) -> Pair | None:
    table = draw.table(draw.groups)
    if table is None or not draw.knows_values or len(draw.plain(table)) < 2:
        return None
    by = draw.one_of(*draw.groups(table))
    column, value = draw.one_of(*(one for one in draw.plain(table) if one is not by)), draw.value(table, by)
    said = draw.one_of("On which {c} is {v}?", "Which {c} is {v}?", "What is the {c} of {v}?", "Which {c} has {v}?")
    question = said.format(c=column_words(draw, table, column), v=value)
    return question, f"SELECT {column.name} FROM {table.name} WHERE {by.name} = '{value}'"


def _added_up(draw: Drawing, habits: Habits) -> Pair | None:
    table = draw.table(draw.numbers)
    if table is None:
        return None
    column, (word, call) = draw.one_of(*draw.numbers(table)), draw.one_of(*_CALLS)
    given = condition(draw, table) if draw.chance(0.6) else None
    said = draw.one_of(
        "What is the {w} {c} of the {n}?", "What is the {w} {c} on {n}?", "Give me the {w} {c} of all {n}."
    )
    if call == "SUM" and draw.chance(0.6):
        said = draw.one_of(
            "How many {c} do the {n} have altogether?",
            "How many {c} are there in total on the {n}?",
            "How much {c} do the {n} have in all?",
        )
    noun = phrase(draw, many(table), given) if given else many(table)
    question = said.format(w=word, c=column_words(draw, table, column), n=noun)
    return question, f"SELECT {call}({column.name}) FROM {table.name}{f' WHERE {given.sql}' if given else ''}"


def _grouped(draw: Drawing, habits: Habits) -> Pair | None:
    table = draw.table(draw.groups)
    if table is None:
        return None
    column = draw.one_of(*draw.groups(table))
    said, call = column_words(draw, table, column), "COUNT(*)"
    forms = ["How many {t} are there for each {c}", "How many {t} of each {c} are there", "Count the {t} by {c}"]
    measure = draw.one_of(*draw.numbers(table)) if draw.numbers(table) and draw.chance(0.6) else None
    if measure:
        word, function = draw.one_of(*_CALLS)
        call, what = f"{function}({measure.name})", f"{word} {column_words(draw, table, measure)}"
        forms = [f"What is the {what} of the {{t}} for each {{c}}", f"Show the {what} by {{c}}"]
        forms += [f"What is the {what} on each {{c}}", f"Give the {what} of each {{c}}"]
    first, order = draw.one_of(
        ("", ""),
        ("", ""),
        (draw.one_of(", largest first", ", highest first", ", most first"), f" ORDER BY {call} DESC"),
    )
    question = draw.one_of(*forms).format(t=many(table), c=said)
    return f"{question}{first}?", f"SELECT {column.name}, {call} FROM {table.name} GROUP BY {column.name}{order}"


def _groups_with_many(draw: Drawing, habits: Habits) -> Pair | None:
    table = draw.table(draw.groups)
    if table is None:
        return None
    column = draw.one_of(*draw.groups(table))
    by = column.name
    told = f"{by}, COUNT(*)" if habits.shows_counted else by
    if draw.chance(0.4):
        question = f"Which {words(by)} has the {draw.one_of('most', 'largest number of')} {many(table)}?"
        return question, f"SELECT {told} FROM {table.name} GROUP BY {by} ORDER BY COUNT(*) DESC LIMIT 1"
    (more, sign), (number, n) = comparison(draw), small_number(draw, 1, 12)
    said = draw.one_of("Which {c} have {m} {n} {t}?", "Which {c} have {m} {n} of our {t}?")
    question = said.format(c=_plural(words(by)), m=more, n=number, t=many(table))
    return question, f"SELECT {told} FROM {table.name} GROUP BY {by} HAVING COUNT(*) {sign} {n}"


def _extreme(draw: Drawing, habits: Habits) -> Pair | None:
    table = draw.table(lambda one: draw.numbers(one) or draw.dates(one))
    if table is None:
        return None
    column = draw.one_of(*draw.numbers(table), *draw.dates(table))
    given = is_value(draw, table) if draw.chance(0.3) else None
    high = draw.chance(0.65)
    noun = phrase(draw, single(table), given) if given else single(table)
    question = _superlative(draw, table, column, high=high, noun=noun)
    asks_more = draw.chance(0.2)
    if asks_more:
        question = question.removesuffix("?") + draw.one_of(", and what is it?", ", and how much?", " and when?")
    where = f" WHERE {given.sql}" if given else ""
    told = _shown(table, column.name, habits.shows_ordered or asks_more)
    return question, f"SELECT {told} FROM {table.name}{where} ORDER BY {column.name}{' DESC' if high else ''} LIMIT 1"


def _superlative(draw: Drawing, table: Relation, column: Column, *, high: bool, noun: str) -> str:
    known = [(up, down) for parts, up, down in _ADJECTIVES if any(part in column.name for part in parts)]
    if known and draw.chance(0.7):
        said = draw.one_of(
            "Which {n} is the {a}?", "What is the {a} {n}?", "Who is the {a} {n}?", "Which is our {a} {n}?"
        )
        return said.format(n=noun, a=draw.one_of(*known[0][0 if high else 1]))
    said = column_words(draw, table, column)
    if is_date(column):
        done, when = participle(column), ("last", "most recently") if high else ("first", "earliest")
        if done and draw.chance(0.7):
            return f"Which {noun} was {done} {draw.one_of(*when)}?"
        return f"Which {noun} has the {'latest' if high else 'earliest'} {said}?"
    form = draw.one_of(
        "Which {n} has the {w} {c}?",
        "What is the {n} with the {w} {c}?",
        "Which {n} is the {w} by {c}?",
        "Who has the {w} {c}?" if is_person(table) else "Which {n} has the {w} {c}?",
    )
    return form.format(n=noun, w=draw.one_of(*(_HIGH if high else _LOW)), c=said)


def _first_few(draw: Drawing, habits: Habits) -> Pair | None:
    table = draw.table(draw.numbers)
    if table is None:
        return None
    column, (said, n), high = draw.one_of(*draw.numbers(table)), small_number(draw, 2, 11), draw.chance(0.7)
    form = draw.one_of(
        "Show the {n} {t} with the {w} {c}.", "Which {n} {t} have the {w} {c}?", "List the top {n} {t} by {c}."
    )
    if form.startswith("List"):
        high = True
    word = draw.one_of(*(_HIGH if high else _LOW))
    question = form.format(n=said, t=many(table), w=word, c=column_words(draw, table, column))
    told = _shown(table, column.name, True)
    return question, f"SELECT {told} FROM {table.name} ORDER BY {column.name}{' DESC' if high else ''} LIMIT {n}"


def _ranked(draw: Drawing, habits: Habits) -> Pair | None:
    table = draw.table(draw.numbers)
    if table is None:
        return None
    column, high = draw.one_of(*draw.numbers(table)), draw.chance(0.7)
    order = draw.one_of("highest", "largest", "most") if high else draw.one_of("lowest", "smallest")
    said = draw.one_of(
        "Rank the {t} by {c}, {o} first.", "List the {t} by {c}, {o} first.", "Sort {t} by {c}, {o} first."
    )
    question = said.format(t=many(table), c=column_words(draw, table, column), o=order)
    told = _shown(table, column.name, True)
    return question, f"SELECT {told} FROM {table.name} ORDER BY {column.name}{' DESC' if high else ''}"


def _beyond_average(draw: Drawing, habits: Habits) -> Pair | None:
    table = draw.table(draw.numbers)
    if table is None:
        return None
    column = draw.one_of(*draw.numbers(table))
    more, sign = draw.one_of(("more than", ">"), ("above", ">"), ("less than", "<"), ("below", "<"))
    said = column_words(draw, table, column)
    question = f"Which {many(table)} have a {said} {more} the average{draw.one_of('', f' {said}')}?"
    average = f"SELECT AVG({column.name}) FROM {table.name}"
    return question, f"SELECT {label(table)} FROM {table.name} WHERE {column.name} {sign} ({average})"


def _percentage(draw: Drawing, habits: Habits) -> Pair | None:
    table = draw.table()
    given = is_value(draw, table) if table else None
    if table is None or given is None:
        return None
    said = draw.one_of("What percentage of {t} {s}?", "What share of all {t} {s}, in percent?")
    counted = f"SUM(CASE WHEN {given.sql} THEN 1 ELSE 0 END)"
    question = said.format(t=many(table), s=given.states)
    return question, f"SELECT ROUND(100.0 * {counted} / COUNT(*), 1) FROM {table.name}"


def _shown(table: Relation, column: str, both: bool) -> str:
    return f"{label(table)}, {column}" if both and column != label(table) else label(table)


def _plural(noun: str) -> str:
    for ending, instead in (("y", "ies"), ("ss", "sses"), ("ch", "ches"), ("x", "xes")):
        if noun.endswith(ending) and not noun.endswith(("ay", "ey", "oy")):
            return noun[: -len(ending)] + instead
    return noun if noun.endswith("s") else f"{noun}s"


Kind = Callable[[Drawing, Habits], Pair | None]
SINGLE: tuple[Kind, ...] = (
    _counted,
    _counted,
    _listed,
    _listed,
    _by_value_alone,
    _column_of_all,
    _looked_up,
    _looked_up_by_value,
    _added_up,
    _grouped,
    _groups_with_many,
    _extreme,
    _extreme,
    _first_few,
    _ranked,
    _beyond_average,
    _percentage,
)
