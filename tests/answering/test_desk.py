# SPDX-License-Identifier: Apache-2.0
"""The desk over a real store: documents that come and go, models of runs, restarts, many people at once."""

import json
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from toy_alliance import rows
from toy_silo import TRAINED, filled, learning, write_silo

from fedqa.answering import desk as desk_module
from fedqa.answering.desk import Desk
from fedqa.answering.pipeline import READ
from fedqa.config import load_project
from fedqa.errors import ConfigError, RunError
from fedqa.runs import train
from fedqa.settings import Settings
from fedqa.store import Correction, Store

GATE, ANSWER = rows("Northam")[0]
DOGS = "Dogs must wait outside the town hall. Guide dogs may come in."


@contextmanager
def opened(settings: Settings) -> Iterator[tuple[Desk, Store]]:
    store = filled(settings)
    desk = Desk.open(settings, store)
    try:
        yield desk, store
    finally:
        desk.close()
        store.close()


def trained(folder: Path, run: str, *changes: str, skill: str = "match") -> Path:
    """A run of the toy alliance on the model `tiny`."""
    filled(write_silo(folder, alliance=learning(skill))).close()
    train(load_project(folder / "alliance.toml", ["local.learning_rate=1e-2", *changes]), folder / run, processes=1)
    return folder / run


@pytest.fixture
def match_silo(tmp_path: Path) -> Settings:
    trained(tmp_path, "run")
    return write_silo(tmp_path, '[runs]\nmatch = "run"\n')


# -- before any training -----------------------------------------------------------------------------------------


def test_before_any_training_the_embedded_model_answers(tmp_path: Path) -> None:
    with opened(write_silo(tmp_path)) as (desk, store):
        reply = desk.ask(GATE, k=2)
        assert reply.answered and desk.ready
        assert len(reply.answers) == 2
        best = reply.answers[0]
        assert best.passage == best.evidence == best.answer == ANSWER  # a document is a sentence here
        assert store.document(best.document).document.text[best.answer_start : best.answer_end] == best.answer
        assert (best.start, best.end) == (best.answer_start, best.answer_end)
        assert best.confidence > reply.answers[1].confidence > 0
        assert reply.model == desk.model == "the embedded model, untrained"
        assert reply.seconds > 0 and reply.verified is None


def test_what_the_documents_do_not_hold_is_not_answered_and_the_nearest_passages_are_shown(tmp_path: Path) -> None:
    with opened(write_silo(tmp_path)) as (desk, _):
        reply = desk.ask("Which enzyme breaks down lactose?")
        assert not reply.answered and len(reply.answers) == 3


def test_an_empty_store_answers_nothing(tmp_path: Path) -> None:
    settings = write_silo(tmp_path)
    store = Store.open(settings.store)
    desk = Desk.open(settings, store)
    reply = desk.ask("Anything?")
    assert (reply.answers, reply.answered) == ((), False)
    desk.settle()  # there are no dev questions either
    desk.close()
    store.close()


def test_what_somebody_here_has_answered_is_told(tmp_path: Path) -> None:
    with opened(write_silo(tmp_path)) as (desk, store):
        found = desk.ask(GATE).answers[0]
        store.correct(Correction(GATE, "Ann", found.document, found.start, found.end, found.evidence))
        verified = desk.ask(GATE.upper()).verified
        assert verified is not None and (verified.added_by, verified.origin) == ("Ann", "annotated")


@pytest.mark.parametrize(("question", "k", "message"), [(" \n", 1, "the question is empty"), ("Why?", 0, "at least 1")])
def test_questions_that_cannot_be_asked(tmp_path: Path, question: str, k: int, message: str) -> None:
    with opened(write_silo(tmp_path)) as (desk, _), pytest.raises(ConfigError, match=message):
        desk.ask(question, k)


# -- documents that come and go ----------------------------------------------------------------------------------


