# SPDX-License-Identifier: Apache-2.0
import csv
import io
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from trained_silo import TrainedSilo
from web_toys import Silo, Visitor

from fedqa.federation.ledger import Ledger
from fedqa.federation.messages import Contribution, Refusal
from fedqa.web.app import whole_app


@pytest.fixture
def north(tmp_path: Path, trained_once: Path) -> Iterator[TrainedSilo]:
    silo = TrainedSilo(tmp_path / "silo", trained_once)
    yield silo
    silo.store.close()


@pytest.fixture
def visitor(north: TrainedSilo) -> Visitor:
    return north.visitor("reader")


def ledger_of(silo: TrainedSilo) -> Path:
    return silo.run / "silos" / "north" / "ledger.sqlite"


def test_a_silo_that_sent_nothing_says_so(reader: Visitor) -> None:
    page = reader.get("/ledger")
    assert page.status_code == 200
    assert "Nothing has left this silo." in page.text
    assert reader.get("/ledger.csv").text.count("\n") == 1


def test_a_stranger_learns_nothing(silo: Silo, stranger: Visitor) -> None:
    for path in ("/ledger", "/ledger.csv", "/ledger.json"):
        assert stranger.get(path, follow_redirects=False).status_code == 303
    assert stranger.get("/api/ledger").status_code == 401


def test_a_reader_sees_in_plain_words_all_that_left_in_two_rounds(north: TrainedSilo, visitor: Visitor) -> None:
    page = visitor.get("/ledger").text
    # the model `tiny` shares 17,089 numbers; two rounds, then the scores
    assert page.count("how the shared part of the model changed") == 2
    assert "17\u202f089 numbers, 69" in page
    assert "<strong>Round 2:</strong>" in page
    assert "<strong>After a stage:</strong> mean scores" in page
    assert "Complete and unaltered" in page
    assert "in 3 messages, none of them with text" in page
    assert str(north.folder) not in page


def test_sums_and_rows_are_those_of_the_ledger(north: TrainedSilo, visitor: Visitor) -> None:
    ledger = Ledger(ledger_of(north))
    rows = list(ledger.rows())
    ledger.close()
    told = visitor.get("/api/ledger", headers=bearer(north)).json()
    assert told["total"] == len(rows) == 3
    (run,) = told["runs"]
    assert (run["run"], run["messages"], run["bytes"]) == ("toys (match)", 3, sum(row.bytes for row in rows))
    assert run["complete_and_unaltered"]
    assert [item["digest"] for item in told["items"]] == [row.digest for row in reversed(rows)]
    assert told["items"][-1]["words"].startswith("Round 1: how the shared part of the model changed")


def test_what_is_shown_can_be_chosen_by_kind_and_by_digest(north: TrainedSilo, visitor: Visitor) -> None:
    updates = visitor.get("/ledger.json", params={"kind": "update"}).json()
    assert [update["round"] for update in updates] == [2, 1]
    digest = updates[0]["digest"]
    assert [one["digest"] for one in visitor.get("/ledger.json", params={"digest": digest[:9].upper()}).json()] == [
        digest
    ]
    assert "No message fits" in visitor.get("/ledger", params={"digest": "zz"}).text
    assert visitor.get("/ledger", params={"kind": "refusal"}).status_code == 200


def test_many_messages_come_on_several_pages(north: TrainedSilo, visitor: Visitor) -> None:
    ledger = Ledger(ledger_of(north))
    for number in range(60):
        ledger.record(Refusal("north", "failed"), "f00d", number + 3)
    ledger.close()
    first = visitor.get("/ledger")
    assert "1 to 50 of 63" in first.text
    second = visitor.get("/ledger", params={"offset": 50})
    assert "51 to 63 of 63" in second.text
    assert "<strong>Round 1:</strong>" in second.text
    assert visitor.get("/ledger", params={"offset": -1}).status_code == 422


def test_text_that_left_in_clear_is_said_at_the_top(north: TrainedSilo, visitor: Visitor) -> None:
    ledger = Ledger(ledger_of(north))
    ledger.record(Contribution("north", "f00d", 1, "examples", "collect"), "f00d", 1)
    ledger.close()
    page = visitor.get("/ledger").text
    assert "1 of them with text" in page
    assert '<span class="badge bad">text</span>' in page


