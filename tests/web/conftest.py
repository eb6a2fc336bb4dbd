# SPDX-License-Identifier: Apache-2.0
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from trained_silo import make_silo, train_silo
from web_toys import Silo, ToyDatabaseDesk, Visitor, fill

from fedqa.data.sample import sample_database
from fedqa.databases.database import Database


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once: passwords are slow to hash."""
    path = tmp_path_factory.mktemp("filled") / "silo.sqlite"
    fill(path)
    return path


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with Database.open(sample_database("hospital", tmp_path_factory.mktemp("database"))) as database:
        yield database


@pytest.fixture
def silo(tmp_path: Path, filled: Path, database: Database) -> Iterator[Silo]:
    silo = Silo(tmp_path, filled, ToyDatabaseDesk(database))
    yield silo
    silo.store.close()


@pytest.fixture
def stranger(silo: Silo) -> Visitor:
    return silo.visitor()


@pytest.fixture
def reader(silo: Silo) -> Visitor:
    return silo.visitor("reader")


@pytest.fixture
def editor(silo: Silo) -> Visitor:
    return silo.visitor("editor")


@pytest.fixture
def owner(silo: Silo) -> Visitor:
    return silo.visitor("owner")


@pytest.fixture
def address(silo: Silo) -> Iterator[str]:
    """Where the page is served in earnest."""
    server = uvicorn.Server(uvicorn.Config(silo.app, port=0, log_level="critical", lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a silo that has not trained yet, to be copied."""
    folder = tmp_path_factory.mktemp("made") / "silo"
    make_silo(folder)
    return folder


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory: pytest.TempPathFactory, made_once: Path) -> Path:
    """The same after two rounds."""
    folder = tmp_path_factory.mktemp("trained") / "silo"
    shutil.copytree(made_once, folder)
    train_silo(folder)
    return folder
