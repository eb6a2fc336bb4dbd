# SPDX-License-Identifier: Apache-2.0
"""Complete examples as plain JSON objects: all evidence, all answers, and everything else an example knows.

{"id": "q1", "question": "How long?", "evidence": [{"document": "leaflet-3", "start": 12, "text": "six hours"}],
 "answers": ["six hours"], "split": "train", "key": "", "about": "leaflet-3", "sql": "", "check": false}

Evidence says the text it means, so that an offset that is wrong shows. Only id, question, evidence and answers must be
there. An empty split means none, whatever the file is called.
"""

from collections.abc import Mapping

from fedqa.data.door import Door, Refused, field, shown
from fedqa.data.files import parse_split
from fedqa.data.records import Document, Example, Span


def is_complete(value: object) -> bool:
    """Whether this is a complete example, and not a row with one answer."""
    return isinstance(value, dict) and all(isinstance(value.get(name), list) for name in ("evidence", "answers"))


def to_plain(example: Example, texts: Mapping[str, str]) -> dict[str, object]:
    """`texts` are those of the documents, by id."""
    evidence = [
        {"document": span.document, "start": span.start, "text": texts[span.document][span.start : span.end]}
        for span in example.evidence
    ]
    return {
        "id": example.id,
        "question": example.question,
        "evidence": evidence,
        "answers": list(example.answers),
        "split": example.split or "",
        "key": example.key,
        "about": example.about,
        "sql": example.sql,
        "check": example.check,
    }


def from_plain(door: Door, value: object) -> Example:
    """Inside `door.record`, after the documents it rests on. Raises Refused."""
    evidence = tuple(_span(door, item) for item in field(value, "evidence", list))
    answers = tuple(_text(answer) for answer in field(value, "answers", list))
    about = text_or(value, "about", "")
    return Example(
        field(value, "id", str),
        field(value, "question", str),
        evidence,
        answers,
        sql=text_or(value, "sql", ""),
        split=parse_split(text_or(value, "split", "")),
        key=text_or(value, "key", ""),
        about=door.known_document(about).id if about else "",
        check=flag_or(value, "check", False),
    )


def span_saying(document: Document, start: int, text: str) -> Span:
    """The span at `start`, which must say `text`."""
    end = start + len(text)
    if not text or start < 0 or document.text[start:end] != text:
        found = document.text[max(0, start) : max(0, end)]
        reason = f"at {start} the document {shown(document.id)} says {shown(found)} but the evidence is {shown(text)}"
        raise Refused(reason, "copy the evidence from the text exactly and count characters from 0")
    return Span(document.id, start, end)


def text_or(value: object, name: str, default: str) -> str:
    """A text that may be left out."""
    return field(value, name, str) if isinstance(value, dict) and name in value else default


def flag_or(value: object, name: str, default: bool) -> bool:
    """A true or false that may be left out."""
    found = value.get(name, default) if isinstance(value, dict) else default
    if not isinstance(found, bool):
        raise Refused(f"the field {name!r} is {shown(found)}, not true or false", "write true or false")
    return found


def _span(door: Door, value: object) -> Span:
    document = door.known_document(field(value, "document", str))
    return span_saying(document, field(value, "start", int), field(value, "text", str))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise Refused(f"an answer is {shown(value)}, not a text", "write a text")
    return value
