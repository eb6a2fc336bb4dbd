# SPDX-License-Identifier: Apache-2.0
"""What may go into the store and be asked of it: the door's checks, and those of ids, names and pages."""

import hashlib
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import ColumnElement

from fedqa.data.door import Refused, fold, shown, storable, usable_question
from fedqa.data.splits import normalise
from fedqa.store.records import StoreError

MAX_ID = 500  # characters; an index of PostgreSQL has keys of at most 2,700 bytes
MAX_WHO = 200
MAX_SEARCH = 1_000
LARGEST = 2**31 - 1  # whole number that a column holds


@contextmanager
def at_the_door(place: str) -> Iterator[None]:
    """What the door refuses, as an error that people see."""
    try:
        yield
    except Refused as refused:
        raise StoreError(f"{place}: {refused.reason}; {refused.remedy}") from None


def checked_who(who: str) -> str:
    name = fold(who)
    if not name or len(name) > MAX_WHO or not storable(name):
        raise StoreError(f"who does this is {shown(who)}; write a name of 1 to {MAX_WHO} characters")
    return name


def known_form(id: str) -> bool:
    """Whether anything could have this id: what comes in from outside may be any text."""
    return bool(id.strip()) and len(id) <= MAX_ID and storable(id)


def check_page(**numbers: int) -> None:
    """Limits and offsets by name."""
    for name, value in numbers.items():
        if not 0 <= value <= LARGEST:
            raise StoreError(f"{name} is {value}; write a whole number from 0 to {LARGEST}")


def digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def asks(question: str) -> str:
    """The same for all questions that `normalise` finds the same."""
    return digest(normalise(question))


def folded(text: str) -> str:
    """A text as it is searched: case, white space, ligatures and ways to write an accent do not count."""
    return fold(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()))


def containing(column: ColumnElement[str], search: str) -> list[ColumnElement[bool]]:
    """The conditions of a search; none if nothing is searched for."""
    if not search.strip():
        return []
    if len(search) > MAX_SEARCH:
        raise StoreError(f"the search has {len(search):,} characters; search for at most {MAX_SEARCH:,}")
    with at_the_door("the search"):
        return [column.contains(folded(usable_question(search)), autoescape=True)]
