# SPDX-License-Identifier: Apache-2.0
"""Markdown notes: documents with the questions people ask about them, as an expert can write them in any editor.

# Title of the document

Paragraphs, separated by blank lines.

Q: A question?
A: the exact words of the document that answer it

Q: A question that the documents do not answer?
A: none
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fedqa.data.door import Door, Refused, fold, shown, slug, span_of
from fedqa.data.files import find_files, lines, read_text, split_of
from fedqa.data.records import Collection, Document, Example

_MARKER = re.compile(r"(# |Q:|A:)(.*)")


def read(path: Path, *, encoding: str = "utf-8") -> Collection:
    """A file or a folder of .md files; the key of a question is the name of its file."""
    door = Door()
    for file in find_files(path, ".md"):
        for note in _notes(door, file, read_text(file, encoding)):
            with door.record(f"{file.name}:{note.line}"):
                _add_note(door, file, note)
    return door.collection(str(path), documents_alone=True)


@dataclass
class _Block:
    kind: str  # "# ", "Q:", "A:", or "" for a paragraph
    line: int
    text: str


@dataclass
class _Asked:
    line: int
    question: str
    answers: list[str] = field(default_factory=list)


@dataclass
class _Note:
    line: int
    title: str
    paragraphs: list[str] = field(default_factory=list)
    asked: list[_Asked] = field(default_factory=list)


def _blocks(text: str) -> Iterator[_Block]:
    """Titles, questions, answers and paragraphs; lines that follow one without a blank line belong to it."""
    block: _Block | None = None
    for number, line in enumerate(lines(text), start=1):
        marker = _MARKER.match(line)
        if block and (marker or not line.strip() or block.kind == "# "):
            yield block
            block = None
        if marker:
            block = _Block(marker[1], number, marker[2])
        elif block:
            block.text += " " + line
        elif line.strip():
            block = _Block("", number, line)
    if block:
        yield block


def _notes(door: Door, file: Path, text: str) -> list[_Note]:
    notes: list[_Note] = []
    for block in _blocks(text):
        with door.record(f"{file.name}:{block.line}"):
            if block.kind == "# ":
                notes.append(_Note(block.line, fold(block.text)))
            elif not notes:
                raise Refused(f"{shown(block.text)} stands before the first title", "write a line '# Title' above it")
            else:
                _add_block(notes[-1], block)
    return notes


def _add_block(note: _Note, block: _Block) -> None:
    text = fold(block.text)
    if block.kind == "Q:":
        note.asked.append(_Asked(block.line, text))
    elif block.kind == "A:" and note.asked:
        note.asked[-1].answers.append(text)
    elif block.kind == "A:":
        raise Refused(f"the answer {shown(text)} has no question", "write a line 'Q: …' above it")
    else:
        note.paragraphs.append(text)


def _add_note(door: Door, file: Path, note: _Note) -> None:
    if not slug(note.title):
        raise Refused(f"the title {shown(note.title)} has no letters", "write a title after the #")
    document = door.document(f"{slug(file.stem)}/{slug(note.title)}", "\n\n".join(note.paragraphs), note.title)
    for number, asked in enumerate(note.asked, start=1):
        with door.record(f"{file.name}:{asked.line}"):
            door.example(_example(document, f"{document.id}/{number}", asked, file))


def _example(document: Document, id: str, asked: _Asked, file: Path) -> Example:
    unanswered = [answer.casefold() == "none" for answer in asked.answers]
    if not asked.answers or (any(unanswered) and len(unanswered) > 1):
        given = "no answer" if not asked.answers else f"the answers {shown(asked.answers)}"
        raise Refused(f"the question has {given}", "write 'A: ' and words of the document, or 'A: none' alone")
    spans = () if unanswered[0] else tuple(span_of(document, answer) for answer in asked.answers)
    answers = tuple(document.text[span.start : span.end] for span in spans)
    return Example(id, asked.question, spans, answers, split=split_of(file), key=file.stem, about=document.id)
