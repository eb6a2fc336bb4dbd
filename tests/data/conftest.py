# SPDX-License-Identifier: Apache-2.0
"""Where the tests find public data sets: in FEDQA_DATA, or beside the project."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

_BESIDE = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def public_data() -> Callable[[str], Path]:
    """The path of a public data set; the test is skipped where it is not there."""

    def path_of(name: str) -> Path:
        path = Path(os.environ.get("FEDQA_DATA", _BESIDE)) / name
        if not path.exists():
            pytest.skip(f"public data set {name!r} not found; set FEDQA_DATA to the folder that holds it")
        return path

    return path_of
