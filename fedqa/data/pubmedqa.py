# SPDX-License-Identifier: Apache-2.0
"""PubMedQA's `ori_pqal.json`: the long answer, an abstract's conclusion, is the document; yes, no, maybe the key."""

from pathlib import Path

from fedqa.data.door import field, shown
from fedqa.data.files import read_json
from fedqa.data.records import Collection
from fedqa.data.rows import Row, Rows
from fedqa.errors import DataError

_FILE = "ori_pqal.json"


def read(path: Path, *, encoding: str = "utf-8") -> Collection:
    """The file, or the folder that holds it. Questions have their article's PubMed number as id."""
    file = path / _FILE if path.is_dir() else path
    articles = read_json(file, encoding)
    if not isinstance(articles, dict):
        raise DataError(
            f"{file} is not PubMedQA's {_FILE}: an object by PubMed number was expected, got {shown(articles)}"
        )
    rows = Rows()
    for number, article in articles.items():
        with rows.door.record(f"{file.name}: {number}"):
            rows.add(
                Row(
                    id=number,
                    question=field(article, "QUESTION", str),
                    answer=field(article, "LONG_ANSWER", str),
                    key=field(article, "final_decision", str),
                )
            )
    return rows.collection(str(path))
