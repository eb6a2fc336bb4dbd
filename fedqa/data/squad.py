# SPDX-License-Identifier: Apache-2.0
"""SQuAD 1.1 and 2.0 (also PolicyQA, XQuAD and other sets in this format): a JSON file or a folder of them."""

from pathlib import Path

from fedqa.data.door import Door, Refused, field, shown, span_at
from fedqa.data.files import find_files, read_json, split_of
from fedqa.data.records import Collection, Document, Example, Span, Split
from fedqa.errors import DataError


def read(path: Path, *, encoding: str = "utf-8") -> Collection:
    """Each paragraph's context is a document; the key of a question is its article's title."""
    door = Door()
    for file in find_files(path, ".json"):
        for i, article in enumerate(_articles(file, encoding)):
            place = f"{file.name}: data[{i}]"
            with door.record(place):
                _add_article(door, place, article, split_of(file))
    return door.collection(str(path))


def _articles(file: Path, encoding: str) -> list[object]:
    value = read_json(file, encoding)
    articles = value.get("data") if isinstance(value, dict) else None
    if not isinstance(articles, list):
        raise DataError(
            f"{file} is not in SQuAD's format: an object with a list 'data' was expected, got {shown(value)}"
        )
    return articles


def _add_article(door: Door, place: str, article: object, split: Split | None) -> None:
    title = field(article, "title", str) if isinstance(article, dict) and "title" in article else ""
    for i, paragraph in enumerate(field(article, "paragraphs", list)):
        inner = f"{place}.paragraphs[{i}]"
        with door.record(inner):
            document = door.same_text(field(paragraph, "context", str), title)
            for j, asked in enumerate(field(paragraph, "qas", list)):
                with door.record(f"{inner}.qas[{j}]"):
                    door.example(_example(document, asked, title, split))


def _example(document: Document, asked: object, title: str, split: Split | None) -> Example:
    id, question = _id(asked), field(asked, "question", str)
    given = field(asked, "answers", list)
    if given and isinstance(asked, dict) and asked.get("is_impossible") is True:
        raise Refused("is_impossible is true but there are answers", "remove the answers or set it to false")
    spans = tuple(_span(document, answer) for answer in given)
    answers = tuple(document.text[span.start : span.end] for span in spans)
    return Example(id, question, spans, answers, split=split, key=title, about=document.id)


def _id(asked: object) -> str:
    id = asked.get("id") if isinstance(asked, dict) else None
    return str(id) if isinstance(id, int) else field(asked, "id", str)


def _span(document: Document, answer: object) -> Span:
    return span_at(document, field(answer, "answer_start", int), field(answer, "text", str))