def test_a_document_is_answered_from_once_it_is_added_and_never_once_it_is_removed(match_silo: Settings) -> None:
    question = "May guide dogs come in?"
    with opened(match_silo) as (desk, store):
        added = store.add_document(DOGS, "Dogs", source="text", who="Ann")
        desk.refresh()
        assert desk.ask(question).answers[0].document == added.id
    with opened(match_silo) as (desk, store):  # a restart
        best = desk.ask(question).answers[0]
        assert (best.title, best.evidence) == ("Dogs", "Guide dogs may come in.")
        store.remove_document(added.id, "Ann")
        assert added.id not in {answer.document for answer in desk.ask(question, k=9).answers}  # before any refresh
        desk.refresh()
    with opened(match_silo) as (desk, _):
        assert added.id not in {answer.document for answer in desk.ask(question, k=30).answers}


def test_what_another_process_changes_counts_at_once(match_silo: Settings) -> None:
    with opened(match_silo) as (desk, _):
        other = Store.open(match_silo.store)
        added = other.add_document(DOGS, "Dogs", source="text", who="Ann")
        assert desk.ask("May guide dogs come in?").answers[0].document == added.id
        other.remove_document(added.id, "Ann")
        assert added.id not in {answer.document for answer in desk.ask("May guide dogs come in?").answers}
        other.close()


def test_nothing_is_encoded_again_after_a_restart(match_silo: Settings) -> None:
    with opened(match_silo):
        index = next(path for path in (match_silo.kept / "index").iterdir() if path.is_dir())
        vectors = {path: path.stat().st_mtime_ns for path in index.glob("*.f32")}
        assert vectors
    with opened(match_silo) as (desk, _):
        assert {path: path.stat().st_mtime_ns for path in index.glob("*.f32")} == vectors
        assert desk.ready
    # Nor where the note of the version is lost: what is there in the same form stays.
    (index / "followed.json").unlink()
    with opened(match_silo):
        assert {path: path.stat().st_mtime_ns for path in index.glob("*.f32")} == vectors


def test_an_index_that_is_of_another_store_or_lost_is_made_anew(match_silo: Settings) -> None:
    with opened(match_silo) as (_, store):
        for number in range(9):
            store.add_document(f"{DOGS} Since {number}.", "Dogs", source="text", who="Ann")
    Path(str(match_silo.store)).unlink()
    with opened(match_silo) as (desk, _):
        assert "Dogs" not in {answer.title for answer in desk.ask("May guide dogs come in?", k=30).answers}
        (index,) = (match_silo.kept / "index").iterdir()
    shutil.rmtree(index)
    with opened(match_silo) as (desk, _):
        assert desk.ask(GATE).answers[0].answer == ANSWER


def test_many_documents_are_taken_in_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "_PATIENCE_S", 0.0)
    trained(tmp_path, "run")
    settings = write_silo(tmp_path, '[runs]\nmatch = "run"\n')
    store = filled(settings)
    for number in range(30):
        store.add_document(f"Rule {number}. " + "All of it is long. " * 100, f"Rule {number}", source="x", who="Ann")
    desk = Desk(settings, store)
    desk.refresh()
    assert not desk.ready
    assert desk.ask("Which rule is long?").answers  # with what is there so far
    desk._keeper.start()
    waited(lambda: desk.ready)
    assert len(desk._service.now.following.index.ids()) == 50
    desk.close()
    store.close()


def test_people_ask_while_documents_come_and_go(match_silo: Settings) -> None:
    """Nobody sees an error, nor a document that was gone before they asked."""
    failures: list[object] = []
    with opened(match_silo) as (desk, store):
        gone: set[str] = set()
        stop = threading.Event()

        def ask() -> None:
            while not stop.is_set():
                try:
                    before = set(gone)
                    reply = desk.ask("May guide dogs come in?", k=5)
                    failures.extend(answer for answer in reply.answers if answer.document in before)
                except Exception as problem:
                    failures.append(problem)

        people = [threading.Thread(target=ask) for _ in range(3)]
        for person in people:
            person.start()
        for number in range(8):
            added = store.add_document(f"{DOGS} Since {number}.", "Dogs", source="text", who="Ann")
            desk.refresh()
            store.remove_document(added.id, "Ann")
            gone.add(added.id)
            desk.refresh()
        desk.settle()
        stop.set()
        for person in people:
            person.join()
    assert failures == []


