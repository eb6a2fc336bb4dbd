# SPDX-License-Identifier: Apache-2.0
"""Plain SQL in the style of the text-to-SQL sets: the same SQL otherwise written."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.lorar_style import restyled
from fedqa.data.sample_queries import sample_queries
from fedqa.data.schema_text import read_schema
from fedqa.databases.contents import contents_of
from fedqa.skills.sql.inventing import invented

SCHEMA = read_schema(" | city : name , state , people | river : name , city")
WRITTEN = {  # plain -> in the style
    "SELECT name FROM city": "SELECT cityalias0.name FROM city AS cityalias0",
    "SELECT river.name FROM river JOIN city ON city.name = river.city WHERE city.state = 'Ohio' AND city.people > 3": (
        "SELECT riveralias0.name FROM city AS cityalias0, river AS riveralias0 WHERE cityalias0.people > 3 "
        "AND cityalias0.state = 'Ohio' AND riveralias0.city = cityalias0.name"
    ),
    "SELECT name FROM city WHERE people = (SELECT MAX(people) FROM city) OR state = 'Ohio'": (
        "SELECT cityalias0.name FROM city AS cityalias0 WHERE cityalias0.people = (SELECT MAX(cityalias1.people) "
        "FROM city AS cityalias1) OR cityalias0.state = 'Ohio'"
    ),
    "SELECT name FROM city WHERE name IN (SELECT river.city FROM river WHERE people > 3)": (
        "SELECT cityalias0.name FROM city AS cityalias0 WHERE cityalias0.name IN (SELECT riveralias0.city "
        "FROM river AS riveralias0 WHERE cityalias0.people > 3)"
    ),
}


@pytest.mark.parametrize("plain", WRITTEN)
def test_tables_columns_and_conditions(plain: str) -> None:
    assert restyled(plain, SCHEMA) == WRITTEN[plain]


def test_a_column_of_no_table_around_is_told() -> None:
    with pytest.raises(ValueError, match="no table around depth has it"):
        restyled("SELECT depth FROM river", SCHEMA)


def test_what_is_found_stays_the_same(tmp_path: Path) -> None:
    schema = read_schema(sample_queries("hospital", tmp_path).documents[0].text)
    file = tmp_path / "hospital.sqlite"
    queries = [sql for _, sql in invented(schema, 300, 1, contents=contents_of(str(file)))]
    whole = [sql for sql in queries if "LIMIT" not in sql]  # which of equal rows a limit leaves is nowhere said
    assert len(whole) > 200
    with closing(sqlite3.connect(file)) as database:
        for sql in whole:
            plain, styled = (sorted(map(repr, database.execute(one))) for one in (sql, restyled(sql, schema)))
            assert plain == styled, sql
