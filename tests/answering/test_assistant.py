# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from toy_alliance import ALLIANCE, rows, write_alliance
from toy_silo import learning

from fedqa.answering.assistant import Assistant
from fedqa.answering.matching import Matching
from fedqa.config import load_project, project_of, sample_alliance
from fedqa.errors import ConfigError, RunError
from fedqa.runs import train


@pytest.fixture(scope="module")
def assistant(tmp_path_factory: pytest.TempPathFactory) -> Assistant:
    """The sample law firm with the embedded model as it comes."""
    settings = {"silo": [{"name": "law", "data": {"sample": "law"}}], "evaluation": {"every": 0}}
    run = tmp_path_factory.mktemp("runs") / "law"
    train(project_of(sample_alliance("zero_shot", **settings)), run)
    return Assistant.open(run, "law")


def test_the_answer_stands_in_the_right_document(assistant: Assistant) -> None:
    answers = assistant.ask("How much money do you want on account before you start?", k=2)
    assert len(answers) == 2
    assert answers[0].title.startswith("Engagement letter, section 4")
    assert "£1,500 on account" in answers[0].evidence


def test_evidence_is_a_sentence_at_its_offsets(assistant: Assistant) -> None:
    for answer in assistant.nearest("Which words in a company's name need permission?", k=5):
        assert answer.evidence in answer.passage
        document = assistant.documents[answer.document]
        assert document.text[answer.start : answer.end] == answer.evidence
        assert document.title == answer.title


def test_answers_come_surest_first(assistant: Assistant) -> None:
    answers = assistant.nearest("What is the notice period?", k=12)
    assert len(answers) == 12
    scores = [answer.score for answer in answers]
    assert scores == sorted(scores, reverse=True)
    confidences = [answer.confidence for answer in answers]
    assert confidences == sorted(confidences, reverse=True)
    assert 0 < sum(confidences) <= 1
    assert confidences[10:] == [0.0, 0.0]  # beyond the candidates


def test_what_the_documents_do_not_answer_is_not_answered(assistant: Assistant) -> None:
    assert assistant.threshold > 0
    assert assistant.ask("What is the capital of France?") == []
    nearest = assistant.nearest("What is the capital of France?")
    assert len(nearest) == 3 and nearest[0].confidence < assistant.threshold


def test_more_answers_than_passages_are_all_passages(assistant: Assistant) -> None:
    assert isinstance(assistant.finder, Matching)
    passages = assistant.finder.features.passages
    assert len(assistant.nearest("Fees?", k=len(passages) + 10)) == len(passages)


def test_the_confidence_rests_on_the_dev_questions(assistant: Assistant) -> None:
    assert assistant.finder.confidence.questions == 7


@pytest.mark.parametrize(("question", "k", "message"), [(" \n", 1, "the question is empty"), ("Why?", 0, "at least 1")])
def test_questions_that_cannot_be_asked(assistant: Assistant, question: str, k: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        assistant.ask(question, k)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    alliance = write_alliance(tmp_path_factory.mktemp("alliance"))
    train(load_project(alliance, ["local.learning_rate=1e-2"]), alliance.parent / "run", processes=1)
    return alliance.parent / "run"


def test_points_are_different_models(run: Path) -> None:
    question = "When does the market open in Northam?"
    received, personal = (
        Assistant.open(run, "north", point).nearest(question, 20) for point in ("received", "personal")
    )
    assert {a.document for a in received} == {a.document for a in personal}
    assert [a.score for a in received] != [a.score for a in personal]


def test_the_same_question_gets_the_same_answer(run: Path) -> None:
    first, second = (Assistant.open(run, "south").nearest("What does the pool cost?") for _ in range(2))
    assert first == second


def test_a_silo_answers_from_its_own_documents_only(run: Path) -> None:
    answers = Assistant.open(run, "south").nearest("When does the gate open in Northam?", 20)
    assert all("Southby" in answer.passage for answer in answers)


def test_unknown_silos_and_runs_are_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"unknown silo 'nord' in .*known: north, south"):
        Assistant.open(run, "nord")
    with pytest.raises(RunError, match="does not exist; give the folder that `fedqa train --out` was given"):
        Assistant.open(tmp_path / "nothing", "north")


def test_a_silo_that_has_learnt_to_read_answers_with_exact_words(tmp_path: Path) -> None:
    alliance = write_alliance(tmp_path, learning("read", ALLIANCE))
    train(load_project(alliance, ["local.learning_rate=1e-2", "rounds=1"]), tmp_path / "run", processes=1)
    assistant = Assistant.open(tmp_path / "run", "north")
    answers = assistant.nearest(rows("Northam")[0][0])
    assert answers[0].passage == rows("Northam")[0][1]  # found by the embedded model
    for answer in answers:
        text = assistant.documents[answer.document].text
        assert text[answer.answer_start : answer.answer_end] == answer.answer
        assert answer.answer in answer.evidence
    again = Assistant.open(tmp_path / "run", "north")  # from the index on disk
    assert again.nearest(rows("Northam")[0][0]) == answers
