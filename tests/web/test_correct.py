# SPDX-License-Identifier: Apache-2.0
import html
import re

import pytest
from web_toys import GUIDE, Silo, Visitor

from fedqa.data.records import Document
from fedqa.web.rooms.correct import occurrences

EMOJI = "Zuerst 👩‍⚕️ um 7.\n\n\tDie Ärztin geht um 16 Uhr. Cafe\u0301 & <b>Tee</b>.\n  Um 7 kommt sie wieder."


def _ask(visitor: Visitor, silo: Silo) -> int:
    visitor.submit("/", question="When are visiting hours on Ward 3?")
    return silo.store.asked(limit=1).items[0].id


def _shown_text(page: str) -> str:
    """The text of the document as a browser would have it: without tags, with its characters."""
    shown = re.search(r"data-choose>(.*?)</div>", page, re.DOTALL)[1]
    return html.unescape(re.sub(r"<[^>]+>", "", shown))


def test_the_document_is_shown_character_by_character(silo: Silo, editor: Visitor) -> None:
    document = silo.store.add_document(EMOJI, "Emoji", source="x", who="Edda")
    assert _shown_text(editor.get(f"/correct?document={document.id}").text) == document.text


def test_an_answer_is_corrected_by_code_points(silo: Silo, editor: Visitor) -> None:
    document = silo.store.add_document(EMOJI, "Emoji", source="x", who="Edda")
    start = document.text.index("16 Uhr")  # Python counts code points
    fields = {"question": "Wann geht sie?", "document": document.id, "start": start, "end": start + 6, "text": "16 Uhr"}
    assert editor.submit("/correct", **fields).headers["location"] == "/"
    example = silo.store.examples().items[0]
    assert example.example.answers == ("16 Uhr",) and example.added_by == "Edda"
    assert (example.example.evidence[0].start, example.origin) == (start, "annotated")


def test_correcting_begins_at_the_answer_that_was_given(silo: Silo, editor: Visitor) -> None:
    asked = _ask(editor, silo)
    text = editor.get(f"/correct?asked={asked}").text
    assert "<h1>When are visiting hours on Ward 3?</h1>" in text
    assert '<span class="before" data-before>3 are from 14:00 to 19:00</span>' in text
    start = GUIDE.index("14:00")
    place = {"document": silo.guide, "start": start, "end": start + 14, "text": GUIDE[start : start + 14]}
    assert editor.submit("/correct", asked=asked, **place).status_code == 303
    stored = silo.store.verified("When are visiting hours on Ward 3?")
    assert stored.example.answers == ("14:00 to 19:00",) and stored.origin == "corrected" and stored.asked == asked


def test_offsets_that_do_not_fit_the_words_are_refused_with_what_stands_there(silo: Silo, editor: Visitor) -> None:
    fields = {"question": "When?", "document": silo.guide, "start": 0, "end": 8, "text": "14:00"}
    refused = editor.submit("/correct", **fields)
    assert refused.status_code == 400 and "stands &#39;Visiting&#39; and not &#39;14:00&#39;" in refused.text
    beyond = editor.submit("/correct", **(fields | {"start": 5000, "end": 5005}))
    assert beyond.status_code == 400 and silo.store.examples().total == 0


def test_words_that_stand_once_need_no_offsets(silo: Silo, editor: Visitor) -> None:
    assert editor.submit("/correct", question="Where?", document=silo.guide, text=" ground floor ").status_code == 303
    span = silo.store.examples().items[0].example.evidence[0]
    assert GUIDE[span.start : span.end] == "ground floor"


def test_words_that_stand_often_are_chosen_by_place(silo: Silo, editor: Visitor) -> None:
    document = silo.store.add_document("At 7 one. At 7 two.\n\nAt 7 three.", "Three", source="x", who="Edda")
    asking = editor.submit("/correct", question="When two?", document=document.id, text="At 7")
    assert asking.status_code == 200 and "These words stand 3 times" in asking.text
    places = re.findall(r'name="start" value="(\d+)"><input type="hidden" name="end" value="(\d+)"', asking.text)
    assert places == [("0", "4"), ("10", "14"), ("21", "25")]
    chosen = {"question": "When two?", "document": document.id, "start": 10, "end": 14, "text": "At 7"}
    assert editor.submit("/correct", **chosen).status_code == 303
    assert silo.store.examples().items[0].example.evidence[0].start == 10


