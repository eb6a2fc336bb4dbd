# SPDX-License-Identifier: Apache-2.0
"""What is said to a question, by whoever says it. Nothing heavy is imported here: a page is shown before models are."""

from dataclasses import dataclass

from fedqa.data.passages import Passage, passages
from fedqa.data.records import Document
from fedqa.errors import ConfigError
from fedqa.store import Store, StoredExample, UnknownId


@dataclass(frozen=True)
class Found:
    """A passage, and the sentence of it (characters `start` to `end` of the document) that speaks to the question."""

    passage: Passage
    score: float
    confidence: float
    start: int
    end: int
    answer: tuple[int, int] | None = None  # the exact words, where a model has read them; else the sentence answers


@dataclass(frozen=True)
class Answer:
    """A passage that answers, the sentence of it to look at first, the exact words, and how sure the model is."""

    document: str  # id
    title: str
    passage: str
    evidence: str  # characters `start` to `end` of the document
    start: int
    end: int
    score: float  # of the model; comparable within one question only
    confidence: float  # from 0 to 1, that the answer stands in the evidence, or in the passage if no model reads
    answer: str  # characters `answer_start` to `answer_end` of the document; the evidence if no model reads
    answer_start: int
    answer_end: int


@dataclass(frozen=True)
class Reply:
    """What a silo says to a question."""

    question: str
    answers: tuple[Answer, ...]  # best first; the nearest passages even when it is not answered
    answered: bool  # False: the documents do not seem to hold an answer; in a provisional reply, no word was found
    verified: StoredExample | None  # somebody here has given or corrected the answer to this question
    seconds: float
    model: str  # which models answered, in words for people
    provisional: bool = False  # found by keywords while the models are being loaded: nobody is sure, confidence is 0


def answer_of(found: Found, document: Document) -> Answer:
    """What was found, with the words that stand there."""
    start, end = found.answer or (found.start, found.end)
    return Answer(
        document=document.id,
        title=document.title,
        passage=found.passage.text,
        evidence=document.text[found.start : found.end],
        start=found.start,
        end=found.end,
        score=found.score,
        confidence=found.confidence,
        answer=document.text[start:end],
        answer_start=start,
        answer_end=end,
    )


def check_question(question: str, k: int) -> None:
    if not question.strip():
        raise ConfigError("the question is empty; ask something, in quotation marks")
    if k < 1:
        raise ConfigError(f"k must be at least 1 answer, got {k}")


def stored_document(store: Store, id: str) -> Document | None:
    """None if it has been removed."""
    try:
        return store.document(id).document
    except UnknownId:
        return None


def passage_at(document: Document, start: int) -> Passage | None:
    """The passage in which a character stands."""
    return next((part for part in passages(document) if part.start <= start < part.end), None)
