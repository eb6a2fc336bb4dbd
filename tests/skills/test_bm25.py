# SPDX-License-Identifier: Apache-2.0
import math

import pytest

from fedqa.skills.bm25 import KeywordIndex

TEXTS = ["Snow falls in winter.", "Rain falls in autumn and in spring.", "Nothing to see here"]


def test_a_score_is_lucenes_bm25() -> None:
    # "snow" stands once in one of 3 texts: idf = ln(1 + (3 - 1 + 0.5) / (1 + 0.5)); lengths 4, 7, 4, mean 5
    idf = math.log(1 + 2.5 / 1.5)
    expected = idf * 1 / (1 + 1.5 * (1 - 0.75 + 0.75 * 4 / 5))
    assert KeywordIndex(TEXTS).scores("SNOW").tolist() == pytest.approx([expected, 0, 0])


def test_the_best_come_first_and_some_can_be_left_out() -> None:
    index = KeywordIndex(TEXTS)
    assert index.top("when does rain fall in spring?", 2) == [1, 0]
    assert index.top("when does rain fall in spring?", 2, leave_out={1}) == [0, 2]


def test_ties_keep_the_order_of_the_texts() -> None:
    assert KeywordIndex(["same", "other", "same", "same"]).top("same", 4) == [0, 2, 3, 1]


@pytest.mark.parametrize("query", ["", "?!", "unknown words only"])
def test_a_query_that_meets_nothing_gives_the_first_texts(query: str) -> None:
    assert KeywordIndex(TEXTS).top(query, 2) == [0, 1]


def test_texts_without_any_word_can_be_indexed() -> None:
    assert KeywordIndex(["--", "?"]).top("word", 5) == [0, 1]
    assert KeywordIndex([]).top("word", 5) == []


def test_letters_beyond_ascii_are_words() -> None:
    assert KeywordIndex(["nothing", "Straße nach Köln"]).top("köln", 1) == [1]


def test_indexing_and_searching_are_silent(capfd: pytest.CaptureFixture[str]) -> None:
    KeywordIndex(TEXTS).top("snow", 1)
    assert capfd.readouterr() == ("", "")
