# SPDX-License-Identifier: Apache-2.0
"""The PubMedQA reader."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from fedqa.data import pubmedqa
from fedqa.errors import DataError

ARTICLE = {"QUESTION": "Does it help?", "LONG_ANSWER": "It helped.", "final_decision": "yes", "CONTEXTS": ["…"]}


def written(folder: Path, value: object) -> Path:
    path = folder / "ori_pqal.json"
    path.write_text(json.dumps(value))
    return path


def test_the_long_answer_is_the_document_and_the_decision_the_key(tmp_path: Path) -> None:
    written(tmp_path, {"123": ARTICLE})
    found = pubmedqa.read(tmp_path)
    (example,) = found.examples
    assert (example.id, example.question, example.key) == ("123", "Does it help?", "yes")
    assert example.answers == (found.documents[0].text,) == ("It helped.",)


def test_an_article_without_a_conclusion_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, {"123": ARTICLE, "124": {"QUESTION": "Why?"}, "125": 3})
    reasons = [(left_out.place, left_out.reason) for left_out in pubmedqa.read(path).quarantine]
    assert reasons == [
        ("ori_pqal.json: 124", "the field 'LONG_ANSWER' is missing"),
        ("ori_pqal.json: 125", "an object was expected, found 3"),
    ]


def test_another_structure_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"is not PubMedQA's ori_pqal.json: an object by PubMed number was expected, got \[\]"
    ):
        pubmedqa.read(written(tmp_path, []))


def test_a_folder_without_the_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"ori_pqal.json cannot be read: No such file"):
        pubmedqa.read(tmp_path)


def test_pubmedqa_is_read_whole(public_data: Callable[[str], Path]) -> None:
    found = pubmedqa.read(public_data("pubmedqa"))
    assert (len(found.documents), len(found.examples), found.quarantine) == (1_000, 1_000, ())
    assert Counter(example.key for example in found.examples) == {"yes": 552, "no": 338, "maybe": 110}
