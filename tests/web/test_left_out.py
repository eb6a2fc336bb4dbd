# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from fedqa.data.records import Collection, Quarantined
from fedqa.store import Store
from fedqa.web.left_out import of_run, of_store


def test_what_was_left_out_of_a_trainings_data_is_shown_without_paths(tmp_path: Path) -> None:
    assert of_run(tmp_path / "run", "ash") == []
    folder = tmp_path / "run" / "silos" / "ash"
    folder.mkdir(parents=True)
    text = "place\treason\tremedy\n/srv/ash/data.csv line 3\tthe <b>answer</b> is empty\tgive one\nhalf a line\n"
    (folder / "quarantine.tsv").write_text(text, encoding="utf-8")
    assert of_run(tmp_path / "run", "ash") == [
        Quarantined("data.csv line 3", "the <b>answer</b> is empty", "give one"),
    ]


def test_what_was_left_out_of_files_is_shown_without_paths(tmp_path: Path) -> None:
    bad = (
        Quarantined("/srv/ash/data.csv:3", "it is empty", "give one"),
        Quarantined("data.csv:4", "it too", "as well"),
    )
    with Store.open(tmp_path / "silo.sqlite") as store:
        store.add_collection(Collection((), (), bad), source="data.csv", who="Ada")
        found = of_store(store, limit=1)
        assert [one.record for one in found.items] == [Quarantined("data.csv:3", "it is empty", "give one")]
        assert found.total == 2
