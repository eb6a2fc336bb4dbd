# SPDX-License-Identifier: Apache-2.0
"""SQuAD's questions with the sentences that answer them: a folder of src-<part>.txt and tgt-<part>.txt.

Each line of `src` is a tokenised sentence in small letters, the same line of `tgt` the question it answers, in the
order of the articles. Brackets, quotes and punctuation are put back as people write them, and sentences begin with a
capital letter, so that they can be told apart again in running text: 98 of 100 are.

The files do not say where articles and paragraphs begin. Sentences that follow one another are therefore put into
documents of `sentences_per_document`, about a paragraph; and the file is cut, in order, into `topics` blocks of equal
numbers of questions, which are the keys of its questions. As articles follow one another, a block is a few articles.
A sentence that stands in several lines of a block is one sentence with several questions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from fedqa.data.door import Door, usable_question, usable_text
from fedqa.data.files import lines, read_text
from fedqa.data.records import Collection, Example, Span
from fedqa.errors import ConfigError, DataError

Part = Literal["dev", "test", "both"]
_OPENING = {"``": '"', "`": "'", "-lrb-": "(", "-lsb-": "[", "-lcb-": "{"}  # as the Penn Treebank writes them
_CLOSING = {"''": '"', "-rrb-": ")", "-rsb-": "]", "-rcb-": "}"} | {mark: mark for mark in ",.;:?!"}


@dataclass(frozen=True)
class _Line:
    place: str
    id: str
    sentence: str
    question: str


@dataclass
class _Block:
    """Lines of one topic: the different sentences in order, each with its questions."""

    key: str
    asked: dict[str, list[_Line]] = field(default_factory=dict)

    def add(self, line: _Line) -> None:
        self.asked.setdefault(line.sentence, []).append(line)


def read(
    path: Path,
    *,
    part: Part = "both",
    sentences_per_document: int = 5,
    topics: int = 10,
    encoding: str = "utf-8",
) -> Collection:
    """The parts are not splits: both have all of their questions split anew."""
    for name, value in (("sentences_per_document", sentences_per_document), ("topics", topics)):
        if value < 1:
            raise ConfigError(f"squad_sentences: {name} must be at least 1, got {value}")
    door = Door()
    for one in get_args(Part)[:2] if part == "both" else (part,):
        pairs = _pairs(path, one, encoding)
        for number in range(topics):
            first, last = (len(pairs) * edge // topics for edge in (number, number + 1))
            block = _Block(f"{one}-{number + 1:02}")
            for i in range(first, last):
                _add_line(door, block, one, i + 1, *pairs[i])
            _add_documents(door, block, sentences_per_document)
    return door.collection(str(path))


def _pairs(path: Path, part: str, encoding: str) -> list[tuple[str, str]]:
    if not path.is_dir():
        raise DataError(f"{path} is not a folder; name the one that holds src-{part}.txt and tgt-{part}.txt")
    files = [path / f"{side}-{part}.txt" for side in ("src", "tgt")]
    sentences, questions = (_lines(read_text(file, encoding)) for file in files)
    if len(sentences) != len(questions):
        raise DataError(
            f"{files[0]} has {len(sentences)} lines and {files[1].name} {len(questions)}: line by line they belong "
            "together; get both files from the same source"
        )
    return list(zip(sentences, questions, strict=True))


def _lines(text: str) -> list[str]:
    found = lines(text)
    return found if found[-1] else found[:-1]  # the last line, too, is ended


def _add_line(door: Door, block: _Block, part: str, number: int, sentence: str, question: str) -> None:
    with door.record(f"src-{part}.txt:{number}"):
        sentence = capitalised(plain(usable_text(sentence)))
        place = f"tgt-{part}.txt:{number}"
        with door.record(place):
            block.add(_Line(place, f"{part}-{number}", sentence, usable_question(plain(question))))


def _add_documents(door: Door, block: _Block, size: int) -> None:
    distinct = list(block.asked)
    for start in range(0, len(distinct), size):
        texts = distinct[start : start + size]
        id = f"{block.key}-{start // size + 1:04}"
        with door.record(block.asked[texts[0]][0].place):
            door.document(id, " ".join(texts))
            for span, text in zip(_spans(id, texts), texts, strict=True):
                for line in block.asked[text]:
                    door.example(Example(line.id, line.question, (span,), key=block.key, about=id))


def _spans(document: str, texts: Sequence[str]) -> Iterator[Span]:
    start = 0
    for text in texts:
        yield Span(document, start, start + len(text))
        start += len(text) + 1


def plain(text: str) -> str:
    """Tokens with brackets, quotes and punctuation as people write them, close to the words they belong to."""
    pieces: list[str] = []
    close = True  # whether the next token follows without a space
    for token in text.split():
        if not close and token not in _CLOSING:
            pieces.append(" ")
        pieces.append(_OPENING.get(token) or _CLOSING.get(token) or token)
        close = token in _OPENING
    return "".join(pieces)


def capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]
