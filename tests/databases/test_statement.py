# SPDX-License-Identifier: Apache-2.0
"""Which texts are queries, and how they are read. What means harm is in test_hostile."""

import pytest

from fedqa.databases.records import QueryRefused
from fedqa.databases.schema import Column, Relation, Schema
from fedqa.databases.statement import checked, is_ordered
from fedqa.databases.tokens import Dialect

SCHEMA = Schema((Relation("wards", ()), Relation("Größen", ()), Relation("user", ())), "public")
BOTH: tuple[Dialect, ...] = ("sqlite", "postgres")


@pytest.mark.parametrize("dialect", BOTH)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "select Name from WARDS",
        "SELECT DISTINCT w.name FROM public.wards AS w",
        "SELECT COUNT(*), COUNT(DISTINCT name) FROM wards",
        "SELECT name FROM wards WHERE beds > 1.5 AND beds <= 2e3 AND name <> 'x' OR NOT beds != - 1",
        "SELECT name FROM wards WHERE name LIKE 'a%' ESCAPE '!' AND beds BETWEEN 1 AND 2 AND name IS NOT NULL",
        "SELECT name FROM wards WHERE (name, beds) IN (SELECT name, MAX(beds) FROM wards GROUP BY name)",
        "SELECT name FROM wards WHERE beds = (SELECT MAX(beds) FROM wards) AND EXISTS (SELECT 1 FROM wards)",
        "SELECT floor, SUM(beds) FROM wards GROUP BY floor HAVING SUM(beds) > 3 ORDER BY 2 LIMIT 5 OFFSET 1",
        "SELECT a.name FROM wards AS a LEFT JOIN wards AS b ON a.id = b.id CROSS JOIN wards AS c",
        "SELECT * FROM wards JOIN wards AS b USING (ward_id)",
        "SELECT name FROM wards UNION ALL SELECT name FROM wards EXCEPT SELECT 'a' INTERSECT SELECT 'b'",
        "SELECT CASE WHEN beds > 1 THEN 'many' ELSE 'few' END AS size FROM wards",
        "SELECT CASE floor WHEN 1 THEN (2) END FROM wards",
        "SELECT CAST(beds AS REAL) / 2, CAST(beds AS DECIMAL(10, 2)), CAST(name AS VARCHAR(20))",
        "SELECT ROW_NUMBER() OVER (PARTITION BY floor ORDER BY beds DESC) FROM wards",
        "SELECT SUM(beds) OVER (ORDER BY beds ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM wards",
        "SELECT COUNT(*) FILTER (WHERE beds > 3) FROM wards",
        "SELECT name || ' ' || beds AS label, COALESCE(NULL, UPPER(name)) FROM wards",
        'SELECT "name" FROM "wards" WHERE "a "" b" = \'it\'\'s\'',
        "WITH big AS (SELECT * FROM wards) SELECT name FROM big",
        "WITH a AS (SELECT 1 AS x), b AS (SELECT x FROM a) SELECT * FROM a, b",
        "WITH a AS (WITH b AS (SELECT 1 AS x) SELECT * FROM b) SELECT * FROM a",
        "SELECT * FROM (WITH a AS (SELECT 1 AS x) SELECT * FROM a) AS s",
        "WITH a AS (SELECT 1 AS x) SELECT (SELECT x FROM a) FROM wards WHERE 1 IN (SELECT x FROM a)",
        "SELECT CURRENT_DATE, 5 % 2, - 3",
    ],
)
def test_a_plain_query_is_run_as_it_is(sql: str, dialect: Dialect) -> None:
    assert checked(sql, dialect, SCHEMA) == sql
    assert checked(f"\n\t {sql}\r\n;", dialect, SCHEMA) == sql


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("sqlite", "SELECT STRFTIME('%Y', d), JULIANDAY(d), GROUP_CONCAT(name) FROM wards GROUP BY name"),
        ("sqlite", "SELECT user.name FROM user WHERE beds == 3"),
        ("sqlite", "SELECT name FROM wards WHERE name IS 'x' AND name COLLATE NOCASE = 'y'"),
        ("postgres", "SELECT EXTRACT(YEAR FROM d), DATE_TRUNC('month', d) FROM wards"),
        ("postgres", "SELECT d :: date + INTERVAL '1 day', beds :: numeric(5, 2), DATE '2020-01-01' FROM wards"),
        (
            "postgres",
            "SELECT name FROM wards WHERE name ILIKE 'x%' AND beds = ANY (SELECT 1) AND beds >= ALL (SELECT 1)",
        ),
        ("postgres", "SELECT DISTINCT ON (floor) floor, name FROM wards ORDER BY floor"),
        ("postgres", "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY beds) FROM wards"),
        ("postgres", 'SELECT u.name FROM "user" AS u FETCH FIRST 3 ROWS ONLY'),
        ("postgres", "SELECT d AT TIME ZONE 'UTC' FROM wards"),
    ],
)
def test_each_database_is_asked_in_its_own_words(dialect: Dialect, sql: str) -> None:
    assert checked(sql, dialect, SCHEMA) == sql


