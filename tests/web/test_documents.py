# SPDX-License-Identifier: Apache-2.0

import pytest
from web_toys import GUIDE, Silo, Visitor

from fedqa.store import Correction
from fedqa.web.rooms.documents import _beginning

YARD = b"Bicycles\n========\n\nBicycles stand in the yard behind the kitchen.\n"


def _upload(visitor: Visitor, *files: tuple[str, bytes]) -> object:
    sent = [("files", (name, content)) for name, content in files]
    return visitor.post("/documents/add", data={"token": visitor.token()}, files=sent)


def test_several_files_are_added_each_with_its_outcome_and_found_at_once(silo: Silo, editor: Visitor) -> None:
    answer = _upload(editor, ("yard.md", YARD), ("photo.png", b"\x89PNG\r\n\x1a\n0000"), ("again.txt", GUIDE.encode()))
    assert answer.status_code == 200
    assert (
        "2 documents are ready for questions" in answer.text
        and "photo.png" in answer.text
        and "not added" in answer.text
    )
    assert "was already here" in answer.text
    assert silo.store.documents().total == 2
    stored = silo.store.documents("yard").items[0]
    assert (stored.source, stored.added_by) == ("yard.md", "Edda")
    assert "in the yard behind the kitchen" in editor.submit("/", question="Where do bicycles stand?").text


def test_adding_brings_the_index_up_to_date_once(silo: Silo, editor: Visitor) -> None:
    _upload(editor, ("yard.md", YARD))
    assert silo.desk.refreshed == 2, "once at the start, once after adding"


def test_it_is_said_when_the_index_is_still_at_work(silo: Silo, editor: Visitor) -> None:
    assert "still taking" not in editor.submit("/documents/add", text="One text.").text
    silo.desk.ready = False
    assert "still taking" in editor.submit("/documents/add", text="Another text.").text


def test_a_pasted_text_is_added_with_line_ends_as_everywhere(silo: Silo, editor: Visitor) -> None:
    fields = {"title": "Yard", "text": "Bicycles stand\r\nin the yard.\r\n\r\nCars do not."}
    assert "1 document is ready for questions" in editor.submit("/documents/add", **fields).text
    stored = silo.store.documents("bicycles").items[0]
    assert stored.document.title == "Yard" and "\r" not in stored.document.text and stored.source == "pasted"


def test_a_text_without_a_title_is_called_by_its_first_words() -> None:
    assert _beginning("\nShort.\nMore") == "Short."
    assert _beginning("word " * 30) == "word " * 13 + "word …"


def test_a_long_text_can_be_pasted(silo: Silo, editor: Visitor) -> None:
    text = "Ärzte öfter übrig. " * 50_000  # 1 100 000 bytes; a field of a form usually may have 1 048 576
    token = editor.token()
    answer = editor.post("/documents/add", data={"token": token, "text": text, "title": "Long"})
    assert answer.status_code == 200 and "1 document is ready for questions" in answer.text


def test_sending_nothing_is_said(editor: Visitor) -> None:
    assert "Nothing was sent" in editor.submit("/documents/add", text="  ").text
    assert editor.submit("/documents/add").status_code == 400


def test_too_many_files_at_once_are_refused(silo: Silo, editor: Visitor) -> None:
    answer = _upload(editor, *((f"{number}.txt", b"x") for number in range(41)))
    assert answer.status_code == 400 and "at most 40" in answer.text and silo.store.documents().total == 1


def test_a_file_name_is_never_a_path(silo: Silo, editor: Visitor) -> None:
    for name in ("../../etc/passwd.txt", "..\\..\\windows\\system.txt", "/etc/shadow.txt", "a\x00b<script>.txt"):
        _upload(editor, (name, f"The text of {name!r}.".encode()))
    sources = {stored.source for stored in silo.store.documents().items}
    assert {"passwd.txt", "system.txt", "shadow.txt"} <= sources
    assert not any(mark in source for source in sources for mark in ("/", "\\", "..", "<", "\x00"))


def test_documents_are_listed_searched_and_paged(silo: Silo, reader: Visitor) -> None:
    for number in range(30):
        silo.store.add_document(f"Text of number {number}.", f"Number {number}", source="x", who="Edda")
    first, second = reader.get("/documents").text, reader.get("/documents?offset=25").text
    assert "Number 29" in first and "Guide for visitors" not in first and "1 to 25 of 31" in first
    assert "Guide for visitors" in second and "26 to 31 of 31" in second
    assert "Number 17" in reader.get("/documents?search=number+17").text
    assert "No document holds these words." in reader.get("/documents?search=zebra").text
    assert reader.get("/documents?offset=-1").status_code == 422


def test_a_document_is_shown_with_the_place_one_came_for(silo: Silo, reader: Visitor) -> None:
    start = GUIDE.index("ground")
    text = reader.get(f"/documents/view?id={silo.guide}&start={start}&end={start + 12}").text
    assert 'is on the <mark id="here" tabindex="-1">ground floor</mark>. It opens' in text
    assert "<mark" not in reader.get(f"/documents/view?id={silo.guide}&start=5&end=100000").text
    assert "Remove" not in text, "a reader removes nothing"
    assert reader.get("/documents/view?id=unknown").status_code == 404
    assert reader.get("/documents/view").status_code == 404


def test_before_a_document_is_removed_it_is_said_what_goes_with_it(silo: Silo, editor: Visitor) -> None:
    assert "no example rests on it" in editor.get(f"/documents/remove?id={silo.guide}").text
    for question in ("Where?", "On which floor?"):
        start = GUIDE.index("ground floor")
        silo.store.correct(Correction(question, "Edda", silo.guide, start, start + 12, "ground floor"))
    assert "with it 2 examples" in editor.get(f"/documents/remove?id={silo.guide}").text
    assert silo.store.documents().total == 1
    guide = silo.guide
    assert editor.submit("/documents/remove", id=guide).headers["location"] == "/documents"
    assert "“Guide for visitors” has been removed." in editor.get("/documents").text
    assert (silo.store.documents().total, silo.store.examples().total) == (0, 0)
    assert "No answer in your documents" in editor.submit("/", question="Where is the pharmacy?").text
    assert editor.submit("/documents/remove", id=guide).status_code == 404


@pytest.mark.parametrize("name", ["text", "files"])
def test_programs_add_find_read_and_remove(silo: Silo, editor: Visitor, name: str) -> None:
    headers = {"X-Token": editor.token()}
    if name == "text":
        body = {"text": "Bicycles stand in the yard.", "title": "Yard"}
        added = editor.post("/api/documents", json=body, headers=headers)
    else:
        added = editor.post("/api/documents/files", files=[("files", ("yard.md", YARD))], headers=headers)
    assert added.status_code == 201
    id = added.json()["outcomes"][0]["id"]
    listing = editor.get("/api/documents?search=bicycles").json()
    assert listing["total"] == 1 and listing["items"][0]["id"] == id and "text" not in listing["items"][0]
    assert "in the yard" in editor.get(f"/api/documents/{id}").json()["document"]["text"]
    assert editor.delete(f"/api/documents/{id}", headers=headers).status_code == 204
    assert editor.get(f"/api/documents/{id}").status_code == 404
