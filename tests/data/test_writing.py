# SPDX-License-Identifier: Apache-2.0
"""Collections written to files and read back."""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fedqa.data.door import Door, Refused
from fedqa.data.formats import read_format
from fedqa.data.records import SPLITS, Collection, Document, Example, Span
from fedqa.data.sample import sample_silo
from fedqa.data.writing import WRITTEN, written
from fedqa.errors import ConfigError

FORMATS = sorted(WRITTEN)
DOCUMENTS = (
    Document("a", "Nothing for six hours.", "Fasting"),
    Document("b", 'Say "six", or six;\n=1+1', "Fasting"),
    Document("c", "x"),
)
TWO_SPANS = (Span("a", 12, 15), Span("a", 12, 21))
TOY = Collection(
    DOCUMENTS,
    (
        Example("q1", "How long?", TWO_SPANS, ("six", "six hours"), split="test", about="a"),
        Example("q2", "Both?", (Span("b", 5, 8), Span("a", 12, 15)), ("six", "6", "VI"), key="numbers", check=True),
        Example("q3", "How many?", sql="SELECT 1", split="train"),
        Example("q4", "Why?", about="b", key="Fasting"),
        Example("q5", "What?", (Span("b", 19, 23),), ("=1+1",)),
        Example("=q6", "=cmd|' /C calc'!A0", (Span("c", 0, 1),)),
        Example("q7", "Nobody knows?"),
    ),
)


def back(collection: Collection, format: str, folder: Path) -> Collection:
    path = folder / f"train{WRITTEN[format].suffix}"  # a name that would tell a split, were it asked
    path.write_bytes(written(collection, format))
    return read_format(format, path, {})


def as_kept(collection: Collection, format: str) -> Collection:
    """What the format keeps: all, but SQuAD not the order of examples."""
    examples = collection.examples
    return replace(collection, examples=tuple(sorted(examples, key=lambda e: e.id)) if format == "squad" else examples)


@pytest.mark.parametrize("format", FORMATS)
def test_a_collection_comes_back_equal(tmp_path: Path, format: str) -> None:
    assert as_kept(back(TOY, format, tmp_path), format) == as_kept(TOY, format)


@pytest.mark.parametrize("format", FORMATS)
def test_documents_alone_come_back_equal(tmp_path: Path, format: str) -> None:
    assert back(replace(TOY, examples=()), format, tmp_path) == replace(TOY, examples=())


@pytest.mark.parametrize("format", FORMATS)
def test_the_sample_silo_comes_back_equal(tmp_path: Path, format: str) -> None:
    sample = replace(sample_silo("hospital"), quarantine=())
    assert as_kept(back(sample, format, tmp_path), format) == as_kept(sample, format)


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
risky = st.sampled_from(["=", "'=", "''+1", "-1", "@x", "\t", "\r", "'", '"', '""', ",", ";", "\n", "a\r\nb", "\u2028"])
anything = st.one_of(texts, st.tuples(risky, texts).map("".join))


@st.composite
def collections(draw: st.DrawFn) -> Collection:
    """A collection that has passed the door."""
    door = Door()
    documents: list[Document] = []
    for _ in range(draw(st.integers(1, 3))):
        try:
            documents.append(door.document(draw(anything), draw(anything) + "x", draw(anything)))
        except Refused:
            continue
    for _ in range(draw(st.integers(0, 4))):
        try:
            door.example(draw(examples(documents)))
        except Refused:
            continue
    return replace(door.collection("", documents_alone=True), quarantine=()) if documents else TOY


@st.composite
def examples(draw: st.DrawFn, documents: list[Document]) -> Example:
    spans = draw(st.lists(st.sampled_from(documents).flatmap(spans_in), max_size=3)) if documents else []
    by_id = {document.id: document.text for document in documents}
    said = [by_id[span.document][span.start : span.end] for span in spans]
    return Example(
        draw(anything),
        draw(anything) + "?",
        tuple(spans),
        tuple(said if draw(st.booleans()) else draw(st.lists(anything, max_size=3))),
        sql=draw(st.one_of(st.just(""), anything)),
        split=draw(st.sampled_from([None, *SPLITS])),
        key=draw(anything),
        about=draw(st.sampled_from(["", *by_id])),
        check=draw(st.booleans()),
    )


def spans_in(document: Document) -> st.SearchStrategy[Span]:
    ends = st.tuples(st.integers(0, len(document.text)), st.integers(0, len(document.text)))
    return ends.filter(lambda pair: pair[0] != pair[1]).map(lambda pair: Span(document.id, min(pair), max(pair)))


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(collection=collections())
@example(collection=TOY)
def test_any_collection_comes_back_equal(tmp_path: Path, format: str, collection: Collection) -> None:
    assert as_kept(back(collection, format, tmp_path), format) == as_kept(collection, format)


@settings(max_examples=50, deadline=None)
@given(collection=collections())
def test_no_cell_of_a_csv_file_is_run_by_a_spreadsheet(collection: Collection) -> None:
    for row in csv.reader(io.StringIO(written(collection, "csv").decode("utf-8-sig"), newline="")):
        assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for cell in row)