def test_names_beyond_ascii_are_quoted_as_the_database_would_understand_them() -> None:
    assert checked("SELECT Länge FROM Größen", "sqlite", SCHEMA) == 'SELECT "Länge" FROM "Größen"'
    with pytest.raises(QueryRefused, match="it names a table that the schema does not have"):
        checked("SELECT Länge FROM Größen", "postgres", SCHEMA)  # größen: PostgreSQL folds what is not quoted
    assert checked('SELECT LÄnge FROM "Größen"', "postgres", SCHEMA) == 'SELECT "lÄnge" FROM "Größen"'


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT " + "1" * 20_000, "it is too long; write at most 20,000 characters"),
        ("SELECT '\0'", "it holds a NUL or half of a surrogate pair; write it as plain text"),
        ("SELECT {x}", "at character 8 stands what no plain query needs; use words, numbers, 'texts'"),
        ("SELECT 'x", "at character 8 stands what no plain query needs"),
        ("SELECT 1 -- x", "a comment begins at character 10; write it without comments"),
        ("DELETE FROM wards", "it does not begin with SELECT or WITH; ask for data with one SELECT"),
        ("SELECT 1; SELECT 2", "there is a second statement behind a semicolon; write one statement"),
        ("SELECT " + "(" * 31, "too deeply nested; write at most 3,000 words and signs, and 30 parentheses"),
        ("SELECT " + "1," * 1_500, "it is too long or too deeply nested"),
        ("SELECT name" + "||name" * 9, r"it puts too many texts together; use \|\| at most 8 times"),
        ("SELECT evil(1)", "it calls a function that is not listed; use only abs, age, avg"),
        ("SELECT user", "it asks who is connected, and to what; ask for what the tables hold"),
        ("SELECT FROM FROM", "it cannot be read as one SELECT; check parentheses, quotation marks and the order"),
        ("SELECT * FROM wards FOR UPDATE", "a part of it does more than a plain query needs; use SELECT, WITH, FROM"),
        ("WITH RECURSIVE a AS (SELECT 1) SELECT 1", "a WITH refers to itself; let each WITH use only tables and"),
        ("SELECT CAST(1 AS xml)", "it converts to a type that is not listed; convert to integer, real, text, date"),
        ("SELECT 1 FROM secrets", "it names a table that the schema does not have; name only wards, Größen, user"),
    ],
)
def test_every_refusal_says_why_and_what_would_be_taken(sql: str, message: str) -> None:
    with pytest.raises(QueryRefused, match=f"the query was refused: .*{message}"):
        checked(sql, "postgres", SCHEMA)


def test_a_function_called_by_a_dot_is_refused_unless_it_is_a_column_or_listed() -> None:
    schema = Schema((Relation("wards", (Column("mode"),)),), "public", ("json_agg", "mode", "count"))
    for allowed in ("SELECT w.mode FROM wards AS w", "SELECT w.count FROM wards AS w", "SELECT json_agg FROM wards"):
        assert checked(allowed, "postgres", schema) == allowed
    with pytest.raises(QueryRefused, match="it names a column that is a function; name only columns of the schema"):
        checked("SELECT w.Json_Agg FROM wards AS w", "postgres", schema)


def test_a_refusal_repeats_nothing_of_the_query() -> None:
    for sql in (
        "SELECT jane_roe(1)",
        'SELECT * FROM "Jane Roe"',
        "SELECT 'Jane Roe",
        "Jane Roe",
        "SELECT Jane Roe Roe",
    ):
        with pytest.raises(QueryRefused) as caught:
            checked(sql, "sqlite", SCHEMA)
        assert "jane" not in str(caught.value).lower()
        assert caught.value.__cause__ is None and caught.value.__context__ is None


@pytest.mark.parametrize(
    ("sql", "ordered"),
    [
        ("SELECT name FROM wards ORDER BY beds", True),
        ("SELECT name FROM wards UNION SELECT 'x' ORDER BY 1", True),
        ("SELECT name FROM wards", False),
        ("SELECT name FROM (SELECT name FROM wards ORDER BY beds) AS w", False),
        ("SELECT ROW_NUMBER() OVER (ORDER BY beds) FROM wards", False),
        ("WITH w AS (SELECT name FROM wards ORDER BY beds LIMIT 3) SELECT name FROM w", False),
        ("WITH w AS (SELECT name FROM wards) SELECT name FROM w ORDER BY name;", True),
    ],
)
def test_an_order_counts_only_outside_all_parentheses(sql: str, ordered: bool) -> None:
    assert is_ordered(sql, "sqlite") is ordered
