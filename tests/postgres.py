# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server for tests: on a socket in a folder of its own, on no network, gone when the tests are."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

_PATIENCE_S = 60


@contextmanager
def running_server() -> Iterator[Path]:
    """The socket folder of a running server, where the user postgres may do anything; skips where there is none."""
    missing = [program for program in ("initdb", "postgres") if not _found(program)]
    if missing:
        pytest.skip(f"PostgreSQL is not installed here: {' and '.join(missing)} not found")
    folder = Path(tempfile.mkdtemp(prefix="fedqa-pg-"))
    try:
        with _started(folder, _user(folder)):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def administer(folder: Path, *statements: str, database: str = "postgres") -> None:
    """Run statements as the user who may do anything."""
    with psycopg.connect(host=str(folder), user="postgres", dbname=database, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def _found(program: str) -> str:
    """Where a program of the server is; Debian keeps them off the path. Empty if nowhere."""
    kept = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    return shutil.which(program) or (str(kept[-1]) if kept else "")


def _user(folder: Path) -> str | None:
    """Who runs the server: it refuses to be run by root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    name = "postgres" if "postgres" in names else "nobody"
    shutil.chown(folder, name)
    return name


@contextmanager
def _started(folder: Path, user: str | None) -> Iterator[None]:
    data = str(folder / "data")
    making = [_found("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    subprocess.run(making, user=user, cwd=folder, check=True, capture_output=True, timeout=_PATIENCE_S)
    settings = {"listen_addresses": "", "unix_socket_directories": str(folder), "fsync": "off"}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    with (folder / "log").open("wb") as log:
        command = [_found("postgres"), "-D", data, *options]
        process = subprocess.Popen(command, user=user, cwd=folder, stdout=log, stderr=log)
        try:
            _wait(folder, process)
            yield
        finally:
            process.send_signal(signal.SIGINT)  # do not wait for those who are connected
            process.wait(_PATIENCE_S)


def _wait(folder: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return administer(folder, "SELECT 1")
        except psycopg.OperationalError:
            if time.monotonic() > deadline or process.poll() is not None:
                raise
            time.sleep(0.05)
