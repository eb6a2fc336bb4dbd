# SPDX-License-Identifier: Apache-2.0
"""What goes into a silo's store and what comes out of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Literal, TypeVar, get_args

from fedqa.data.records import Document, Example, Quarantined
from fedqa.errors import FedQAError

Role = Literal["reader", "editor", "owner"]
Origin = Literal["imported", "annotated", "corrected"]
Verdict = Literal["right", "wrong"]
What = Literal[
    "document added",
    "document removed",
    "example imported",
    "example annotated",
    "example corrected",
    "example superseded",
    "example removed",
    "records left out",
    "person invited",
    "person joined",
    "role changed",
    "password changed",
    "person removed",
]
ROLES: tuple[Role, ...] = get_args(Role)
ORIGINS: tuple[Origin, ...] = get_args(Origin)
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

T = TypeVar("T")


class StoreError(FedQAError):
    """The store cannot be opened, or what was to go into it is not right."""


class UnknownId(StoreError):
    """There is no document, example, asked question or person of this name."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A page of a list, and how long the whole list is."""

    items: tuple[T, ...]
    total: int


@dataclass(frozen=True, slots=True)
class StoredDocument:
    document: Document
    source: str  # where it came from: a file's name, a format, a person's words
    added_at: datetime  # UTC, as all times here
    added_by: str


@dataclass(frozen=True, slots=True)
class StoredExample:
    """An example and where it came from: read from files, made by a person, or made by correcting an answer."""

    example: Example
    origin: Origin
    source: str
    added_at: datetime
    added_by: str
    asked: int | None = None  # the id of the asked question that it corrects


@dataclass(frozen=True, slots=True)
class NewAsked:
    """A question somebody asked and what was answered.

    `answer` is plain JSON. Each object in it, at any depth, that quotes a document has the document's id under the
    name "document": by this the answer is found and deleted when the document is removed.
    """

    question: str
    who: str
    answer: Mapping[str, object] | None = None  # None: there was no answer
    confidence: float | None = None
    model: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    id: int
    question: str
    who: str
    at: datetime
    answer: Mapping[str, object] | None
    confidence: float | None
    model: str
    verdict: Verdict | None = None
    judged_by: str = ""
    example: str = ""  # id of the example that corrects it, if there is one
    answer_removed: bool = False  # there was an answer, and a document it quoted was removed

    @property
    def of_database(self) -> bool:
        """Was it asked of the silo's database? Its answer is then the SQL, which may be empty."""
        return self.answer is not None and "sql" in self.answer


@dataclass(frozen=True, slots=True)
class Correction:
    """The answer a person gives to a question: characters `start` to `end` of a document, or SQL for a database.

    With neither the question has no answer: in the document, if one is named, else in any document here. White space
    around what was selected is not part of the answer.
    """

    question: str
    who: str
    document: str | None = None  # id
    start: int | None = None  # in Unicode code points
    end: int | None = None
    text: str = ""  # what the person saw selected; must stand at start to end
    asked: int | None = None  # the asked question whose answer is corrected; None: an example made freely
    sql: str = ""  # whoever keeps it has run it


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a collection: how many are new, how many were there, how many were left out and why.

    Left out is what its reader has quarantined, and what the store cannot take.
    """

    documents: int
    examples: int
    already_there: int  # documents and examples
    left_out: int
    problems: tuple[Quarantined, ...] = ()  # one for each left out


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A record that was left out of what was read into the store."""

    record: Quarantined
    source: str
    at: datetime
    who: str  # read it in


@dataclass(frozen=True, slots=True)
class Change:
    """A row of the history, or of the people's history. It names ids and never holds text of documents or questions."""

    number: int
    at: datetime
    who: str
    what: What
    which: str  # id of the document or example, or name of the person; empty for records left out
    note: str = ""


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    role: Role
    joined_at: datetime


@dataclass(frozen=True, slots=True)
class Invitation:
    role: Role
    name: str  # whom it is meant for, to be offered as a name; may be empty
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Session:
    person: Person
    started_at: datetime
    expires_at: datetime  # if nothing is done until then
