# SPDX-License-Identifier: Apache-2.0
"""A silo with a database of towns, its questions with SQL, and an alliance that learns them on the model `tiny`."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

CITIES = ("austin", "dallas", "boston", "denver", "miami", "reno", "tampa", "omaha")
COLUMNS = {"big": "population", "where": "state_name"}
SECRET = "quietly kept"  # a state that stands in no question

ALLIANCE = """\
name = "towns"
method = "fedavg"
model = "tiny"
rounds = 2

[local]
epochs = 40
batch = 6
learning_rate = 3e-3
weight_decay = 0.0
keep_optimiser = true

[skills.parse]
dropout = 0.0
links = false  # too few questions to learn what to do without one

[evaluation]
every = 2

[[silo]]
name = "north"
skill = "parse"
data = { format = "text2sql_pairs", path = "pairs.jsonl", database = "towns.sqlite" }

[[silo]]
name = "south"
skill = "parse"
data = { format = "text2sql_pairs", path = "pairs.jsonl", database = "towns.sqlite" }
"""
ALONE = ALLIANCE.partition('[[silo]]\nname = "south"')[0]


def pair(word: str, city: str) -> tuple[str, str]:
    return f"{word} is {city} ?", f"SELECT {COLUMNS[word]} FROM city WHERE city_name = '{city}'"


def write_database(path: Path) -> Path:
    """Each city has as many people as a thousand times its number, and all are in one state."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE city (city_name TEXT, population INTEGER, state_name TEXT)")
        rows = [(city, 1000 * number, SECRET) for number, city in enumerate(CITIES, start=1)]
        connection.executemany("INSERT INTO city VALUES (?, ?, ?)", rows)
        connection.commit()
    return path


def write_towns(folder: Path, text: str = ALLIANCE) -> Path:
    """The alliance file, with questions and the database beside it: the last two cities are for dev and test."""
    folder.mkdir(parents=True, exist_ok=True)
    write_database(folder / "towns.sqlite")
    splits = ["train"] * 6 + ["dev", "test"]
    lines = [
        json.dumps({"question": question, "sql": sql, "split": split})
        for word in COLUMNS
        for city, split in zip(CITIES, splits, strict=True)
        for question, sql in [pair(word, city)]
    ]
    (folder / "pairs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    path = folder / "alliance.toml"
    path.write_text(text, encoding="utf-8")
    return path
