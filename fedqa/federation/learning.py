# SPDX-License-Identifier: Apache-2.0
"""What a silo's own model makes, round after round, of the questions that people there have answered or corrected.

One line a round in the silo's folder, for its own people: which of them it gets right now. It never leaves the silo.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

FILE = "learning.jsonl"


def silo_folder(run: Path, silo: str) -> Path:
    """A silo's own folder in the folder of a run."""
    return run / "silos" / silo


@dataclass(frozen=True)
class Learning:
    """After a round: the state of the silo's data it was trained on, and which checks its model gets right."""

    round: int
    point: Literal["personal", "best"]  # `best`, once after the last round, is the model that is served
    version: str  # of the silo's data
    examples: int  # trained on
    new: int  # of these, not trained on when the run last ended
    right: Mapping[str, bool]  # by the example's id


def note(folder: Path, learning: Learning) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FILE).open("ab") as file:
        if file.tell() and not _ends_a_line(folder / FILE):  # a killed run may have left half a line
            file.write(b"\n")
        file.write(json.dumps(asdict(learning), ensure_ascii=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def noted(folder: Path) -> Sequence[Learning]:
    """All that was noted, in order of rounds. A round that was asked again counts as it was answered last."""
    path = folder / FILE
    lines = path.read_bytes().splitlines() if path.exists() else []
    found = {(line.round, line.point): line for line in (_read(text) for text in lines) if line}
    return [found[key] for key in sorted(found, key=lambda key: (key[0], key[1] == "best"))]


def _read(line: bytes) -> Learning | None:
    try:
        return Learning(**json.loads(line))
    except (ValueError, TypeError):  # half a line
        return None


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
