# SPDX-License-Identifier: Apache-2.0
"""The silo's store as the rest of fedqa sees it: every method is one transaction."""

from pathlib import Path
from types import TracebackType

from fedqa.data.door import usable_text, usable_title
from fedqa.data.records import Collection, Document
from fedqa.errors import unknown
from fedqa.store import asking, correcting, documents, examples, importing, left_out
from fedqa.store.changes import changes, newest
from fedqa.store.checks import at_the_door, checked_who
from fedqa.store.connection import Clock, Database, utc_now
from fedqa.store.people import People
from fedqa.store.records import (
    ORIGINS,
    VERDICTS,
    Asked,
    Change,
    Correction,
    Imported,
    LeftOut,
    Listing,
    NewAsked,
    Origin,
    StoredDocument,
    StoredExample,
    StoreError,
    Verdict,
)
from fedqa.store.tables import history


class Store:
    """Safe to use from several threads; many processes may use one database, each with a store that it opened itself.

    What is refused is a StoreError; what is not there is an UnknownId, which is one too.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, where: str | Path, *, clock: Clock = utc_now) -> "Store":
        """The store in an SQLite file, by its path, or in a PostgreSQL database, by its URL; made if not there."""
        return cls(Database(where, clock))

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def version(self) -> int:
        """The number of the newest history row: it grows with every change of documents or examples."""
        with self._database.reading() as connection:
            return newest(connection, history)

    def people(self) -> People:
        return People(self._database)

    def history(self, *, since: int = 0, limit: int = 100, newest_first: bool = True) -> list[Change]:
        """The changes numbered above `since`."""
        with self._database.reading() as connection:
            return changes(connection, history, since=since, limit=limit, newest_first=newest_first)

    # Documents

    def add_document(self, text: str, title: str, *, source: str, who: str) -> Document:
        """A new document; if its text is there already, the document that has it, under the title that it has."""
        who = checked_who(who)
        with at_the_door("the document"):
            text, title, source = usable_text(text), usable_title(title), usable_title(source)
        with self._database.writing() as writing:
            return documents.add(writing, text, title, source=source, who=who)

    def remove_document(self, id: str, who: str) -> None:
        """Delete for good its text, the examples that rest on it and the answers to asked questions that quote it.

        What was left out of the same source is forgotten too: it may quote the document.
        """
        who = checked_who(who)
        with self._database.writing() as writing:
            left_out.forget(writing, documents.get(writing.connection, id).source)
            examples.delete_of_document(writing, id, who)
            documents.delete_one(writing, id, who)
        self._database.forget()

    def document(self, id: str) -> StoredDocument:
        with self._database.reading() as connection:
            return documents.get(connection, id)

    def documents(self, search: str = "", *, limit: int = 50, offset: int = 0) -> Listing[StoredDocument]:
        """Those whose title or text contains what is searched, whatever its case, newest first."""
        with self._database.reading() as connection:
            return documents.listing(connection, search, limit=limit, offset=offset)

    def all_documents(self) -> list[Document]:
        """In the order of their coming."""
        with self._database.reading() as connection:
            return documents.all_of(connection)

    # What people asked

    def note_asked(self, asked: NewAsked) -> int:
        """Keep a question and its answer; returns its id."""
        who = checked_who(asked.who)
        with self._database.writing() as writing:
            return asking.add(writing, asked, who)

    def note_instead(self, id: int, asked: NewAsked) -> bool:
        """Keep another answer to a question, unless it was judged or corrected: then False, and it stays."""
        with self._database.writing() as writing:
            return asking.replace(writing, id, asked)

    def asked(self, *, who: str | None = None, limit: int = 50, offset: int = 0) -> Listing[Asked]:
        """Newest first; with `who`, those of one person."""
        name = None if who is None else checked_who(who)
        with self._database.reading() as connection:
            return asking.listing(connection, name, limit=limit, offset=offset)

    def asked_question(self, id: int) -> Asked:
        with self._database.reading() as connection:
            return asking.get(connection, id)

    def judge(self, asked: int, verdict: Verdict, who: str) -> None:
        """Say whether an answer was right; the last word counts."""
        who = checked_who(who)
        if verdict not in VERDICTS:
            raise StoreError(unknown("verdict", verdict, VERDICTS))
        with self._database.writing() as writing:
            asking.judge(writing, asked, verdict, who)

    # Examples

    def correct(self, correction: Correction) -> StoredExample:
        """Keep the answer a person gives. It supersedes the one that people gave to the same question before."""
        who = checked_who(correction.who)
        with self._database.writing() as writing:
            return correcting.correct(writing, correction, who)

    def verified(self, question: str) -> StoredExample | None:
        """The newest answer from documents that people here gave to this question, if any."""
        with self._database.reading() as connection:
            return examples.newest_made_here(connection, question, of_database=False)

    def verified_query(self, question: str) -> StoredExample | None:
        """The newest SQL that people here gave for this question, if any."""
        with self._database.reading() as connection:
            return examples.newest_made_here(connection, question, of_database=True)

    def add_collection(self, collection: Collection, *, source: str, who: str) -> Imported:
        """Add the documents and examples that are not there yet; nothing that is there is changed."""
        who, checked = checked_who(who), importing.check(collection)
        with at_the_door("the collection"):
            source = usable_title(source)
        with self._database.writing() as writing:
            return importing.add(writing, checked, source=source, who=who)

    def left_out(self, *, limit: int = 50, offset: int = 0) -> Listing[LeftOut]:
        """The records that were left out of each source when it was last read; the newest source first."""
        with self._database.reading() as connection:
            return left_out.listing(connection, limit=limit, offset=offset)

    def forget_left_out(self, source: str, who: str) -> None:
        """Delete for good what was left out of a source."""
        who = checked_who(who)
        with self._database.writing() as writing:
            left_out.keep(writing, (), source=source, who=who)
        self._database.forget()

    def example(self, id: str) -> StoredExample:
        with self._database.reading() as connection:
            return examples.get(connection, id)

    def examples(
        self,
        *,
        search: str = "",
        origin: Origin | None = None,
        document: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Listing[StoredExample]:
        """Newest first: of one origin, resting on one document, with the search in question or answers."""
        if origin is not None and origin not in ORIGINS:
            raise StoreError(unknown("origin", origin, ORIGINS))
        with self._database.reading() as connection:
            conditions = examples.matching(search, origin, document)
            return examples.listing(connection, conditions, limit=limit, offset=offset)

    def remove_example(self, id: str, who: str) -> None:
        """Delete an example for good, and those that it superseded."""
        who = checked_who(who)
        with self._database.writing() as writing:
            examples.delete_one(writing, id, who)
        self._database.forget()

    def collection(self) -> Collection:
        """All documents and examples of one moment, in the order of their coming, with the version of that moment."""
        with self._database.reading() as connection:
            return Collection(
                tuple(documents.all_of(connection)),
                tuple(examples.all_of(connection)),
                version=str(newest(connection, history)),
            )
