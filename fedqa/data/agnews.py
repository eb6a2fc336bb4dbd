# SPDX-License-Identifier: Apache-2.0
"""AG's News: rows of class, title and description in CSV files without column names; the class is the answer.

Title and description together are the example's text. Names of classes are read from `classes.txt` beside the file, one
a line; where there is none, a class is named by its number. What the files lost is put back: the & of codes such as
&#39; became a space, and a new line a backslash.
"""

import csv
import html
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedqa.data.door import Door, Refused, fold, shown
from fedqa.data.files import find_files, lines, read_text, split_of
from fedqa.data.records import Collection, Example, Split

_CODE = re.compile(r" #(\d{2,4});")
_TAG = re.compile(r"</?[A-Za-z]+(?:\s[^>]*)?>")
_ENDED = (".", "!", "?", ":", '"', ")")


def read(path: Path, *, encoding: str = "utf-8") -> Collection:
    """A CSV file, or a folder of them; the class is also the key of an example."""
    door = Door()
    for file in find_files(path, ".csv"):
        names = _names(file.parent / "classes.txt", encoding)
        for line, row in _rows(door, file, encoding):
            with door.record(f"{file.name}:{line}"):
                door.example(_example(row, names, f"{file.stem}-{line}", split_of(file)))
    return door.collection(str(path))


def text_of(title: str, description: str) -> str:
    """Both as one text, as it was before it was put into a file."""
    title, description = (_mended(part) for part in (title, description))
    return fold(f"{title}{'' if not title or title.endswith(_ENDED) else '.'} {description}")


def _mended(text: str) -> str:
    return _TAG.sub(" ", html.unescape(_CODE.sub(r"&#\1;", text.replace("\\", " ")))).strip()


def _example(row: Sequence[str], names: Sequence[str], id: str, split: Split | None) -> Example:
    if len(row) != 3:
        raise Refused(f"the row has {len(row)} fields", "write class, title and description")
    number, title, description = row
    label = _label(number.strip(), names)
    return Example(id, text_of(title, description), answers=(label,), split=split, key=label)


def _label(number: str, names: Sequence[str]) -> str:
    if not (number.isdecimal() and 1 <= int(number) <= (len(names) or int(number))):
        most = f"1 to {len(names)}" if names else "a number from 1"
        raise Refused(f"the class is {shown(number)}", f"write {most}")
    return names[int(number) - 1] if names else number


def _names(file: Path, encoding: str) -> list[str]:
    return [fold(line) for line in lines(read_text(file, encoding)) if line.strip()] if file.is_file() else []


def _rows(door: Door, file: Path, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, each with the line it begins on; badly quoted ones stay out."""
    reader = csv.reader(io.StringIO(read_text(file, encoding), newline=""), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:
            door.leave_out(f"{file.name}:{line}", f"the row cannot be read: {problem}", "write it again as CSV")
        else:
            if row:
                yield line, row
