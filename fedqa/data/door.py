# SPDX-License-Identifier: Apache-2.0
"""The door every record comes in by: checked once, here. One bad record is quarantined; it never stops a file.

Texts keep their length on the way in, because offsets point into them: control characters become spaces.
"""

import hashlib
import re
import reprlib
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from fedqa.data.records import Collection, Document, Example, Quarantined, Span
from fedqa.errors import DataError

MAX_QUESTION = 2_000  # characters
MAX_DOCUMENT = 1_000_000
MAX_SQL = 10_000
MAX_TITLE = 300
_SHOWN = 80

T = TypeVar("T")
_KINDS: dict[type, str] = {str: "a text", int: "a whole number", list: "a list", dict: "an object"}
_CONTROL = re.compile(r"[\x01-\x08\x0b-\x1f\x7f-\x9f]")
_UNUSABLE = re.compile(r"[\x00\ud800-\udfff]")
_JOINER = "\N{ZERO WIDTH JOINER}"


class Refused(Exception):
    """A record that stays outside. Caught by `Door.record`, never seen by users."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


class Door:
    """Collects the documents and examples of one source, and what was left out of it."""

    def __init__(self) -> None:
        self._documents: dict[str, Document] = {}
        self._by_text: dict[str, Document] = {}
        self._examples: dict[str, Example] = {}
        self._places: dict[str, str] = {}
        self._quarantine: list[Quarantined] = []
        self.place = ""  # of the record being read

    @contextmanager
    def record(self, place: str) -> Iterator[None]:
        """Whatever is refused inside is quarantined with this place; reading goes on after it."""
        outer, self.place = self.place, place
        try:
            yield
        except Refused as refused:
            self.leave_out(place, refused.reason, refused.remedy)
        finally:
            self.place = outer

    def leave_out(self, place: str, reason: str, remedy: str) -> None:
        self._quarantine.append(Quarantined(place, reason, remedy))

    def document(self, id: str, text: str, title: str = "") -> Document:
        """Take in a document; its id must be new."""
        text = usable_text(text)
        self._claim("document", id)
        document = Document(id, text, usable_title(title))
        self._documents[id] = document
        self._by_text.setdefault(text, document)
        return document

    def same_text(self, text: str, title: str = "") -> Document:
        """Take in a document known by its text alone: the same text again is the same document."""
        text = usable_text(text)
        known = self._by_text.get(text)
        if known:
            return known
        digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        return self.document("-".join(filter(None, (slug(title), digest))), text, title)

    def known_document(self, id: str) -> Document:
        if id not in self._documents:
            raise Refused(f"there is no document {shown(id)}", "put the document before the questions about it")
        return self._documents[id]

    def example(self, example: Example) -> None:
        """Take in an example; its id must be new and its evidence must stand in documents already taken in."""
        question = usable_question(example.question)
        answers = tuple(dict.fromkeys(map(usable_answer, example.answers)))
        for span in example.evidence:
            assert 0 <= span.start < span.end <= len(self._documents[span.document].text)
        if not (storable(example.key) and storable(example.sql)):
            raise Refused("its key or SQL holds characters that no file can", "write the file again as UTF-8")
        self._claim("example", example.id)
        evidence = tuple(dict.fromkeys(example.evidence))
        self._examples[example.id] = replace(example, question=question, answers=answers, evidence=evidence)

    def collection(self, source: str, *, documents_alone: bool = False) -> Collection:
        """All that came in. A source without a usable question is an error unless it may hold documents alone."""
        if not self._examples and not (documents_alone and self._documents):
            raise DataError(f"{source} holds no usable question; {self._first_problem()}")
        return Collection(tuple(self._documents.values()), tuple(self._examples.values()), tuple(self._quarantine))

    def _claim(self, kind: str, id: str) -> None:
        if not id.strip():
            raise Refused(f"the {kind} has an empty id", "give it an id, or leave the id out to have one made")
        if not storable(id):
            raise Refused(f"the id {shown(id)} holds characters that no file can", "give it another id")
        place = self._places.setdefault(f"{kind} {id}", self.place)
        if id in (self._documents if kind == "document" else self._examples):
            raise Refused(f"the {kind} id {shown(id)} is already taken at {place}", "give each its own id")

    def _first_problem(self) -> str:
        if not self._quarantine:
            return "it is empty: check the path, or that the file was written completely"
        first, many = self._quarantine[0], len(self._quarantine)
        records = "one record was" if many == 1 else f"{many} records were"
        return f"{records} left out, the first at {first.place}: {first.reason} ({first.remedy})"


def span_at(document: Document, start: int, answer: str) -> Span:
    """The span of an answer whose offset is given. The offset must be right: nothing is shifted silently."""
    answer = usable_answer(answer)
    end = start + len(answer)
    found = document.text[start:end] if start >= 0 else ""
    if found != answer:
        reason = f"answer_start {start} points to {shown(found)} but the answer is {shown(answer)}"
        raise Refused(reason, _right_offset(document.text, start, answer))
    return _whole(document, Span(document.id, start, end))


def span_of(document: Document, answer: str) -> Span:
    """The span of an answer that stands in exactly one place; whole words are preferred to parts of words."""
    answer = usable_answer(answer).strip()
    starts = occurrences(document.text, answer)
    if not starts:
        raise Refused(f"the answer {shown(answer)} is not in the text", "copy the answer from the text exactly")
    if len(starts) > 1:
        reason = f"the answer {shown(answer)} stands in {len(starts)} places"
        raise Refused(reason, "make the answer longer until it stands in one place, or give its answer_start")
    return _whole(document, Span(document.id, starts[0], starts[0] + len(answer)))


def occurrences(text: str, answer: str) -> list[int]:
    """Where `answer` stands as whole words; if nowhere, where it stands at all."""
    pattern = re.escape(answer)
    for bounded in (rf"(?<!\w)(?={pattern}(?!\w))", rf"(?={pattern})"):
        starts = [match.start() for match in re.finditer(bounded, text)]
        if starts:
            return starts
    return []


def whole(document: Document) -> Span:
    """The evidence that is all of a document."""
    return Span(document.id, 0, len(document.text))


def usable_text(text: str) -> str:
    """A document's text: not empty, not too long, control characters replaced one for one."""
    text = _printable(text, "text")
    if not text.strip():
        raise Refused("the text is empty", "add the text or remove the record")
    if len(text) > MAX_DOCUMENT:
        reason = f"the text {shown(text)} has {len(text):,} characters; at most {MAX_DOCUMENT:,} are taken"
        raise Refused(reason, "split it into several documents, or look for a quotation mark that is never closed")
    return text


