# SPDX-License-Identifier: Apache-2.0
"""A silo's own store as a source of data: what its people added, asked and corrected, as it is now."""

import tomllib
from pathlib import Path

from fedqa.data.records import Collection
from fedqa.errors import ConfigError, DataError


def read(path: Path) -> Collection:
    """`path` is the store's SQLite file, or the silo's own file, which says where its store is.

    The second is the way to a database server: its address, which may hold a password, stays in the silo's file.
    """
    from fedqa.store import Store  # brings a database library that no other format needs

    with Store.open(_address(path) if path.suffix == ".toml" else path) as store:
        collection = store.collection()
    if not collection.examples:
        raise DataError(f"the store {path} holds no question yet; import some, or correct answers on the silo's page")
    return collection


def _address(path: Path) -> str | Path:
    try:
        where = tomllib.loads(path.read_text(encoding="utf-8")).get("store")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{path} is not valid TOML: {problem}") from None
    if not isinstance(where, str) or not where:
        raise ConfigError(f'{path} does not say where the store is; add store = "silo.sqlite", or a database address')
    return where if "://" in where else path.parent / where
