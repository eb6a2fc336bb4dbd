# SPDX-License-Identifier: Apache-2.0
"""The ledger: complete, append-only, and telling when somebody tampered with it."""

import json
import sqlite3
from pathlib import Path

import pytest
import torch
from blake3 import blake3
from toys import toy_update

from fedqa.federation import wire
from fedqa.federation.ledger import Ledger
from fedqa.federation.messages import Contribution, Refusal, Report


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Three messages: an update, a contribution to a channel, a refusal."""
    ledger = Ledger(tmp_path / "silo" / "ledger.sqlite")
    ledger.record(toy_update("ash", [1.0, 2.0]), "course", 1)
    ledger.record(Contribution("ash", "course", 2, "vectors", "ask", {"q": torch.zeros(2, 3)}), "course", 2)
    ledger.record(Refusal("ash", "failed"), "course", 3)
    return ledger


def test_every_message_is_a_row_with_its_size_and_digest(ledger: Ledger) -> None:
    rows = list(ledger.rows())
    assert [(row.round, row.kind) for row in rows] == [(1, "update"), (2, "vectors"), (3, "refusal")]
    assert [json.loads(row.tensors) for row in rows] == [{"delta": [2]}, {"q": [2, 3]}, {}]
    message = b"".join(wire.encode(toy_update("ash", [1.0, 2.0])))
    assert rows[0].bytes == len(message)
    assert rows[0].digest == blake3(message).hexdigest()
    assert rows[0].course == "course"
    assert rows[0].time.endswith("+00:00")
    assert ledger.first_broken() is None
    ledger.close()


def test_the_size_on_the_wire_is_what_is_returned(tmp_path: Path) -> None:
    ledger, report = Ledger(tmp_path / "ledger.sqlite"), Report("ash", "course", 0)
    assert ledger.record(report, "course", 0) == wire.size(report)
    ledger.close()


def test_rows_outlast_the_process_and_the_chain_goes_on(ledger: Ledger, tmp_path: Path) -> None:
    ledger.close()
    again = Ledger(tmp_path / "silo" / "ledger.sqlite")
    again.record(Refusal("ash", "late"), "course", 4)
    assert [row.round for row in again.rows()] == [1, 2, 3, 4]
    assert again.first_broken() is None
    again.close()
    ledger.close()  # closing twice does no harm


@pytest.mark.parametrize("statement", ["UPDATE ledger SET bytes = 0", "DELETE FROM ledger WHERE round = 1"])
def test_rows_can_be_neither_changed_nor_removed(ledger: Ledger, tmp_path: Path, statement: str) -> None:
    ledger.close()
    connection = sqlite3.connect(tmp_path / "silo" / "ledger.sqlite")
    with pytest.raises(sqlite3.IntegrityError, match="the ledger is append-only"):
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("statement", "broken"),
    [
        ("UPDATE ledger SET bytes = 0 WHERE round = 2", 2),
        ("UPDATE ledger SET kind = 'update' WHERE round = 3", 3),
        ("UPDATE ledger SET chain = 'x' WHERE round = 1", 1),
        ("DELETE FROM ledger WHERE round = 1", 1),
        ("DELETE FROM ledger WHERE round = 2", 2),
    ],
)
def test_a_row_altered_behind_the_ledgers_back_shows(
    ledger: Ledger, tmp_path: Path, statement: str, broken: int
) -> None:
    ledger.close()
    connection = sqlite3.connect(tmp_path / "silo" / "ledger.sqlite")
    connection.executescript(f"DROP TRIGGER no_update; DROP TRIGGER no_delete; {statement};")
    connection.close()
    assert ledger.first_broken() == broken
    ledger.close()


def test_an_empty_ledger_is_whole(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "new" / "ledger.sqlite")
    assert list(ledger.rows()) == []
    assert ledger.first_broken() is None
    ledger.close()
