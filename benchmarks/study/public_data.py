# SPDX-License-Identifier: Apache-2.0
"""Where the public data sets are: in the folder FEDQA_DATA names, or in `shared/data` beside the project."""

import os
from pathlib import Path

from fedqa.errors import ConfigError

FOLDER = Path(os.environ.get("FEDQA_DATA", Path(__file__).parents[3] / "shared" / "data"))


def public_data(name: str) -> Path:
    """A data set's file or folder, which must be there."""
    if not (FOLDER / name).exists():
        raise ConfigError(f"the public data set {name!r} is not in {FOLDER}; say where it is by FEDQA_DATA=FOLDER")
    return FOLDER / name
