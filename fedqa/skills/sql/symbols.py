# SPDX-License-Identifier: Apache-2.0
"""The symbols of which steps are made. The list is fixed: it depends on no silo's data."""

from fedqa.models.search import SYMBOL, Step
from fedqa.skills.sql.spelling import MARKS

END = "<end>"
ALIASED, QUALIFIED, BARE, RAW = "<aliased>", "<qualified>", "<bare>", "<raw>"  # how columns are written; all spelled
STYLES = (ALIASED, QUALIFIED, BARE, RAW)
AUTO_FROM = "FROM*"  # the FROM that the columns give
OUT = "@out"  # the column is one of the enclosing query
FORMS = {"@alias": ALIASED, "@table": QUALIFIED, "@bare": BARE}  # a column, otherwise than the first step says
AS, NO_AS = "AS", "~AS"  # before an alias that counting does not give, with and without the word
OTHER, NAME, FUNCTION, EMPTY = "'", "name", "name(", "''"  # a number as text; what is spelled is a name; no text
DERIVED = ("DERIVED_TABLE", "DERIVED_FIELD")
MOST = 13  # aliases of one table

_WORDS = """SELECT|SELECT DISTINCT|(SELECT|(SELECT DISTINCT|FROM|WHERE|GROUP BY|HAVING|ORDER BY|LIMIT|OFFSET|ASC|DESC
JOIN|INNER JOIN|LEFT JOIN|LEFT OUTER JOIN|RIGHT JOIN|RIGHT OUTER JOIN|FULL OUTER JOIN|CROSS JOIN|NATURAL JOIN|ON|USING
AND|OR|NOT|IN|NOT IN|LIKE|NOT LIKE|BETWEEN|NOT BETWEEN|IS NULL|IS NOT NULL|IS|NULL|EXISTS|NOT EXISTS|ALL|ANY|DISTINCT
UNION|UNION ALL|INTERSECT|EXCEPT|CASE|WHEN|THEN|ELSE|END|AS|TRUE|FALSE|WITH|CURRENT_DATE|INTERVAL|ESCAPE|COLLATE NOCASE
(|)|,|.|.*|*|=|==|<>|!=|<|>|<=|>=|+|-|/|%
COUNT(*)|COUNT(DISTINCT|COUNT(|SUM(|SUM(DISTINCT|AVG(|AVG(DISTINCT|MIN(|MAX(|ROUND(|ABS(|CAST(|COALESCE(|IFNULL(|NULLIF(
LOWER(|UPPER(|LENGTH(|SUBSTR(|SUBSTRING(|TRIM(|REPLACE(|INSTR(|CONCAT(|GROUP_CONCAT(|IIF(|EXTRACT(|TOTAL(|LEAST(
GREATEST(|STRFTIME(|JULIANDAY(|DATE(|TIME(|DATETIME(|YEAR(|MONTH(|DAY(|CURDATE()|NOW()|ROW_NUMBER(|RANK(|OVER(
PARTITION BY|INTEGER|REAL"""
WORDS = (*_WORDS.replace("\n", "|").split("|"), "||")  # symbols that are SQL themselves
NUMBERS = tuple(map(str, range(13)))
SPACED = {"AVG(": "AVG ("}  # some write this one with a space, and a comparison of texts tells them apart
ORDINALS = tuple(f"@{n}" for n in range(2, MOST))  # which of several of the same table in one query
ALIAS_NUMBERS = tuple(f"#{n}" for n in range(MOST))  # of an alias, where counting does not give it

_OTHERS = (AUTO_FROM, OUT, *FORMS, *ORDINALS, *ALIAS_NUMBERS, NO_AS, OTHER, NAME, FUNCTION, EMPTY, *DERIVED, *MARKS)
SYMBOLS: tuple[str, ...] = tuple(dict.fromkeys((END, *STYLES, *WORDS, *NUMBERS, *SPACED.values(), *_OTHERS)))
SYMBOL_IDS = {word: i for i, word in enumerate(SYMBOLS)}


def symbol(word: str) -> Step:
    return Step(SYMBOL, SYMBOL_IDS[word])
