# SPDX-License-Identifier: Apache-2.0
"""The SQuAD reader, on toys and on PolicyQA and XQuAD."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedqa.data import squad
from fedqa.data.records import Collection, Example, Span
from fedqa.errors import DataError


def question(id: str, start: int, text: str, **more: object) -> dict[str, Any]:
    return {"id": id, "question": f"Question {id}?", "answers": [{"answer_start": start, "text": text}], **more}


def collection(folder: Path, *questions: object, context: str = "Nothing for six hours.") -> Collection:
    path = folder / "set.json"
    data = [{"title": "Fasting", "paragraphs": [{"context": context, "qas": list(questions)}]}]
    path.write_text(json.dumps({"version": "2.0", "data": data}), encoding="utf-8")
    return squad.read(path)


def test_a_span_question_becomes_an_example_with_its_title_as_key(tmp_path: Path) -> None:
    found = collection(tmp_path, question("q1", 12, "six hours"))
    (document,) = found.documents
    assert (document.text, document.title) == ("Nothing for six hours.", "Fasting")
    evidence = (Span(document.id, 12, 21),)
    example = Example("q1", "Question q1?", evidence, ("six hours",), key="Fasting", about=document.id)
    assert found.examples == (example,)
    assert found.quarantine == ()


def test_impossible_questions_and_empty_answer_lists_are_unanswerable(tmp_path: Path) -> None:
    impossible = {"id": "q1", "question": "Why?", "answers": [], "is_impossible": True, "plausible_answers": []}
    found = collection(tmp_path, impossible, {"id": 2, "question": "Who?", "answers": []})
    assert [(example.id, example.answerable) for example in found.examples] == [("q1", False), ("2", False)]


def test_a_wrong_offset_is_quarantined_and_the_right_one_named(tmp_path: Path) -> None:
    found = collection(tmp_path, question("good", 12, "six"), question("bad", 13, "six hours"))
    (left_out,) = found.quarantine
    assert left_out.place == "set.json: data[0].paragraphs[0].qas[1]"
    assert left_out.reason == "answer_start 13 points to 'ix hours.' but the answer is 'six hours'"
    assert left_out.remedy == "set answer_start to 12"
    assert [example.id for example in found.examples] == ["good"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (question("good", 12, "six"), "the example id 'good' is already taken at set.json: data"),
        (question("b", 12, "six", is_impossible=True), "is_impossible is true but there are answers"),
        ({"id": "b", "question": "Why?"}, "the field 'answers' is missing"),
        ({"question": "Why?", "answers": []}, "the field 'id' is missing"),
        ({"id": "b", "question": None, "answers": []}, "the field 'question' is None, not a text"),
        ({"id": "b", "question": "Why?", "answers": [{"text": "six"}]}, "the field 'answer_start' is missing"),
        ({"id": "b", "question": "Why?", "answers": [{"text": "six", "answer_start": "12"}]}, "is '12', not a whole"),
        (question("b", 0, ""), "an answer is empty"),
        ([], r"an object was expected, found \[\]"),
    ],
)
def test_one_bad_question_is_left_out_alone(tmp_path: Path, bad: object, reason: str) -> None:
    found = collection(tmp_path, question("good", 12, "six"), bad)
    (left_out,) = found.quarantine
    assert re.search(reason, left_out.reason)
    assert [example.id for example in found.examples] == ["good"]


def test_a_paragraph_without_text_is_left_out_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    good = {"context": "six hours", "qas": [question("a", 0, "six")]}
    data = [{"title": "T", "paragraphs": [{"context": " ", "qas": []}, 7, good]}, {"title": "U"}]
    path.write_text(json.dumps({"data": data}), encoding="utf-8")
    found = squad.read(path)
    assert [(left_out.place, left_out.reason) for left_out in found.quarantine] == [
        ("set.json: data[0].paragraphs[0]", "the text is empty"),
        ("set.json: data[0].paragraphs[1]", "an object was expected, found 7"),
        ("set.json: data[1]", "the field 'paragraphs' is missing"),
    ]


def test_offsets_hold_across_carriage_returns(tmp_path: Path) -> None:
    found = collection(tmp_path, question("a", 10, "six\r\nhours"), context="Nothing:\r\nsix\r\nhours.")
    (document,) = found.documents
    (span,) = found.examples[0].evidence
    assert document.text[span.start : span.end] == "six \nhours" == found.examples[0].answers[0]


def test_a_folder_is_read_in_order_with_the_splits_of_its_files(tmp_path: Path) -> None:
    for name in ("dev", "train"):
        collection(tmp_path, question(name, 12, "six"))
        (tmp_path / "set.json").rename(tmp_path / f"{name}.json")
    found = squad.read(tmp_path)
    assert [(example.id, example.split) for example in found.examples] == [("dev", "dev"), ("train", "train")]
    assert len(found.documents) == 1  # the same context in both files


@pytest.mark.parametrize("text", ["[]", '{"rows": []}', '{"data": {}}'])
def test_another_structure_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(DataError, match=r"x.json is not in SQuAD's format: an object with a list 'data' was expected"):
        squad.read(tmp_path / "x.json")


def test_a_file_without_questions_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"data": []}')
    with pytest.raises(DataError, match="holds no usable question"):
        squad.read(tmp_path / "x.json")


def test_policyqa_is_read_whole(public_data: Callable[[str], Path]) -> None:
    dev, test = (squad.read(public_data(f"policyqa/{name}.json")) for name in ("dev", "test"))
    assert len({example.key for example in dev.examples}) == len({example.key for example in test.examples}) == 20
    assert (len(dev.documents), len(dev.examples), dev.quarantine) == (574, 3_809, ())
    # The test file has 500 passages, three of which repeat another word for word.
    assert (len(test.documents), len(test.examples), test.quarantine) == (497, 4_152, ())


@pytest.mark.parametrize("language", ["en", "de", "es", "zh", "ar", "ru", "tr"])
def test_xquad_is_read_whole_in_every_language(public_data: Callable[[str], Path], language: str) -> None:
    found = squad.read(public_data(f"xquad/xquad.{language}.json"))
    assert (len(found.documents), len(found.examples), found.quarantine) == (240, 1_190, ())
    assert len({example.key for example in found.examples}) == 48
