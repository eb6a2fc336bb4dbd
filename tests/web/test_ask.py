# SPDX-License-Identifier: Apache-2.0
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from web_toys import GUIDE, Silo, Visitor

from fedqa.answering.answers import Reply
from fedqa.answering.reception import BY_KEYWORDS
from fedqa.store import Correction
from fedqa.web.rooms.ask import Shown

WARD = "What are the visiting hours on Ward 3?"


def _asked(visitor: Visitor, silo: Silo, question: str) -> int:
    visitor.submit("/", question=question)
    return silo.store.asked(limit=1).items[0].id


def test_an_answer_is_marked_within_its_sentence_within_its_passage(silo: Silo, reader: Visitor) -> None:
    text = reader.submit("/", question=WARD).text
    # The toy answers with what follows "Ward", the last word of the question that the sentence has.
    assert (
        '<span class="evidence">Visiting hours on Ward </span><mark>3 are from 14:00 to 19:00</mark>'
        '<span class="evidence">.</span> Children need an adult with them.</blockquote>'
    ) in text
    start = GUIDE.index("3 are")
    place = f"/documents/view?id={silo.guide}&amp;start={start}&amp;end={start + 25}#here"
    assert f'href="{place}">Guide for visitors</a>' in text
    assert "Very sure" in text and "97 percent" in text and 'title="97 %"' in text
    assert 'aria-live="polite"' in text


@pytest.mark.parametrize(
    ("confidence", "words"),
    [
        (1.0, "very sure"),
        (0.9, "very sure"),
        (0.89, "quite sure"),
        (0.5, "fairly sure"),
        (0.3, "not very sure"),
        (0.0, "unsure"),
    ],
)
def test_confidence_has_words(confidence: float, words: str) -> None:
    shown = Shown("", "", None, None, confidence)  # type: ignore[arg-type]
    assert shown.sureness == words


def test_a_question_is_noted_with_the_place_of_its_answer(silo: Silo, reader: Visitor) -> None:
    reader.submit("/", question=f"  {WARD}\n")
    noted = silo.store.asked(who="Rita").items[0]
    start = GUIDE.index("3 are")
    assert noted.question == WARD and noted.model == "a toy, round 2" and noted.confidence == 0.97
    assert noted.answer == {
        "document": silo.guide,
        "start": start,
        "end": start + 25,
        "text": GUIDE[start : start + 25],
    }


def test_no_answer_is_said_honestly_with_the_nearest_passages_folded(silo: Silo, reader: Visitor) -> None:
    text = reader.submit("/", question="Which floor grows purple bananas quickly?").text
    assert "No answer in your documents" in text and "<summary>The nearest passage</summary>" in text
    assert silo.store.asked(who="Rita").items[0].answer is None


def test_what_somebody_here_has_answered_comes_first_with_who_and_when(silo: Silo, reader: Visitor) -> None:
    start = GUIDE.index("ground floor")
    stored = silo.store.correct(
        Correction("Where is the pharmacy?", "Edda", silo.guide, start, start + 12, "ground floor")
    )
    text = reader.submit("/", question="where is the PHARMACY").text
    assert "Answered by people here" in text and "<mark>ground floor</mark>" in text
    assert f"Edda, {stored.added_at.astimezone():%-d %B %Y}" in text
    assert text.index("Answered by people here") < text.index("What the model finds")


def test_that_people_found_no_answer_is_shown_too(silo: Silo, reader: Visitor) -> None:
    silo.store.correct(Correction(WARD, "Edda"))
    text = reader.submit("/", question=WARD).text
    assert "There is no answer in our documents" in text and "What the model finds" in text


def test_a_script_gets_only_the_piece_that_changes(reader: Visitor) -> None:
    token = reader.token()
    answer = reader.post("/", data={"token": token, "question": WARD}, headers={"X-Piece": "1"})
    assert answer.text.lstrip().startswith('<div id="reply"') and "<html" not in answer.text
    refused = reader.post("/", data={"token": token, "question": " "}, headers={"X-Piece": "1"})
    assert refused.status_code == 400 and 'role="alert"' in refused.text and "<html" not in refused.text


@pytest.mark.parametrize(
    ("question", "why"),
    [("", "The question is empty"), (" \n ", "The question is empty"), ("x" * 2001, "2001 characters")],
)
def test_questions_that_cannot_be_asked(reader: Visitor, question: str, why: str) -> None:
    refused = reader.submit("/", question=question)
    assert refused.status_code == 400 and why in refused.text


