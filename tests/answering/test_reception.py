# SPDX-License-Identifier: Apache-2.0
"""Who is asked before the desk is open: keywords from the index on disk, the hand-over, and what may go wrong."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from toy_alliance import rows
from toy_silo import filled, write_silo

from fedqa.answering.answers import Reply
from fedqa.answering.desk import Desk
from fedqa.answering.reception import BY_KEYWORDS, Reception
from fedqa.answering.vector_index import Entry, VectorIndex
from fedqa.data.passages import passages
from fedqa.errors import ConfigError, RunError
from fedqa.settings import Settings
from fedqa.store import Correction, Store

GATE, ANSWER = rows("Northam")[0]
DOGS = "The hall is open. Guide dogs may come into the hall.\n\nThe yard is closed."
CATS = "The hall has cats."


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(path=tmp_path / "silo.toml", name="hospital", store=tmp_path / "silo.sqlite")


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    with Store.open(settings.store) as store:
        yield store


@pytest.fixture
def dogs(settings: Settings, store: Store) -> str:
    """The id of a document that is in the index, as a desk would have left it."""
    id = store.add_document(DOGS, "Dogs", source="x", who="Ann").id
    store.add_document(CATS, "Cats", source="x", who="Ann")
    left_index(settings, store, "left")
    return id


def left_index(settings: Settings, store: Store, name: str) -> Path:
    """An index of the passages that are in the store now, for an encoder that nobody knows."""
    folder = settings.kept / "index" / name
    with VectorIndex.open(folder, 3, f"encoder {name}") as index:
        for document in store.all_documents():
            entries = [Entry(one.id, one.text, one.start, one.end) for one in passages(document)]
            index.add(document.id, entries, np.ones((len(entries), 3), dtype=np.float32))
    return folder


class ToyDesk:
    """Says who answered."""

    def __init__(self) -> None:
        self.closed, self.ready, self.model, self.checked, self.refreshed = False, True, "a toy", {"e": True}, 0

    def ask(self, question: str, k: int = 3) -> Reply:
        return Reply(question, (), False, None, 0.0, self.model)

    def refresh(self) -> None:
        self.refreshed += 1

    def close(self) -> None:
        self.closed = True


def opens(monkeypatch: pytest.MonkeyPatch, work: Callable[[], ToyDesk]) -> None:
    """Let a toy be what opens."""
    monkeypatch.setattr(Desk, "open", lambda settings, store: work())


# -- by keywords -------------------------------------------------------------------------------------------------


def test_the_sentence_that_shares_the_rarest_words_answers(settings: Settings, store: Store, dogs: str) -> None:
    reception = Reception(settings, store)
    reply = reception.ask("Is the hall for dogs?")
    # "is" and "the" stand in both sentences of the passage or in most entries; "dogs" stands in one of three.
    best = reply.answers[0]
    assert best.answer == best.evidence == "Guide dogs may come into the hall."
    assert (best.document, best.title, best.passage) == (dogs, "Dogs", DOGS.partition("\n")[0])
    assert DOGS[best.start : best.end] == DOGS[best.answer_start : best.answer_end] == best.answer
    assert [one.title for one in reply.answers] == ["Dogs", "Dogs", "Cats"]  # each passage once
    assert reply.provisional and reply.answered and reply.model == BY_KEYWORDS == reception.model
    assert {one.confidence for one in reply.answers} == {0.0}  # nobody knows
    assert len(reception.ask("Is the hall for dogs?", k=1).answers) == 1
    assert not reception.loaded and not reception.ready and reception.checked == {}
    reception.close()


def test_a_question_without_a_word_of_the_documents_is_not_answered(
    settings: Settings, store: Store, dogs: str
) -> None:
    reception = Reception(settings, store)
    reply = reception.ask("Warum?")
    assert (reply.answers, reply.answered, reply.provisional) == ((), False, True)
    reception.close()


def test_the_newest_index_is_asked(settings: Settings, store: Store, dogs: str) -> None:
    store.add_document("Horses stay in the yard.", "Horses", source="x", who="Ann")
    os.utime(left_index(settings, store, "newer"), ns=(0, 2**62))
    reception = Reception(settings, store)
    assert reception.ask("Where do horses stay?").answers[0].title == "Horses"
    reception.close()


def test_a_document_that_was_removed_meanwhile_is_not_shown(settings: Settings, store: Store, dogs: str) -> None:
    reception = Reception(settings, store)
    store.remove_document(dogs, "Ann")
    assert [one.title for one in reception.ask("Is the hall for dogs?").answers] == ["Cats"]
    reception.close()


def test_what_somebody_here_has_answered_is_told(settings: Settings, store: Store, dogs: str) -> None:
    reception = Reception(settings, store)
    store.correct(Correction("May dogs come in?", "Ann", dogs, 18, 28, "Guide dogs"))
    verified = reception.ask("may DOGS come in").verified
    assert verified is not None and verified.added_by == "Ann"
    reception.close()


@pytest.mark.parametrize(("question", "k", "message"), [(" \n", 1, "the question is empty"), ("Why?", 0, "at least 1")])
def test_questions_that_cannot_be_asked(
    settings: Settings, store: Store, dogs: str, question: str, k: int, message: str
) -> None:
    reception = Reception(settings, store)
    with pytest.raises(ConfigError, match=message):
        reception.ask(question, k)
    reception.close()


# -- the hand-over -----------------------------------------------------------------------------------------------


def test_the_desk_answers_once_it_is_open(
    settings: Settings, store: Store, dogs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = ToyDesk()
    opens(monkeypatch, lambda: desk)
    reception = Reception(settings, store)
    reception.refresh()  # there is nobody to do it
    reception.open()
    assert reception.loaded and reception.ready and reception.model == "a toy" and reception.checked == {"e": True}
    assert reception.ask("Is the hall for dogs?").model == "a toy"
    reception.refresh()
    assert desk.refreshed == 1
    reception.close()
    assert desk.closed


def test_a_real_desk_takes_over_and_deletes_the_index_that_was_asked_before(tmp_path: Path) -> None:
    settings = write_silo(tmp_path)
    store = filled(settings)
    before = left_index(settings, store, "left")
    reception = Reception(settings, store)
    by_keywords = reception.ask(GATE)
    reception.open()
    assert not before.exists()
    by_models = reception.ask(GATE)
    assert by_keywords.answers[0].answer == by_models.answers[0].answer == ANSWER
    assert (by_keywords.provisional, by_models.provisional) == (True, False)
    assert by_models.model == "the embedded model, untrained" and by_models.answers[0].confidence > 0
    reception.close()
    again = Reception(settings, store)  # from the index that the desk has left
    assert again.ask(GATE).answers[0].answer == ANSWER and again.ask(GATE).provisional
    again.close()
    store.close()


def test_an_index_that_is_deleted_while_it_is_asked_harms_nobody(settings: Settings, store: Store, dogs: str) -> None:
    reception = Reception(settings, store)
    shutil.rmtree(settings.kept / "index" / "left")
    assert reception.ask("Is the hall for dogs?").answers[0].document == dogs
    reception.close()
    assert list((settings.kept / "index").iterdir()) == []


@pytest.mark.parametrize("there", ["nothing", "an empty folder", "no database", "a closed index"])
def test_without_an_index_a_question_waits_for_the_desk(
    settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    folder = settings.kept / "index" / "left"
    if there == "an empty folder":
        folder.mkdir(parents=True)
    if there == "no database":
        folder.mkdir(parents=True)
        (folder / "entries.sqlite").write_text("half a fi" * 1000)
    if there == "a closed index":
        left_index(settings, store, "left")
    opens(monkeypatch, ToyDesk)
    reception = Reception(settings, store)
    if there == "a closed index":
        assert reception._keywords is not None
        reception._keywords.close()
    with ThreadPoolExecutor() as people:
        asked = people.submit(reception.ask, "Anything?")
        assert not asked.done()
        reception.open()
        assert asked.result(60).model == "a toy"
    reception.close()


# -- what may go wrong -------------------------------------------------------------------------------------------


def test_what_is_wrong_with_the_models_is_raised_and_told_to_who_waits(tmp_path: Path) -> None:
    store = filled(write_silo(tmp_path))
    settings = write_silo(tmp_path, '[runs]\nmatch = "nowhere"\n')
    reception = Reception(settings, store)
    with ThreadPoolExecutor() as people:
        asked = people.submit(reception.ask, GATE)
        with pytest.raises(RunError, match="nowhere does not exist"):
            reception.open()
        with pytest.raises(RunError, match="the models could not be loaded, so nobody can answer here"):
            asked.result(60)
    assert not reception.loaded
    reception.close()
    store.close()


def test_a_desk_that_is_being_opened_is_closed_once_it_is_open(
    settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, desk = threading.Event(), threading.Event(), ToyDesk()

    def slowly() -> ToyDesk:
        begun.set()
        assert go_on.wait(60)
        return desk

    opens(monkeypatch, slowly)
    reception = Reception(settings, store)
    with ThreadPoolExecutor() as both:
        opening = both.submit(reception.open)
        assert begun.wait(60)
        closing = both.submit(reception.close)
        assert not closing.done()
        go_on.set()
        opening.result(60)
        closing.result(60)
    assert desk.closed


def test_a_reception_that_is_closed_opens_no_desk(
    settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens(monkeypatch, lambda: pytest.fail("it was opened"))
    reception = Reception(settings, store)
    reception.close()
    reception.open()
    assert not reception.loaded
    with pytest.raises(RunError, match="the page is being stopped"):
        reception.ask("Anything?")
