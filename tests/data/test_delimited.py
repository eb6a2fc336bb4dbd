# SPDX-License-Identifier: Apache-2.0
"""The CSV reader, on toys and on SubjQA."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from fedqa.data import delimited
from fedqa.data.records import Collection
from fedqa.errors import ConfigError, DataError


def read(folder: Path, text: str | bytes, name: str = "faq.csv", **options: str) -> Collection:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return delimited.read(path, **options)


def only_reason(collection: Collection) -> str:
    (left_out,) = collection.quarantine
    return left_out.reason


def test_without_a_context_the_answers_are_documents_and_equal_answers_are_one(tmp_path: Path) -> None:
    found = read(tmp_path, "question,answer\nWhen?,At nine.\nFrom when?,At nine.\nWhere?,In the hall.\n")
    assert [document.text for document in found.documents] == ["At nine.", "In the hall."]
    nine, hall = (document.id for document in found.documents)
    assert [(e.id, e.question, e.evidence[0].document, e.answers) for e in found.examples] == [
        ("faq-2", "When?", nine, ("At nine.",)),
        ("faq-3", "From when?", nine, ("At nine.",)),
        ("faq-4", "Where?", hall, ("In the hall.",)),
    ]
    assert (found.examples[0].evidence[0].start, found.examples[0].evidence[0].end) == (0, 8)


def test_all_right_answers_to_a_question_are_the_evidence_of_one_example(tmp_path: Path) -> None:
    found = read(tmp_path, "question,answer,label\nWhen?,At nine.,1\nWhen?,At noon.,0\nWhen?,Nine.,1\nWho?,Me.,0\n")
    assert [document.text for document in found.documents] == ["At nine.", "At noon.", "Nine.", "Me."]
    (example,) = found.examples
    assert example.answers == ("At nine.", "Nine.")
    assert only_reason(found) == "questions with wrong answers only: 1"


def test_with_a_context_the_answer_is_a_span_of_it(tmp_path: Path) -> None:
    text = "question,answer,context,answer_start\nHow long?,six,six or six,7\nHow?,or,six or six,\nWhy?,,six or six,\n"
    found = read(tmp_path, text)
    assert len(found.documents) == 1
    assert [[(span.start, span.end) for span in e.evidence] for e in found.examples] == [[(7, 10)], [(4, 6)], []]
    assert [example.answerable for example in found.examples] == [True, True, False]


def test_columns_have_the_names_that_the_options_say(tmp_path: Path) -> None:
    text = "Frage;Antwort;Nr;Thema;Teil\nWann?;Um neun.;7;Zeit;test\n"
    options = dict(question="Frage", answer="Antwort", id="Nr", key="Thema", split="Teil", delimiter=";")
    (example,) = read(tmp_path, text, **options).examples
    assert (example.id, example.question, example.key, example.split) == ("7", "Wann?", "Zeit", "test")


def test_tsv_files_have_tabs_and_a_file_may_never_quote(tmp_path: Path) -> None:
    (example,) = read(tmp_path, 'question\tanswer\n"Now" or "then"?\tNow, then.\n', "x.tsv", quote="").examples
    assert (example.question, example.answers) == ('"Now" or "then"?', ("Now, then.",))


def test_a_word_may_stand_for_not_answered(tmp_path: Path) -> None:
    text = "question,answer,context\nWhy?,NOTHING,Some text.\nWhat?,text,Some text.\n"
    found = read(tmp_path, text, no_answer="NOTHING")
    assert [example.answerable for example in found.examples] == [False, True]
    alone = read(tmp_path, "question,answer\nWhy?,NOTHING\n", no_answer="NOTHING")
    assert not alone.examples[0].answerable and not alone.documents


def test_latin_1_byte_order_mark_and_crlf_are_read(tmp_path: Path) -> None:
    text = "question,answer\r\nOù?,Au café.\r\n"
    with pytest.raises(DataError, match=r'byte 0xf9 at offset 18 \(line 2\); pass encoding = "latin-1"'):
        read(tmp_path, text.encode("latin-1"))
    for data, encoding in ((text.encode("latin-1"), "latin-1"), (b"\xef\xbb\xbf" + text.encode(), "utf-8")):
        (example,) = read(tmp_path, data, encoding=encoding).examples
        assert (example.question, example.answers) == ("Où?", ("Au café.",))


def test_the_line_of_a_row_counts_lines_inside_fields(tmp_path: Path) -> None:
    found = read(tmp_path, 'question,answer\nWhy?,"one\r\ntwo"\n\nHow?,three\n')
    assert [example.id for example in found.examples] == ["faq-2", "faq-5"]
    assert found.documents[0].text == "one \ntwo"


def test_a_missing_column_is_an_error_that_lists_those_found(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"no column 'answer', looked for as answer \(columns found: 'question', 'reply'"
    ):
        read(tmp_path, "question,reply\nWhy?,So.\n")
    with pytest.raises(DataError, match="no column 'Text', looked for as context"):
        read(tmp_path, "question,answer\nWhy?,So.\n", context="Text")


def test_a_column_named_twice_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="names the column 'answer' twice"):
        read(tmp_path, "question,answer,answer\nWhy?,So.,So.\n")


def test_a_quotation_mark_that_is_never_closed_is_an_error_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="opened in the row at line 3 is never closed"):
        read(tmp_path, 'question,answer\nWhy?,So.\nHow?,"Thus.\nWho?,Me.\n')


def test_delimiter_and_quote_are_single_characters(tmp_path: Path) -> None:
    for option in ("delimiter", "quote"):
        with pytest.raises(ConfigError, match=f"option {option} must be one character or empty, got '::'"):
            read(tmp_path, "question,answer\nWhy?,So.\n", **{option: "::"})


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("How?,a,b", "the row has 3 fields, the first line names 2 columns"),
        ("How?", "the row has 1 fields, the first line names 2 columns"),
        ('How?,"a" b', "the row is not well quoted: ',' expected after '\"'"),
        (",a", "the question is empty"),
        ("How?, ", "the text is empty"),
        ("How?,a\0b", "the text holds a NUL character at character 1"),
    ],
)
def test_a_bad_row_is_left_out_alone(tmp_path: Path, row: str, reason: str) -> None:
    found = read(tmp_path, f"question,answer\nWhy?,So.\n{row}\nWho?,Me.\n")
    assert only_reason(found) == reason
    assert found.quarantine[0].place == "faq.csv:3"
    assert [example.question for example in found.examples] == ["Why?", "Who?"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("How?,a,maybe,a b,0,", "the label is 'maybe'"),
        ("How?,a,1,a b,first,", "answer_start is 'first', not a whole number"),
        ("How?,a,1,a b,2,", "answer_start 2 points to 'b' but the answer is 'a'"),
        ("How?,a,1,b b,,", "the answer 'a' is not in the text"),
        ("How?,a,1,,,", "the context is empty"),
        ("How?,a,1,a b,0,third", "unknown split 'third'"),
    ],
)
def test_a_bad_value_is_left_out_alone(tmp_path: Path, row: str, reason: str) -> None:
    found = read(tmp_path, f"question,answer,label,context,answer_start,split\nWhy?,a,1.0,a b,0,dev\n{row}\n")
    assert only_reason(found) == reason
    assert len(found.examples) == 1


def test_duplicate_ids_are_left_out(tmp_path: Path) -> None:
    found = read(tmp_path, "id,question,answer\n7,Why?,So.\n7,How?,Thus.\n")
    assert only_reason(found) == "the example id '7' is already taken at faq.csv:2"


def test_a_huge_field_is_left_out_and_the_rest_read(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    found = read(tmp_path, f"question,answer\nWhy?,{'x' * 1_000_001}\nHow?,{'y' * 200_000}\n")
    assert only_reason(found).startswith("the text 'xxx")
    assert len(found.documents[0].text) == 200_000
    assert csv.field_size_limit() == limit


@pytest.mark.parametrize("text", ["question,answer\n", '"question" x,answer\n'])
def test_a_file_without_rows_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"holds no usable question|has no column 'question'"):
        read(tmp_path, text)


def test_a_folder_is_read_with_the_splits_its_files_names_tell(tmp_path: Path) -> None:
    for name in ("train", "test"):
        (tmp_path / f"{name}.csv").write_text("question,answer\nWhy?,So.\n")
    found = delimited.read(tmp_path)
    assert [(example.id, example.split) for example in found.examples] == [("test-2", "test"), ("train-2", "train")]


def test_subjqa_is_read_as_csv(public_data: Callable[[str], Path]) -> None:
    path = public_data("subjqa/electronics")
    found = delimited.read(path, answer="human_ans_spans", context="review", no_answer="ANSWERNOTFOUND")
    assert sum(not example.answerable for example in found.examples) == 1_399 + 162 + 383
    assert len(found.examples) + len(found.quarantine) == 2_345 + 261 + 718
    assert {example.split for example in found.examples} == {"train", "dev", "test"}
