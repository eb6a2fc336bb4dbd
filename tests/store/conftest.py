# SPDX-License-Identifier: Apache-2.0
"""Every test of the store runs on SQLite and on a PostgreSQL server of its own, which lives as long as the tests."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from postgres import administer, running_server

from fedqa.store import Store


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Path]:
    """The socket folder of a running server; the user postgres may do anything there."""
    with running_server() as folder:
        yield folder


@pytest.fixture
def database(postgresql: Path) -> Iterator[str]:
    """The URL of an empty PostgreSQL database."""
    name = f"silo_{uuid4().hex}"
    administer(postgresql, f"CREATE DATABASE {name}")
    yield f"postgresql+psycopg://postgres@/{name}?host={postgresql}"
    administer(postgresql, f"DROP DATABASE {name} WITH (FORCE)")


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
