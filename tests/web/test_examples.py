# SPDX-License-Identifier: Apache-2.0
import json
import re
from pathlib import Path

import pytest
from web_toys import GUIDE, Silo, Visitor

from fedqa.federation.learning import Learning, note
from fedqa.store import Correction, StoredExample

CSV = (
    "question,answer,context\n"
    "Where do bicycles stand?,in the yard,Bicycles stand in the yard.\n"
    "Where do cars stand?,on the roof,Bicycles stand in the yard.\n"
)
SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "Yard",
            "paragraphs": [
                {
                    "context": "Bicycles stand in the yard.",
                    "qas": [
                        {"id": "q1", "question": "Where?", "answers": [{"text": "in the yard", "answer_start": 15}]}
                    ],
                }
            ],
        }
    ],
}


def _correct(silo: Silo, question: str = "Where is the pharmacy?") -> StoredExample:
    start = GUIDE.index("ground floor")
    return silo.store.correct(Correction(question, "Edda", silo.guide, start, start + 12, "ground floor"))


def _import(visitor: Visitor, name: str, content: str | bytes, format: str = "") -> object:
    data = {"token": visitor.token(), "format": format}
    return visitor.post("/examples/import", data=data, files={"file": (name, content)})


def test_examples_are_listed_with_answer_place_origin_and_person(silo: Silo, editor: Visitor) -> None:
    _correct(silo)
    silo.store.correct(Correction("Is there a pool?", "Otto"))
    text = editor.get("/examples").text
    start = GUIDE.index("ground floor")
    assert f'id={silo.guide}&amp;start={start}&amp;end={start + 12}#here">ground floor</a>' in text
    assert "Edda, " in text and "Otto, " in text and "No answer in the documents" in text
    assert "Is there a pool?" not in editor.get("/examples?search=pharmacy").text
    assert "No example is like this." in editor.get("/examples?origin=imported").text
    assert editor.get("/examples?origin=invented").status_code == 422


def test_what_became_of_a_correction_is_said(silo: Silo, editor: Visitor, tmp_path: Path) -> None:
    learned, forgotten, waiting = _correct(silo, "A?"), _correct(silo, "B?"), _correct(silo, "C?")
    for number, right in ((1, (False, True)), (2, (True, False))):
        known = dict(zip((learned.example.id, forgotten.example.id), right, strict=True))
        note(tmp_path / "run" / "silos" / "hospital", Learning(number, "personal", "1", 3, 1, known))
    object.__setattr__(silo.settings, "runs", {"read": tmp_path / "run"})
    text = editor.get("/examples").text
    words = re.findall(r'<span class="badge(?: good| bad)?">(.*?)</span>', text)
    assert words == [  # newest first, after the origin of each
        "annotated",
        "waits for the next training",
        "annotated",
        "forgotten again (was right in round 1)",
        "annotated",
        "learned in round 2",
    ]
    learning = editor.get("/api/examples/learning").json()
    assert learning["read"][learned.example.id] == "learned in round 2"
    assert waiting.example.id not in learning["read"]


def test_a_csv_file_is_imported_and_what_does_not_fit_is_shown(silo: Silo, editor: Visitor) -> None:
    answer = _import(editor, "yard.csv", CSV)
    assert "1 new example and 1 new document; 1 left out." in answer.text
    assert "yard.csv:3" in answer.text and "on the roof" in answer.text
    stored = silo.store.examples(origin="imported").items[0]
    assert stored.example.answers == ("in the yard",) and stored.added_by == "Edda" and stored.source == "yard.csv"
    assert "in the yard" in editor.submit("/", question="Where do bicycles stand?").text, "found at once"
    assert "were here already" in _import(editor, "yard.csv", CSV).text


def test_what_did_not_fit_stays_listed_until_the_file_is_mended_or_somebody_takes_it_off(
    silo: Silo, editor: Visitor
) -> None:
    assert "left out" not in editor.get("/examples").text
    _import(editor, "yard.csv", CSV)
    _import(editor, "roof.csv", CSV.replace("on the roof", "<b>roof</b>"))
    text = editor.get("/examples").text
    assert "2 records of files left out" in text and "yard.csv:3" in text and "roof.csv:3" in text
    assert "Read in by Edda, " in text and "&lt;b&gt;roof" in text and "<b>roof" not in text
    listing = editor.get("/api/examples/left-out?limit=1&offset=1").json()
    assert (listing["total"], listing["items"][0]["source"], listing["items"][0]["who"]) == (2, "yard.csv", "Edda")
    assert listing["items"][0]["record"]["place"] == "yard.csv:3"
    _import(editor, "yard.csv", CSV.replace("on the roof,", "in the yard,"))
    assert "1 record of files left out" in editor.get("/examples").text
    assert editor.submit("/examples/left-out/forget", source="roof.csv").headers["location"] == "/examples"
    assert "of files left out" not in editor.get("/examples").text


