# SPDX-License-Identifier: Apache-2.0
"""The errors people see. Each says what was wrong, the value, what is accepted and what to do.

FedQAError
├── ConfigError    an alliance, course or silo file, or a command-line option
├── DataError      documents and examples
├── ModelError     loading or tagging a model
├── BoundaryError  a message that may not cross a silo's boundary
├── RunError       a run folder that cannot be used
├── StoreError     a silo's store (fedqa.store)
└── IntakeError    a file that somebody uploads (fedqa.intake)
"""

from collections.abc import Iterable
from difflib import get_close_matches


class FedQAError(Exception):
    """Base of every error that is the caller's to mend; the command line prints it without a traceback."""


class ConfigError(FedQAError):
    """A file or option asks for something that does not exist or cannot be."""


class DataError(FedQAError):
    """Documents or examples cannot be used."""


class ModelError(FedQAError):
    """A model cannot be loaded or does not have the parts a skill needs."""


class BoundaryError(FedQAError):
    """A message was refused at a silo's or the coordinator's boundary; `code` is all that may be told further."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code


class RunError(FedQAError):
    """A run folder is missing, damaged or belongs to another course."""


def unknown(kind: str, got: str, known: Iterable[str], where: str = "") -> str:
    """The sentence for a name nobody knows: the nearest spelling first, then all that is known."""
    names = sorted(known)
    near = get_close_matches(got, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    place = f" in {where}" if where else ""
    return f"unknown {kind} {got!r}{place}{hint} (known: {', '.join(names) or 'none'})"
