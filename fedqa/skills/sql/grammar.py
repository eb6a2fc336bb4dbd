# SPDX-License-Identifier: Apache-2.0
"""What may come next in a SELECT: a rule that binds the steps a decoder takes.

Clauses keep their order, brackets are closed, operators stand between operands. Tables and columns are those of the
schema, and a column is one of a table that its query, or one around it, declares. Where foreign keys are known, tables
are joined along them and not otherwise.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fedqa.models.search import ITEM, PIECE, SYMBOL, Allowed, Step
from fedqa.skills.sql import symbols as sql
from fedqa.skills.sql.schema import SchemaItems
from fedqa.skills.sql.spelling import CAPITAL, LOWER, MARKS, UPPER
from fedqa.skills.sql.symbols import ALIAS_NUMBERS, ORDINALS, SYMBOL_IDS, SYMBOLS

_CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "OFFSET")
_COMPARISONS = ("=", "==", "<>", "!=", "<", ">", "<=", ">=", "LIKE", "NOT LIKE", "BETWEEN", "NOT BETWEEN", "IS")
_CASES = (CAPITAL, UPPER, LOWER)
_WINDOWS = ("OVER(", "ROW_NUMBER(", "RANK(", "PARTITION BY")  # no plain SELECT needs them
_NAMES = ("name", "rest of name")

_ROLES: dict[str, tuple[str, ...]] = {
    "style": (sql.ALIASED, sql.QUALIFIED, sql.BARE),
    "select": ("SELECT", "SELECT DISTINCT"),
    "inner select": ("(SELECT", "(SELECT DISTINCT"),
    "call": tuple(w for w in SYMBOLS if "(" in w[1:] and w[-1] != ")" and w not in (sql.FUNCTION, *_WINDOWS)),
    "bracket": ("(",),
    "close": (")",),
    "constant": ("NULL", "TRUE", "FALSE", "CURRENT_DATE", "CURDATE()", "NOW()", "COUNT(*)", sql.EMPTY, *sql.NUMBERS),
    "prefix": ("NOT", "DISTINCT", "-", "EXISTS", "NOT EXISTS", "ALL", "ANY", "INTERVAL"),
    "star": ("*",),
    "infix": (*_COMPARISONS, "AND", "OR", "+", "-", "*", "/", "%", "||", "ESCAPE"),
    "equals": ("=",),
    "membership": ("IN", "NOT IN", "USING"),
    "postfix": ("IS NULL", "IS NOT NULL", "COLLATE NOCASE"),
    "direction": ("ASC", "DESC"),
    "clause": _CLAUSES[2:],
    "from": ("FROM",),
    "implied from": (sql.AUTO_FROM,),
    "join": tuple(word for word in sql.WORDS if word.endswith("JOIN")),
    "on": ("ON",),
    "comma": (",",),
    "as": (sql.AS, sql.NO_AS),
    "type": ("INTEGER", "REAL"),
    "set": ("UNION", "UNION ALL", "INTERSECT", "EXCEPT"),
    "case": ("CASE",),
    "branch": ("WHEN", "THEN", "ELSE"),
    "end of case": ("END",),
    "column mark": (sql.OUT, *sql.FORMS, *ORDINALS),
    "table mark": ("@bare", *ALIAS_NUMBERS),
    "number": ALIAS_NUMBERS,
    "head": (sql.OTHER,),
    "name": (sql.NAME,),
    "derived": sql.DERIVED,
    "point": (".",),
    "all columns": (".*",),
    "letter case": _CASES,
    "text": tuple(mark for mark in MARKS if mark not in _CASES),
    "end": (sql.END,),
}
_OPERAND = ("inner select", "call", "bracket", "constant", "prefix", "case", "head", "derived")
_LITERAL = ("letter case", "text")
_BETWEEN = ("infix", "membership", "postfix")

# What each state expects. Those of the second table are after an operand, and more may follow by what is open.
_BEFORE: dict[str, tuple[str, ...]] = {
    "style": ("style",),
    "select": ("select",),
    "first operand": (*_OPERAND, *_LITERAL, "star"),
    "operand": (*_OPERAND, *_LITERAL),
    "argument": (*_OPERAND, *_LITERAL, "close"),
    "case": (*_OPERAND, *_LITERAL, "branch"),
    "list": ("bracket", "inner select"),
    "table": ("inner select",),
    "alias": ("name", "derived", "type"),
    "member": ("derived",),
    "qualifier": ("column mark", "point", "all columns"),
    "content": _LITERAL,
    "name": _LITERAL,
    "key": (),
    "equals": ("column mark", "equals"),
    "partner": (),
    "nothing": (),
}
_AFTER: dict[str, tuple[str, ...]] = {
    "operator": (),
    "column": ("column mark",),
    "declared": ("table mark",),
    "derived": ("number", "point", "all columns"),
    "value": _LITERAL,
    "rest of name": _LITERAL,
}
_OPERANDS = ("first operand", "operand", "argument", "case")
_COPIES = (*_OPERANDS, "value", "content")
_SPELLS = (*_COPIES, *_NAMES)


@dataclass(frozen=True, slots=True)
class Frame:
    """What is open: a query, a bracket, or a CASE."""

    kind: str
    clause: str = "SELECT"
    inner: bool = False  # whether a bracket closes the query
    tables: tuple[int, ...] = ()  # that its FROM declares
    used: frozenset[int] = frozenset()  # tables of the columns that stand before its FROM
    hidden: bool = False  # whether it has tables that no FROM names: FROM is left out, or makes some
    joining: bool = False  # whether the table declared last is joined, so that a condition may follow
    on: bool = False  # whether such a condition has begun


@dataclass(frozen=True, slots=True)
class Grammar:
    """A state of the rule. Steps make new states of it, so that beams can share what they have in common."""

    schema: SchemaItems
    expects: str = "style"
    style: str = ""
    frames: tuple[Frame, ...] = ()
    left: int = -1  # the column before the `=` of a join's condition

    # -- what is allowed

    def allowed(self) -> Allowed:
        symbols = np.zeros(len(SYMBOLS), dtype=np.bool_)
        roles = _BEFORE[self.expects] if self.expects in _BEFORE else (*_AFTER[self.expects], *self._following())
        symbols[[SYMBOL_IDS[word] for role in roles for word in self._words(role)]] = True
        return Allowed(symbols, self._items(), pieces=self.expects in _SPELLS, spans=self.expects in _COPIES)

    def _words(self, role: str) -> tuple[str, ...]:
        if role == "clause":
            return _CLAUSES[_CLAUSES.index(self.frames[-1].clause) + 1 :]
        return _ROLES[role]

    def _following(self) -> Iterator[str]:
        """What may follow an operand, by what is open around it."""
        frame = self.frames[-1]
        if frame.kind == "bracket":
            yield from (*_BETWEEN, "comma", "close", "as")
        elif frame.kind == "case":
            yield from (*_BETWEEN, "branch", "end of case")
        elif frame.clause == "SELECT":
            yield from (*_BETWEEN, "comma", "as", "from")
            yield from ("implied from",) if self.style == sql.ALIASED else ()
        else:
            yield from self._in_clause(frame)
            yield from self._leaving(frame)

    def _in_clause(self, frame: Frame) -> Iterator[str]:
        if frame.clause == "FROM":
            yield from ("join", "comma", "as") if frame.tables or frame.hidden else ()
            yield from _BETWEEN if frame.on else ("on", "membership") if frame.joining else ()
        elif frame.clause not in ("LIMIT", "OFFSET"):
            yield from _BETWEEN
            yield from ("comma",) if frame.clause in ("GROUP BY", "ORDER BY") else ()
            yield from ("direction",) if frame.clause == "ORDER BY" else ()

    def _leaving(self, frame: Frame) -> Iterator[str]:
        """Later clauses and the end, once all tables whose columns are used have been declared."""
        known = self._tables()
        if known is None or frame.used <= known:
            yield from ("clause", "set")
            yield from ("close",) if frame.inner else ("end",) if len(self.frames) == 1 else ()

    def _items(self) -> npt.NDArray[np.bool_]:
        items = self.schema.items
        if self.expects in ("key", "partner"):
            wanted = set(self._keys())
            return np.array([i in wanted for i in range(len(items))])
        if self.expects in ("table", "member"):
            return np.array([bool(item.column) == (self.expects == "member") for item in items])
        if self.expects not in _OPERANDS:
            return np.zeros(len(items), dtype=np.bool_)
        tables = self._tables()
        return np.array([tables is None or self.schema.table_of(i) in tables for i in range(len(items))])

    def _tables(self) -> frozenset[int] | None:
        """Whose columns may be used here; None for all, where a FROM is yet to come or was left out."""
        queries = [frame for frame in self.frames if frame.kind == "query"]
        if any(query.hidden or query.clause == "SELECT" for query in queries):
            return None
        return frozenset(table for query in queries for table in query.tables)

    def _keys(self) -> Iterator[int]:
        """The columns that the condition of the last join may have: of any key, or beside `left`."""
        *others, last = self.frames[-1].tables
        for key in self.schema.keys:
            tables = {self.schema.table_of(column) for column in key}
            if last in tables and tables <= {last, *others} and (self.left < 0 or self.left in key):
                yield from key - {self.left}

    # -- what comes after

    def after(self, step: Step) -> "Grammar":
        if step.kind == SYMBOL:
            return self._after_word(SYMBOLS[step.index])
        if step.kind == ITEM:
            return self._after_item(step.index)
        if step.kind == PIECE and self.expects in _NAMES:
            return replace(self, expects="rest of name")
        return replace(self, expects="value")

    def _after_item(self, item: int) -> "Grammar":
        if self.expects == "table":
            frame = self.frames[-1]
            return self._with(replace(frame, tables=(*frame.tables, item)), "declared")
        if self.expects == "key":
            return replace(self, expects="equals", left=item)
        if not self.schema[item].column:
            return replace(self, expects="qualifier")
        used = self if self.expects in ("member", "partner") else self._using(self.schema.table_of(item))
        return replace(used, expects="column", left=-1)

    def _using(self, table: int) -> "Grammar":
        """Note a column's table, if its query has no FROM yet."""
        at = max(i for i, frame in enumerate(self.frames) if frame.kind == "query")
        frame = self.frames[at]
        if frame.clause != "SELECT":
            return self
        noted = replace(frame, used=frame.used | {table})
        return replace(self, frames=(*self.frames[:at], noted, *self.frames[at + 1 :]))

    def _after_word(self, word: str) -> "Grammar":
        role = self._role(word)
        simple = _THEN.get(role)
        if simple is not None:
            return replace(self, expects=simple)
        if role in ("style", "select", "inner select", "call", "bracket", "case", "close", "end of case"):
            return self._opening(role, word)
        if role in ("column mark", "table mark", "number"):
            return self
        if role in _LITERAL:
            return replace(self, expects=self._after_literal(role))
        return self._in_query(role, word)

    def _role(self, word: str) -> str:
        """The role of a word here: some have two, one of which is only before an operand, or in one place."""
        expected = _BEFORE.get(self.expects) or (*_AFTER.get(self.expects, ()), *self._following())
        return next((role for role in expected if word in _ROLES[role]), "postfix")

    def _after_literal(self, role: str) -> str:
        if self.expects in _NAMES:
            return self.expects
        return "content" if role == "letter case" else "value"

    def _opening(self, role: str, word: str) -> "Grammar":
        if role == "style":
            return replace(self, style=word, expects="select")
        if role in ("close", "end of case"):
            return self._closed()
        if role == "select":
            again = bool(self.frames)  # after a set operation, which leaves an empty query open
            return replace(self, frames=self.frames if again else (Frame("query"),), expects="first operand")
        frames = {"inner select": Frame("query", inner=True), "case": Frame("case")}
        expects = {"inner select": "first operand", "case": "case", "call": "argument"}
        opened = frames.get(role, Frame("bracket"))
        return replace(self, frames=(*self.frames, opened), expects=expects.get(role, "operand"))

    def _closed(self) -> "Grammar":
        closed, frames = self.frames[-1], self.frames[:-1]
        outer = frames[-1]
        makes_table = closed.kind == "query" and outer.kind == "query" and outer.clause == "FROM" and not outer.on
        state = replace(self, frames=frames, expects="operator")
        return state._with(replace(outer, hidden=True), "operator") if makes_table else state

    def _in_query(self, role: str, word: str) -> "Grammar":
        frame = self.frames[-1]
        if role == "set":
            return self._with(Frame("query", inner=frame.inner), "select")
        if role == "implied from":
            return self._with(replace(frame, clause="FROM", hidden=True), "operator")
        if role in ("from", "join"):
            return self._with(replace(frame, clause="FROM", joining=role == "join", on=False), "table")
        if role == "on":
            state = self._with(replace(frame, on=True), "operand")
            return replace(state, expects="key") if frame.tables and any(state._keys()) else state
        if role == "comma":
            listed = frame.kind == "query" and frame.clause == "FROM"
            return self._with(replace(frame, joining=False, on=False), "table" if listed else "operand")
        return self._with(replace(frame, clause=word), "operand")

    def _with(self, frame: Frame, expects: str) -> "Grammar":
        return replace(self, frames=(*self.frames[:-1], frame), expects=expects)


_THEN = {  # what is expected after words that open and close nothing
    "constant": "operator",
    "postfix": "operator",
    "direction": "operator",
    "type": "operator",
    "star": "operator",
    "all columns": "operator",
    "prefix": "operand",
    "infix": "operand",
    "branch": "operand",
    "equals": "partner",
    "membership": "list",
    "as": "alias",
    "head": "content",
    "name": "name",
    "derived": "derived",
    "point": "member",
    "end": "nothing",
}
