# SPDX-License-Identifier: Apache-2.0
"""SciTLDR: abstracts of papers, as lists of sentences, with one or more short summaries, in JSON lines.

An abstract is a document, the title of its paper the question about it, and the summaries are the answers. Some papers
stand in two splits, with other words: they are kept where they are needed most, in test before dev before train.
"""

from collections.abc import Sequence
from pathlib import Path

from fedqa.data.door import Door, Refused, field, fold, shown, usable_question, whole
from fedqa.data.files import find_files, json_lines, parse_line, split_of
from fedqa.data.records import Collection, Example, Split
from fedqa.data.splits import normalise

_ORDER: tuple[Split | None, ...] = ("test", "dev", "train", None)


def read(path: Path, *, encoding: str = "utf-8") -> Collection:
    """A file, or a folder of train.jsonl, dev.jsonl and test.jsonl. Examples have their paper's id."""
    door, known = Door(), dict[str, Split | None]()
    for file in sorted(find_files(path, ".jsonl"), key=lambda file: _ORDER.index(split_of(file))):
        for number, line in json_lines(file, encoding):
            with door.record(f"{file.name}:{number}"):
                _add(door, parse_line(line), split_of(file), known)
    return door.collection(str(path))


def _add(door: Door, paper: object, split: Split | None, known: dict[str, Split | None]) -> None:
    id, title = field(paper, "paper_id", str), usable_question(field(paper, "title", str))
    other = known.setdefault(normalise(title), split)
    if other != split:
        raise Refused(f"the paper {shown(title)} is in {other} already", "leave it in one of them")
    summaries = tuple(fold(one) for one in _texts(paper, "target"))
    document = door.document(id, fold(" ".join(_texts(paper, "source"))), title)
    door.example(Example(id, title, (whole(document),), summaries, split=split, about=document.id))


def _texts(paper: object, name: str) -> Sequence[str]:
    found = [one for one in field(paper, name, list) if isinstance(one, str) and one.strip()]
    if not found:
        raise Refused(f"the field {name!r} holds no text", "write a list of sentences")
    return found