def test_a_row_that_was_altered_shows(north: TrainedSilo, visitor: Visitor) -> None:
    tamper(north, "UPDATE ledger SET bytes = 1 WHERE rowid = 2")
    page = visitor.get("/ledger").text
    assert "Altered: line 2 does not follow from the one before" in page
    assert "Complete and unaltered" not in page
    assert not visitor.get("/api/ledger").json()["runs"][0]["complete_and_unaltered"]


def test_rows_that_were_cut_off_the_end_show_though_the_chain_does_not_break(
    north: TrainedSilo, visitor: Visitor
) -> None:
    tamper(north, "DELETE FROM ledger WHERE rowid > 1")
    page = visitor.get("/ledger").text
    assert "Incomplete: nothing is written down for 1 round in which an update of this silo was used" in page
    assert "the first of them round 2" in page
    assert "Complete and unaltered" not in page
    (told,) = visitor.get("/api/ledger").json()["runs"]
    assert (told["missing_rounds"], told["first_broken_row"]) == ([2], None)
    assert not told["complete_and_unaltered"]


@pytest.mark.parametrize("change", ["bytes = 'much'", "time = x'00'", "round = 'soon'"])
def test_what_no_ledger_holds_is_a_ledger_that_cannot_be_read(
    north: TrainedSilo, visitor: Visitor, change: str
) -> None:
    tamper(north, f"UPDATE ledger SET {change} WHERE rowid = 2")
    page = visitor.get("/ledger")
    assert page.status_code == 200
    assert "cannot be read" in page.text


def test_a_file_that_is_no_database_is_said_in_words(north: TrainedSilo, visitor: Visitor) -> None:
    for path in ledger_of(north).parent.glob("ledger.sqlite*"):
        path.unlink()
    ledger_of(north).write_bytes(b"not a database, but long enough to look like a file" * 40)
    page = visitor.get("/ledger")
    assert page.status_code == 200
    assert "it is no database" in page.text
    assert str(north.folder) not in page.text
    assert visitor.get("/api/ledger").json()["total"] == 0


def test_kinds_times_and_runs_are_text_whatever_they_look_like(tmp_path: Path, north: TrainedSilo) -> None:
    tamper(north, "UPDATE ledger SET kind = '<script>x', time = '<img src=x>', digest = '\"><b>' WHERE rowid = 2")
    evil = north.run.with_name("<i>run")
    north.run.rename(evil)
    settings = replace(north.settings, runs={"match": evil}, training=None)
    north.app = whole_app(settings, north.store, None)  # type: ignore[arg-type]
    page = north.visitor("reader").get("/ledger").text
    for code in ("<script>x", "<img src", '"><b>', "<i>run"):
        assert code not in page
    assert "&lt;i&gt;run" in page
    assert "“&lt;script&gt;x”" in page


def test_files_are_the_same_rows_and_hold_no_formula(north: TrainedSilo, visitor: Visitor) -> None:
    tamper(north, "UPDATE ledger SET course = '=1+1' WHERE rowid = 2")
    answer = visitor.get("/ledger.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="ledger.csv"'
    head, *rows = csv.reader(io.StringIO(answer.content.decode("utf-8-sig")))
    assert head[:5] == ["run", "number", "time", "round", "kind"]
    assert [row[head.index("kind")] for row in rows] == ["report", "update", "update"]
    assert [row[head.index("course")] for row in rows if row[1] == "2"] == ["'=1+1"]
    assert len(visitor.get("/ledger.json").json()) == 3


def bearer(silo: Silo) -> dict[str, str]:
    return {"Authorization": f"Bearer {silo.session('reader')}"}


def tamper(silo: TrainedSilo, command: str) -> None:
    """As somebody would with another program, which can take the triggers away."""
    connection = sqlite3.connect(ledger_of(silo))
    connection.executescript(f"DROP TRIGGER no_update; DROP TRIGGER no_delete; {command};")
    connection.close()
