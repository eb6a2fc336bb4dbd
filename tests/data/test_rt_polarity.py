# SPDX-License-Identifier: Apache-2.0
"""The reader of review sentences, on toys and on the public set."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from fedqa.data.formats import read_format
from fedqa.data.rt_polarity import read
from fedqa.errors import DataError


def test_the_file_tells_the_label(tmp_path: Path) -> None:
    (tmp_path / "rt-polarity.pos").write_bytes("a caf\xe9 of a film . \n\nvery good\n".encode("latin-1"))
    (tmp_path / "rt-polarity.neg").write_bytes(b"dull\n")
    found = read(tmp_path).examples
    assert [(one.id, one.question, one.answers) for one in found] == [
        ("neg-1", "dull", ("negative",)),
        ("pos-1", "a caf\xe9 of a film .", ("positive",)),
        ("pos-3", "very good", ("positive",)),
    ]
    assert all(one.split is None and one.key == one.answers[0] for one in found)


def test_both_files_are_needed(tmp_path: Path) -> None:
    (tmp_path / "rt-polarity.neg").write_bytes(b"dull\n")
    with pytest.raises(DataError, match=r"rt-polarity.pos cannot be read: No such file"):
        read(tmp_path)
    with pytest.raises(DataError, match=r"is not a folder; name the one that holds rt-polarity.pos and"):
        read(tmp_path / "rt-polarity.neg")


def test_the_public_set_is_read_whole(public_data: Callable[[str], Path]) -> None:
    found = read_format("rt_polarity", public_data("rt_polarity"), {})
    assert Counter(one.answers[0] for one in found.examples) == {"positive": 5331, "negative": 5331}
    assert not found.quarantine
