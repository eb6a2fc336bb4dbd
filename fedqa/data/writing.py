# SPDX-License-Identifier: Apache-2.0
"""Collections as files that fedqa's own readers read back equal, and other programs as far as they can.

A collection here is one that a reader or the store gave: its records have passed the door. SQuAD groups questions by
document, so the order of examples is lost there; JSON lines and CSV keep it too. What was quarantined is not written.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby

from fedqa.data.complete import to_plain
from fedqa.data.complete_rows import COLUMNS, marked, row_of_document, rows_of_example
from fedqa.data.door import Refused, span_at
from fedqa.data.records import Collection, Document, Example
from fedqa.errors import ConfigError, unknown


@dataclass(frozen=True)
class FileFormat:
    """A format that collections are written in; its name is that of the reader."""

    name: str
    suffix: str
    media_type: str
    to_bytes: Callable[[Collection], bytes]


def written(collection: Collection, format: str) -> bytes:
    """The content of a file in this format, one of WRITTEN."""
    if format not in WRITTEN:
        raise ConfigError(unknown("format to write", format, WRITTEN))
    return WRITTEN[format].to_bytes(collection)


def to_jsonl(collection: Collection) -> bytes:
    """Documents first, then complete examples."""
    texts = _texts(collection)
    documents = ({"document": {"id": d.id, "title": d.title, "text": d.text}} for d in collection.documents)
    examples = (to_plain(example, texts) for example in collection.examples)
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (*documents, *examples)).encode()


def to_csv(collection: Collection) -> bytes:
    """Complete rows, all in quotation marks, in UTF-8 with the mark by which spreadsheets know it."""
    texts = _texts(collection)
    target = io.StringIO(newline="")
    writer = csv.DictWriter(target, COLUMNS, restval="", quoting=csv.QUOTE_ALL)
    writer.writeheader()
    for document in collection.documents:
        writer.writerow(_marked(row_of_document(document)))
    for example in collection.examples:
        writer.writerows(map(_marked, rows_of_example(example, texts)))
    return target.getvalue().encode("utf-8-sig")


def to_squad(collection: Collection) -> bytes:
    """SQuAD 2.0, with fedqa's own objects for what it cannot say (see `fedqa.data.squad`)."""
    texts = _texts(collection)
    asked: dict[str, list[Example]] = {document.id: [] for document in collection.documents}
    others: list[Example] = []
    for example in collection.examples:
        place = _paragraph_of(example, texts)
        (asked[place] if place else others).append(example)
    articles = [
        {"title": title, "paragraphs": [_paragraph(document, asked[document.id]) for document in documents]}
        for title, documents in groupby(collection.documents, key=lambda document: document.title)
    ]
    own = {"questions": [to_plain(example, texts) for example in others]}
    return json.dumps({"version": "v2.0", "data": articles, "fedqa": own}, ensure_ascii=False, indent=1).encode()


WRITTEN: dict[str, FileFormat] = {
    format.name: format
    for format in (
        FileFormat("csv", ".csv", "text/csv; charset=utf-8", to_csv),
        FileFormat("jsonl", ".jsonl", "application/x-ndjson", to_jsonl),
        FileFormat("squad", ".json", "application/json", to_squad),
    )
}


def _texts(collection: Collection) -> dict[str, str]:
    return {document.id: document.text for document in collection.documents}


def _marked(row: dict[str, str]) -> dict[str, str]:
    return {column: marked(cell) for column, cell in row.items()}


def _paragraph_of(example: Example, texts: dict[str, str]) -> str:
    """The id of the document under which SQuAD can tell all of the example; empty if there is none."""
    if example.sql or len(example.documents) != 1:
        return ""
    (id,) = example.documents
    document = Document(id, texts[id])
    spoken = [texts[id][span.start : span.end] for span in example.evidence]
    try:
        for span, text in zip(example.evidence, spoken, strict=True):
            span_at(document, span.start, text)
    except Refused:
        return ""
    return id if tuple(dict.fromkeys(spoken)) == example.answers else ""


def _paragraph(document: Document, examples: Iterable[Example]) -> dict[str, object]:
    questions = [_question(document, example) for example in examples]
    return {"context": document.text, "qas": questions, "fedqa": {"document": document.id}}


def _question(document: Document, example: Example) -> dict[str, object]:
    answers = [{"text": document.text[span.start : span.end], "answer_start": span.start} for span in example.evidence]
    own = {
        "split": example.split or "",
        "key": example.key,
        "about": bool(example.about),
        "check": example.check,
    }
    return {
        "id": example.id,
        "question": example.question,
        "answers": answers,
        "is_impossible": not answers,
        "fedqa": own,
    }
