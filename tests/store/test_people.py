# SPDX-License-Identifier: Apache-2.0
"""Invitations, passwords, sessions and roles."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from sqlalchemy import select

from fedqa.store import People, Person, Role, Store, StoreError, UnknownId, passwords, tables

PASSWORD = "correct horse"
START = datetime(2030, 1, 1, tzinfo=UTC)


class Watch:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture(autouse=True)
def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashing takes a tenth of a second on purpose; what is tested here does not depend on it."""
    monkeypatch.setattr(passwords, "_hasher", PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))
    passwords._nobodys.cache_clear()


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def silo(where: str | Path, watch: Watch) -> Iterator[Store]:
    with Store.open(where, clock=watch) as store:
        yield store


@pytest.fixture
def people(silo: Store) -> People:
    return silo.people()


def join(people: People, name: str, role: Role = "editor") -> Person:
    return people.accept(people.invite(role), name, PASSWORD)


def rows(silo: Store, table: str) -> str:
    """All that a table holds, as one text."""
    with silo._database.reading() as connection:
        return str(connection.execute(select(tables.metadata.tables[table])).all())


def test_an_invitation_lets_one_person_join_once(people: People) -> None:
    token = people.invite("editor", " Ada  L ", days=2)
    invitation = people.invited(token)
    assert invitation and (invitation.role, invitation.name) == ("editor", "Ada L")
    assert invitation.expires_at == START + timedelta(days=2)
    person = people.accept(token, "Ada Lovelace", PASSWORD)
    assert person == Person("Ada Lovelace", "editor", START)
    assert people.all() == [person]
    assert people.invited(token) is None
    with pytest.raises(StoreError, match="the invitation was used, has expired or never was; ask an owner"):
        people.accept(token, "Ben", PASSWORD)


def test_an_invitation_is_accepted_by_one_of_many_who_try_at_once(people: People) -> None:
    token = people.invite("reader")

    def accept(k: int) -> bool:
        try:
            people.accept(token, f"Person {k}", PASSWORD)
        except StoreError:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(accept, range(16))) == 1
    assert len(people.all()) == 1


def test_a_name_is_taken_by_one_of_many_who_choose_it_at_once(people: People) -> None:
    tokens = [people.invite("reader") for _ in range(8)]

    def accept(token: str) -> bool:
        try:
            people.accept(token, "Ada", PASSWORD)
        except StoreError as problem:
            assert "somebody here has the name 'Ada' already" in str(problem)
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(accept, tokens)) == 1
    assert sum(people.invited(token) is not None for token in tokens) == 7, "who was refused may choose another name"


def test_an_invitation_expires(people: People, watch: Watch) -> None:
    token = people.invite("reader", days=1)
    watch.now += timedelta(days=1)
    assert people.invited(token) is None
    with pytest.raises(StoreError, match="has expired"):
        people.accept(token, "Ada", PASSWORD)


def test_what_cannot_be_is_refused(people: People) -> None:
    token = people.invite("reader")
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: people.invite("admin"), r"unknown role 'admin' \(known: editor, owner, reader\)"),  # type: ignore[arg-type]
        (lambda: people.invite("reader", days=0), "an invitation for 0 days; write a number above 0, at most 365"),
        (lambda: people.invite("reader", days=float("nan")), "an invitation for nan days"),
        (lambda: people.accept(token, " ", PASSWORD), "the name is ' '; choose one of 1 to 80 visible characters"),
        (lambda: people.accept(token, "a" * 81, PASSWORD), "choose one of 1 to 80"),
        (lambda: people.accept(token, "a\u200bb", PASSWORD), "visible characters"),
        (lambda: people.accept(token, "Ada", "short"), "the password has 5 characters; choose one of 10 to 1,000"),
        (lambda: people.accept(token, "Ada", "a" * 1_001), "the password has 1,001 characters"),
        (lambda: people.change_role("Nobody", "reader", "Ada"), "nobody here has the name 'Nobody'; choose one of"),
        (lambda: people.remove("\0", "Ada"), "nobody here has the name"),
        (lambda: people.start_session(Person("Nobody", "owner", START)), "nobody here has the name 'Nobody'"),
    ]
    for attempt, message in cases:
        with pytest.raises(StoreError, match=message):
            attempt()
    assert people.invited(token)


@pytest.mark.parametrize("other", ["ada", "\N{FULLWIDTH LATIN CAPITAL LETTER A}da", " Ada "])
def test_names_that_look_the_same_are_the_same(people: People, other: str) -> None:
    join(people, "Ada")
    with pytest.raises(StoreError, match="already; choose another name"):
        join(people, other)
    assert people.log_in(other, PASSWORD)


