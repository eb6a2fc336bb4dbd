# SPDX-License-Identifier: Apache-2.0
from fedqa.data.records import Document, Span
from fedqa.web.marking import Piece, excerpt, marked, sentence_around

DOCUMENT = Document("d", "One two. Three four five. Six.\n\nOther passage.")


def _span(words: str) -> Span:
    start = DOCUMENT.text.index(words)
    return Span("d", start, start + len(words))


def test_a_passage_is_cut_at_evidence_and_answer() -> None:
    shown = excerpt(DOCUMENT, _span("Three four five."), _span("four"))
    assert shown.pieces == (
        Piece("One two. "),
        Piece("Three ", evidence=True),
        Piece("four", evidence=True, answer=True),
        Piece(" five.", evidence=True),
        Piece(" Six."),
    )
    assert shown.begins and shown.ends


def test_an_answer_may_reach_beyond_its_evidence_and_its_passage() -> None:
    shown = excerpt(DOCUMENT, _span("Six."), _span("Six.\n\nOther"))
    assert [(piece.text, piece.evidence, piece.answer) for piece in shown.pieces] == [
        ("One two. Three four five. ", False, False),
        ("Six.", True, True),
    ]


def test_evidence_in_two_passages_shows_both() -> None:
    shown = excerpt(DOCUMENT, _span("Six.\n\nOther"), _span("Other"))
    assert "".join(piece.text for piece in shown.pieces) == DOCUMENT.text


def test_a_long_passage_is_cut_around_the_evidence() -> None:
    document = Document("d", "a " * 1000 + "here" + " b" * 1000)
    shown = excerpt(document, Span("d", 2000, 2004), Span("d", 2000, 2004))
    assert (shown.begins, shown.ends) == (False, False)
    assert sum(len(piece.text) for piece in shown.pieces) == 1200 + 4 + 1200


def test_a_whole_text_keeps_every_character() -> None:
    assert marked(DOCUMENT, None) == (Piece(DOCUMENT.text),)
    pieces = marked(DOCUMENT, _span("four"))
    assert "".join(piece.text for piece in pieces) == DOCUMENT.text
    assert [piece.text for piece in pieces if piece.answer] == ["four"]
    assert marked(Document("d", ""), None) == ()


def test_places_outside_a_text_do_no_harm() -> None:
    assert "".join(piece.text for piece in marked(DOCUMENT, Span("d", 40, 4000))) == DOCUMENT.text
    assert excerpt(DOCUMENT, Span("d", 900, 950), Span("d", 900, 950)).pieces == ()


def test_the_sentences_around_an_answer() -> None:
    assert sentence_around(DOCUMENT, _span("four")) == _span("Three four five.")
    assert sentence_around(DOCUMENT, _span("five. Six")) == _span("Three four five. Six.")
    assert sentence_around(DOCUMENT, Span("d", 900, 950)) == Span("d", 900, 950)
