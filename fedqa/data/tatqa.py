# SPDX-License-Identifier: Apache-2.0
"""TAT-QA, questions on financial reports: those answered from the text; tables and mixed questions are passed over.

A report's paragraphs, in their order and each on one line, are a document; the paragraphs a question rests on are its
evidence. Answers may be computed, so they need not stand in the text.
"""

from pathlib import Path

from fedqa.data.door import Door, Refused, field, fold, shown
from fedqa.data.files import find_files, read_json, split_of
from fedqa.data.records import Collection, Example, Span, Split
from fedqa.errors import DataError


def read(path: Path, *, encoding: str = "utf-8") -> Collection:
    """A file or a folder of `tatqa_dataset_*.json`."""
    door = Door()
    for file in find_files(path, ".json"):
        reports = read_json(file, encoding)
        if not isinstance(reports, list):
            raise DataError(f"{file} is not in TAT-QA's format: a list of reports was expected, got {shown(reports)}")
        for i, report in enumerate(reports):
            place = f"{file.name}: [{i}]"
            with door.record(place):
                _add_report(door, place, report, split_of(file))
    return door.collection(str(path))


def _add_report(door: Door, place: str, report: object, split: Split | None) -> None:
    id = field(field(report, "table", dict), "uid", str)
    paragraphs = _paragraphs(report)
    door.document(id, "\n\n".join(paragraphs.values()))
    spans = _spans(id, paragraphs)
    for i, asked in enumerate(field(report, "questions", list)):
        with door.record(f"{place}.questions[{i}]"):
            if field(asked, "answer_from", str) == "text":
                door.example(_example(asked, spans, split))


def _paragraphs(report: object) -> dict[str, str]:
    """Folded texts by number, without empty ones."""
    ordered = sorted(
        (field(paragraph, "order", int), field(paragraph, "text", str))
        for paragraph in field(report, "paragraphs", list)
    )
    return {str(order): fold(text) for order, text in ordered if text.strip()}


def _spans(document: str, paragraphs: dict[str, str]) -> dict[str, Span]:
    spans, start = {}, 0
    for order, text in paragraphs.items():
        spans[order] = Span(document, start, start + len(text))
        start += len(text) + len("\n\n")
    return spans


def _example(asked: object, spans: dict[str, Span], split: Split | None) -> Example:
    numbers = [str(number) for number in field(asked, "rel_paragraphs", list)]
    missing = [number for number in numbers if number not in spans]
    if missing or not numbers:
        reason = f"rel_paragraphs is {shown(numbers)}, the report has paragraphs {shown(list(spans))}"
        raise Refused(reason, "name paragraphs by their order")
    evidence = tuple(spans[number] for number in numbers)
    return Example(field(asked, "uid", str), field(asked, "question", str), evidence, _answers(asked), split=split)


def _answers(asked: object) -> tuple[str, ...]:
    assert isinstance(asked, dict)
    answer = asked.get("answer")
    texts = answer if isinstance(answer, list) else [answer]
    if not texts or not all(isinstance(text, str | int | float) for text in texts):
        raise Refused(f"the answer is {shown(answer)}", "write a text, a number or a list of texts")
    return tuple(map(str, texts))
