# SPDX-License-Identifier: Apache-2.0
"""Movie-review sentences, one a line, in a folder of rt-polarity.pos and rt-polarity.neg; the answer is which file."""

from pathlib import Path

from fedqa.data.door import Door
from fedqa.data.files import lines, read_text
from fedqa.data.records import Collection, Example
from fedqa.errors import DataError

_LABELS = {"neg": "negative", "pos": "positive"}


def read(path: Path, *, encoding: str = "latin-1") -> Collection:
    """The label is also the key of an example."""
    if not path.is_dir():
        raise DataError(f"{path} is not a folder; name the one that holds rt-polarity.pos and rt-polarity.neg")
    door = Door()
    for ending, label in _LABELS.items():
        file = path / f"rt-polarity.{ending}"
        for number, line in enumerate(lines(read_text(file, encoding)), start=1):
            if line.strip():
                with door.record(f"{file.name}:{number}"):
                    door.example(Example(f"{ending}-{number}", line, answers=(label,), key=label))
    return door.collection(str(path))
