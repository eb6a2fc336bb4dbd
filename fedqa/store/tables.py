# SPDX-License-Identifier: Apache-2.0
"""The tables of a store, the same in SQLite and PostgreSQL.

Every document and example bears the number of the history row that tells of its coming: when and by whom stands there.
What must be found and is of any length (texts, questions) is found by a digest, because an index has short keys only.
"""

from datetime import UTC, datetime

from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    Dialect,
    ForeignKey,
    MetaData,
    Named,
    String,
    Table,
    TypedColumns,
    TypeDecorator,
    false,
    insert,
)

FORMAT = 1  # of the tables; a store of another format is not opened
metadata = MetaData()


class Utc(TypeDecorator[datetime]):
    """A time in UTC. SQLite knows no time zones: there it is written without one."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        utc = value.astimezone(UTC)
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class FactColumns(TypedColumns):
    name: Named[str] = Column(primary_key=True)
    value: Named[str]


class HistoryColumns(TypedColumns):
    number: Named[int] = Column(primary_key=True, autoincrement=False)
    at: Named[datetime] = Column(Utc)
    who: Named[str]
    what: Named[str]
    which: Named[str]
    note: Named[str]


class DocumentColumns(TypedColumns):
    number: Named[int] = Column(ForeignKey("history.number"), primary_key=True, autoincrement=False)
    id: Named[str] = Column(unique=True)
    title: Named[str]
    digest: Named[str] = Column(String(32), index=True)  # of the text
    source: Named[str]
    text: Named[str]
    folded: Named[str]  # title and text as they are searched


class ExampleColumns(TypedColumns):
    number: Named[int] = Column(ForeignKey("history.number"), primary_key=True, autoincrement=False)
    id: Named[str] = Column(unique=True)
    origin: Named[str]
    superseded: Named[bool] = Column(server_default=false())
    asks: Named[str] = Column(String(32), index=True)  # digest of the question as compared with others
    question: Named[str]
    answers: Named[str]  # a JSON list
    sql: Named[str]
    split: Named[str | None]  # of people's examples none: it follows from the imported ones that ask the same
    key: Named[str]
    about: Named[str | None] = Column(ForeignKey("documents.id"), index=True)
    checked: Named[bool]  # asked again after every round
    asked: Named[int | None] = Column(ForeignKey("asked.id"), index=True)
    source: Named[str]
    folded: Named[str]  # question and answers as they are searched


class EvidenceColumns(TypedColumns):
    example: Named[int] = Column(ForeignKey("examples.number"), primary_key=True, autoincrement=False)
    position: Named[int] = Column(primary_key=True, autoincrement=False)
    document: Named[str] = Column(ForeignKey("documents.id"), index=True)
    start: Named[int]
    stop: Named[int]  # `end` is a word of SQL


class LeftOutColumns(TypedColumns):
    number: Named[int] = Column(ForeignKey("history.number"), primary_key=True, autoincrement=False)
    position: Named[int] = Column(primary_key=True, autoincrement=False)
    source: Named[str]
    place: Named[str]
    reason: Named[str]
    remedy: Named[str]


class AskedColumns(TypedColumns):
    id: Named[int] = Column(primary_key=True)
    at: Named[datetime] = Column(Utc)
    who: Named[str] = Column(index=True)
    question: Named[str]
    answer: Named[str | None]  # a JSON object
    confidence: Named[float | None]
    model: Named[str]
    verdict: Named[str | None]
    judged_by: Named[str]
    answer_removed: Named[bool]


class QuoteColumns(TypedColumns):
    document: Named[str] = Column(ForeignKey("documents.id"), primary_key=True)
    asked: Named[int] = Column(ForeignKey("asked.id"), primary_key=True, autoincrement=False, index=True)


class PersonColumns(TypedColumns):
    key: Named[str] = Column(primary_key=True)  # the name as compared with others
    name: Named[str]
    role: Named[str]
    password: Named[str]  # as argon2 writes it
    joined_at: Named[datetime] = Column(Utc)


class InvitationColumns(TypedColumns):
    token: Named[str] = Column(String(64), primary_key=True)  # SHA-256
    role: Named[str]
    name: Named[str]
    expires_at: Named[datetime] = Column(Utc)


class SessionColumns(TypedColumns):
    token: Named[str] = Column(String(64), primary_key=True)  # SHA-256
    person: Named[str] = Column(ForeignKey("people.key", ondelete="CASCADE"), index=True)
    started_at: Named[datetime] = Column(Utc)
    seen_at: Named[datetime] = Column(Utc)


facts = Table("facts", metadata, FactColumns)
history = Table("history", metadata, HistoryColumns)
people_history = Table("people_history", metadata, HistoryColumns)
documents = Table("documents", metadata, DocumentColumns)
examples = Table("examples", metadata, ExampleColumns)
evidence = Table("evidence", metadata, EvidenceColumns)
left_out = Table("left_out", metadata, LeftOutColumns)
asked = Table("asked", metadata, AskedColumns, sqlite_autoincrement=True)  # an id is never given twice
quotes = Table("quotes", metadata, QuoteColumns)
people = Table("people", metadata, PersonColumns)
invitations = Table("invitations", metadata, InvitationColumns)
sessions = Table("sessions", metadata, SessionColumns)

_SQLITE_TRIGGERS = (
    "CREATE TRIGGER {table}_update BEFORE UPDATE ON {table} BEGIN SELECT RAISE(ABORT, '{words}'); END",
    "CREATE TRIGGER {table}_delete BEFORE DELETE ON {table} BEGIN SELECT RAISE(ABORT, '{words}'); END",
    # INSERT OR REPLACE deletes without asking the trigger above; and numbers must leave no gap.
    "CREATE TRIGGER {table}_insert BEFORE INSERT ON {table}"
    " WHEN NEW.number <> (SELECT coalesce(max(number), 0) + 1 FROM {table})"
    " BEGIN SELECT RAISE(ABORT, '{words}'); END",
)
_POSTGRESQL_TRIGGERS = (
    "CREATE OR REPLACE FUNCTION {table}_only_grows() RETURNS trigger LANGUAGE plpgsql"
    " AS $$ BEGIN RAISE EXCEPTION '{words}'; END $$",
    "CREATE TRIGGER {table}_rows BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION {table}_only_grows()",
    "CREATE TRIGGER {table}_whole BEFORE TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION {table}_only_grows()",
)
_TRIGGERS = {"sqlite": _SQLITE_TRIGGERS, "postgresql": _POSTGRESQL_TRIGGERS}


def create(connection: Connection) -> None:
    """Make all tables; histories refuse to be changed, whoever tries."""
    metadata.create_all(connection)
    for table in (history, people_history):
        for trigger in _TRIGGERS[connection.dialect.name]:
            statement = trigger.format(table=table.name, words="the history can only be added to")
            connection.exec_driver_sql(statement)
    connection.execute(insert(facts).values(name="format", value=str(FORMAT)))
