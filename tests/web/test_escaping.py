# SPDX-License-Identifier: Apache-2.0
"""Whatever people and files bring is text: it never becomes part of the page."""

from web_toys import PASSWORD, Silo, Visitor

from fedqa.store import Correction, NewAsked

EVIL = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7777777*7 }}"


def _harmless(text: str) -> bool:
    return "<script>alert" not in text and "<img src=x" not in text and "54444439" not in text


def test_titles_texts_questions_and_sources_are_escaped_everywhere(silo: Silo, editor: Visitor) -> None:
    document = silo.store.add_document(f"Evil ward text {EVIL} ends.", EVIL, source=EVIL[:40], who="Edda")
    silo.desk.refresh()
    question = f"What evil ward text {EVIL}?"
    start = document.text.index("<script>")
    stored = silo.store.correct(Correction(question, "Edda", document.id, start, start + 8, "<script>"))
    pages = [
        editor.submit("/", question=question).text,
        editor.submit("/", question="evil ward text").text,
        editor.get("/").text,
        editor.get(f"/documents?search={EVIL[:20]}").text,
        editor.get("/documents").text,
        editor.get(f"/documents/view?id={document.id}&start={start}&end={start + 8}").text,
        editor.get(f"/documents/remove?id={document.id}").text,
        editor.get(f"/correct?document={document.id}").text,
        editor.get("/correct", params={"question": EVIL, "search": EVIL}).text,
        editor.submit("/correct", question=EVIL, document=document.id, text=EVIL + "?").text,
        editor.get("/examples", params={"search": "evil"}).text,
        editor.get(f"/examples/remove?id={stored.example.id}").text,
        editor.get("/documents/view", params={"id": EVIL}).text,
        editor.get(f"/{EVIL}").text,
        editor.get("/login", params={"next": f"/{EVIL}"}, follow_redirects=False).text,
    ]
    for number, text in enumerate(pages):
        assert _harmless(text), number
    assert sum("&lt;script&gt;" in text for text in pages) >= 11


def test_file_names_and_refused_records_are_escaped(silo: Silo, editor: Visitor) -> None:
    files = [("files", (f"{EVIL}.png", b"\x89PNG0000"))]
    assert _harmless(editor.post("/documents/add", data={"token": editor.token()}, files=files).text)
    rows = f'question,answer,context\n"{EVIL.replace(chr(34), chr(34) * 2)}",nowhere,text\n'
    answer = editor.post("/examples/import", data={"token": editor.token()}, files={"file": ("a.csv", rows)})
    assert _harmless(answer.text)


def test_names_of_people_are_escaped(silo: Silo, stranger: Visitor) -> None:
    name = "<script>alert(1)</script>"
    assert _harmless(stranger.submit("/login", at="/login", name=name, password="x").text)
    people = silo.store.people()
    people.accept(people.invite("owner"), "<b onclick=x>", PASSWORD)
    silo.store.add_document("A text.", "By her", source="x", who="<b onclick=x>")
    visitor = silo.visitor()
    visitor.cookies.set(
        "fedqa-session-8642", people.start_session(next(one for one in people.all() if one.name.startswith("<b")))
    )
    for path in ("/", "/documents", "/account", "/people"):
        text = visitor.get(path).text
        assert "<b onclick" not in text and "&lt;b onclick=x&gt;" in text, path


def test_what_a_page_says_once_is_escaped(silo: Silo, editor: Visitor) -> None:
    document = silo.store.add_document("Some text.", EVIL, source="x", who="Edda")
    editor.submit("/documents/remove", id=document.id)
    text = editor.get("/documents").text
    assert _harmless(text) and "&lt;script&gt;" in text
    assert "&lt;script&gt;" not in editor.get("/documents").text, "it is said once"


def test_another_persons_questions_are_never_shown(silo: Silo, reader: Visitor) -> None:
    silo.store.note_asked(NewAsked("Has my neighbour been here?", "Edda"))
    assert "neighbour" not in reader.get("/").text and reader.get("/api/asked").json()["total"] == 0
