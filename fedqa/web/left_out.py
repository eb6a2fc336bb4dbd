# SPDX-License-Identifier: Apache-2.0
"""Records that were not used, and what would mend them: of files that were read in, and of what was last trained on.

Their places are told without the way to the files.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fedqa.data.records import Quarantined
from fedqa.federation.learning import silo_folder
from fedqa.store import LeftOut, Listing, Store
from fedqa.web.pathless import pathless


def of_store(store: Store, *, limit: int, offset: int = 0) -> Listing[LeftOut]:
    """What was left out of each file when it was last read in."""
    found = store.left_out(limit=limit, offset=offset)
    return Listing(tuple(replace(one, record=_seen(one.record)) for one in found.items), found.total)


def of_run(folder: Path, silo: str) -> Sequence[Quarantined]:
    """What was wrong with the silo's data when they were last trained on."""
    path = silo_folder(folder, silo) / "quarantine.tsv"
    lines = path.read_text(encoding="utf-8").split("\n")[1:] if path.exists() else []
    cells = (line.split("\t") for line in lines)
    return [_seen(Quarantined(*row)) for row in cells if len(row) == 3]


def _seen(record: Quarantined) -> Quarantined:
    return Quarantined(pathless(record.place), pathless(record.reason), pathless(record.remedy))
