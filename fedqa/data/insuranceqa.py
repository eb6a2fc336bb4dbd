# SPDX-License-Identifier: Apache-2.0
"""InsuranceQA as question, answer, label: `validation.csv` and `test.csv`, or one of them.

The two files share a third of their questions, so they are no splits: rows are put together by question over both.
"""

from pathlib import Path

from fedqa.data.delimited import table
from fedqa.data.files import find_files
from fedqa.data.records import Collection
from fedqa.data.rows import Rows, row_from

_COLUMNS = {"question": "question", "answer": "answer", "label": "label"}


def read(path: Path, *, encoding: str = "utf-8") -> Collection:
    """Right answers (label 1) are evidence; wrong ones are documents only."""
    rows = Rows()
    for file in find_files(path, ".csv"):
        for line, values in table(rows.door, file, _COLUMNS, encoding=encoding):
            with rows.door.record(f"{file.name}:{line}"):
                rows.add(row_from(values, f"{file.stem}-{line}", split=None))
    return rows.collection(str(path))
