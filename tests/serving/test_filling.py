# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from toy_silo import FROM_STORE, TRAINED, filled, write_silo

from fedqa.config import load_project
from fedqa.errors import ConfigError
from fedqa.runs import read_silo
from fedqa.serving.filling import fill, filled_words
from fedqa.store import Imported, Store


@pytest.mark.parametrize("seed", [13, 5])
def test_the_splits_in_the_store_are_those_a_training_would_draw(tmp_path: Path, seed: int) -> None:
    alliance = FROM_STORE.replace("rounds = 2", f"rounds = 2\nseed = {seed}")
    settings = write_silo(tmp_path, TRAINED, alliance)
    store = filled(settings)
    project = load_project(tmp_path / "alliance.toml")
    from_store = read_silo("north", project.data["north"], tmp_path, seed)
    (tmp_path / "alliance.toml").write_text(
        alliance.replace('"store", path = "north.sqlite"', '"csv", path = "north.csv"')
    )
    from_file = load_project(tmp_path / "alliance.toml")
    drawn = read_silo("north", from_file.data["north"], tmp_path, seed)
    assert {e.id: e.split for e in from_store.examples} == {e.id: e.split for e in drawn.examples}
    assert {e.split for e in drawn.examples} == {"train", "dev", "test"}
    store.close()


def test_a_store_is_filled_once_even_if_all_was_removed(tmp_path: Path) -> None:
    settings = write_silo(tmp_path)
    with Store.open(settings.store) as store:
        imported = fill(settings, store)
        assert imported is not None and (imported.documents, imported.examples) == (20, 20)
        for document in store.all_documents():
            store.remove_document(document.id, "Ann")
        assert fill(settings, store) is None
        assert store.all_documents() == []


def test_without_data_a_store_stays_empty(tmp_path: Path) -> None:
    path = tmp_path / "law.toml"
    path.write_text('name = "law"\nstore = "law.sqlite"\n')
    from fedqa.settings import load_settings

    with Store.open(tmp_path / "law.sqlite") as store:
        assert fill(load_settings(path), store) is None


def test_data_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    settings = write_silo(tmp_path)
    (tmp_path / "north.csv").unlink()
    with Store.open(settings.store) as store, pytest.raises(Exception, match="silo 'north': there is no file"):
        fill(settings, store)
    path = tmp_path / "north.toml"
    path.write_text('name = "north"\nstore = "x.sqlite"\n[data]\nsample = "hospitl"\nlimits = 3\n')
    from fedqa.settings import load_settings

    with Store.open(tmp_path / "x.sqlite") as store, pytest.raises(ConfigError, match="'limits' goes with a format"):
        fill(load_settings(path), store)


def test_what_was_filled_in_words() -> None:
    assert filled_words(Imported(1, 2, 0, 0)) == "Read 1 document and 2 examples into the store."
    assert filled_words(Imported(1, 2, 0, 3)).endswith("store; 3 records could not be used.")
