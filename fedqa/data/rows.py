# SPDX-License-Identifier: Apache-2.0
"""Rows of question and answer, the common ground of CSV, JSONL and the answer-selection sets.

A row with a context is a question about that text, its answer a span of it. A row without one makes its answer a
document: all right answers to the same question become the evidence of one example, so that the gold is complete.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fedqa.data.door import Door, Refused, shown, span_at, span_of, usable_question, whole
from fedqa.data.files import parse_split
from fedqa.data.records import Collection, Document, Example, Span, Split

COLUMNS = ("question", "answer", "context", "answer_start", "label", "id", "split", "key")
_RIGHT, _WRONG = ("", "1", "1.0", "true"), ("0", "0.0", "false")
_MAX_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `document` (an id) stands for the context where the source has documents of its own."""

    id: str
    question: str
    answer: str | None = None  # None: the documents do not answer it
    context: str = ""
    document: str = ""
    answer_start: int | None = None
    label: bool = True  # False: a wrong answer, a document but not gold
    split: Split | None = None
    key: str = ""
    title: str = ""


@dataclass
class _Asked:
    """A question and the right answers to it seen so far."""

    row: Row
    place: str
    evidence: list[Span] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)


class Rows:
    """Takes rows to the door. Examples are complete only at `collection`, when every row was seen."""

    def __init__(self) -> None:
        self.door = Door()
        self._asked: dict[tuple[str, str, Split | None], _Asked] = {}

    def add(self, row: Row) -> None:
        """Inside `door.record`: raises Refused."""
        question = usable_question(row.question)
        if row.context or row.document:
            self._add_span(row)
        elif row.answer is not None:
            self._add_answer(question, row.answer, row)
        else:
            self.door.example(_example(row, [], []))

    def collection(self, source: str, *, documents_alone: bool = False) -> Collection:
        for asked in self._asked.values():
            if asked.evidence:
                with self.door.record(asked.place):
                    self.door.example(_example(asked.row, asked.evidence, asked.answers))
        self._leave_out_without_gold(source)
        return self.door.collection(source, documents_alone=documents_alone)

    def _add_span(self, row: Row) -> None:
        known = self.door.known_document(row.document) if row.document else None
        document = known or self.door.same_text(row.context, row.title)
        if not row.label:
            return
        evidence = [] if row.answer is None else [_span(document, row.answer, row.answer_start)]
        answers = [document.text[span.start : span.end] for span in evidence]
        self.door.example(replace(_example(row, evidence, answers), about=document.id))

    def _add_answer(self, question: str, answer: str, row: Row) -> None:
        document = self.door.same_text(answer.strip(), row.title)
        asked = self._asked.setdefault((question, row.key, row.split), _Asked(row, self.door.place))
        if row.label:
            asked.evidence.append(whole(document))
            asked.answers.append(document.text)

    def _leave_out_without_gold(self, source: str) -> None:
        count = sum(not asked.evidence for asked in self._asked.values())
        if count:
            remedy = "label a right answer 1, or leave it so: the wrong answers are kept as documents"
            self.door.leave_out(source, f"questions with wrong answers only: {count}", remedy)


def row_from(values: Mapping[str, object], id: str, split: Split | None, no_answer: str = "") -> Row:
    """A row from values by column name (see COLUMNS); where there is no id or split of its own, those given."""
    context, document = _word(values, "context"), _word(values, "document").strip()
    answer = _word(values, "answer")
    if values.get("context") is not None and not (context.strip() or document):
        raise Refused("the context is empty", "write it, or leave the whole column out if answers are the documents")
    unanswered = answer.strip() == no_answer if no_answer else not answer.strip() and bool(context or document)
    return Row(
        id=_word(values, "id").strip() or id,
        question=_word(values, "question"),
        answer=None if unanswered else answer,
        context=context,
        document=document,
        answer_start=offset(values),
        label=_label(values),
        split=parse_split(_word(values, "split").strip()) or split,
        key=_word(values, "key").strip(),
    )


def offset(values: Mapping[str, object]) -> int | None:
    """The answer_start of a row, if it has one."""
    text = _word(values, "answer_start").strip()
    if not text:
        return None
    if not text.isdecimal() or len(text) > _MAX_DIGITS:
        raise Refused(f"answer_start is {shown(text)}, not a whole number", "count characters from 0")
    return int(text)


def _example(row: Row, evidence: list[Span], answers: list[str]) -> Example:
    return Example(row.id, row.question, tuple(evidence), tuple(answers), split=row.split, key=row.key)


def _span(document: Document, answer: str, start: int | None) -> Span:
    return span_of(document, answer) if start is None else span_at(document, start, answer)


def _word(values: Mapping[str, object], name: str) -> str:
    value = values.get(name)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise Refused(f"the field {name!r} is {shown(value)}, not a text", "write a text")
    return str(value)


def _label(values: Mapping[str, object]) -> bool:
    value = values.get("label")
    text = str(value).strip().lower() if value is not None else ""
    if text not in _RIGHT + _WRONG:
        raise Refused(f"the label is {shown(value)}", "write 1 for a right answer and 0 for a wrong one")
    return text in _RIGHT
