# SPDX-License-Identifier: Apache-2.0
"""The records every format is read into. They are checked once, here, at the door."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

Split = Literal["train", "dev", "test", "check"]
EVERY_SPLIT: tuple[Split, ...] = get_args(Split)
SPLITS: tuple[Split, ...] = EVERY_SPLIT[:3]  # what questions are divided among; checks are asked beside them


@dataclass(frozen=True, slots=True)
class Document:
    """A text of a silo. Paragraphs are separated by one blank line; each is a passage."""

    id: str
    text: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` to `end` (exclusive) of a document: where the evidence for an answer stands."""

    document: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Example:
    """A question with its gold evidence. No evidence and no SQL means: the documents do not answer it."""

    id: str
    question: str
    evidence: tuple[Span, ...] = ()
    answers: tuple[str, ...] = ()  # the accepted answer texts; for a span answer, the text at its offsets
    sql: str = ""
    split: Split | None = None  # where the source has splits of its own
    key: str = ""  # what `by_key` partitions by: a topic, a site, a product
    about: str = ""  # the document it was asked about, where the source says so; of use when there is no evidence
    check: bool = False  # asked again after every round, whatever its split: a correction must not be forgotten

    @property
    def documents(self) -> set[str]:
        """The ids of the documents it rests on."""
        return {span.document for span in self.evidence} | ({self.about} if self.about else set())

    @property
    def answerable(self) -> bool:
        return bool(self.evidence or self.sql)


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A record that was left out: where it stands, why, and what would mend it. Stays in the silo."""

    place: str  # file and line or path inside the file
    reason: str  # with the offending value
    remedy: str


@dataclass(frozen=True, slots=True)
class Collection:
    """All that one silo holds, as read from its files."""

    documents: tuple[Document, ...]
    examples: tuple[Example, ...]
    quarantine: tuple[Quarantined, ...] = ()
    version: str = ""  # of the source, where it counts its changes

    def of_split(self, split: Split) -> Iterator[Example]:
        return (example for example in self.examples if example.split == split)
