# SPDX-License-Identifier: Apache-2.0
"""Documents cut into passages."""

import pytest

from fedqa.data.passages import Passage, passage_of, passages
from fedqa.data.records import Document, Span


def test_passages_are_cut_at_blank_lines_with_exact_offsets() -> None:
    found = passages(Document("d", "One.\n\nTwo\nlines."))
    assert found == (Passage("d#0", "d", 0, 4, "One."), Passage("d#1", "d", 6, 16, "Two\nlines."))


@pytest.mark.parametrize(
    "text",
    [
        "One.\n\nTwo.",
        "  One.  \n \t \n\n\n  Two. \n",
        "\n\nOne.\n\n\n\nTwo.\n\n",
        "One. \n \nTwo.\n",
        "One.\n\u3000\nTwo.",
    ],
)
def test_white_space_around_passages_is_left_out_and_offsets_stay_exact(text: str) -> None:
    found = passages(Document("d", text))
    assert [passage.text for passage in found] == ["One.", "Two."]
    assert all(text[passage.start : passage.end] == passage.text for passage in found)


def test_a_document_may_be_one_passage_or_none() -> None:
    assert [passage.text for passage in passages(Document("d", "One\nonly."))] == ["One\nonly."]
    assert passages(Document("d", " \n\n ")) == ()


def test_a_span_lies_in_the_passages_it_overlaps() -> None:
    one, two = passages(Document("d", "One.\n\nTwo."))
    assert passage_of(Span("d", 0, 1), (one, two)) == (one,)
    assert passage_of(Span("d", 3, 7), (one, two)) == (one, two)
    assert passage_of(Span("d", 4, 6), (one, two)) == ()  # the blank line between them
    assert passage_of(Span("d", 6, 10), (one, two)) == (two,)
    assert passage_of(Span("e", 0, 1), (one, two)) == ()
