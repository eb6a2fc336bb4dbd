# SPDX-License-Identifier: Apache-2.0
"""Complete examples as rows of a table, for spreadsheets. A table with all of these columns is read so.

- A row with neither id nor question is a document: `document` is its id, `title` and `context` are its title and text.
- A row with a question begins an example. Further rows with its id and no question add to it.
- In each of them an `answer` is an accepted answer. If a `document` is named, there is evidence: the text `evidence`,
  or if that is empty the answer, which stands in the document at `answer_start`.

A spreadsheet runs a cell that begins with =, + and the like. Such a cell is written with an apostrophe before it, which
is taken off again when it is read.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from fedqa.data.complete import span_saying
from fedqa.data.door import Door, Refused, shown
from fedqa.data.files import parse_split
from fedqa.data.records import Document, Example, Span
from fedqa.data.rows import offset

COLUMNS = (
    "document",
    "title",
    "context",
    "id",
    "question",
    "answer",
    "answer_start",
    "evidence",
    "split",
    "key",
    "about",
    "sql",
    "check",
)
_CHECKED = {"": False, "0": False, "1": True}
_RUNS = "[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"  # the last four are wide forms of the first
_TO_MARK = re.compile(f"'*{_RUNS}")
_MARKED = re.compile(f"'+{_RUNS}")


def marked(cell: str) -> str:
    """A cell that no spreadsheet runs."""
    return f"'{cell}" if _TO_MARK.match(cell) else cell


def unmarked(cell: str) -> str:
    return cell[1:] if _MARKED.match(cell) else cell


def row_of_document(document: Document) -> dict[str, str]:
    return {"document": document.id, "title": document.title, "context": document.text}


def rows_of_example(example: Example, texts: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """`texts` are those of the documents, by id."""
    head = {
        "question": example.question,
        "split": example.split or "",
        "key": example.key,
        "about": example.about,
        "sql": example.sql,
        "check": "1" if example.check else "",
    }
    for k in range(max(len(example.evidence), len(example.answers), 1)):
        row = {"id": example.id, "answer": example.answers[k] if k < len(example.answers) else ""}
        if k < len(example.evidence):
            row |= _evidence(example.evidence[k], texts, row["answer"])
        yield row if k else row | head


def _evidence(span: Span, texts: Mapping[str, str], answer: str) -> dict[str, str]:
    text = texts[span.document][span.start : span.end]
    return {
        "document": span.document,
        "answer_start": str(span.start),
        "evidence": "" if text == answer else text,
    }


@dataclass
class _Draft:
    """An example of which more rows may come."""

    example: Example
    place: str
    evidence: list[Span] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)


class CompleteRows:
    """Takes complete rows to a door. Examples are complete only at `finish`, when every row was seen."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._drafts: dict[str, _Draft] = {}

    def add(self, row: Mapping[str, str], id: str) -> None:
        """Inside `door.record`: raises Refused. A refused row takes its whole example with it.

        `id` is that of a question that has none of its own.
        """
        cells = {column: unmarked(cell) for column, cell in row.items()}
        if not cells["id"] and not cells["question"]:
            self._door.document(cells["document"], cells["context"], cells["title"])
            return
        cells["id"] = cells["id"] or id
        draft = self._draft(cells)
        try:
            self._add_to(draft, cells)
        except Refused:
            del self._drafts[cells["id"]]
            raise

    def finish(self) -> None:
        for draft in self._drafts.values():
            with self._door.record(draft.place):
                evidence, answers = tuple(draft.evidence), tuple(draft.answers)
                self._door.example(replace(draft.example, evidence=evidence, answers=answers))
        self._drafts.clear()

    def _draft(self, cells: Mapping[str, str]) -> _Draft:
        id = cells["id"]
        if not cells["question"]:
            if id not in self._drafts:
                raise Refused(f"no row with a question has the id {shown(id)}", "put its question before it")
            return self._drafts[id]
        if id in self._drafts:
            raise Refused(f"the example id {shown(id)} is already taken", "leave the question out to add an answer")
        self._drafts[id] = _Draft(self._example(cells), self._door.place)
        return self._drafts[id]

    def _example(self, cells: Mapping[str, str]) -> Example:
        if cells["check"] not in _CHECKED:
            raise Refused(f"check is {shown(cells['check'])}", "write 1, or nothing")
        return Example(
            cells["id"],
            cells["question"],
            sql=cells["sql"],
            split=parse_split(cells["split"]),
            key=cells["key"],
            about=self._door.known_document(cells["about"]).id if cells["about"] else "",
            check=_CHECKED[cells["check"]],
        )

    def _add_to(self, draft: _Draft, cells: Mapping[str, str]) -> None:
        if cells["document"]:
            start = offset(cells)
            if start is None:
                raise Refused("evidence without answer_start", "count characters from 0")
            document = self._door.known_document(cells["document"])
            draft.evidence.append(span_saying(document, start, cells["evidence"] or cells["answer"]))
        if cells["answer"]:
            draft.answers.append(cells["answer"])