def usable_question(text: str) -> str:
    """A question on one line."""
    question = fold(_printable(text, "question"))
    if not question:
        raise Refused("the question is empty", "write the question or remove the record")
    if len(question) > MAX_QUESTION:
        reason = f"the question {shown(question)} has {len(question):,} characters; at most {MAX_QUESTION:,} are taken"
        raise Refused(reason, "shorten it, or check that the columns are not mixed up")
    return question


def usable_sql(text: str) -> str:
    """A query as it is written, without white space around it."""
    sql = text.strip()
    if not sql or not storable(sql) or len(sql) > MAX_SQL:
        reason = f"the SQL {shown(sql)} is empty, holds characters that no file can, or has over {MAX_SQL:,} characters"
        raise Refused(reason, "write one query")
    return sql


def usable_answer(text: str) -> str:
    text = _printable(text, "answer")
    if not text.strip():
        raise Refused("an answer is empty", "write the answer, or leave it out if the documents do not answer")
    return text


def usable_title(text: str) -> str:
    return fold(_printable(text, "title"))[:MAX_TITLE].rstrip()


def storable(text: str) -> bool:
    """Whether every file and database can hold it: no NUL, no half of a surrogate pair."""
    return not _UNUSABLE.search(text)


def fold(text: str) -> str:
    """All white space to single spaces."""
    return " ".join(text.split())


def field(record: object, name: str, kind: type[T]) -> T:
    """A field of a JSON object that must be there and of this kind."""
    if not isinstance(record, dict):
        raise Refused(f"an object was expected, found {shown(record)}", f"write an object with the field {name!r}")
    if name not in record:
        found = ", ".join(map(str, record)) or "none"
        raise Refused(f"the field {name!r} is missing", f"add it (fields found: {shorten(found)})")
    value = record[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise Refused(f"the field {name!r} is {shown(value)}, not {_KINDS[kind]}", f"write {_KINDS[kind]}")
    return value


def shown(value: object) -> str:
    """A value for a message: as written in Python, on one line, cut to about 80 characters."""
    return repr(shorten(value)) if isinstance(value, str) else shorten(reprlib.repr(value))


def shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def slug(text: str, length: int = 60) -> str:
    """Letters and digits of any script in lower case, joined by hyphens."""
    return re.sub(r"[\W_]+", "-", text.casefold())[:length].strip("-")


def _printable(text: str, what: str) -> str:
    bad = _UNUSABLE.search(text)
    if bad:
        name = "a NUL character" if bad[0] == "\0" else f"half of a surrogate pair (\\u{ord(bad[0]):04x})"
        remedy = "write the file again as UTF-8; binary data is not taken"
        raise Refused(f"the {what} holds {name} at character {bad.start()}", remedy)
    return _CONTROL.sub(" ", text)


def _whole(document: Document, span: Span) -> Span:
    for offset in (span.start, span.end):
        if _cuts_character(document.text, offset):
            around = document.text[max(0, offset - 8) : offset + 4]
            reason = f"the span {span.start} to {span.end} cuts a character in two, in {shown(around)}"
            raise Refused(reason, "move it to include all combining marks and parts of the emoji, or none")
    return span


def _cuts_character(text: str, offset: int) -> bool:
    if not 0 < offset < len(text):
        return False
    before, after = text[offset - 1], text[offset]
    skin_tone = "\U0001f3fb" <= after <= "\U0001f3ff"
    return unicodedata.category(after).startswith("M") or skin_tone or _JOINER in (before, after)


def _right_offset(text: str, start: int, answer: str) -> str:
    # Offsets written by JavaScript or Java count UTF-16 units, those of some scripts bytes: tell, but do not guess.
    for encoding, unit, name in (("utf-16-le", 2, "UTF-16 units"), ("utf-8", 1, "bytes")):
        before = text.encode(encoding)[: max(0, start) * unit].decode(encoding, "ignore")
        if len(before) != start and text.startswith(answer, len(before)):
            return f"set answer_start to {len(before)}: this file counts {name}, offsets here count characters"
    starts = occurrences(text, answer)
    if len(starts) == 1:
        return f"set answer_start to {starts[0]}"
    if starts:
        return f"set answer_start to one of {shorten(', '.join(map(str, starts)))}"
    return "copy the answer from the text exactly"
