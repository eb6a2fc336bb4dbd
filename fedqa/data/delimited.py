# SPDX-License-Identifier: Apache-2.0
"""CSV and TSV: a file or a folder of files, one row for each question and answer, columns named in the first line.

A file with all columns of `fedqa.data.complete_rows` holds documents and complete examples.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fedqa.data.complete_rows import COLUMNS as COMPLETE
from fedqa.data.complete_rows import CompleteRows
from fedqa.data.door import Door, shorten
from fedqa.data.files import find_files, read_text, split_of
from fedqa.data.records import Collection
from fedqa.data.rows import COLUMNS, Rows, row_from
from fedqa.errors import ConfigError, DataError

_REQUIRED = ("question", "answer")
_NO_LIMIT = 2**31 - 1


def read(
    path: Path,
    *,
    question: str = "question",
    answer: str = "answer",
    context: str = "context",
    answer_start: str = "answer_start",
    label: str = "label",
    id: str = "id",
    split: str = "split",
    key: str = "key",
    no_answer: str = "",
    delimiter: str = "",
    quote: str = '"',
    encoding: str = "utf-8",
) -> Collection:
    """Read rows. The options down to `key` name the columns; `no_answer` is what stands for "not answered".

    Without `delimiter`, .tsv and .tab files have tabs and others commas. `quote = ""` is for files that never quote.
    """
    columns = dict(zip(COLUMNS, (question, answer, context, answer_start, label, id, split, key), strict=True))
    rows = Rows()
    complete, documents_alone = CompleteRows(rows.door), False
    for file in find_files(path, ".csv", ".tsv", ".tab"):
        for line, values in table(rows.door, file, columns, delimiter=delimiter, quote=quote, encoding=encoding):
            with rows.door.record(f"{file.name}:{line}"):
                made_id = f"{file.stem}-{line}"
                if "evidence" in values:
                    documents_alone = True
                    complete.add(values, made_id)
                else:
                    rows.add(row_from(values, made_id, split_of(file), no_answer))
        complete.finish()
    return rows.collection(str(path), documents_alone=documents_alone)


def table(
    door: Door, file: Path, columns: Mapping[str, str], *, delimiter: str = "", quote: str = '"', encoding: str
) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a file as values by column, each with the line it begins on. Rows of the wrong width stay out.

    The columns are those asked for, or those of complete rows if all of them are there.
    """
    delimiter = _character("delimiter", delimiter) or ("\t" if file.suffix.lower() in (".tsv", ".tab") else ",")
    records = _records(door, file, read_text(file, encoding), delimiter, _character("quote", quote))
    _, header = next(records, (0, []))
    names = [name.strip() for name in header]
    complete = set(names).issuperset(COMPLETE) and all(columns.get(name, name) == name for name in COMPLETE)
    positions = _positions(file, names, dict(zip(COMPLETE, COMPLETE, strict=True)) if complete else columns)
    for line, record in records:
        if len(record) == len(header):
            yield line, {column: record[position] for column, position in positions.items()}
        else:
            reason = f"the row has {len(record)} fields, the first line names {len(header)} columns"
            remedy = f"put fields that hold {delimiter!r} in quotation marks"
            door.leave_out(f"{file.name}:{line}", reason, remedy)


def _records(door: Door, file: Path, text: str, delimiter: str, quote: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=delimiter,
        quotechar=quote or None,
        quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
        strict=True,
    )
    while True:
        line = reader.line_num + 1
        try:
            with _long_fields():
                record = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:
            _misquoted(door, file, line, problem)
        else:
            if record:
                yield line, record


def _misquoted(door: Door, file: Path, line: int, problem: csv.Error) -> None:
    if str(problem) == "unexpected end of data":
        raise DataError(f"{file}: the quotation mark opened in the row at line {line} is never closed; close it")
    remedy = 'write quotation marks inside a field twice, or pass quote = "" if the file never quotes'
    door.leave_out(f"{file.name}:{line}", f"the row is not well quoted: {problem}", remedy)


@contextmanager
def _long_fields() -> Iterator[None]:
    """The csv module refuses fields over 131,072 characters; how long a text may be is for the door to say."""
    limit = csv.field_size_limit(_NO_LIMIT)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _positions(file: Path, header: list[str], columns: Mapping[str, str]) -> dict[str, int]:
    found = ", ".join(map(repr, header)) or "none"
    twice = sorted({name for name in header if name in columns.values() and header.count(name) > 1})
    if twice:
        raise DataError(f"{file} names the column {twice[0]!r} twice; rename one (columns found: {shorten(found)})")
    for column, name in columns.items():
        renamed = name != column
        if name not in header and (renamed or column in _REQUIRED):
            raise DataError(
                f"{file} has no column {name!r}, looked for as {column} (columns found: {shorten(found)}); "
                f'name the right one with {column} = "…"'
            )
    return {column: header.index(name) for column, name in columns.items() if name in header}


def _character(option: str, value: str) -> str:
    if len(value) > 1:
        raise ConfigError(f"the option {option} must be one character or empty, got {value!r}")
    return value