def test_a_csv_file_quotes_all_and_says_that_it_is_utf_8() -> None:
    content = written(TOY, "csv")
    assert content.startswith(b"\xef\xbb\xbf" + b'"document","title","context","id","question"')
    lines = content.decode("utf-8-sig").split("\r\n")
    assert '"b","","","q5","What?","\'=1+1","19","","","","","",""' in lines
    assert '"c","","","\'=q6","\'=cmd|\' /C calc\'!A0","","0","x","","","","",""' in lines


def test_a_squad_file_is_one_for_other_programs() -> None:
    value = json.loads(written(TOY, "squad"))
    (fasting, other) = value["data"]
    assert (fasting["title"], len(fasting["paragraphs"]), other["title"]) == ("Fasting", 2, "")
    first = fasting["paragraphs"][0]
    assert first["context"] == "Nothing for six hours."
    (question,) = first["qas"]
    assert (question["id"], question["is_impossible"]) == ("q1", False)
    assert question["answers"] == [{"text": "six", "answer_start": 12}, {"text": "six hours", "answer_start": 12}]
    assert [question["is_impossible"] for question in fasting["paragraphs"][1]["qas"]] == [True, False]
    assert [question["id"] for question in value["fedqa"]["questions"]] == ["q2", "q3", "=q6", "q7"]


def test_a_format_that_is_not_written_is_told() -> None:
    with pytest.raises(ConfigError, match=r"unknown format to write 'sqad'; did you mean 'squad'\?"):
        written(TOY, "sqad")


def changed(folder: Path, change: Callable[[dict[str, str]], object]) -> Collection:
    """The toy's table after a person changed each of its rows."""
    rows = list(csv.DictReader(io.StringIO(written(TOY, "csv").decode("utf-8-sig"), newline="")))
    target = io.StringIO(newline="")
    writer = csv.DictWriter(target, list(rows[0]))
    writer.writeheader()
    for row in rows:
        change(row)
        writer.writerow(row)
    (folder / "x.csv").write_bytes(target.getvalue().encode())
    return read_format("csv", folder / "x.csv", {})


@pytest.mark.parametrize(
    ("id", "column", "value", "reason"),
    [
        ("q1", "answer_start", "11", "at 11 the document 'a' says ' si' but the evidence is 'six'"),
        ("q1", "answer_start", "", "evidence without answer_start"),
        ("q1", "answer_start", "-1", "answer_start is '-1', not a whole number"),
        ("q1", "document", "z", "there is no document 'z'"),
        ("q4", "check", "yes", "check is 'yes'"),
        ("q4", "split", "later", "unknown split 'later'"),
        ("q4", "about", "z", "there is no document 'z'"),
        ("q4", "id", "q3", "the example id 'q3' is already taken"),
        ("q1", "question", "", "no row with a question has the id 'q1'"),
    ],
)
def test_a_table_that_was_changed_wrongly_says_so_and_leaves_the_example_out(
    tmp_path: Path, id: str, column: str, value: str, reason: str
) -> None:
    found = changed(tmp_path, lambda row: row.update({column: value}) if row["id"] == id else None)
    assert reason in [problem.reason for problem in found.quarantine]
    assert id not in [example.id for example in found.examples]


def test_a_question_that_a_person_added_to_the_table_gets_an_id(tmp_path: Path) -> None:
    found = changed(tmp_path, lambda row: row.update({"id": ""}) if row["id"] == "q7" else None)
    assert found.quarantine == ()
    assert found.examples[-1].id.startswith("x-") and found.examples[-1].question == "Nobody knows?"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"evidence": [{"document": "a", "start": 11, "text": "six"}]}, "at 11 the document 'a' says ' si' but the"),
        ({"evidence": [{"document": "a", "start": -3, "text": "six"}]}, "at -3 the document 'a' says '' but the"),
        ({"evidence": [{"document": "a", "start": 12, "text": ""}]}, "at 12 the document 'a' says '' but the"),
        ({"evidence": [{"document": "z", "start": 12, "text": "six"}]}, "there is no document 'z'"),
        ({"evidence": ["six"]}, "an object was expected, found 'six'"),
        ({"answers": [6]}, "an answer is 6, not a text"),
        ({"check": "yes"}, "the field 'check' is 'yes', not true or false"),
        ({"split": "later"}, "unknown split 'later'"),
        ({"about": "z"}, "there is no document 'z'"),
        ({"key": "\ud800"}, "its key or SQL holds characters that no file can"),
    ],
)
def test_a_complete_example_that_is_wrong_is_quarantined(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    complete = {"id": "q", "question": "How long?", "evidence": [], "answers": []} | change
    lines = [{"document": {"id": "a", "text": "Nothing for six hours."}}, complete]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    found = read_format("jsonl", tmp_path / "x.jsonl", {})
    (problem,) = found.quarantine
    assert problem.reason.startswith(reason)
