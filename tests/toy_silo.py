# SPDX-License-Identifier: Apache-2.0
"""A silo in files: its own file, its store with the toy alliance's questions, and an alliance that trains it there."""

from pathlib import Path

from toy_alliance import ALLIANCE, write_alliance

from fedqa.serving.filling import fill
from fedqa.settings import Settings, load_settings
from fedqa.store import Store

SILO = """\
name = "north"
store = "north.sqlite"

[data]
format = "csv"
path = "north.csv"
"""
TRAINED = """
[runs]
match = "run"

[training]
alliance = "alliance.toml"
rounds = 1
"""
FROM_STORE = ALLIANCE.replace('{ format = "csv", path = "north.csv" }', '{ format = "store", path = "north.sqlite" }')


def learning(skill: str, alliance: str = FROM_STORE) -> str:
    """The alliance with another skill for all its silos."""
    return alliance.replace("[[silo]]", f'[[silo]]\nskill = "{skill}"')


def write_silo(folder: Path, more: str = "", alliance: str = FROM_STORE) -> Settings:
    """The silo's file beside the alliance, whose second silo reads a table."""
    write_alliance(folder, alliance)
    path = folder / "north.toml"
    path.write_text(SILO + more, encoding="utf-8")
    return load_settings(path)


def filled(settings: Settings) -> Store:
    """Its store, open and with the silo's data in it."""
    store = Store.open(settings.store)
    fill(settings, store)
    return store
