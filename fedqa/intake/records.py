# SPDX-License-Identifier: Apache-2.0
"""What comes out of a file, what is refused and how much a file may cost."""

from dataclasses import dataclass
from typing import Literal, get_args

from fedqa.data.door import MAX_DOCUMENT
from fedqa.errors import FedQAError

Kind = Literal["text", "markdown", "html", "pdf", "docx"]
KINDS: tuple[Kind, ...] = get_args(Kind)
ACCEPTED = "accepted are plain text, Markdown, HTML, PDF and Word (.docx)"


class IntakeError(FedQAError):
    """A file that cannot be taken in: why, and what the person who uploads it can do."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Extracted:
    """The text of a file: paragraphs separated by one blank line, a passage each."""

    title: str  # empty where the file itself tells none
    text: str
    kind: Kind
    notes: tuple[str, ...] = ()  # sentences for the person who uploads: what was left out or guessed


@dataclass(frozen=True, slots=True)
class Limits:
    """What reading one file may cost."""

    file_bytes: int = 20_000_000
    unpacked_bytes: int = 100_000_000  # of all parts of a DOCX together, and of one stream of a PDF
    ratio: int = 200  # how many times larger a part of a DOCX may become when it is unpacked
    pages: int = 1_000
    characters: int = MAX_DOCUMENT
    seconds: int = 30  # of the processor
    patience: int = 90  # seconds of the clock, which are more where the processor is busy with other things
    memory_bytes: int = 1_000_000_000  # of address space, the interpreter included


DEFAULT_LIMITS = Limits()


def check_length(characters: int, limits: Limits) -> None:
    """Refuse a text that is too long for one document."""
    if characters > limits.characters:
        size = f"{characters:,} characters; at most {limits.characters:,} are taken"
        raise IntakeError(f"its text has {size}", "split it into several files")
