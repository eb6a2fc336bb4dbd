# SPDX-License-Identifier: Apache-2.0
"""What the grammar lets a decoder write next. Whether it accepts the SQL of public sets is tested with the notation."""

import numpy as np
import pytest
from sql_examples import ITEMS, item, notation, piece

from fedqa.models.search import ITEM, PIECE, SPAN, SYMBOL, Allowed, Step
from fedqa.skills.sql.grammar import Grammar
from fedqa.skills.sql.question import Question
from fedqa.skills.sql.symbols import SYMBOLS, symbol

CITY, STATE = item("city"), item("state")
NAME, POPULATION, HOME = (item("city", column) for column in ("city_name", "population", "state_name"))
STATE_NAME, AREA = item("state", "state_name"), item("state", "area")


def after(*steps: Step | str) -> Allowed:
    rule = Grammar(ITEMS)
    for step in steps:
        rule = rule.after(symbol(step) if isinstance(step, str) else step)
    return rule.allowed()


def words(allowed: Allowed) -> set[str]:
    return {SYMBOLS[i] for i in np.flatnonzero(allowed.symbols)}


def items(allowed: Allowed) -> set[str]:
    return {f"{ITEMS[i].table}.{ITEMS[i].column}" for i in np.flatnonzero(allowed.items)}


def test_a_statement_begins_with_its_style_and_a_select() -> None:
    assert words(after()) == {"<aliased>", "<qualified>", "<bare>"}  # what is all spelled has no grammar
    assert words(after("<bare>")) == {"SELECT", "SELECT DISTINCT"}
    allowed = after("<bare>", "SELECT")
    assert {"COUNT(", "*", "CASE", "1"} <= words(allowed)
    assert words(allowed).isdisjoint({"FROM", ",", ")", "<end>", "=", "WHERE", "SELECT", "name", "name("})
    assert allowed.pieces and allowed.spans and allowed.items.all()


def test_from_is_left_out_only_where_columns_tell_their_tables() -> None:
    assert "FROM*" in words(after("<aliased>", "SELECT", NAME))
    assert "FROM*" not in words(after("<qualified>", "SELECT", NAME))


def test_clauses_keep_their_order() -> None:
    start = ("<bare>", "SELECT", NAME, "FROM", CITY)
    assert {"WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "<end>", "UNION"} <= words(after(*start))
    grouped = words(after(*start, "GROUP BY", NAME))
    assert {"HAVING", "ORDER BY", ",", "<end>"} <= grouped
    assert grouped.isdisjoint({"WHERE", "GROUP BY", "FROM", "ASC"})
    assert {"ASC", "DESC"} <= words(after(*start, "ORDER BY", NAME))
    assert "," not in words(after(*start, "WHERE", NAME))
    assert words(after(*start, "LIMIT", "1")) >= {"OFFSET", "<end>"}
    assert "=" not in words(after(*start, "LIMIT", "1"))


def test_a_query_is_not_left_before_the_tables_of_its_columns_are_declared() -> None:
    missing = words(after("<bare>", "SELECT", NAME, ",", AREA, "FROM", CITY))
    assert missing.isdisjoint({"WHERE", "<end>", "LIMIT"})
    assert {",", "JOIN"} <= missing
    assert "<end>" in words(after("<bare>", "SELECT", NAME, ",", AREA, "FROM", CITY, ",", STATE))


def test_columns_are_those_of_declared_tables_also_of_queries_around() -> None:
    start = ("<bare>", "SELECT", NAME, "FROM", CITY, "WHERE")
    assert items(after(*start)) == {"city.", "city.city_name", "city.population", "city.state_name"}
    inner = after(*start, POPULATION, "=", "(SELECT", AREA, "FROM", STATE, "WHERE")
    assert items(inner) == {f"{one.table}.{one.column}" for one in ITEMS.items}
    assert items(after("<bare>", "SELECT", NAME, "FROM")) == {"city.", "state."}


def test_brackets_are_closed_before_the_end() -> None:
    inner = words(after("<aliased>", "SELECT", NAME, "FROM*", "WHERE", POPULATION, "=", "(SELECT", AREA, "FROM*"))
    assert ")" in inner and "<end>" not in inner
    closed = words(after("<aliased>", "SELECT", "MAX(", POPULATION, ")", "FROM*"))
    assert "<end>" in closed and ")" not in closed


def test_tables_are_joined_along_known_keys() -> None:
    start = ("<qualified>", "SELECT", NAME, "FROM", CITY, "JOIN", STATE, "ON")
    assert items(after(*start)) == {"city.state_name", "state.state_name"}
    assert not after(*start).pieces and not words(after(*start))
    assert words(after(*start, HOME)) >= {"="} and "AND" not in words(after(*start, HOME))
    assert items(after(*start, HOME, "=")) == {"state.state_name"}
    assert {"AND", "WHERE", "<end>"} <= words(after(*start, HOME, "=", STATE_NAME))


def test_without_known_keys_any_columns_join() -> None:
    allowed = after("<qualified>", "SELECT", NAME, "FROM", CITY, "JOIN", CITY, "ON")
    assert items(allowed) == {"city.", "city.city_name", "city.population", "city.state_name"}
    assert allowed.spans


def test_values_go_on_until_an_operator() -> None:
    start = ("<bare>", "SELECT", NAME, "FROM", CITY, "WHERE", NAME, "=")
    value = after(*start, Step(SPAN, 0))
    assert value.pieces and value.spans and not value.items.any()
    assert {"AND", "'%'", "<end>"} <= words(value)
    cased = after(*start, "^")
    assert cased.pieces and cased.spans and "AND" not in words(cased)


def test_names_are_spelled_and_nothing_is_copied_into_them() -> None:
    start = ("<bare>", "SELECT", NAME, "FROM", CITY, "AS")
    assert words(after(*start)) == {"name", "DERIVED_TABLE", "DERIVED_FIELD", "INTEGER", "REAL"}
    spelled = after(*start, "name", piece("a"))
    assert spelled.pieces and not spelled.spans and "<end>" in words(spelled)


def test_nothing_follows_the_end() -> None:
    allowed = after("<bare>", "SELECT", NAME, "FROM", CITY, "<end>")
    assert not words(allowed) and not allowed.items.any() and not allowed.pieces and not allowed.spans


@pytest.mark.parametrize("seed", range(30))
def test_whatever_it_allows_can_be_followed_and_ends_as_sql(seed: int) -> None:
    """A walk at random, which prefers what closes once it is long."""
    rng, rule, steps = np.random.default_rng(seed), Grammar(ITEMS), list[Step]()
    closing = ["<end>", ")", "END", "FROM*", "FROM", "1"]
    while not steps or steps[-1] != symbol("<end>"):
        allowed = rule.allowed()
        choices = [Step(SYMBOL, int(i)) for i in np.flatnonzero(allowed.symbols)]
        choices += [Step(ITEM, int(i)) for i in np.flatnonzero(allowed.items)]
        choices += [Step(PIECE, 3)] * allowed.pieces + [Step(SPAN, 0)] * allowed.spans
        assert choices, f"a dead end after {[SYMBOLS[s.index] if s.kind == SYMBOL else s for s in steps]}"
        wanted = [s for word in closing for s in choices if s.kind == SYMBOL and SYMBOLS[s.index] == word]
        late = len(steps) > 40
        steps.append(wanted[0] if late and wanted else choices[int(rng.integers(len(choices)))])
        rule = rule.after(steps[-1])
        assert len(steps) < 2000
    sql = notation().sql(steps, Question("texas"))
    assert sql.startswith("SELECT") and " FROM " in sql
    assert sql.count("(") == sql.count(")")
