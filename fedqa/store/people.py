# SPDX-License-Identifier: Apache-2.0
"""The people of a silo: how they join, come in, stay for a while and leave."""

import unicodedata
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hmac import compare_digest
from typing import cast

from sqlalchemy import Connection, delete, func, insert, or_, select, update

from fedqa.data.door import fold, shown, storable
from fedqa.errors import unknown
from fedqa.store import tables
from fedqa.store.changes import Entry, changes, record
from fedqa.store.checks import checked_who
from fedqa.store.connection import Database, Writing
from fedqa.store.passwords import check_password, hash_password, hash_token, is_outdated, matches, new_token
from fedqa.store.records import ROLES, Change, Invitation, Person, Role, Session, StoreError, UnknownId, What

IDLE = timedelta(hours=12)
LONGEST = timedelta(days=7)
MAX_DAYS = 365  # of an invitation
MAX_NAME = 80
_NOTED = timedelta(minutes=1)  # how exactly it is noted when a session was last used

_people, _invitations, _sessions, _history = tables.people, tables.invitations, tables.sessions, tables.people_history


@dataclass(frozen=True)
class _Account:
    person: Person
    key: str
    password: str


@dataclass(frozen=True)
class _Kept:
    """A session as it is kept."""

    person: Person
    started_at: datetime
    seen_at: datetime


class People:
    """Safe to use from several threads, as its store. Which role may do what is for the caller to say."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def invite(self, role: Role, name: str = "", *, days: float = 7, who: str = "the command line") -> str:
        """A token with which one person may join, once, within some days. The name is a proposal."""
        _check_role(role)
        if not 0 < days <= MAX_DAYS:
            raise StoreError(f"an invitation for {days} days; write a number above 0, at most {MAX_DAYS}")
        name = _checked_name(name) if name.strip() else ""
        token = new_token()
        with self._database.writing() as writing:
            connection, at = writing.connection, writing.at
            connection.execute(delete(_invitations).where(_invitations.c.expires_at <= at))
            row = {"token": hash_token(token), "role": role, "name": name, "expires_at": at + timedelta(days=days)}
            connection.execute(insert(_invitations).values(row))
            _note(writing, who, "person invited", name, f"as {role}")
        return token

    def invited(self, token: str) -> Invitation | None:
        """What the token invites to, as long as it does."""
        with self._database.reading() as connection:
            return _invitation(connection, token, self._database.clock())

    def accept(self, token: str, name: str, password: str) -> Person:
        """Join. The token is then used up; if name or password is refused it is not."""
        name = _checked_name(name)
        check_password(password)
        if not self.invited(token):
            raise _no_invitation()  # before the work of hashing, which anybody could cause
        hashed = hash_password(password)
        with self._database.writing() as writing:
            invitation = _invitation(writing.connection, token, writing.at)
            if not invitation:
                raise _no_invitation()
            if _account(writing.connection, name):
                raise StoreError(f"somebody here has the name {shown(name)} already; choose another name")
            writing.connection.execute(delete(_invitations).where(_invitations.c.token == hash_token(token)))
            return _join(writing, Person(name, invitation.role, writing.at), hashed)

    def log_in(self, name: str, password: str) -> Person | None:
        """None if name or password is wrong; the time it takes does not tell which."""
        with self._database.reading() as connection:
            account = _account(connection, name)
        if not matches(account.password if account else None, password) or not account:
            return None
        if is_outdated(account.password):
            with self._database.writing() as writing:
                _set_password(writing, account.key, hash_password(password))
        return account.person

    def change_password(self, name: str, password: str, who: str) -> None:
        """All sessions of the person end."""
        hashed = hash_password(password)
        with self._database.writing() as writing:
            account = _known(writing.connection, name)
            _set_password(writing, account.key, hashed)
            writing.connection.execute(delete(_sessions).where(_sessions.c.person == account.key))
            _note(writing, who, "password changed", account.person.name)

    def start_session(self, person: Person) -> str:
        """A token that says who somebody is, for a while."""
        token = new_token()
        with self._database.writing() as writing:
            connection, at = writing.connection, writing.at
            expired = or_(_sessions.c.seen_at <= at - IDLE, _sessions.c.started_at <= at - LONGEST)
            connection.execute(delete(_sessions).where(expired))
            key = _known(connection, person.name).key
            row = {"token": hash_token(token), "person": key, "started_at": at, "seen_at": at}
            connection.execute(insert(_sessions).values(row))
        return token

    def session(self, token: str) -> Session | None:
        """Whose token it is, if it has not expired; using it keeps it from doing so."""
        hashed, now = hash_token(token), self._database.clock()
        with self._database.reading() as connection:
            found = _session(connection, hashed)
        if not found or now >= _expiry(found):
            return None
        if now - found.seen_at >= _NOTED:
            found = replace(found, seen_at=now)
            with self._database.writing() as writing:
                seen = update(_sessions).where(_sessions.c.token == hashed).values(seen_at=now)
                writing.connection.execute(seen)
        return Session(found.person, found.started_at, _expiry(found))

    def end_session(self, token: str) -> None:
        with self._database.writing() as writing:
            writing.connection.execute(delete(_sessions).where(_sessions.c.token == hash_token(token)))

    def all(self) -> list[Person]:
        """By name."""
        query = select(_people.c.name, _people.c.role, _people.c.joined_at).order_by(_people.c.key)
        with self._database.reading() as connection:
            return [Person(name, cast(Role, role), at) for name, role, at in connection.execute(query)]

    def change_role(self, name: str, role: Role, who: str) -> None:
        _check_role(role)
        with self._database.writing() as writing:
            account = _known(writing.connection, name)
            if role == account.person.role:
                return
            _check_not_last_owner(writing.connection, account.person)
            writing.connection.execute(update(_people).where(_people.c.key == account.key).values(role=role))
            _note(writing, who, "role changed", account.person.name, f"from {account.person.role} to {role}")

    def remove(self, name: str, who: str) -> None:
        """The person's sessions end at once. What they asked and corrected stays, with their name."""
        with self._database.writing() as writing:
            account = _known(writing.connection, name)
            _check_not_last_owner(writing.connection, account.person)
            writing.connection.execute(delete(_people).where(_people.c.key == account.key))
            _note(writing, who, "person removed", account.person.name)

    def history(self, *, since: int = 0, limit: int = 100, newest_first: bool = True) -> list[Change]:
        """Who was invited, joined, changed and removed by whom. It has numbers of its own."""
        with self._database.reading() as connection:
            return changes(connection, _history, since=since, limit=limit, newest_first=newest_first)


