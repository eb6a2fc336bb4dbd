# SPDX-License-Identifier: Apache-2.0
"""The reader of text-to-SQL sets."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fedqa.data import text2sql
from fedqa.data.formats import read_format
from fedqa.data.records import Collection, Document, Example
from fedqa.data.splits import limited, shared_questions, split
from fedqa.databases.database import Database
from fedqa.databases.records import Limits
from fedqa.errors import DataError

SCHEMA = """Table Name, Field Name, Is Primary Key, Is Foreign Key, Type
STATE, STATE_NAME, y, n, varchar(255)
STATE, AREA,       n, n, "decimal(1,1)"
-, -, -, -, -

CITY, CITY_NAME, y, n, text
"""


def sentence(text: str, split: str = "train", **variables: object) -> dict[str, Any]:
    return {"text": text, "question-split": split, "variables": variables}


def entry(*sentences: object, sql: object = ("SELECT 1 ;",), **examples: str) -> dict[str, Any]:
    variables = [{"name": name, "example": value} for name, value in examples.items()]
    return {"query-split": "train", "sentences": sentences, "sql": sql, "variables": variables}


def read(folder: Path, *entries: object, **options: Any) -> Collection:
    (folder / "tiny.json").write_text(json.dumps(entries))
    (folder / "tiny-schema.csv").write_text(SCHEMA)
    return text2sql.read(folder / "tiny.json", **options)


def test_values_are_filled_into_question_and_sql(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        entry(
            sentence("how big is name0 in city_name0 ?", name0="new york", city_name0="it"),
            sql=['SELECT "name0" , name0.x FROM "%city_name0%" , Xname0 ;'],
        ),
    )
    (example,) = found.examples
    assert example == Example(
        "tiny-0-0",
        "how big is new york in it ?",
        sql='SELECT "new york" , new york.x FROM "%it%" , Xname0 ;',
        split="train",
        key="tiny",
        about="tiny",
    )


def test_what_a_question_leaves_out_is_filled_from_the_entry(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        entry(
            sentence("is number0 hard ?", number0="519", department0=""),
            sentence("and 7 ?"),
            sql=["SELECT number0 , department0"],
            number0="595",
            department0="EECS",
        ),
    )
    assert [example.sql for example in found.examples] == ["SELECT 519 , EECS", "SELECT 595 , EECS"]


def test_the_first_sql_is_gold_and_the_others_are_accepted(tmp_path: Path) -> None:
    found = read(tmp_path, entry(sentence("a0 ?", a0="x"), sql=["SELECT a0", " SELECT 2 ", "SELECT x"]))
    (example,) = found.examples
    assert (example.sql, example.answers) == ("SELECT x", ("SELECT 2",))
    assert text2sql.accepted_sql(example) == ("SELECT x", "SELECT 2")


def test_the_schema_is_a_document_that_every_question_rests_on(tmp_path: Path) -> None:
    questions = [entry(sentence(f"question {i} ?")) for i in range(20)]
    found = limited(read(tmp_path, *questions), 3, seed=7)
    text = " | state : state_name , area | city : city_name"
    assert found.documents == (Document("tiny", text, "tiny"),)
    assert len(found.examples) == 3
    assert all(example.documents == {"tiny"} and example.answerable for example in found.examples)


def test_excluded_questions_are_passed_over(tmp_path: Path) -> None:
    found = read(tmp_path, entry(sentence("a ?", "exclude"), sentence("b ?", "dev"), sentence("c ?", "test")))
    assert [(example.id, example.split) for example in found.examples] == [("tiny-0-1", "dev"), ("tiny-0-2", "test")]
    assert found.quarantine == ()


def test_six_folds_are_trained_on_and_the_seed_chooses_which(tmp_path: Path) -> None:
    questions = [entry(sentence(f"question {fold} ?", str(fold))) for fold in range(10)]
    chosen = set()
    for seed in range(5):
        found = read(tmp_path, *questions, seed=seed)
        assert Counter(example.split for example in found.examples) == {"train": 6, "dev": 2, "test": 2}
        assert found == read(tmp_path, *questions, seed=seed)
        chosen.add(tuple(example.split for example in found.examples))
    assert len(chosen) == 5


def test_a_question_asked_in_several_splits_can_be_kept_where_it_is_tested(tmp_path: Path) -> None:
    entries = [
        entry(sentence("Same ?", "train"), sentence("same?", "test"), sentence("same", "dev")),
        entry(sentence("Other ?", "train"), sentence("other", "train"), sentence("third ?", "dev")),
    ]
    assert len(read(tmp_path, *entries).examples) == 6
    found = read(tmp_path, *entries, repeats="drop")
    assert [(example.question, example.split) for example in found.examples] == [
        ("same?", "test"),
        ("Other ?", "train"),
        ("other", "train"),
        ("third ?", "dev"),
    ]


def test_a_folder_gives_all_its_sets(tmp_path: Path) -> None:
    read(tmp_path, entry(sentence("a ?")))
    (tmp_path / "more.json").write_text(json.dumps([entry(sentence("b ?"))]))
    (tmp_path / "more-schema.csv").write_text("Table,Field\npeople,name\n")
    found = text2sql.read(tmp_path)
    assert [document.text for document in found.documents] == [
        " | people : name",
        " | state : state_name , area | city : city_name",
    ]
    assert [(example.id, example.key) for example in found.examples] == [("more-0-0", "more"), ("tiny-0-0", "tiny")]


@pytest.mark.parametrize(
    ("bad", "place", "reason"),
    [
        (7, "[1]", "an object was expected, found 7"),
        ({"sql": ["SELECT 1"]}, "[1]", "the field 'sentences' is missing"),
        (entry(sentence("a ?", "later")), "[1].sentences[0]", "unknown split 'later'"),
        (entry(sentence("a ?", "10")), "[1].sentences[0]", "unknown split '10'"),
        (entry(sentence("")), "[1].sentences[0]", "the question is empty"),
        (entry(sentence("a ?", x=7)), "[1].sentences[0]", "the field 'x' is 7, not a text"),
        (entry(sentence("a ?"), sql=[]), "[1].sentences[0]", "the SQL is []"),
        (entry(sentence("a ?"), sql=["SELECT 1", 2]), "[1].sentences[0]", "the SQL is ['SELECT 1', 2]"),
        (entry(sentence("a ?"), sql=["SELECT '\0'"]), "[1].sentences[0]", "the SQL is [\"SELECT '\\x00'\"]"),
        (entry("a ?"), "[1].sentences[0]", "an object was expected, found 'a ?'"),
    ],
)
def test_one_bad_record_is_left_out_alone(tmp_path: Path, bad: object, place: str, reason: str) -> None:
    found = read(tmp_path, entry(sentence("good ?")), bad)
    assert len(found.examples) == 1
    (left_out,) = found.quarantine
    assert (left_out.place, left_out.reason) == (f"tiny.json: {place}", reason)


def test_another_structure_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"data": 1}')
    with pytest.raises(DataError, match="not in the text2sql format: a list of queries was expected"):
        text2sql.read(tmp_path)


def test_a_set_without_a_schema_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(DataError, match=r"has no schema beside it; add x-schema\.csv, or name another file"):
        text2sql.read(tmp_path)


def test_a_schema_without_tables_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x-schema.csv").write_text("Table Name, Field Name\n-, -\n")
    with pytest.raises(DataError, match="names no table; write the name of a table and of a column on each line"):
        text2sql.read_schema(tmp_path / "x-schema.csv")


def test_a_database_beside_a_set_is_found(tmp_path: Path) -> None:
    assert text2sql.database_beside(tmp_path / "geography.json") is None
    (tmp_path / "geography-db.sqlite").touch()
    assert text2sql.database_beside(tmp_path / "geography.json") == tmp_path / "geography-db.sqlite"


# Four sets have splits of their own. Of the others the sum is fixed, and each split within the sizes of its folds; with
# the default seed, Yelp has the very sizes of the published experiment.
SIZES = {
    "advising": (2629, 229, 573),
    "atis": (4347, 486, 447),
    "geography": (549, 49, 279),
    "scholar": (499, 100, 218),
    "restaurants": (226, 76, 76),
    "academic": (118, 38, 40),
    "imdb": (79, 26, 26),
    "yelp": (76, 26, 26),
}
RANGES = {
    "restaurants": (378, range(226, 229), range(74, 77)),
    "academic": (196, range(116, 121), range(38, 41)),
    "imdb": (131, range(78, 80), range(26, 28)),
    "yelp": (128, range(76, 79), range(24, 27)),
}


@pytest.mark.parametrize("name", SIZES)
def test_the_published_sets_are_read_whole(public_data: Callable[[str], Path], name: str) -> None:
    found = read_format("text2sql", public_data(f"text2sql/{name}.json"), {})
    sizes = Counter(example.split for example in split(found, seed=0).examples)
    assert (sizes["train"], sizes["dev"], sizes["test"]) == SIZES[name]
    assert found.quarantine == () and len(found.documents) == 1
    assert found.documents[0].text.startswith(" | ")


@pytest.mark.parametrize("name", RANGES)
def test_every_seed_gives_folds_of_about_the_published_sizes(public_data: Callable[[str], Path], name: str) -> None:
    total, train, other = RANGES[name]
    for seed in range(8):
        found = text2sql.read(public_data(f"text2sql/{name}.json"), seed=seed)
        sizes = Counter(example.split for example in found.examples)
        assert sizes.total() == total
        assert sizes["train"] in train and sizes["dev"] in other and sizes["test"] in other


@pytest.mark.parametrize(("name", "shared"), [("restaurants", 95), ("scholar", 29), ("geography", 0)])
def test_the_published_splits_share_questions_unless_repeats_are_dropped(
    public_data: Callable[[str], Path], name: str, shared: int
) -> None:
    path = public_data(f"text2sql/{name}.json")
    assert len(shared_questions(text2sql.read(path).examples)) == shared
    assert shared_questions(text2sql.read(path, repeats="drop").examples) == []


def test_the_gold_queries_of_a_public_set_find_what_sqlite_finds(public_data: Callable[[str], Path]) -> None:
    path = public_data("text2sql/geography.json")
    queries = {sql for example in text2sql.read(path).examples for sql in text2sql.accepted_sql(example)}
    found = text2sql.database_beside(path)
    assert found
    failed = 0
    with (
        closing(sqlite3.connect(f"file:{found}?mode=ro", uri=True)) as plain,
        Database.open(found, Limits(rows=100_000)) as database,
    ):
        for sql in queries:
            try:
                expected = plain.execute(sql).fetchall()
            except sqlite3.OperationalError:
                failed += 1
            else:
                assert list(database.run(sql).rows) == expected, sql
    assert (len(queries), failed) == (592, 2)  # two name a column that is not there
