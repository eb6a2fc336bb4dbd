# SPDX-License-Identifier: Apache-2.0
"""A silo's store: its documents, examples, asked questions and people, in SQLite or PostgreSQL. Nothing leaves it."""

from fedqa.store.people import People
from fedqa.store.records import (
    ORIGINS,
    ROLES,
    VERDICTS,
    Asked,
    Change,
    Correction,
    Imported,
    Invitation,
    LeftOut,
    Listing,
    NewAsked,
    Origin,
    Person,
    Role,
    Session,
    StoredDocument,
    StoredExample,
    StoreError,
    UnknownId,
    Verdict,
    What,
)
from fedqa.store.store import Store

__all__ = [
    "ORIGINS",
    "ROLES",
    "VERDICTS",
    "Asked",
    "Change",
    "Correction",
    "Imported",
    "Invitation",
    "LeftOut",
    "Listing",
    "NewAsked",
    "Origin",
    "People",
    "Person",
    "Role",
    "Session",
    "Store",
    "StoreError",
    "StoredDocument",
    "StoredExample",
    "UnknownId",
    "Verdict",
    "What",
]
