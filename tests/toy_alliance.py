# SPDX-License-Identifier: Apache-2.0
"""A small alliance in files, as people write them, that trains in a second on the model `tiny`."""

import csv
from collections.abc import Sequence
from pathlib import Path

PLACES = ("gate", "library", "market", "museum", "station", "theatre", "pool", "garden", "harbour", "tower")
TOPICS = {
    "opens": ("When does the {} open?", "The {} opens at {} in the morning."),
    "costs": ("What does the {} cost?", "A ticket for the {} costs {} euros."),
}

ALLIANCE = """\
name = "toys"
method = "fedavg"
model = "tiny"
rounds = 2

[local]
batch = 4

[[silo]]
name = "north"
data = { format = "csv", path = "north.csv" }

[[silo]]
name = "south"
data = { format = "csv", path = "south.csv" }
"""


def rows(town: str, count: int = 20) -> list[tuple[str, str]]:
    """Questions and answers about one town; every answer is a document."""
    found = []
    for number in range(count):
        place = PLACES[number % len(PLACES)]
        question, answer = TOPICS["opens" if number < len(PLACES) else "costs"]
        found.append((f"{question.format(place)[:-1]} in {town}?", f"{town}: {answer.format(place, number + 3)}"))
    return found


def write_csv(path: Path, table: Sequence[Sequence[str]], header: Sequence[str] = ("question", "answer")) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *table])
    return path


def write_alliance(folder: Path, text: str = ALLIANCE) -> Path:
    """The alliance file with its two silos' data beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "north.csv", rows("Northam"))
    write_csv(folder / "south.csv", rows("Southby"))
    path = folder / "alliance.toml"
    path.write_text(text, encoding="utf-8")
    return path