# -- models ------------------------------------------------------------------------------------------------------


def test_the_silos_best_model_of_a_run_answers(match_silo: Settings) -> None:
    with opened(match_silo) as (desk, _):
        reply = desk.ask(GATE)
        best = json.loads((match_silo.folder / "run/silos/north/state/best.json").read_text())
        assert reply.model == f"fedavg, round {min(best['round'], 2)}"
        assert reply.answers[0].answer == ANSWER  # words find what a model that knows nothing cannot


def test_sentences_are_found_by_retrieve_and_their_passages_matched_again(tmp_path: Path) -> None:
    trained(tmp_path, "match")
    trained(tmp_path, "retrieve", "method=dense", "rounds=1", skill="retrieve")
    settings = write_silo(tmp_path, '[runs]\nretrieve = "retrieve"\nmatch = "match"\n')
    with opened(settings) as (desk, store):
        store.add_document("Nobody knows why. " + DOGS, "Dogs", source="text", who="Ann")
        reply = desk.ask("May guide dogs come in?", k=5)
        assert len({answer.passage for answer in reply.answers}) == 5  # each passage once, by its best sentence
        (dogs,) = (answer for answer in reply.answers if answer.title == "Dogs")
        assert dogs.evidence == dogs.answer == "Guide dogs may come in."
        assert reply.model.startswith("found by dense, round ") and "; matched by fedavg, round " in reply.model
        assert desk._service.now.pipeline.parts == ("vectors", "words", "match")


def test_the_exact_words_are_read_in_what_was_found(tmp_path: Path) -> None:
    trained(tmp_path, "read", "rounds=1", "freeze_layers=1", skill="read")
    settings = write_silo(tmp_path, '[runs]\nread = "read"\n')
    with opened(settings) as (desk, store):
        store.add_document(f"All are welcome. {DOGS}\n\nCats are not.", "Dogs", source="text", who="Ann")
        reply = desk.ask("May guide dogs come in?", k=9)
        assert reply.answers[0].title == "Dogs" and reply.model.startswith("fedavg, round ")
        assert desk._service.now.pipeline.parts == ("vectors", "words", "read")
        for answer in reply.answers:
            text = store.document(answer.document).document.text
            assert text[answer.answer_start : answer.answer_end] == answer.answer != ""
            assert text[answer.start : answer.end] == answer.evidence
            assert answer.passage in text and answer.evidence in answer.passage
            assert answer.start <= answer.answer_start < answer.answer_end <= answer.end
        read = [answer for answer in reply.answers if answer.answer != answer.evidence]
        assert 0 < len(read) <= READ  # what is not read answers with its sentence


def test_a_model_without_vectors_leaves_finding_to_words(tmp_path: Path) -> None:
    trained(tmp_path, "run", "method=zero_shot", "skills.match.interaction=bm25")
    with opened(write_silo(tmp_path, '[runs]\nmatch = "run"\n')) as (desk, _):
        reply = desk.ask(GATE)
        assert reply.answers[0].answer == ANSWER and reply.model == "zero_shot, untrained"
        assert desk.ask("xyzzy").answers == ()  # nothing shares a word with it


def test_the_models_of_a_training_that_ends_are_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "_LOOK_S", 0.05)
    settings = write_silo(tmp_path, TRAINED)
    with opened(settings) as (desk, _):
        assert desk.model == "the embedded model, untrained"  # the run is still to come
        (before,) = (path for path in (settings.kept / "index").iterdir() if path.is_dir())
        train(load_project(tmp_path / "alliance.toml"), tmp_path / "run", processes=1)
        waited(lambda: desk.model.startswith("fedavg, round "))
        assert desk.ask(GATE).model == desk.model and desk.ready
        waited(lambda: not before.exists())  # the vectors of the model before are of no use
        model = desk.model
        desk.reload()  # nothing new
        assert desk.model == model