def test_nobody_asks_without_end(silo: Silo, reader: Visitor, editor: Visitor) -> None:
    for _ in range(silo.app.state.page.questions.most):
        silo.app.state.page.questions.allows("Rita")
    refused = reader.submit("/", question=WARD)
    assert refused.status_code == 429 and "wait a little" in refused.text
    assert editor.submit("/", question=WARD).status_code == 200


def test_recent_questions_are_ones_own_and_each_stands_once(reader: Visitor, editor: Visitor) -> None:
    editor.submit("/", question="What does Edda want?")
    for question in (WARD, "Where is the pharmacy?", WARD):
        reader.submit("/", question=question)
    text = reader.get("/").text
    assert re.findall(r'<button class="link">(.+\?)</button>', text) == [WARD, "Where is the pharmacy?"]
    assert "Edda" not in text


def test_a_judgement_is_noted_for_ones_own_question_only(silo: Silo, reader: Visitor, editor: Visitor) -> None:
    asked = _asked(reader, silo, WARD)
    assert editor.submit("/judge", asked=asked, verdict="right").status_code == 404
    assert reader.submit("/judge", asked=asked + 1, verdict="right").status_code == 404
    assert silo.store.asked().items[0].verdict is None
    assert reader.submit("/judge", asked=asked, verdict="right").headers["location"] == "/"
    assert silo.store.asked().items[0].verdict == "right"
    piece = reader.post(
        "/judge", data={"token": reader.token(), "asked": asked, "verdict": "wrong"}, headers={"X-Piece": "1"}
    )
    assert "Thank you" in piece.text and silo.store.asked().items[0].verdict == "wrong"
    assert reader.submit("/judge", asked=asked, verdict="perhaps").status_code == 422


def test_readers_judge_and_editors_may_correct(silo: Silo, reader: Visitor, editor: Visitor) -> None:
    assert "/correct" not in reader.submit("/", question=WARD).text
    text = editor.submit("/", question=WARD).text
    assert f'href="/correct?asked={silo.store.asked(limit=1).items[0].id}">Wrong: correct it</a>' in text


def test_an_answer_whose_document_was_removed_on_the_way_is_not_shown(silo: Silo, reader: Visitor) -> None:
    silo.store.remove_document(silo.guide, "Edda")
    text = reader.submit("/", question=WARD).text
    assert "14:00" not in text and "No answer in your documents" in text


def test_people_are_told_while_documents_are_still_taken_in(silo: Silo, reader: Visitor) -> None:
    assert "still being taken in" not in reader.get("/").text
    silo.desk.ready = False
    assert "still being taken in" in reader.get("/").text


def test_long_answers_hold_up_nobody_else(silo: Silo, address: str) -> None:
    go_on, quick, begun = threading.Event(), silo.desk.ask, []

    def slow(question: str, k: int) -> Reply:
        begun.append(question)
        assert go_on.wait(30)
        return quick(question, k)

    silo.desk.ask = slow
    headers = {"Authorization": f"Bearer {silo.session('reader')}"}
    body = {"question": WARD}
    with ThreadPoolExecutor() as people, httpx2.Client(base_url=address, headers=headers, timeout=60) as client:
        asking = [people.submit(client.post, "/api/ask", json=body) for _ in range(6)]
        while len(begun) < 4:
            time.sleep(0.01)
        assert client.get("/api/documents").status_code == 200, "while four are answered and two wait"
        assert len(begun) == 4 and not any(one.done() for one in asking)
        go_on.set()
        assert [one.result().status_code for one in asking] == [200] * 6


def test_programs_get_the_same_answer(silo: Silo, reader: Visitor) -> None:
    headers = {"X-Token": reader.token()}
    got = reader.post("/api/ask", json={"question": WARD, "k": 1}, headers=headers).json()
    assert got["asked"] == silo.store.asked(limit=1).items[0].id
    assert [one["answer"] for one in got["reply"]["answers"]] == ["3 are from 14:00 to 19:00"]
    assert got["reply"]["answered"] is True and got["reply"]["verified"] is None
    verdict = {"asked": got["asked"], "verdict": "wrong"}
    assert reader.post("/api/judge", json=verdict, headers=headers).status_code == 204
    listing = reader.get("/api/asked").json()
    assert listing["total"] == 1 and listing["items"][0]["verdict"] == "wrong"
    assert reader.post("/api/ask", json={"question": WARD, "k": 0}, headers=headers).status_code == 400


