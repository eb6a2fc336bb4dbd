# SPDX-License-Identifier: Apache-2.0
"""Tokens are put together again without becoming others, and no text breaks their reader."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedqa.databases.records import QueryRefused
from fedqa.databases.schema import Relation, Schema
from fedqa.databases.statement import checked
from fedqa.databases.tokens import MAX_CONCATENATIONS, joined, tokens_of

WORDS = ["count", "wards", "w", "e", "x", "u", "in", "as", "not", "date", "_a1"]
SIGNS = ["<>", "!=", "==", "<=", ">=", "||", "::", *"-+*/%=<>(),."]
VALUES = ["'a'", "''", "'--'", "'/*'", "''''", '"n"', '"a "" b"', "1", "1.", ".5", "1e5", "2.5E-3"]
SCHEMA = Schema((Relation("wards", ()),))


@given(st.lists(st.sampled_from([*WORDS, *SIGNS, *VALUES]), max_size=30))
@example(["-", "-", "1"])
@example(["/", "*", "1", "*", "/"])
@example(["w", ".", "5"])
@example(["1", ".", "w"])
@example(["e", "'a'"])
@example(["<", ">", "|", "|"][:2])
def test_what_is_joined_is_read_as_the_same_tokens(texts: list[str]) -> None:
    try:
        tokens = tokens_of(" ".join(["select", *texts]), "sqlite")
    except QueryRefused:
        return  # a name before a parenthesis that is no function, or too many ||
    assert [token.text for token in tokens] == ["select", *texts]
    assert tokens_of(joined(tokens), "sqlite") == tokens


@given(
    st.text(max_size=80)
    | st.lists(st.sampled_from([*WORDS, *SIGNS, *VALUES, ";", "--", "from", "\0", "é"])).map(" ".join)
)
@settings(max_examples=300, deadline=None)
def test_no_text_breaks_the_reader(text: str) -> None:
    for sql in (text, f"SELECT {text}", f"SELECT 1 FROM wards WHERE {text}"):
        try:
            statement = checked(sql, "postgres", SCHEMA)
        except QueryRefused:
            continue
        assert checked(statement, "postgres", SCHEMA) == statement
        assert statement.count("||") <= MAX_CONCATENATIONS