def test_words_that_do_not_stand_there_are_refused(silo: Silo, editor: Visitor) -> None:
    refused = editor.submit("/correct", question="When?", document=silo.guide, text="at noon")
    assert refused.status_code == 400 and "do not stand in the document" in refused.text
    assert ">at noon</textarea>" in refused.text, "what was typed is not lost"


def test_line_ends_as_browsers_send_them_fit_those_of_the_text(silo: Silo, editor: Visitor) -> None:
    start, end = GUIDE.index("them."), GUIDE.index(" pharmacy")
    words = GUIDE[start:end].replace("\n", "\r\n")
    fields = {"question": "What?", "document": silo.guide, "start": start, "end": end, "text": words}
    assert editor.submit("/correct", **fields).status_code == 303


def test_other_capitals_and_line_ends_are_found_when_the_exact_words_are_not() -> None:
    document = Document("d", "The Ground\nfloor. Ground floor, ground  floor.")
    spans = occurrences(document, "Ground floor")
    assert [(span.start, span.end) for span in spans] == [(18, 30)]  # where it stands exactly so
    spans = occurrences(document, "GROUND FLOOR")
    assert [(span.start, span.end) for span in spans] == [(4, 16), (18, 30), (32, 45)]
    assert occurrences(document, "  ") == [] and occurrences(document, "(") == []


def test_that_there_is_no_answer_is_an_answer(silo: Silo, editor: Visitor) -> None:
    asked = _ask(editor, silo)
    sent = editor.submit("/correct", asked=asked, document=silo.guide, text="anything", answer="nowhere")
    assert sent.status_code == 303
    assert silo.store.verified("When are visiting hours on Ward 3?").example.evidence == ()


def test_another_document_is_found_by_its_words_and_keeps_the_question(silo: Silo, editor: Visitor) -> None:
    other = silo.store.add_document("Bicycles stand in the yard.", "Yard", source="x", who="Edda")
    asked = _ask(editor, silo)
    text = editor.get(f"/correct?asked={asked}&search=bicycles").text
    assert f'href="/correct?asked={asked}&amp;document={other.id}">Yard</a>' in text
    assert "Bicycles stand" in editor.get(f"/correct?asked={asked}&document={other.id}").text
    nothing = editor.get("/correct?search=zebra").text
    assert "No document holds these words." in nothing
    assert 'name="question" value="Why?"' in editor.get("/correct?search=zebra&question=Why%3F").text


def test_nobody_corrects_anothers_question_or_an_unknown_document(silo: Silo, editor: Visitor, owner: Visitor) -> None:
    asked = _ask(owner, silo)
    assert editor.get(f"/correct?asked={asked}").status_code == 404
    assert editor.submit("/correct", asked=asked, answer="nowhere").status_code == 404
    assert editor.get("/correct?document=unknown").status_code == 404
    body = {"question": "x", "asked": asked}
    assert editor.post("/api/corrections", json=body, headers={"X-Token": editor.token()}).status_code == 404


def test_a_question_is_needed(silo: Silo, editor: Visitor) -> None:
    assert editor.submit("/correct", document=silo.guide, text="ground floor").status_code == 400


@pytest.mark.parametrize("place", [{"start": 41, "end": 48, "text": "wrong"}, {"start": 1, "text": "x"}])
def test_programs_are_refused_likewise(silo: Silo, editor: Visitor, place: dict[str, object]) -> None:
    body = {"question": "When?", "document": silo.guide, **place}
    refused = editor.post("/api/corrections", json=body, headers={"X-Token": editor.token()})
    assert refused.status_code == 400 and refused.json()["detail"]


def test_programs_correct(silo: Silo, editor: Visitor) -> None:
    start = GUIDE.index("8:30")
    body = {"question": "When?", "document": silo.guide, "start": start, "end": start + 4, "text": "8:30"}
    made = editor.post("/api/corrections", json=body, headers={"X-Token": editor.token()})
    assert made.status_code == 201 and made.json()["example"]["answers"] == ["8:30"]
