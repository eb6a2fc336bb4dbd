# SPDX-License-Identifier: Apache-2.0
"""The text-to-SQL sets of Finegan-Dollak et al. (2018): `geography.json` with `geography-schema.csv` beside it.

Questions and SQL are templates; each question has the values of its variables. The first SQL of an entry is the gold
one (`Example.sql`), the others are accepted too (`Example.answers`). The schema is the one document of a set, in the
form models are told of it, and every example is `about` it. Four sets have splits of questions; the small ones have
ten folds instead, of which a seed chooses six for training, two for dev and two for test. What is marked `exclude` is
passed over.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from fedqa.data.door import Door, Refused, field, shown, storable
from fedqa.data.files import find_files, lines, parse_split, read_json, read_text
from fedqa.data.records import SPLITS, Collection, Example, Split
from fedqa.data.splits import by_question, rank
from fedqa.databases.schema import Column, Relation, Schema
from fedqa.errors import DataError

FOLDS = tuple(map(str, range(10)))
_SHARES: tuple[Split, ...] = ("train",) * 6 + ("dev",) * 2 + ("test",) * 2
_EXCLUDED = "exclude"
_SEPARATOR = "-"  # in place of a table's name, in schema files


def read(
    path: Path, *, seed: int = 1, repeats: Literal["keep", "drop"] = "keep", encoding: str = "utf-8"
) -> Collection:
    """A file, or a folder of several sets. With the default seed, Yelp's splits have the sizes published for Lorar.

    The published splits of some sets ask the same question in training and in test. `repeats = "drop"` keeps such a
    question where it is tested and nowhere else.
    """
    door = Door()
    for file in find_files(path, ".json"):
        _add_set(door, file, folds(seed), encoding)
    collection = door.collection(str(path))
    return _without_repeats(collection) if repeats == "drop" else collection


def folds(seed: int) -> dict[str, Split]:
    """The split of each of ten folds."""
    order = sorted(FOLDS, key=lambda fold: rank(seed, fold))
    return dict(zip(order, _SHARES, strict=True))


def accepted_sql(example: Example) -> tuple[str, ...]:
    """All SQL that answers a question, the gold one first."""
    return (example.sql, *example.answers)


def database_beside(path: Path) -> Path | None:
    """The SQLite database of a set, where it comes with one."""
    database = path.with_name(f"{path.stem}-db.sqlite")
    return database if database.is_file() else None


def read_schema(path: Path, encoding: str = "utf-8") -> Schema:
    """The tables and columns of a `-schema.csv`. Only the names are taken: the other columns differ from set to set."""
    tables: dict[str, list[Column]] = {}
    rows = csv.reader(lines(read_text(path, encoding))[1:], skipinitialspace=True)
    for row in rows:
        names = [name.strip() for name in row[:2]]
        if len(names) == 2 and all(names) and names[0] != _SEPARATOR:
            tables.setdefault(names[0], []).append(Column(names[1]))
    if not tables:
        raise DataError(f"{path} names no table; write the name of a table and of a column on each line but the first")
    return Schema(tuple(Relation(name, tuple(columns)) for name, columns in tables.items()))


def _add_set(door: Door, file: Path, of_fold: Mapping[str, Split], encoding: str) -> None:
    entries = read_json(file, encoding)
    if not isinstance(entries, list):
        raise DataError(f"{file} is not in the text2sql format: a list of queries was expected, got {shown(entries)}")
    schema = file.with_name(f"{file.stem}-schema.csv")
    if not schema.is_file():
        raise DataError(f"{file} has no schema beside it; add {schema.name}, or name another file")
    with door.record(schema.name):
        door.document(file.stem, read_schema(schema, encoding).text(), file.stem)
    for i, entry in enumerate(entries):
        place = f"{file.name}: [{i}]"
        with door.record(place):
            for j, sentence in enumerate(field(entry, "sentences", list)):
                with door.record(f"{place}.sentences[{j}]"):
                    for example in _examples(entry, sentence, of_fold):
                        door.example(replace(example, id=f"{file.stem}-{i}-{j}", key=file.stem, about=file.stem))


def _examples(entry: object, sentence: object, of_fold: Mapping[str, Split]) -> Iterator[Example]:
    """The example, or none if it is excluded."""
    label = field(sentence, "question-split", str)
    if label == _EXCLUDED:
        return
    values = _values(entry, sentence)
    gold, *others = dict.fromkeys(_filled(sql, values) for sql in _queries(entry))
    question = _filled(field(sentence, "text", str), values)
    split = of_fold.get(label) or parse_split(label)
    yield Example("", question, sql=gold, answers=tuple(others), split=split)


def _queries(entry: object) -> Sequence[str]:
    queries = field(entry, "sql", list)
    if not queries or not all(isinstance(query, str) and query.strip() and storable(query) for query in queries):
        raise Refused(f"the SQL is {shown(queries)}", "write a list of at least one SELECT")
    return [query.strip() for query in queries]


def _values(entry: object, sentence: object) -> dict[str, str]:
    """What stands for each variable: the question's own value, else the example of the entry."""
    examples = {
        field(variable, "name", str): field(variable, "example", str) for variable in field(entry, "variables", list)
    }
    own = field(sentence, "variables", dict)
    return examples | {name: field(own, name, str) for name in own if own[name] != ""}


def _filled(template: str, values: Mapping[str, str]) -> str:
    return _any_of(tuple(values)).sub(lambda name: values[name[0]], template) if values else template


@lru_cache(1024)
def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b")


def _without_repeats(collection: Collection) -> Collection:
    """Each question in one split: the last of those that ask it."""
    last = {
        example.id: max((other.split for other in group if other.split), key=SPLITS.index)
        for group in by_question(collection.examples).values()
        for example in group
    }
    kept = tuple(example for example in collection.examples if example.split == last[example.id])
    return replace(collection, examples=kept)
