# SPDX-License-Identifier: Apache-2.0
"""The names people's browsers send with a file: made safe to show and to store."""

import re
import unicodedata
from pathlib import PurePosixPath

from fedqa.data.door import fold
from fedqa.intake.characters import clean

LONGEST_NAME = 200  # bytes in UTF-8, of which file systems allow 255
_NOT_IN_NAMES = re.compile(r'[<>:"|?*\x00]')
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def safe_name(name: str) -> str:
    """The last part of a path, without anything that a file system or a page could take for something else."""
    last = re.split(r"[/\\]", name)[-1]
    kept = _NOT_IN_NAMES.sub("_", fold(clean(unicodedata.normalize("NFKC", last))))
    kept = re.split(r"[/\\]", kept)[-1].lstrip(". ").rstrip(". ")  # normalising may have made new separators
    if _DEVICES.fullmatch(kept):
        kept = f"_{kept}"
    return _shortened(kept) or "document"


def extension(name: str) -> str:
    """In lower case and without the dot; empty if there is none."""
    return PurePosixPath(safe_name(name)).suffix.lower().removeprefix(".")


def title_from(name: str) -> str:
    """A title for a file that has none: its name in words."""
    stem = PurePosixPath(safe_name(name)).stem
    return fold(re.sub(r"[_]+|(?<=\w)-+(?=\w)", " ", stem)) or "document"


def _shortened(name: str) -> str:
    if len(name.encode()) <= LONGEST_NAME:
        return name
    suffix = PurePosixPath(name).suffix[:10]
    room = LONGEST_NAME - len(suffix.encode())
    return name.encode()[:room].decode(errors="ignore").rstrip(". ") + suffix
