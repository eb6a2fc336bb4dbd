# SPDX-License-Identifier: Apache-2.0
"""What the door lets in, what it leaves out and what it says about it."""

import pytest

from fedqa.data.door import Door, Refused, field, occurrences, shown, slug, span_at, span_of
from fedqa.data.records import Document, Example, Quarantined, Span
from fedqa.errors import DataError


def refusal(door: Door) -> Quarantined:
    """The only record the door left out."""
    door.example(Example("good", "Is this one fine?"))
    (left_out,) = door.collection("x").quarantine
    return left_out


def test_a_refused_record_is_quarantined_with_place_reason_and_remedy_and_reading_goes_on() -> None:
    door = Door()
    with door.record("x.csv:3"):
        door.example(Example("a", "   "))
    left_out = refusal(door)
    assert left_out == Quarantined("x.csv:3", "the question is empty", "write the question or remove the record")


def test_the_place_of_an_outer_record_comes_back_after_an_inner_one() -> None:
    door = Door()
    with door.record("outer"):
        with door.record("inner"):
            raise Refused("inside", "")
        assert door.place == "outer"


def test_a_second_example_with_the_same_id_is_left_out_and_the_first_place_is_named() -> None:
    door = Door()
    for line in (1, 2):
        with door.record(f"x.csv:{line}"):
            door.example(Example("good", "Which one stays?"))
    left_out = door.collection("x").quarantine[0]
    assert left_out.place == "x.csv:2"
    assert left_out.reason == "the example id 'good' is already taken at x.csv:1"


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("", "the question is empty"),
        ("a" * 2_001, r"the question 'a{80}…' has 2,001 characters; at most 2,000"),
        ("why\0?", "the question holds a NUL character at character 3"),
        ("why \ud800?", r"half of a surrogate pair \(\\ud800\) at character 4"),
    ],
)
def test_bad_questions_are_refused(question: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        Door().example(Example("a", question))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (" \n\t", "the text is empty"),
        ("\x01\x02", "the text is empty"),
        ("a" * 1_000_001, "has 1,000,001 characters; at most 1,000,000"),
        ("binary\0", "the text holds a NUL character at character 6"),
    ],
)
def test_bad_documents_are_refused(text: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        Door().document("a", text)


@pytest.mark.parametrize(
    ("id", "reason"), [(" ", "the document has an empty id"), ("a\0", "characters that no file can")]
)
def test_bad_ids_are_refused(id: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        Door().document(id, "text")


def test_limits_are_inclusive() -> None:
    door = Door()
    door.document("a", "a" * 1_000_000)
    door.example(Example("a", "a" * 2_000))


def test_control_characters_become_spaces_one_for_one_so_that_offsets_hold() -> None:
    document = Door().document("a", "one\r\ntwo\x07\tthree\x9f")
    assert document.text == "one \ntwo \tthree "


def test_white_space_in_questions_is_folded() -> None:
    door = Door()
    door.example(Example("a", "  how\r\n long? "))
    assert door.collection("x").examples[0].question == "how long?"


def test_repeated_answers_and_spans_count_once() -> None:
    door = Door()
    door.document("d", "six hours")
    door.example(Example("a", "How long?", (Span("d", 0, 3), Span("d", 0, 3)), ("six", "six")))
    assert door.collection("x").examples[0] == Example("a", "How long?", (Span("d", 0, 3),), ("six",))


def test_the_same_text_is_the_same_document_whatever_the_order() -> None:
    first, second = Door(), Door()
    a, b = first.same_text("alpha", "T"), first.same_text("beta", "T")
    assert first.same_text("alpha", "another title") is a
    assert second.same_text("beta", "T").id == b.id
    assert a.id.startswith("t-") and a.id != b.id


def test_an_empty_answer_and_an_unknown_document_are_refused() -> None:
    with pytest.raises(Refused, match="an answer is empty"):
        Door().example(Example("a", "Why?", answers=(" ",)))
    with pytest.raises(Refused, match="there is no document 'x'"):
        Door().known_document("x")


def test_a_source_without_questions_is_an_error_unless_documents_alone_are_fine() -> None:
    door = Door()
    with pytest.raises(DataError, match=r"x.csv holds no usable question; it is empty: check the path"):
        door.collection("x.csv")
    door.document("d", "text")
    assert door.collection("x", documents_alone=True).documents[0].id == "d"


def test_the_error_for_a_source_without_questions_tells_the_first_problem() -> None:
    door = Door()
    door.leave_out("x.csv:2", "the label is 'maybe'", "write 1 or 0")
    with pytest.raises(DataError, match=r"one record was left out, the first at x.csv:2: the label is 'maybe' \(write"):
        door.collection("x.csv")


def test_a_right_offset_gives_the_span() -> None:
    assert span_at(Document("d", "for six hours"), 4, "six") == Span("d", 4, 7)


@pytest.mark.parametrize(
    ("text", "start", "answer", "remedy"),
    [
        ("for six hours", 12, "six", "set answer_start to 4"),
        ("six or six", 3, "six", "set answer_start to one of 0, 7"),
        ("for six hours", 0, "seven", "copy the answer from the text exactly"),
        ("for six hours", -9, "six", "set answer_start to 4"),
        # The thumb is one character but two UTF-16 units and four bytes.
        ("👍 six", 3, "six", "set answer_start to 2: this file counts UTF-16 units, offsets here count characters"),
        ("👍 six", 5, "six", "set answer_start to 2: this file counts bytes, offsets here count characters"),
    ],
)
def test_a_wrong_offset_is_never_mended_but_the_right_one_is_named(
    text: str, start: int, answer: str, remedy: str
) -> None:
    with pytest.raises(Refused) as refused:
        span_at(Document("d", text), start, answer)
    assert refused.value.reason.startswith(f"answer_start {start} points to ")
    assert refused.value.reason.endswith(f"but the answer is '{answer}'")
    assert refused.value.remedy == remedy


@pytest.mark.parametrize(
    ("text", "start", "answer"),
    [
        ("cafe\u0301 noir", 0, "cafe"),  # the accent is left outside
        ("cafe\u0301 noir", 4, "\u0301 noir"),  # the accent alone is taken in
        ("ok 👍🏽 fine", 3, "👍"),  # the skin tone is left outside
        ("ask 👩\u200d🔬 now", 4, "👩"),  # half of a joined emoji
        ("ask 👩\u200d🔬 now", 6, "🔬"),
    ],
)
def test_a_span_that_cuts_an_emoji_or_an_accented_letter_in_two_is_refused(text: str, start: int, answer: str) -> None:
    with pytest.raises(Refused, match="cuts a character in two"):
        span_at(Document("d", text), start, answer)


def test_whole_emoji_and_accented_letters_are_fine() -> None:
    assert span_at(Document("d", "ask 👩\u200d🔬 now"), 4, "👩\u200d🔬").end == 7
    assert span_at(Document("d", "cafe\u0301 noir"), 0, "cafe\u0301").end == 5


def test_an_answer_without_offset_must_stand_in_one_place() -> None:
    document = Document("d", "no, not now, no more than 12 of 112")
    assert span_of(document, "12") == Span("d", 26, 28)  # 112 holds it too, but not as a word
    assert span_of(document, "mor") == Span("d", 16, 19)  # no whole word, but only once
    with pytest.raises(Refused, match="'no' stands in 2 places"):
        span_of(document, "no")
    with pytest.raises(Refused, match="'yes' is not in the text"):
        span_of(document, "yes")


def test_occurrences_may_overlap() -> None:
    assert occurrences("go go go", "go go") == [0, 3]


def test_fields_of_json_objects_are_checked() -> None:
    assert field({"a": "x"}, "a", str) == "x"
    with pytest.raises(Refused, match="an object was expected, found 3"):
        field(3, "a", str)
    with pytest.raises(Refused, match="the field 'a' is missing"):
        field({"b": 1}, "a", str)
    with pytest.raises(Refused, match="the field 'a' is 1, not a text"):
        field({"a": 1}, "a", str)
    with pytest.raises(Refused, match="the field 'a' is True, not a whole number"):
        field({"a": True}, "a", int)


def test_values_in_messages_are_short_and_on_one_line() -> None:
    assert shown("x" * 200) == repr("x" * 80 + "…")
    assert shown("a\nb") == r"'a\nb'"
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    assert len(shown(nested)) < 100


def test_slugs_keep_letters_of_all_scripts() -> None:
    assert slug("MRI safety: please READ_me!") == "mri-safety-please-read-me"
    assert slug("隐私 政策") == "隐私-政策"
    assert slug("¿?") == ""