def test_programs_take_what_was_left_out_off_the_list(editor: Visitor) -> None:
    _import(editor, "yard.csv", CSV)
    headers = {"X-Token": editor.token()}
    assert editor.delete("/api/examples/left-out?source=yard.csv", headers=headers).status_code == 204
    assert editor.get("/api/examples/left-out").json() == {"items": [], "total": 0}


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("train.json", json.dumps(SQUAD), ""),
        ("whatever", json.dumps(SQUAD), "squad"),
        ("rows.jsonl", '{"question": "Where?", "answer": "in the yard", "context": "Bicycles stand in the yard."}', ""),
    ],
)
def test_the_other_formats_are_read_too(silo: Silo, editor: Visitor, name: str, content: str, format: str) -> None:
    assert "1 new example and 1 new document." in _import(editor, name, content, format).text


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("notes.txt", "x", "does not tell its format; choose one of squad, csv, jsonl"),
        ("a.json", "{", "is not JSON"),
        ("a.csv", "who,what\n1,2\n", "question"),
        ("a.jsonl", b"\xff\xfe", "is not utf-8"),
        ("a.csv", "", "is empty"),
    ],
)
def test_files_that_cannot_be_read_are_refused_without_telling_where_they_lay(
    editor: Visitor, name: str, content: str | bytes, why: str
) -> None:
    answer = _import(editor, name, content)
    assert answer.status_code == 400 and why in answer.text and "/tmp" not in answer.text


def test_an_imports_name_is_never_a_path(silo: Silo, editor: Visitor) -> None:
    _import(editor, "../../../../tmp/evil.csv", CSV)
    assert silo.store.examples().items[0].source == "evil.csv"


@pytest.mark.parametrize(("format", "ending"), [("squad", "json"), ("csv", "csv"), ("jsonl", "jsonl")])
def test_what_is_exported_can_be_imported_again(silo: Silo, editor: Visitor, format: str, ending: str) -> None:
    _correct(silo)
    answer = editor.get(f"/examples/export?format={format}")
    disposition = re.fullmatch(r'attachment; filename="([a-z0-9.-]+)"', answer.headers["content-disposition"])
    assert disposition and re.fullmatch(rf"hospital-examples-\d{{4}}-\d\d-\d\d\.{ending}", disposition[1])
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert editor.get(f"/api/examples/export?format={format}").content == answer.content
    guide = silo.guide
    editor.submit("/documents/remove", id=guide)
    assert silo.store.examples().total == 0
    assert "1 new example and 1 new document." in _import(editor, disposition[1], answer.content).text


def test_a_silos_name_makes_a_safe_file_name(silo: Silo, editor: Visitor) -> None:
    object.__setattr__(silo.settings, "name", 'St. "Mary"\r\nX: ../ä')
    answer = editor.get("/examples/export?format=csv")
    assert answer.headers["content-disposition"].startswith('attachment; filename="st-mary-x-examples-')


def test_an_example_is_removed_after_it_was_looked_at_again(silo: Silo, editor: Visitor) -> None:
    id = _correct(silo).example.id
    assert "Remove this example?" in editor.get(f"/examples/remove?id={id}").text
    assert silo.store.examples().total == 1
    assert editor.submit("/examples/remove", id=id).headers["location"] == "/examples"
    assert silo.store.examples().total == 0
    assert editor.submit("/examples/remove", id=id).status_code == 404
    assert editor.get(f"/examples/remove?id={id}").status_code == 404


def test_programs_list_import_and_remove(silo: Silo, editor: Visitor) -> None:
    headers = {"X-Token": editor.token()}
    report = editor.post("/api/examples/import", files={"file": ("yard.csv", CSV)}, headers=headers)
    assert report.status_code == 201 and (report.json()["examples"], report.json()["left_out"]) == (1, 1)
    listing = editor.get("/api/examples?origin=imported").json()
    id = listing["items"][0]["example"]["id"]
    assert listing["total"] == 1
    assert editor.delete(f"/api/examples/{id}", headers=headers).status_code == 204
    assert editor.delete(f"/api/examples/{id}", headers=headers).status_code == 404
