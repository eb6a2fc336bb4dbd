# SPDX-License-Identifier: Apache-2.0
"""The JSON lines reader."""

import json
from pathlib import Path

import pytest

from fedqa.data import jsonl
from fedqa.data.records import Collection, Document, Span
from fedqa.errors import DataError

LEAFLET = {"document": {"id": "leaflet", "title": "Fasting", "text": "Nothing for six hours."}}


def read(folder: Path, *rows: object, **options: str) -> Collection:
    path = folder / "x.jsonl"
    path.write_text("\r\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return jsonl.read(path, **options)


def test_questions_may_refer_to_documents_by_id(tmp_path: Path) -> None:
    found = read(tmp_path, LEAFLET, {"question": "How long?", "answer": "six hours", "document": "leaflet"})
    assert found.documents == (Document("leaflet", "Nothing for six hours.", "Fasting"),)
    (example,) = found.examples
    assert (example.id, example.evidence, example.answers) == ("x-2", (Span("leaflet", 12, 21),), ("six hours",))


def test_rows_are_as_in_csv(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        {"question": "How long?", "answer": "six", "context": "six or six", "answer_start": 7, "id": 5, "split": "dev"},
        {"question": "Why?", "answer": None, "context": "six or six"},
        {"question": "Who?", "answer": "Me.", "label": 1, "key": "people"},
        {"question": "Who?", "answer": "You.", "label": False, "key": "people"},
    )
    assert [document.text for document in found.documents] == ["six or six", "Me.", "You."]
    assert [(e.id, e.answers, e.split, e.key) for e in found.examples] == [
        ("5", ("six",), "dev", ""),
        ("x-2", (), None, ""),
        ("x-3", ("Me.",), None, "people"),
    ]
    assert found.quarantine == ()


def test_fields_have_the_names_that_the_options_say(tmp_path: Path) -> None:
    found = read(
        tmp_path, {"q": "Who?", "a": "Me."}, {"q": "Why?", "a": "n/a"}, question="q", answer="a", no_answer="n/a"
    )
    assert [(example.question, example.answers) for example in found.examples] == [("Why?", ()), ("Who?", ("Me.",))]


def test_documents_may_stand_alone(tmp_path: Path) -> None:
    assert len(read(tmp_path, LEAFLET).documents) == 1


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("{broken", "the line is not JSON: Expecting property name enclosed in double quotes at column 2"),
        ('{"question": NaN}', "the line is not JSON: NaN at column 14 is no JSON number, write null"),
        ("[" * 5_000, "the line is not JSON: its lists or objects are nested too deeply"),
        ("17", "an object was expected, found 17"),
        ({"frage": "Who?"}, "the field 'question' is missing"),
        ({"question": "Who?", "answer": ["Me."]}, "the field 'answer' is ['Me.'], not a text"),
        ({"question": "Who?", "answer": ""}, "the text is empty"),
        ({"question": "Who?", "answer": "Me.", "document": "x"}, "there is no document 'x'"),
        (
            {"question": "Who?", "answer": "a\ud800", "context": "a"},
            "the answer holds half of a surrogate pair (\\ud800) at character 1",
        ),
        (
            {"question": "Who?", "answer": "a", "context": "a", "answer_start": 10**12},
            "answer_start is '1000000000000', not a whole number",
        ),
        (
            {"question": "Who?", "answer": "a", "context": "a", "answer_start": 0.5},
            "the field 'answer_start' is 0.5, not a text",
        ),
        ({"document": {"id": "leaflet", "text": "Again."}}, "the document id 'leaflet' is already taken at x.jsonl:1"),
        ({"document": {"id": "b"}}, "the field 'text' is missing"),
    ],
)
def test_a_bad_line_is_left_out_alone(tmp_path: Path, row: object, reason: str) -> None:
    found = read(tmp_path, LEAFLET, row, {"question": "Who?", "answer": "Me."})
    (left_out,) = found.quarantine
    assert (left_out.place, left_out.reason) == ("x.jsonl:2", reason)
    assert [example.id for example in found.examples] == ["x-3"]


def test_a_file_of_bad_lines_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no usable question; 2 records were left out, the first at x.jsonl:1"):
        read(tmp_path, "a", "b")