# -- while the models are being loaded ---------------------------------------------------------------------------


def test_an_answer_by_keywords_says_so_and_claims_no_sureness(silo: Silo, reader: Visitor) -> None:
    silo.desk.loaded = silo.desk.ready = False
    text = reader.submit("/", question=WARD).text
    assert "Found by keywords. The models are being loaded;" in text and ">Ask again</button>" in text
    assert "<mark>3 are from 14:00 to 19:00</mark>" in text
    assert "sure" not in text and "percent" not in text and "still being taken in" not in text
    (noted,) = silo.store.asked(who="Rita").items
    assert noted.model == BY_KEYWORDS and noted.confidence is None and noted.answer is not None


def test_that_keywords_find_nothing_does_not_mean_that_there_is_no_answer(silo: Silo, reader: Visitor) -> None:
    silo.desk.loaded = False
    text = reader.submit("/", question="Xyzzy?").text
    assert "No passage has a word of the question" in text and "No answer in your documents" not in text
    assert 'action="/judge"' not in text


def test_what_people_have_answered_comes_first_then_too(silo: Silo, reader: Visitor) -> None:
    silo.store.correct(Correction(WARD, "Edda"))
    silo.desk.loaded = False
    text = reader.submit("/", question=WARD).text
    assert text.index("Answered by people here") < text.index("What keywords find")


def test_the_models_answer_takes_the_place_of_that_by_keywords_and_counts_once(silo: Silo, reader: Visitor) -> None:
    silo.desk.loaded = False
    asked, other = _asked(reader, silo, WARD), _asked(reader, silo, "Where is the pharmacy?")
    rate = silo.app.state.page.questions
    while rate.allows("Rita"):
        pass
    assert reader.submit("/", question=WARD, again=asked).status_code == 429, "by keywords again"
    silo.desk.loaded = True
    text = reader.submit("/", question=WARD, again=asked).text
    assert "Found by keywords" not in text and "Very sure" in text and f'name="asked" value="{asked}"' in text
    noted = silo.store.asked(who="Rita").items
    assert [(one.id, one.model) for one in noted] == [(other, BY_KEYWORDS), (asked, "a toy, round 2")]
    assert reader.submit("/", question=WARD, again=asked).status_code == 429, "that has been done"
    assert reader.submit("/", question="Another?", again=other).status_code == 429, "not the same question"


def test_an_answer_by_keywords_that_was_judged_stays(silo: Silo, reader: Visitor, editor: Visitor) -> None:
    silo.desk.loaded = False
    asked = _asked(reader, silo, WARD)
    reader.submit("/judge", asked=asked, verdict="wrong")
    silo.desk.loaded = True
    assert editor.submit("/", question=WARD, again=asked).status_code == 404, "it is somebody else's"
    reader.submit("/", question=WARD, again=asked)
    noted = silo.store.asked(who="Rita").items
    assert [(one.model, one.verdict) for one in noted] == [("a toy, round 2", None), (BY_KEYWORDS, "wrong")]


def test_an_answer_by_keywords_can_be_corrected(silo: Silo, editor: Visitor) -> None:
    silo.desk.loaded = False
    asked = _asked(editor, silo, WARD)
    assert "data-before" in editor.get(f"/correct?asked={asked}").text  # the place that was found
    start = GUIDE.index("14:00")
    place = {"document": silo.guide, "start": start, "end": start + 5, "text": "14:00"}
    assert editor.submit("/correct", question=WARD, asked=asked, **place).status_code == 303
    assert silo.store.asked_question(asked).example


def test_programs_are_told_that_an_answer_is_provisional(silo: Silo, reader: Visitor) -> None:
    headers = {"X-Token": reader.token()}
    silo.desk.loaded = False
    first = reader.post("/api/ask", json={"question": WARD}, headers=headers).json()
    silo.desk.loaded = True
    second = reader.post("/api/ask", json={"question": WARD, "again": first["asked"]}, headers=headers).json()
    assert (first["reply"]["provisional"], second["reply"]["provisional"]) == (True, False)
    assert first["asked"] == second["asked"]
