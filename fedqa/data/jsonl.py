# SPDX-License-Identifier: Apache-2.0
"""JSON lines: the rows of a CSV file as objects, and documents of their own, which stand before their questions.

{"document": {"id": "leaflet-3", "title": "Fasting", "text": "Nothing to eat for six hours before the scan."}}
{"question": "How long before the scan may I not eat?", "answer": "six hours", "document": "leaflet-3"}

A line may also be a complete example (`fedqa.data.complete`), with any number of answers.
"""

from collections.abc import Mapping
from pathlib import Path

from fedqa.data.complete import from_plain, is_complete
from fedqa.data.door import Door, field
from fedqa.data.files import find_files, json_lines, parse_line, split_of
from fedqa.data.records import Collection
from fedqa.data.rows import COLUMNS, Rows, row_from


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
    encoding: str = "utf-8",
) -> Collection:
    """Read lines. The options down to `key` name the fields; `no_answer` is what stands for "not answered"."""
    columns = dict(zip(COLUMNS, (question, answer, context, answer_start, label, id, split, key), strict=True))
    rows = Rows()
    for file in find_files(path, ".jsonl", ".ndjson"):
        for number, line in json_lines(file, encoding):
            with rows.door.record(f"{file.name}:{number}"):
                value = parse_line(line)
                if isinstance(value, dict) and isinstance(value.get("document"), dict):
                    _add_document(rows.door, value["document"])
                elif is_complete(value):
                    rows.door.example(from_plain(rows.door, value))
                else:
                    values = _values(value, columns)
                    rows.add(row_from(values, f"{file.stem}-{number}", split_of(file), no_answer))
    return rows.collection(str(path), documents_alone=True)


def _add_document(door: Door, value: dict[str, object]) -> None:
    title = field(value, "title", str) if "title" in value else ""
    door.document(field(value, "id", str), field(value, "text", str), title)


def _values(value: object, columns: Mapping[str, str]) -> dict[str, object]:
    field(value, columns["question"], str)
    assert isinstance(value, dict)
    named = {column: value.get(name) for column, name in columns.items()}
    return named | {"document": value.get("document")}