def test_who_knows_the_password_comes_in_and_nobody_else(people: People) -> None:
    person = join(people, "Ada")
    assert people.log_in("Ada", PASSWORD) == person
    for name, password in [("Ada", "wrong horse"), ("Ben", PASSWORD), ("Ada", ""), ("\0", PASSWORD), ("Ada", "\ud800")]:
        assert people.log_in(name, password) is None
    assert people.log_in("Ada", PASSWORD + "x" * 2_000_000) is None


def test_a_hash_of_less_work_is_replaced_at_the_next_log_in(
    people: People, silo: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    join(people, "Ada")
    monkeypatch.setattr(passwords, "_hasher", PasswordHasher(time_cost=2, memory_cost=64, parallelism=1))
    assert "t=1," in rows(silo, "people")
    assert people.log_in("Ada", PASSWORD)
    assert "t=2," in rows(silo, "people")
    assert people.log_in("Ada", PASSWORD)


def test_a_session_lives_while_it_is_used_but_not_for_ever(people: People, watch: Watch) -> None:
    person = join(people, "Ada")
    token = people.start_session(person)
    session = people.session(token)
    assert session and (session.person, session.started_at) == (person, START)
    assert session.expires_at == START + timedelta(hours=12)
    for hours in range(11, 7 * 24, 11):
        watch.now = START + timedelta(hours=hours)
        session = people.session(token)
        assert session and session.expires_at == min(watch.now + timedelta(hours=12), START + timedelta(days=7))
    watch.now = START + timedelta(days=7)
    assert people.session(token) is None


def test_a_session_that_is_not_used_expires(people: People, watch: Watch) -> None:
    token = people.start_session(join(people, "Ada"))
    watch.now += timedelta(hours=12)
    assert people.session(token) is None


def test_a_session_ends_by_itself_by_a_new_password_and_with_the_person(people: People, silo: Store) -> None:
    ada = join(people, "Ada")
    tokens = [people.start_session(ada) for _ in range(3)]
    people.end_session(tokens[0])
    assert [people.session(token) is None for token in tokens] == [True, False, False]
    people.change_password("ADA", "another horse", "Ada")
    assert people.log_in("Ada", PASSWORD) is None
    assert people.log_in("Ada", "another horse")
    assert people.session(tokens[1]) is None
    last = people.start_session(ada)
    people.remove("Ada", "Owner")
    assert people.session(last) is None
    assert rows(silo, "sessions") == "[]"


def test_a_new_role_counts_at_once_in_a_running_session(people: People) -> None:
    token = people.start_session(join(people, "Ada", "reader"))
    people.change_role("ada", "owner", "Owner")
    session = people.session(token)
    assert session and session.person.role == "owner"


def test_the_last_owner_stays(people: People) -> None:
    join(people, "Ada", "owner")
    join(people, "Ben", "owner")
    people.change_role("Ben", "editor", "Ada")
    people.change_role("Ada", "owner", "Ada")
    only = "'Ada' is the only owner; make somebody else an owner first"
    with pytest.raises(StoreError, match=only):
        people.remove("Ada", "Ada")
    with pytest.raises(StoreError, match=only):
        people.change_role("Ada", "reader", "Ada")


def test_of_two_owners_who_remove_each_other_at_once_one_stays(people: People) -> None:
    join(people, "Ada", "owner")
    join(people, "Ben", "owner")

    def remove(name: str) -> bool:
        try:
            people.remove(name, "somebody")
        except StoreError:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(remove, ["Ada", "Ben"])) == [False, True]


def test_the_database_holds_no_token_and_no_password(people: People, silo: Store) -> None:
    invitation = people.invite("reader")
    session = people.start_session(join(people, "Ada"))
    everything = "".join(rows(silo, table) for table in tables.metadata.tables)
    assert "Ada" in everything
    assert not any(secret in everything for secret in (invitation, session, PASSWORD))
    for foreign in ("", "x", "\0\ud800", session[:-1]):
        assert people.session(foreign) is None
        assert people.invited(foreign) is None


def test_changes_of_people_have_a_history_of_their_own(people: People, silo: Store) -> None:
    people.accept(people.invite("reader", "Ada", who="Owner"), "Ada", PASSWORD)
    people.change_role("Ada", "editor", "Owner")
    people.remove("Ada", "Owner")
    assert [(change.number, change.who, change.what, change.which, change.note) for change in people.history()] == [
        (4, "Owner", "person removed", "Ada", ""),
        (3, "Owner", "role changed", "Ada", "from reader to editor"),
        (2, "Ada", "person joined", "Ada", "as reader"),
        (1, "Owner", "person invited", "Ada", "as reader"),
    ]
    assert silo.version == 0
    with pytest.raises(UnknownId):
        people.remove("Ada", "Owner")