def test_what_people_have_corrected_is_asked_again_of_the_desk_itself(match_silo: Settings) -> None:
    with opened(match_silo) as (desk, store):
        right, other = desk.ask(GATE).answers[0], rows("Northam")[1][0]
        assert desk.ask(other).answers[0].document != right.document
        place = (right.document, right.start, right.end, right.evidence)
        ids = [store.correct(Correction(question, "Ann", *place)).example.id for question in (GATE, other)]
        desk.settle()
        assert desk.checked == {ids[0]: True, ids[1]: False}
        store.remove_document(right.document, "Ann")  # and with it both
        desk.settle()
        assert desk.checked == {}


def test_nothing_is_said_of_models_that_were_not_asked_yet(match_silo: Settings) -> None:
    store = filled(match_silo)
    desk = Desk(match_silo, store)  # without the thread that would take them up
    found = desk.ask(GATE).answers[0]
    id = store.correct(Correction(GATE, "Ann", found.document, found.start, found.end, found.evidence)).example.id
    desk.settle()
    assert desk.checked == {id: True}
    (match_silo.runs["match"] / "result.json").touch()  # a training has ended
    assert desk.checked == {}
    desk.reload()
    assert desk.checked == {}
    desk.settle()
    assert desk.checked == {id: True}
    desk.close()
    store.close()


def test_runs_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    trained(tmp_path, "run")
    with pytest.raises(ConfigError, match=r"\[runs\] read = .* is a run in which 'north' learnt 'match'"):
        Desk(write_silo(tmp_path, '[runs]\nread = "run"\n'), filled(write_silo(tmp_path)))
    with pytest.raises(RunError, match="nowhere does not exist"):
        Desk(write_silo(tmp_path, '[runs]\nmatch = "nowhere"\n'), filled(write_silo(tmp_path)))


# -- how sure it is ----------------------------------------------------------------------------------------------


def test_the_confidence_is_fitted_to_dev_questions_and_kept(tmp_path: Path) -> None:
    settings = write_silo(tmp_path)
    kept = settings.kept / "confidence.json"
    with opened(settings) as (desk, store):
        _add_dev_questions(store)
        desk.settle()
        fitted = json.loads(kept.read_text())
        assert fitted["blend"]["confidence"]["questions"] == 12  # two of the toy silo's twenty, and the ten
        assert fitted["parts"] == ["vectors", "words"]
        confidence = desk.ask(GATE).answers[0].confidence
    written = kept.stat().st_mtime_ns
    with opened(settings) as (desk, store):
        assert desk.ask(GATE).answers[0].confidence == pytest.approx(confidence)  # from the first question on
        desk.settle()
        assert kept.stat().st_mtime_ns == written
        store.remove_example(next(e.id for e in store.collection().of_split("dev")), "Ann")
        desk.settle()
        assert kept.stat().st_mtime_ns > written
    kept.write_text("half a fi")
    with opened(settings) as (desk, _):
        assert desk.ask(GATE).answered


def _add_dev_questions(store: Store) -> None:
    from fedqa.data.records import Collection, Document, Example, Span

    documents = [Document(f"house {n}", f"House {n} in Elm Street has {n + 2} rooms.") for n in range(10)]
    examples = [
        Example(f"asked {n}", f"How many rooms has house {n} in Elm Street?", (Span(f"house {n}", 0, 20),), split="dev")
        for n in range(10)
    ]
    store.add_collection(Collection(tuple(documents), tuple(examples)), source="test", who="Ann")


def waited(done: object) -> None:
    assert callable(done)
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        time.sleep(0.02)
