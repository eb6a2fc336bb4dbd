# SPDX-License-Identifier: Apache-2.0
"""Finding, decoding and parsing the files of a data set. What makes a file unusable as a whole is an error here."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from fedqa.data.door import Refused, shorten
from fedqa.data.records import Split
from fedqa.errors import ConfigError, DataError

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_SPLIT_NAMES: dict[str, Split] = {
    "train": "train",
    "training": "train",
    "dev": "dev",
    "val": "dev",
    "valid": "dev",
    "validation": "dev",
    "test": "test",
}
_STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity', re.DOTALL)


def find_files(path: Path, *suffixes: str) -> list[Path]:
    """The file itself, or the files of a folder (not of its subfolders) that end so, in sorted order."""
    if not path.is_dir():
        return [path]
    names = sorted(entry.name for entry in path.iterdir() if not entry.name.startswith("."))
    files = [path / name for name in names if name.lower().endswith(suffixes) and (path / name).is_file()]
    if not files:
        found = shorten(", ".join(names)) or "nothing"
        wanted = " or ".join(suffixes)
        raise DataError(f"the folder {path} holds no file that ends in {wanted} (found: {found}); name another path")
    return files


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise DataError(f"{path} cannot be read: {problem.strerror}; name a file that you may read") from None


def read_text(path: Path, encoding: str) -> str:
    """The text of a file that is not empty; a byte order mark is dropped."""
    text = decode(read_bytes(path), encoding, str(path))
    if not text.strip():
        raise DataError(f"{path} is empty; check that it was written completely")
    return text


def decode(data: bytes, encoding: str, place: str) -> str:
    """Bytes to text, or an error that names the first byte that does not fit."""
    try:
        return data.removeprefix(_BOM).decode(encoding)
    except LookupError:
        raise ConfigError(f'unknown encoding {encoding!r} for {place}; "utf-8" and "latin-1" are common') from None
    except UnicodeDecodeError as problem:
        offset = problem.start + (len(_BOM) if data.startswith(_BOM) else 0)
        line = data.count(b"\n", 0, offset) + 1
        better = "utf-16" if data.startswith(_UTF16_BOMS) else "latin-1"
        raise DataError(
            f"{place} is not {encoding}: byte 0x{data[offset]:02x} at offset {offset} (line {line}); "
            f'pass encoding = "{better}", or save the file as UTF-8'
        ) from None


def read_json(path: Path, encoding: str) -> object:
    """The value of a JSON file."""
    try:
        return parse_json(read_text(path, encoding))
    except ValueError as problem:
        raise DataError(f"{path} is not JSON: {problem}; check that the file was written completely") from None


def parse_json(text: str) -> object:
    """The value of a JSON text. Raises a ValueError that says what is wrong and where."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as problem:
        raise ValueError(f"{problem.msg} {_where(text, problem.pos)}") from None
    except RecursionError:
        raise ValueError("its lists or objects are nested too deeply") from None
    except _NotANumber as problem:
        where = _where(text, _start_of_constant(text))
        raise ValueError(f"{problem} {where} is no JSON number, write null") from None


def json_lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """The lines of a JSONL file that are not blank, numbered from 1; parse each with `parse_line`."""
    for number, line in enumerate(lines(read_text(path, encoding)), start=1):
        if line.strip():
            yield number, line


def parse_line(line: str) -> object:
    """The value of one line of a JSONL file."""
    try:
        return parse_json(line)
    except ValueError as problem:
        raise Refused(f"the line is not JSON: {problem}", "write one JSON object on each line") from None


def lines(text: str) -> list[str]:
    """Lines ended by LF, CRLF or CR, and by nothing else: a text may hold other separators."""
    return re.split(r"\r\n|\n|\r", text)


def split_of(path: Path) -> Split | None:
    """The split a file's name tells, as in `train-v2.0.json` or `tatqa_dataset_dev.json`."""
    words = re.split(r"[^a-z]+", path.stem.lower())
    found = {_SPLIT_NAMES[word] for word in words if word in _SPLIT_NAMES}
    return found.pop() if len(found) == 1 else None


def parse_split(text: str) -> Split | None:
    """The split a record names; empty means none."""
    if not text:
        return None
    if text.lower() not in _SPLIT_NAMES:
        raise Refused(f"unknown split {shorten(text)!r}", f"write one of {', '.join(_SPLIT_NAMES)}")
    return _SPLIT_NAMES[text.lower()]


class _NotANumber(Exception):
    pass


def _refuse_constant(name: str) -> object:
    raise _NotANumber(name)


def _start_of_constant(text: str) -> int:
    return next(match.start() for match in _STRING_OR_CONSTANT.finditer(text) if match[0][0] != '"')


def _where(text: str, position: int) -> str:
    column = position - text.rfind("\n", 0, position)
    if "\n" not in text:
        return f"at column {column}"
    return f"at line {text.count(chr(10), 0, position) + 1}, column {column}"
