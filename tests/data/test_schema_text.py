# SPDX-License-Identifier: Apache-2.0
import pytest

from fedqa.data.schema_text import read_schema, schema_text
from fedqa.databases.schema import Column, Relation, Schema
from fedqa.errors import DataError

SCHEMA = Schema(
    (
        Relation("city", (Column("name"), Column("state", references="state.name"))),
        Relation("state", (Column("name"), Column("area"))),
    )
)
TEXT = " | city : name , state | state : name , area | city.state = state.name"


def test_a_schema_is_one_line_with_its_keys_behind() -> None:
    assert schema_text(SCHEMA) == TEXT
    assert read_schema(TEXT) == SCHEMA


def test_names_are_told_in_lower_case() -> None:
    assert schema_text(Schema((Relation("City", (Column("NAME", "text", True),)),))) == " | city : name"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"no table in the schema ''; write \| table : column"),
        (" | a : b | nonsense", "a schema says 'nonsense'; write"),
        (" | a : b | a.c = a.b", r"a schema says 'a.c = a.b'; write .* and \| a.x = b.y for keys of theirs"),
    ],
)
def test_a_text_that_is_no_schema_is_refused(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_schema(text)
