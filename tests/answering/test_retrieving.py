# SPDX-License-Identifier: Apache-2.0
"""Answers by sentence: an index that follows the silo's documents, and an assistant over it."""

from dataclasses import replace
from pathlib import Path

import pytest

from fedqa.answering.assistant import Assistant
from fedqa.answering.retrieving import Retrieving, dev_questions
from fedqa.config import course_of, sample_alliance
from fedqa.data.records import Collection, Document, Example, Span
from fedqa.models.backbones import load_backbone
from fedqa.models.retriever import Retriever
from fedqa.runs import Setting, build, read_silo, run_setting
from fedqa.skills.retrieve import Retrieve

BACKBONE = load_backbone("tiny")
DOCUMENTS = (
    Document("opening", "The library opens at nine. It closes at six on Fridays.\n\nBooks may be kept for four weeks."),
    Document("fees", "A lost book costs twenty francs. Late books cost nothing."),
)
QUESTION = Example("q", "What does a lost book cost?", (Span("fees", 0, 33),), split="train")
COLLECTION = Collection(DOCUMENTS, (QUESTION,))


def retrieving(folder: Path) -> Retrieving:
    skill = Retrieve()
    model = skill.build(BACKBONE, 0).module
    return Retrieving.of(skill, model, skill.prepare(COLLECTION, BACKBONE, 0), folder=folder)


def texts(finder: Retrieving, question: str, k: int = 9) -> list[str]:
    """What is found, best first, as the documents have it."""
    documents = {document.id: document.text for document in (*DOCUMENTS, ADDED)}
    return [documents[found.passage.document][found.start : found.end] for found in finder.find(question, k)]


ADDED = Document("dogs", "Dogs must wait outside. Guide dogs may come in.")


def test_every_sentence_is_found_with_the_passage_it_stands_in(tmp_path: Path) -> None:
    finder = retrieving(tmp_path).up_to_date(DOCUMENTS)
    assert sorted(texts(finder, "When does the library open?")) == [
        "A lost book costs twenty francs.",
        "Books may be kept for four weeks.",
        "It closes at six on Fridays.",
        "Late books cost nothing.",
        "The library opens at nine.",
    ]
    (found,) = finder.find("kept for four weeks", 1)
    assert found.passage.text == "Books may be kept for four weeks."


def test_a_document_that_is_added_is_found_and_one_that_is_removed_is_not_also_after_a_restart(tmp_path: Path) -> None:
    first = retrieving(tmp_path).up_to_date((*DOCUMENTS, ADDED))
    assert texts(first, "May guide dogs come in?", 1) == ["Guide dogs may come in."]
    first.index.close()
    again = retrieving(tmp_path).up_to_date((*DOCUMENTS, ADDED))
    assert texts(again, "May guide dogs come in?", 1) == ["Guide dogs may come in."]
    gone = again.up_to_date(DOCUMENTS)
    assert not [text for text in texts(gone, "May guide dogs come in?") if "dogs" in text]
    gone.index.close()
    assert retrieving(tmp_path).index.documents() == {"opening", "fees"}


def test_nothing_is_encoded_again_where_nothing_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    retrieving(tmp_path).up_to_date(DOCUMENTS).index.close()

    def fail(self: Retriever, texts: object) -> None:
        raise AssertionError("encoded again")

    monkeypatch.setattr(Retriever, "sentence_vectors", fail)
    retrieving(tmp_path).up_to_date(DOCUMENTS)


def test_dev_questions_have_all_their_evidence_together() -> None:
    spans = (Span("fees", 0, 5), Span("fees", 9, 12))
    examples = [Example(f"e{i}", "How much?", (span,), split="dev") for i, span in enumerate(spans)]
    examples += [Example("none", "Why?", (), split="dev"), replace(QUESTION, split="train")]
    found = dict(dev_questions(Collection(DOCUMENTS, tuple(examples))))
    assert found == {"How much?": list(spans), "Why?": []}


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    alliance = sample_alliance("zero_shot", model="embedded:1")
    entry = replace(alliance.silo[0], skill="retrieve")
    course = course_of(replace(alliance, silo=(entry,)))
    data = {entry.name: read_silo(entry.name, entry.silo_data(), Path(), course.seed)}
    made = build(course, data, tmp_path_factory.mktemp("run"))
    run_setting(made, processes=1)
    return made


def test_an_assistant_answers_with_a_sentence_and_its_offsets(setting: Setting) -> None:
    assistant = Assistant.of(setting.silos[0])
    answers = assistant.nearest("How long before surgery may I drink water?", k=3)
    assert len(answers) == 3
    assert answers[0].score >= answers[1].score >= answers[2].score
    document = assistant.documents[answers[0].document]
    assert document.text[answers[0].start : answers[0].end] == answers[0].evidence
    assert answers[0].evidence in answers[0].passage
    assert sum(answer.confidence for answer in answers) <= 1.0001
