# SPDX-License-Identifier: Apache-2.0
"""The sample organisations' databases in SQLite and in a PostgreSQL server, and beside them what must not be told."""

import socket
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from databases.targets import QUICK, SECRET, Target, address, furnish, state_of_folder, state_of_server
from postgres import administer, running_server

from fedqa.data.sample import sample_database
from fedqa.databases.database import Database


@pytest.fixture(scope="session")
def server() -> Iterator[Path]:
    """The socket folder of a server with the databases hospital and bank."""
    with running_server() as folder:
        administer(folder, "CREATE ROLE reader LOGIN")
        for name in ("hospital", "bank"):
            furnish(folder, name)
        yield folder


@pytest.fixture(scope="session")
def secret_file() -> Iterator[Path]:
    """A file that everybody on this machine may read, in a folder where everybody may write."""
    with tempfile.TemporaryDirectory(prefix="fedqa-secret-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        path = folder / "secret.txt"
        path.write_text(SECRET)
        path.chmod(0o644)
        yield path
        assert [entry.name for entry in folder.iterdir()] == ["secret.txt"], "a statement wrote a file"


@pytest.fixture(scope="session")
def open_port() -> Iterator[int]:
    """A port at which nobody may knock."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening.getsockname()[1]
        with pytest.raises(BlockingIOError):
            listening.accept()


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The hospital's database; it must be found again as it was."""
    if request.param == "sqlite":
        path = sample_database("hospital", tmp_path_factory.mktemp("hospital"))
        where, state = str(path), lambda: state_of_folder(path.parent)
    else:
        folder: Path = request.getfixturevalue("server")
        where, state = address(folder, "hospital"), lambda: state_of_server(folder, "hospital")
    before = state()
    with Database.open(where, QUICK) as database:
        yield Target(where, database, state)
    assert state() == before


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """An SQLite database of one table: a hundred people, and a note of a thousand letters on each."""
    path = tmp_path / "people.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, weight REAL, photo BLOB, note TEXT)"
        )
        rows = [(i, f"person {i}", i / 2, bytes([i]), "n" * 1000) for i in range(100)]
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", rows)
    return path
