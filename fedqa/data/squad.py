# SPDX-License-Identifier: Apache-2.0
"""SQuAD 1.1 and 2.0 (also PolicyQA, XQuAD and other sets in this format): a JSON file or a folder of them.

What the format has no place for stands in objects named "fedqa", which other programs pass over: of a paragraph its
{"document": id}; of a question {"split": …, "key": …, "check": …, "about": false}, the last if it was not asked about
this paragraph; of the file {"questions": […]}, complete examples (`fedqa.data.complete`) that belong to no paragraph.
"""

from pathlib import Path

from fedqa.data.complete import flag_or, from_plain, text_or
from fedqa.data.door import Door, Refused, field, shown, span_at
from fedqa.data.files import find_files, parse_split, read_json, split_of
from fedqa.data.records import Collection, Document, Example, Span, Split
from fedqa.errors import DataError


def read(path: Path, *, encoding: str = "utf-8") -> Collection:
    """Each paragraph's context is a document; the key of a question is its article's title."""
    door, documents_alone = Door(), False
    for file in find_files(path, ".json"):
        value = _checked(file, read_json(file, encoding))
        for i, article in enumerate(field(value, "data", list)):
            place = f"{file.name}: data[{i}]"
            with door.record(place):
                _add_article(door, place, article, split_of(file))
        documents_alone |= bool(_own(value))
        for i, question in enumerate(_questions(value)):
            with door.record(f"{file.name}: fedqa.questions[{i}]"):
                door.example(from_plain(door, question))
    return door.collection(str(path), documents_alone=documents_alone)


def _checked(file: Path, value: object) -> object:
    if not isinstance(value, dict) or not isinstance(value.get("data"), list):
        raise DataError(
            f"{file} is not in SQuAD's format: an object with a list 'data' was expected, got {shown(value)}"
        )
    return value


def _questions(value: object) -> list[object]:
    questions = _own(value).get("questions", [])
    return questions if isinstance(questions, list) else []


def _own(value: object) -> dict[str, object]:
    """What stands there for fedqa alone."""
    own = value.get("fedqa") if isinstance(value, dict) else None
    return own if isinstance(own, dict) else {}


def _add_article(door: Door, place: str, article: object, split: Split | None) -> None:
    title = field(article, "title", str) if isinstance(article, dict) and "title" in article else ""
    for i, paragraph in enumerate(field(article, "paragraphs", list)):
        inner = f"{place}.paragraphs[{i}]"
        with door.record(inner):
            document = _document(door, paragraph, title)
            for j, asked in enumerate(field(paragraph, "qas", list)):
                with door.record(f"{inner}.qas[{j}]"):
                    door.example(_example(document, asked, title, split))


def _document(door: Door, paragraph: object, title: str) -> Document:
    text, id = field(paragraph, "context", str), text_or(_own(paragraph), "document", "")
    return door.document(id, text, title) if id else door.same_text(text, title)


def _example(document: Document, asked: object, title: str, split: Split | None) -> Example:
    id, question = _id(asked), field(asked, "question", str)
    given = field(asked, "answers", list)
    if given and isinstance(asked, dict) and asked.get("is_impossible") is True:
        raise Refused("is_impossible is true but there are answers", "remove the answers or set it to false")
    spans = tuple(_span(document, answer) for answer in given)
    answers = tuple(document.text[span.start : span.end] for span in spans)
    own = _own(asked)
    return Example(
        id,
        question,
        spans,
        answers,
        split=parse_split(text_or(own, "split", "")) if "split" in own else split,
        key=text_or(own, "key", title),
        about=document.id if flag_or(own, "about", True) else "",
        check=flag_or(own, "check", False),
    )


def _id(asked: object) -> str:
    id = asked.get("id") if isinstance(asked, dict) else None
    return str(id) if isinstance(id, int) else field(asked, "id", str)


def _span(document: Document, answer: object) -> Span:
    return span_at(document, field(answer, "answer_start", int), field(answer, "text", str))
