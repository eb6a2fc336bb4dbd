# SPDX-License-Identifier: Apache-2.0
import pytest

from fedqa.skills.sql.tokens import Token, joined, quoted, tokens


def test_a_statement_is_cut_into_names_numbers_texts_and_marks() -> None:
    found = tokens("SELECT a.b , 4.5 FROM `odd name` WHERE x <= \"it's\" AND y<>'a''b' ;;")
    assert [token.text for token in found] == (
        ["SELECT", "a", ".", "b", ",", "4.5", "FROM", "odd name", "WHERE", "x", "<=", "it's", "AND", "y", "<>", "a'b"]
    )
    assert [token.text for token in found if token.kind == "text"] == ["it's", "a'b"]
    assert [token.text for token in found if token.kind == "number"] == ["4.5"]
    assert found[2] == Token("mark", ".")


def test_a_quotation_mark_without_a_partner_is_a_mark() -> None:
    assert tokens("a = 'b") == [Token("name", "a"), Token("mark", "="), Token("mark", "'"), Token("name", "b")]


@pytest.mark.parametrize(("text", "sql"), [("a", "'a'"), ("it's", '"it\'s"'), ("a'\"", "'a''\"'")])
def test_texts_are_quoted_so_that_they_can_be_read_again(text: str, sql: str) -> None:
    assert quoted(text) == sql
    assert tokens(sql) == [Token("text", text)]


def test_words_are_joined_with_the_usual_spaces() -> None:
    words = ["SELECT", "COUNT(", "a", ".", "b", ")", ",", "t", ".*", "", "FROM", "(SELECT", "1", ")"]
    assert joined(words) == "SELECT COUNT(a.b), t.* FROM (SELECT 1)"