def _check_role(role: str) -> None:
    if role not in ROLES:
        raise StoreError(unknown("role", role, ROLES))


def _checked_name(name: str) -> str:
    folded = fold(unicodedata.normalize("NFC", name))
    if not folded or len(folded) > MAX_NAME or not folded.isprintable() or not _key(folded):
        raise StoreError(f"the name is {shown(name)}; choose one of 1 to {MAX_NAME} visible characters")
    return folded


def _key(name: str) -> str:
    """What makes two names the same."""
    return fold(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()))


def _no_invitation() -> StoreError:
    return StoreError("the invitation was used, has expired or never was; ask an owner for a new one")


def _invitation(connection: Connection, token: str, now: datetime) -> Invitation | None:
    columns, hashed = _invitations.c, hash_token(token)
    query = select(columns.token, columns.role, columns.name, columns.expires_at).where(columns.token == hashed)
    found = connection.execute(query).one_or_none()
    if not found or not compare_digest(found.token, hashed) or now >= found.expires_at:
        return None
    return Invitation(cast(Role, found.role), found.name, found.expires_at)


def _account(connection: Connection, name: str) -> _Account | None:
    if not storable(name):
        return None
    columns, key = _people.c, _key(name)
    query = select(columns.name, columns.role, columns.joined_at, columns.password).where(columns.key == key)
    found = connection.execute(query).one_or_none()
    return _Account(Person(found.name, cast(Role, found.role), found.joined_at), key, found.password) if found else None


def _known(connection: Connection, name: str) -> _Account:
    account = _account(connection, name)
    if not account:
        raise UnknownId(f"nobody here has the name {shown(name)}; choose one of the list of people")
    return account


def _join(writing: Writing, person: Person, password: str) -> Person:
    row = {"key": _key(person.name), "name": person.name, "role": person.role, "password": password}
    writing.connection.execute(insert(_people).values(row | {"joined_at": person.joined_at}))
    _note(writing, person.name, "person joined", person.name, f"as {person.role}")
    return person


def _set_password(writing: Writing, key: str, hashed: str) -> None:
    writing.connection.execute(update(_people).where(_people.c.key == key).values(password=hashed))


def _check_not_last_owner(connection: Connection, person: Person) -> None:
    owners = connection.execute(select(func.count()).where(_people.c.role == "owner")).scalar_one()
    if person.role == "owner" and owners == 1:
        raise StoreError(f"{shown(person.name)} is the only owner; make somebody else an owner first")


def _session(connection: Connection, hashed: str) -> _Kept | None:
    columns = (_sessions.c.token, _sessions.c.started_at, _sessions.c.seen_at)
    query = (
        select(*columns, _people.c.name, _people.c.role, _people.c.joined_at)
        .join(_people, _people.c.key == _sessions.c.person)
        .where(_sessions.c.token == hashed)
    )
    found = connection.execute(query).one_or_none()
    if not found or not compare_digest(found.token, hashed):
        return None
    person = Person(found.name, cast(Role, found.role), found.joined_at)
    return _Kept(person, found.started_at, found.seen_at)


def _expiry(kept: _Kept) -> datetime:
    return min(kept.seen_at + IDLE, kept.started_at + LONGEST)


def _note(writing: Writing, who: str, what: What, which: str, note: str = "") -> None:
    record(writing, _history, checked_who(who), [Entry(what, which, note)])
