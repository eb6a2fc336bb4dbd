# SPDX-License-Identifier: Apache-2.0
"""A silo's own store as a source of data."""

from pathlib import Path

import pytest

from fedqa.data.formats import read_format
from fedqa.data.records import Collection
from fedqa.data.splits import split
from fedqa.errors import ConfigError, DataError
from fedqa.store import Correction, Store

TEXT = "Visiting hours are from two to eight. Children may come along."


def stored(path: Path) -> Store:
    store = Store.open(path)
    document = store.add_document(TEXT, "Visits", source="test", who="ann")
    start = TEXT.index("two to eight")
    store.correct(Correction("When may I visit?", "ann", document.id, start, start + 12, "two to eight"))
    return store


def check(found: Collection) -> None:
    (document,), (example,) = found.documents, found.examples
    (span,) = example.evidence
    assert document.text[span.start : span.end] == "two to eight"
    assert example.answers == ("two to eight",)
    assert example.check and example.split == "train"
    assert int(found.version) >= 2  # a document and an example


def test_what_people_corrected_is_read_with_its_version_and_to_be_checked(tmp_path: Path) -> None:
    with stored(tmp_path / "silo.sqlite"):
        check(read_format("store", tmp_path / "silo.sqlite", {}))


def test_the_silos_own_file_says_where_its_store_is(tmp_path: Path) -> None:
    stored(tmp_path / "silo.sqlite").close()
    (tmp_path / "silo.toml").write_text('name = "ward"\nstore = "silo.sqlite"\n')
    check(read_format("store", tmp_path / "silo.toml", {}))


def test_the_file_must_say_it(tmp_path: Path) -> None:
    (tmp_path / "silo.toml").write_text('name = "ward"\n')
    with pytest.raises(ConfigError, match=r'does not say where the store is; add store = "silo\.sqlite"'):
        read_format("store", tmp_path / "silo.toml", {})
    (tmp_path / "silo.toml").write_text("name = ")
    with pytest.raises(ConfigError, match="is not valid TOML"):
        read_format("store", tmp_path / "silo.toml", {})


def test_a_store_without_questions_cannot_be_trained_on(tmp_path: Path) -> None:
    Store.open(tmp_path / "silo.sqlite").close()
    with pytest.raises(DataError, match="holds no question yet; import some, or correct answers"):
        read_format("store", tmp_path / "silo.sqlite", {})


def test_corrections_stay_in_training_when_the_rest_is_split(tmp_path: Path) -> None:
    with stored(tmp_path / "silo.sqlite") as store:
        document = store.all_documents()[0].id
        for i in range(9):
            store.correct(Correction(f"May {i} children come along?", "ann", document, 38, 46, "Children"))
        assert {example.split for example in split(store.collection(), seed=3).examples} == {"train"}
