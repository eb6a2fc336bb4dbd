# SPDX-License-Identifier: Apache-2.0
"""Questions with the SQL that answers them, as JSON lines: {"question": "How many wards?", "sql": "SELECT ..."}.

Optional fields: id, split, key. There are no documents; the database is named elsewhere.
"""

import re
from pathlib import Path

from fedqa.data.door import Door, Refused, field, shown
from fedqa.data.files import find_files, json_lines, parse_line, parse_split, split_of
from fedqa.data.records import Collection, Example, Split

MAX_SQL = 20_000  # characters
_QUERY = re.compile(r"\s*(select|with)\b", re.IGNORECASE)


def read(path: Path, *, encoding: str = "utf-8") -> Collection:
    """A file or a folder of .jsonl files."""
    door = Door()
    for file in find_files(path, ".jsonl", ".ndjson"):
        for number, line in json_lines(file, encoding):
            with door.record(f"{file.name}:{number}"):
                door.example(_example(parse_line(line), f"{file.stem}-{number}", split_of(file)))
    return door.collection(str(path))


def _example(value: object, id: str, split: Split | None) -> Example:
    question, sql = field(value, "question", str), field(value, "sql", str)
    if not _QUERY.match(sql) or len(sql) > MAX_SQL or "\0" in sql:
        raise Refused(f"the SQL is {shown(sql)}", f"write one SELECT of at most {MAX_SQL:,} characters")
    assert isinstance(value, dict)
    own = {name: field(value, name, str) for name in ("id", "split", "key") if name in value}
    split = parse_split(own.get("split", "")) or split
    return Example(own.get("id", id), question, sql=sql.strip(), split=split, key=own.get("key", ""))
