# SPDX-License-Identifier: Apache-2.0
"""Every test of the store runs on SQLite and on a PostgreSQL server of its own, which lives as long as the tests."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from fedqa.store import Store

_PROGRAMS = ("initdb", "postgres")
_PATIENCE_S = 60


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Path]:
    """The socket folder of a running server; the user postgres may do anything there."""
    missing = [program for program in _PROGRAMS if not shutil.which(program)]
    if missing:
        pytest.skip(f"PostgreSQL is not installed here: {' and '.join(missing)} not found")
    folder = Path(tempfile.mkdtemp(prefix="fedqa-pg-"))
    try:
        with _server(folder, _user(folder)):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database(postgresql: Path) -> Iterator[str]:
    """The URL of an empty PostgreSQL database."""
    name = f"silo_{uuid4().hex}"
    _administer(postgresql, f"CREATE DATABASE {name}")
    yield f"postgresql+psycopg://postgres@/{name}?host={postgresql}"
    _administer(postgresql, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    """Where a new store may be."""
    if request.param == "sqlite":
        return tmp_path / "silo.sqlite"
    url: str = request.getfixturevalue("database")
    return url


@pytest.fixture
def store(where: str | Path) -> Iterator[Store]:
    with Store.open(where) as opened:
        yield opened


def _user(folder: Path) -> str | None:
    """Who runs the server: it refuses to be run by root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    name = "postgres" if "postgres" in names else "nobody"
    shutil.chown(folder, name)
    return name


class _server:
    """A server on a socket in `folder`, on no network."""

    def __init__(self, folder: Path, user: str | None) -> None:
        self._folder, self._user = folder, user

    def __enter__(self) -> None:
        data = self._folder / "data"
        self._run("initdb", "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        settings = {"listen_addresses": "", "unix_socket_directories": str(self._folder), "fsync": "off"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._log = (self._folder / "log").open("wb")
        self._process = subprocess.Popen(
            ["postgres", "-D", str(data), *options],
            user=self._user,
            cwd=self._folder,
            stdout=self._log,
            stderr=self._log,
        )
        self._wait()

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGINT)  # do not wait for those who are connected
        self._process.wait(_PATIENCE_S)
        self._log.close()

    def _run(self, *command: str) -> None:
        subprocess.run(command, user=self._user, cwd=self._folder, check=True, capture_output=True, timeout=_PATIENCE_S)

    def _wait(self) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return _administer(self._folder, "SELECT 1")
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.05)


def _administer(folder: Path, statement: str) -> None:
    with psycopg.connect(host=str(folder), user="postgres", dbname="postgres", autocommit=True) as connection:
        connection.execute(statement)
