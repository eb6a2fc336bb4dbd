# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from toy_silo import filled, write_silo

from fedqa.errors import ConfigError
from fedqa.serving.documents import add, listed, remove
from fedqa.store import Store


@pytest.fixture
def silo(tmp_path: Path) -> Path:
    return write_silo(tmp_path).path


def test_files_are_added_listed_and_removed(silo: Path, tmp_path: Path) -> None:
    (tmp_path / "house_rules.txt").write_text("Dogs must wait outside.\n\nGuide dogs may come in.")
    (tmp_path / "visits.md").write_text("# Visiting\n\nFrom two to eight.")
    done = add(silo, [str(tmp_path / "house_rules.txt"), str(tmp_path / "visits.md")])
    assert not done.failed
    assert [one.title for one in done.handled] == ["house rules", "Visiting"]
    assert next(done.lines()) == f"added {done.handled[0].document}  house rules"
    found = listed(silo, ["guide", "dogs"])
    assert [one.document.title for one in found.documents] == ["house rules"]
    (table,) = found.table()
    assert (table["document"], table["source"]) == (done.handled[0].document, "house_rules.txt")
    assert table["added_by"].endswith("(command line)") and table["characters"] == 48
    assert "house rules  (house_rules.txt)" in "".join(found.lines())
    assert not remove(silo, [done.handled[0].document]).failed
    assert [one.document.title for one in listed(silo, []).documents] == ["Visiting"]


def test_what_cannot_be_done_is_told_and_the_rest_is_done(silo: Path, tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("All is well here.")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    files = [str(tmp_path / name) for name in ("picture.png", "nothing.txt", "good.txt")]
    done = add(silo, files)
    assert done.failed and [bool(one.problem) for one in done.handled] == [True, True, False]
    assert "No such file or directory; name a file that you may read" in done.handled[1].problem
    assert [row.get("problem", "") == "" for row in done.table()] == [False, False, True]
    assert done.table()[0]["document"] is None
    assert list(done.lines())[1].startswith(f"{files[1]}: ")
    gone = remove(silo, ["d-nothing"])
    assert gone.failed and "there is no document" in gone.handled[0].problem


def test_all_documents_are_listed_however_many(silo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedqa.serving.documents._PAGE", 7)
    filled(write_silo(silo.parent)).close()
    assert len(listed(silo, []).documents) == 20
    assert list(listed(silo, ["xyzzy"]).lines()) == ["No documents."]


def test_nothing_to_do_is_an_error(silo: Path) -> None:
    with pytest.raises(ConfigError, match=r"documents add needs at least one file: fedqa documents SILO\.toml add"):
        add(silo, [])
    with pytest.raises(
        ConfigError, match=r"documents remove needs at least one id, as `fedqa documents SILO\.toml list`"
    ):
        remove(silo, [])


def test_the_page_and_the_command_line_use_one_store(silo: Path, tmp_path: Path) -> None:
    (tmp_path / "rules.txt").write_text("Dogs must wait outside.")
    add(silo, [str(tmp_path / "rules.txt")])
    with Store.open(tmp_path / "north.sqlite") as store:
        assert [document.title for document in store.all_documents()] == ["rules"]
