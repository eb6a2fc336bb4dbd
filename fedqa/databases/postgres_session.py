# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL database as its process may use it: read-only transactions of a plain role, answers from a cursor.

Numbers are converted here and all else stays as the server writes it, so that no value is too odd to be read.
"""

import math
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql as compose
from psycopg.pq.abc import PGresult

from fedqa.databases.child import Failed, Row, Rows

_CONNECT_S = 10
_CHUNK = 25  # rows asked for at once, so that long ones are noticed early
_SETTINGS = {
    "default_transaction_read_only": "on",
    "standard_conforming_strings": "on",
    "client_encoding": "utf8",
    "datestyle": "iso",
    "bytea_output": "hex",
    "work_mem": "16MB",
    "max_parallel_workers_per_gather": "0",
    "lock_timeout": "500ms",
    "idle_in_transaction_session_timeout": "60s",
}
# Not every version knows these, and the last is only for roles to which it was granted.
_SETTINGS_IF_POSSIBLE = {"jit": "off", "hash_mem_multiplier": "1", "temp_file_limit": "256MB"}
_WHOLE, _FRACTION, _BOOLEAN = {20, 21, 23, 26}, {700, 701, 1700}, 16  # numbers that PostgreSQL gives to types
_STATES = {"57014": "time", "25006": "refused", "42501": "refused", "55P03": "busy", "54001": "memory"}
_CLASSES = {"08": "connection", "0A": "meaning", "21": "value", "22": "value", "42": "meaning", "53": "memory"}
_CLASSES |= {"54": "length", "57": "connection"}
_LONGEST_WHOLE = 18  # digits that fit in 64 bits

# Whether the role may do more in the server's machine than a query should ever, and which schema is its own.
_ROLE = """
SELECT rolsuper OR EXISTS (
    SELECT 1 FROM pg_roles AS other
    WHERE other.rolname IN ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program')
    AND pg_has_role(current_user, other.oid, 'MEMBER')
), current_schema() FROM pg_roles WHERE rolname = current_user
"""
_COLUMNS = """
SELECT table_.oid, table_.relname, column_.attname, format_type(column_.atttypid, column_.atttypmod)
FROM pg_class AS table_ JOIN pg_attribute AS column_ ON column_.attrelid = table_.oid
WHERE table_.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)
AND table_.relkind IN ('r', 'p', 'v', 'm') AND NOT table_.relispartition
AND has_table_privilege(table_.oid, 'SELECT') AND column_.attnum > 0 AND NOT column_.attisdropped
ORDER BY table_.oid, column_.attnum
"""
# `ward.name` calls a function if there is no such column: json_agg, row_to_json, whatever takes a row and no more.
_OF_ROWS = """
SELECT DISTINCT function.proname
FROM pg_proc AS function JOIN pg_type AS argument ON argument.oid = function.proargtypes[0]
WHERE function.pronargs - function.pronargdefaults <= 1 AND (argument.typtype = 'c' OR argument.typname IN (
    'any', 'anyelement', 'anynonarray', 'anycompatible', 'anycompatiblenonarray', 'record'
)) ORDER BY 1
"""
_KEYS = """
SELECT key.conrelid, own.attname, key.contype = 'p', table_.relname, other.attname
FROM pg_constraint AS key CROSS JOIN LATERAL unnest(key.conkey, key.confkey) AS pair (own, other)
JOIN pg_attribute AS own ON own.attrelid = key.conrelid AND own.attnum = pair.own
LEFT JOIN pg_class AS table_ ON table_.oid = key.confrelid
LEFT JOIN pg_attribute AS other ON other.attrelid = key.confrelid AND other.attnum = pair.other
WHERE key.contype IN ('p', 'f') AND key.conrelid = ANY (%s)
"""


class PostgresSession:
    """Opening reads the schema that is current for the role, and makes it the only one to be searched.

    `memory` is that of this process, and limited already: the server's is its own.
    """

    def __init__(self, url: str, memory: int) -> None:
        try:
            self._connection = psycopg.connect(url, connect_timeout=_CONNECT_S, autocommit=True, prepare_threshold=None)
        except (psycopg.Error, UnicodeError):
            raise Failed("opening") from None
        try:
            self._set_up()
            self._schema = self._read_schema()
        except psycopg.Error:
            raise Failed("database") from None

    def schema(self) -> dict[str, Any]:
        return self._schema

    def rows(self, sql: str, seconds: float) -> Rows:
        deadline = time.monotonic() + seconds
        try:
            self._connection.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield from self._fetched(sql, deadline)
        except psycopg.Error as problem:
            raise Failed(_code(problem)) from None
        finally:
            with suppress(psycopg.Error):
                self._connection.execute("ROLLBACK")

    def _fetched(self, sql: str, deadline: float) -> Iterator[Row]:
        self._allow(deadline)
        # Asked for in binary form because then the server itself takes one statement and no more.
        self._connection.execute(f"DECLARE answer NO SCROLL CURSOR FOR {sql}".encode(), binary=True)
        result = self._fetch(deadline, 0)
        yield tuple((result.fname(i) or b"").decode("utf-8", "replace") for i in range(result.nfields))
        while (result := self._fetch(deadline, _CHUNK)).ntuples:
            yield from _converted(result)

    def _fetch(self, deadline: float, n: int) -> PGresult:
        self._allow(deadline)
        result = self._connection.execute(f"FETCH FORWARD {n} FROM answer".encode()).pgresult
        assert result
        return result

    def _allow(self, deadline: float) -> None:
        """What is left of the time, for the next statement."""
        left_ms = int(1000 * (deadline - time.monotonic()))
        if left_ms <= 0:
            raise Failed("time")
        self._connection.execute(f"SET LOCAL statement_timeout = {left_ms}".encode())

    def _set_up(self) -> None:
        for name, value in _SETTINGS.items():
            self._connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        for name, value in _SETTINGS_IF_POSSIBLE.items():
            with suppress(psycopg.Error):
                self._connection.execute("SELECT set_config(%s, %s, false)", [name, value])

    def _read_schema(self) -> dict[str, Any]:
        found = self._connection.execute(_ROLE).fetchone()
        assert found
        mighty, namespace = found
        if mighty or not namespace:
            raise Failed("mighty" if mighty else "opening")
        relations = _relations(self._connection, namespace)
        of_rows = [name for (name,) in self._connection.execute(_OF_ROWS)]
        path = compose.SQL("SET search_path = pg_catalog, {}, pg_temp").format(compose.Identifier(namespace))
        self._connection.execute(path)
        return {"relations": relations, "namespace": namespace, "functions_of_rows": of_rows}


def _relations(connection: psycopg.Connection, namespace: str) -> list[dict[str, Any]]:
    """Tables and views that the role may read, in the order they were made. Those of other servers are left out."""
    relations: dict[int, dict[str, Any]] = {}
    columns: dict[tuple[int, str], dict[str, Any]] = {}
    for table, name, column, type in connection.execute(_COLUMNS, [namespace]):
        columns[table, column] = {"name": column, "type": type}
        relations.setdefault(table, {"name": name, "columns": []})["columns"].append(columns[table, column])
    for table, column, is_primary, other, target in connection.execute(_KEYS, [list(relations)]):
        columns[table, column] |= {"primary_key": True} if is_primary else {"references": f"{other}.{target}"}
    return list(relations.values())


def _converted(result: PGresult) -> Iterator[Row]:
    types = [result.ftype(i) for i in range(result.nfields)]
    for row in range(result.ntuples):
        yield tuple(_value(type, result.get_value(row, i)) for i, type in enumerate(types))


def _value(type: int, data: bytes | None) -> object:
    if data is None:
        return None
    text = data.decode("utf-8", "replace")
    if type == _BOOLEAN:
        return text == "t"
    if type in _WHOLE or (type in _FRACTION and text.lstrip("-").isdecimal() and len(text) <= _LONGEST_WHOLE):
        return int(text)
    if type in _FRACTION and math.isfinite(float(text)):
        return float(text)
    return text


def _code(problem: psycopg.Error) -> str:
    state = problem.sqlstate or "08"
    return _STATES.get(state) or _CLASSES.get(state[:2], "database")
