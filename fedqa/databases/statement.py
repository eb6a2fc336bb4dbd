# SPDX-License-Identifier: Apache-2.0
"""From a text that claims to be a query to a statement that can only read: refused unless all of it is known."""

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from fedqa.databases.functions import FUNCTIONS, words
from fedqa.databases.records import QueryRefused
from fedqa.databases.schema import Schema
from fedqa.databases.tokens import Dialect, joined, tokens_of

_MAX_TYPE_LENGTH = 1_000  # as in char(1000), which is so long whatever it holds

# The parts of a tree, by the names of sqlglot's classes. Functions are not among them: they are known by their tokens.
_PARTS = words(
    "Select Subquery Union Intersect Except With CTE From Join Where Group Having Order Ordered Limit Offset Fetch",
    "LimitOptions Distinct Window WindowSpec Filter WithinGroup",
    "Table TableAlias Column Identifier Alias Star Var",
    "Literal Null Boolean Tuple Paren DataType DataTypeParam Interval",
    "Add Sub Mul Div Mod DPipe Neg Not In Between Is EQ NEQ GT GTE LT LTE NullSafeEQ NullSafeNEQ",
    "Like ILike Escape Exists All Any Collate AtTimeZone",
)
_KNOWN = frozenset(getattr(exp, name) for name in _PARTS)
_NO_FUNCTIONS = (exp.RegexpLike, exp.RegexpILike, exp.ParseJSON)  # which sqlglot makes of words without parentheses
_TYPES = words(
    "BIGINT BOOLEAN CHAR DATE DATETIME DECIMAL DOUBLE FLOAT INT INTERVAL SMALLINT TEXT TIME TIMESTAMP TIMESTAMPTZ",
    "TINYINT VARCHAR",
)


def checked(sql: str, dialect: Dialect, schema: Schema) -> str:
    """The statement to run. Raises QueryRefused unless it is one SELECT from tables of the schema."""
    statement, tree = _read(sql, dialect)
    callable_by_dot = frozenset(schema.functions_of_rows) - FUNCTIONS[dialect] - _columns(schema)
    for part in tree.walk():
        _check_part(part)
        if isinstance(part, exp.Column) and part.table and _name(part.this, dialect) in callable_by_dot:
            raise QueryRefused("it names a column that is a function", "name only columns of the schema")
    _check_tables(tree, dialect, schema)
    return statement


def is_ordered(sql: str, dialect: Dialect) -> bool:
    """Whether the order of the rows is part of the answer: there is an ORDER BY outside all parentheses."""
    return _read(sql, dialect)[1].args.get("order") is not None


def _read(sql: str, dialect: Dialect) -> tuple[str, exp.Expr]:
    statement = joined(tokens_of(sql, dialect))
    try:
        trees = sqlglot.parse(statement, read=dialect)
    except (SqlglotError, RecursionError, ValueError):
        trees = []
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        remedy = "check parentheses, quotation marks and the order of clauses"
        raise QueryRefused("it cannot be read as one SELECT", remedy)
    return statement, trees[0]


def _check_part(part: exp.Expr) -> None:
    known = type(part) in _KNOWN or (isinstance(part, exp.Func) and not isinstance(part, _NO_FUNCTIONS))
    in_table = isinstance(part, exp.In) and part.args.get("field")  # SQLite: `1 IN wards` reads a table
    if not known or in_table:
        remedy = "use SELECT, WITH, FROM, JOIN, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT, UNION, INTERSECT and EXCEPT"
        raise QueryRefused("a part of it does more than a plain query needs", remedy)
    if isinstance(part, exp.With) and part.recursive:
        raise _recursive()
    if isinstance(part, exp.DataType):
        _check_type(part)


def _check_type(type: exp.DataType) -> None:
    too_long = any(float(number.name) > _MAX_TYPE_LENGTH for number in type.find_all(exp.Literal) if number.is_number)
    listed = isinstance(type.this, exp.DType) and type.this.name in _TYPES
    if not listed or too_long:
        raise QueryRefused("it converts to a type that is not listed", "convert to integer, real, text, date or time")


def _check_tables(tree: exp.Expr, dialect: Dialect, schema: Schema) -> None:
    for table in tree.find_all(exp.Table):
        if not _is_readable(table, dialect, schema):
            names = ", ".join(relation.name for relation in schema.relations)
            raise QueryRefused("it names a table that the schema does not have", f"name only {names}")


def _is_readable(table: exp.Table, dialect: Dialect, schema: Schema) -> bool:
    if not isinstance(table.this, exp.Identifier) or table.catalog:
        return False
    name = _name(table.this, dialect)
    known = name in {_folded(relation.name, dialect) for relation in schema.relations}
    if table.db:
        return known and _name(table.args["db"], dialect) == _folded(schema.namespace, dialect)
    return _is_from_with(table, name, dialect) or known


def _is_from_with(table: exp.Table, name: str, dialect: Dialect) -> bool:
    """Whether it is the name of a WITH that can be seen from here. In SQLite, one that names itself is recursive."""
    part: exp.Expr = table
    while part.parent:
        above = part.parent
        if isinstance(above, exp.With):
            queries = above.expressions[: part.index]
            if name == _alias(part, dialect):
                raise _recursive()
        else:
            with_ = above.args.get("with_")
            queries = with_.expressions if with_ and with_ is not part else []
        if name in (_alias(query, dialect) for query in queries):
            return True
        part = above
    return False


def _alias(query: exp.Expr, dialect: Dialect) -> str:
    return _name(query.args["alias"].this, dialect)


def _columns(schema: Schema) -> set[str]:
    return {column.name for relation in schema.relations for column in relation.columns}


def _name(identifier: exp.Expr, dialect: Dialect) -> str:
    """As the database compares it."""
    quoted = isinstance(identifier, exp.Identifier) and identifier.quoted
    return identifier.name if quoted and dialect == "postgres" else identifier.name.lower()


def _folded(name: str, dialect: Dialect) -> str:
    return name if dialect == "postgres" else name.lower()


def _recursive() -> QueryRefused:
    return QueryRefused("a WITH refers to itself", "let each WITH use only tables and those before it")
