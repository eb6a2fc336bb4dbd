# SPDX-License-Identifier: Apache-2.0
"""Plain SQL written as the text-to-SQL sets of Finegan-Dollak et al. (2018) write it.

There every table has an alias of its own name and a number, every column stands behind one, tables are listed in the
order of their names, and what joins them is a condition like any other. Conditions are in the order of the alphabet,
the two columns of a join against it.
"""

from collections import Counter
from collections.abc import Iterator

import sqlglot
from sqlglot import exp

from fedqa.databases.schema import Schema


def restyled(sql: str, schema: Schema) -> str:
    """A query over tables of the schema, each at most once in a SELECT, that means the same."""
    columns = {table.name: {column.name for column in table.columns} for table in schema.relations}
    tree = sqlglot.parse_one(sql, read="sqlite")
    counts: Counter[str] = Counter()
    aliases: dict[int, dict[str, str]] = {}  # of each SELECT: table -> alias
    for select in tree.find_all(exp.Select):  # the outer one first
        tables = sorted(table.name for table in _tables(select))
        aliases[id(select)] = {table: f"{table}alias{counts[table]}" for table in tables}
        counts.update(tables)
    for column in list(tree.find_all(exp.Column)):
        column.set("table", exp.to_identifier(_alias(column, aliases, columns)))
    for select in reversed(list(tree.find_all(exp.Select))):  # inner ones first: conditions are copied with them
        _list_tables(select, aliases[id(select)])
    return tree.sql(dialect="sqlite")


def _tables(select: exp.Select) -> list[exp.Table]:
    return [source.this for source in (select.args["from_"], *select.args.get("joins", []))]


def _alias(column: exp.Column, aliases: dict[int, dict[str, str]], columns: dict[str, set[str]]) -> str:
    for select in _around(column):
        for table, alias in aliases[id(select)].items():
            if table == column.table or (not column.table and column.name in columns[table]):
                return alias
    raise ValueError(f"no table around {column.sql()} has it")


def _around(node: exp.Expr) -> Iterator[exp.Select]:
    """The SELECTs that a part of a query stands in, the innermost first."""
    above = node.find_ancestor(exp.Select)
    while isinstance(above, exp.Select):
        yield above
        above = above.find_ancestor(exp.Select)


def _list_tables(select: exp.Select, aliases: dict[str, str]) -> None:
    joined = [_against_order(join.args["on"]) for join in select.args.get("joins", [])]
    where = select.args.get("where")
    conditions = [*joined, *(_parts(where.this) if where else [])]
    select.set("joins", [])
    select.set("where", None)
    first, *others = (f"{table} AS {alias}" for table, alias in aliases.items())
    select.from_(first, copy=False)
    for other in others:
        select.join(other, copy=False)
    if conditions:
        select.set("where", exp.Where(this=exp.and_(*sorted(conditions, key=str), wrap=False)))


def _parts(condition: exp.Expr) -> list[exp.Expr]:
    return list(condition.flatten()) if isinstance(condition, exp.And) else [condition]


def _against_order(equality: exp.EQ) -> exp.EQ:
    first, second = sorted((equality.this, equality.expression), key=str)
    return exp.EQ(this=second, expression=first)
