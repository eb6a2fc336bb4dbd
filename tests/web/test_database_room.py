# SPDX-License-Identifier: Apache-2.0
"""Asking the silo's database on the page: a real database, and a toy that knows two questions by heart."""

import re
from pathlib import Path

import pytest
from web_toys import KNOWN_QUERIES, Silo

from fedqa.databases.records import Table
from fedqa.store import Correction
from fedqa.web.rooms.database import shown

(MANY, COUNT), (WHICH, NAMES) = KNOWN_QUERIES.items()
UNKNOWN = "What is love?"


def test_a_silo_without_a_database_has_no_such_room(tmp_path: Path, filled: Path) -> None:
    silo = Silo(tmp_path, filled)
    reader = silo.visitor("reader")
    assert "/database" not in reader.get("/").text
    assert reader.get("/database").status_code == 404
    silo.store.close()


def test_an_answer_is_a_sentence_a_table_and_the_query(silo: Silo) -> None:
    reader = silo.visitor("reader")
    assert '<a href="/database">Database</a>' in reader.get("/").text
    text = reader.submit("/database", at="/database", question=f" {WHICH} ").text
    assert f'<pre class="sql"><code>{NAMES}</code></pre>' in text
    assert '<th scope="col">name</th><th scope="col" class="number">beds</th>' in text
    assert '<tr><td>Cedar</td><td class="number">60</td></tr>' in text
    assert "Queries are written by a toy, round 3" in text and "Right on 15 of 30 questions" in text
    assert "The answer is 7." in reader.submit("/database", at="/database", question=MANY).text


def test_a_question_is_noted_with_its_query_but_not_with_what_it_found(silo: Silo) -> None:
    reader = silo.visitor("reader")
    reader.submit("/database", at="/database", question=WHICH)
    (noted,) = silo.store.asked(who="Rita").items
    assert (noted.question, noted.answer, noted.model) == (WHICH, {"sql": NAMES}, "a toy, round 3")
    assert WHICH in reader.get("/database").text and WHICH not in reader.get("/").text


def test_what_no_query_answers_is_said_and_an_editor_may_give_one(silo: Silo) -> None:
    text = silo.visitor("reader").submit("/database", at="/database", question=UNKNOWN).text
    assert "No query that can be run" in text and "/database/correct" not in text
    text = silo.visitor("editor").submit("/database", at="/database", question=UNKNOWN).text
    assert re.search(r'href="/database/correct\?asked=\d+">Give the query', text)


def test_an_editor_tries_a_query_and_saves_it_as_an_example(silo: Silo) -> None:
    editor = silo.visitor("editor")
    editor.submit("/database", at="/database", question=WHICH)
    number = silo.store.asked(who="Edda").items[0].id
    page = editor.get(f"/database/correct?asked={number}").text
    assert f"{NAMES}</textarea>" in page and WHICH in page
    better = "SELECT name FROM wards WHERE floor = 3"
    tried = editor.submit("/database/correct", at="/database", asked=number, sql=better)
    assert tried.status_code == 200 and "<td>Rowan</td>" in tried.text and "beds" not in tried.text
    assert silo.store.verified_query(WHICH) is None
    saved = editor.submit("/database/correct", at="/database", asked=number, sql=better, action="save")
    assert (saved.status_code, saved.headers["location"]) == (303, "/database")
    stored = silo.store.verified_query(WHICH)
    assert stored and (stored.example.sql, stored.asked, stored.added_by) == (better, number, "Edda")
    text = silo.visitor("reader").submit("/database", at="/database", question=WHICH.lower()).text
    assert "Answered by a query that people here gave" in text and f"<code>{better}</code>" in text


def test_the_query_that_people_gave_comes_first_and_the_models_own_is_folded(silo: Silo) -> None:
    silo.store.correct(Correction(MANY, "Edda", sql="SELECT COUNT(*) + 1 FROM wards"))
    text = silo.visitor("reader").submit("/database", at="/database", question=MANY).text
    first, _, folded = text.partition("<summary>What the model makes of it</summary>")
    assert "8" in first and COUNT in folded and f"<code>{COUNT}</code>" not in first


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("DELETE FROM wards", "The query was refused"),
        ("SELECT * FROM secrets", "The query was refused"),
        ("SELECT 1; SELECT 2", "The query was refused"),
        (" ", "Give one SELECT of at most 10000 characters"),
    ],
)
def test_a_query_that_does_not_run_is_not_saved(silo: Silo, sql: str, problem: str) -> None:
    editor = silo.visitor("editor")
    answer = editor.submit("/database/correct", at="/database", question=MANY, sql=sql, action="save")
    assert answer.status_code == 400 and problem in answer.text
    assert silo.store.verified_query(MANY) is None


def test_a_question_without_words_cannot_be_added(silo: Silo) -> None:
    answer = silo.visitor("editor").submit("/database/correct", at="/database", question=" ", sql=COUNT, action="save")
    assert answer.status_code == 400 and "the question is empty" in answer.text


def test_only_editors_write_queries(silo: Silo) -> None:
    reader = silo.visitor("reader")
    assert reader.get("/database/correct").status_code == 403
    assert reader.submit("/database/correct", at="/database", question=MANY, sql=COUNT).status_code == 403
    assert reader.post("/api/database/run", json={"sql": COUNT}).status_code == 403


def test_questions_to_documents_and_to_the_database_are_corrected_each_in_its_place(silo: Silo) -> None:
    editor = silo.visitor("editor")
    editor.submit("/database", at="/database", question=WHICH)
    editor.submit("/", question="When does the pharmacy open?")
    documents, database = (one.id for one in silo.store.asked(who="Edda").items)
    assert editor.get(f"/correct?asked={documents}").status_code == 200
    answer = editor.get(f"/correct?asked={database}")
    assert answer.status_code == 404 and "was asked of the database" in answer.text
    answer = editor.get(f"/database/correct?asked={documents}")
    assert answer.status_code == 404 and "was not asked of the database" in answer.text


def test_programs_ask_run_and_correct_too(silo: Silo) -> None:
    program = silo.visitor()
    program.headers["Authorization"] = f"Bearer {silo.session('editor')}"
    found = program.post("/api/database/ask", json={"question": MANY}).json()
    assert found["answer"]["sql"] == COUNT and found["answer"]["table"]["rows"] == [[7]]
    assert program.post("/api/database/run", json={"sql": NAMES}).json()["columns"] == ["name", "beds"]
    refused = program.post("/api/database/run", json={"sql": "DROP TABLE wards"})
    assert refused.status_code == 400 and "refused" in refused.json()["detail"]
    made = program.post("/api/database/corrections", json={"question": MANY, "sql": COUNT, "asked": found["asked"]})
    assert made.status_code == 201 and made.json()["example"]["sql"] == COUNT
    assert program.post("/api/database/corrections", json={"question": MANY, "sql": "SELECT"}).status_code == 400
    refused = program.post("/api/corrections", json={"question": MANY, "asked": found["asked"]})
    assert refused.status_code == 404 and "was asked of the database" in refused.json()["detail"]


def test_a_long_table_is_cut_and_says_so() -> None:
    table = Table(("n", "COUNT(*)"), tuple((None, i) for i in range(60)), truncated=True, seconds=0.0)
    found = shown(table)
    assert [column.name for column in found.columns] == ["n", "number"]
    assert (len(found.rows), found.more, found.others, found.rows[1]) == (50, 10, True, ("", "1"))
