# SPDX-License-Identifier: Apache-2.0
"""Where a silo's people are answered: from the documents in its store as they are now, with its own models.

Models are loaded once. A thread in the background takes in what is left to take in, fits the confidence to the silo's
dev questions, takes up the models of a training that has ended and asks again what people have corrected; people are
answered meanwhile with what there is.
"""

import shutil
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from fedqa.answering import calibration
from fedqa.answering.answers import Reply, answer_of, check_question, stored_document
from fedqa.answering.blending import Measured
from fedqa.answering.calibration import Basis
from fedqa.answering.checking import is_right
from fedqa.answering.document_index import DocumentIndex
from fedqa.answering.following import Following
from fedqa.answering.pipeline import Pipeline
from fedqa.answering.retrieving import dev_questions
from fedqa.answering.staff import Staff, load_staff, stamp
from fedqa.answering.turns import Exchangeable, Turns
from fedqa.data.records import Document, Span
from fedqa.settings import Settings
from fedqa.store import Store

_PATIENCE_S = 2.0  # for which opening and refreshing take documents in; the rest is done in the background
_PIECE_S = 0.5  # of work in the background, after which others may change something
_LOOK_S = 5.0  # between looks for new models
_FIT_S = 60.0  # at least, between looks at what the confidence and the checks rest on

Dev = Sequence[tuple[str, Sequence[Span]]]  # questions and their evidence


@dataclass(frozen=True)
class _Service:
    """Models, the index that goes with them, and what both make."""

    staff: Staff
    following: Following
    pipeline: Pipeline


@dataclass(frozen=True)
class _Checks:
    """What people here have corrected, as it was last asked again."""

    stamp: tuple[int, ...] | None = None  # of the runs whose models were asked
    looked_at: tuple[str, int] | None = None  # these models, and the version of the store
    right: Mapping[str, bool] = field(default_factory=dict)  # by the example's id


class Desk:
    """See the module's text. Safe to use from several threads."""

    def __init__(self, settings: Settings, store: Store) -> None:
        """Use `open`, which also takes the documents in."""
        self._settings, self._store = settings, store
        self._turns = Turns()  # with the models
        self._changing = threading.RLock()  # of the index and the models: one thread at a time
        self._reloading, self._fitting, self._checking = (threading.Lock() for _ in range(3))  # likewise
        self._closed, self._wake = threading.Event(), threading.Event()
        self._stamp = stamp(settings)
        self._service = Exchangeable(self._opened(load_staff(settings)))
        self._looked_at: tuple[str, int] | None = None  # models and version of the store that the confidence fits
        self._checks = _Checks()
        self._keeper = threading.Thread(target=self._keep, name="desk", daemon=True)

    @classmethod
    def open(cls, settings: Settings, store: Store) -> "Desk":
        """Load the models and take the documents in; where they are many, `ready` says when all are there."""
        desk = cls(settings, store)
        desk._tidy()
        desk.refresh()
        desk._keeper.start()
        return desk

    def close(self) -> None:
        """End the work in the background; what it has not finished is done after the next opening."""
        self._closed.set()
        self._wake.set()
        if self._keeper.is_alive():
            self._keeper.join()
        self._service.now.following.index.close()

    @property
    def ready(self) -> bool:
        """Have all documents been taken in?"""
        return self._service.now.following.complete

    @property
    def model(self) -> str:
        """Which models answer, in words for people."""
        return self._service.now.staff.words

    @property
    def checked(self) -> Mapping[str, bool]:
        """By the id of each example that people made: is it what everybody is answered now, from all documents?

        Empty until the newest models have been asked; of the last minute's corrections nothing may be known yet.
        """
        checks = self._checks
        return checks.right if checks.stamp == stamp(self._settings) else {}

    def ask(self, question: str, k: int = 3) -> Reply:
        """The best `k` answers, from the documents as they are now."""
        began = time.perf_counter()
        check_question(question, k)
        self._catch_up()
        with self._service.use() as service:
            found = service.pipeline.find(question, k)
            threshold, words = service.pipeline.confidence.threshold, service.staff.words
        read = ((one, self._document(one.passage.document)) for one in found)
        answers = tuple(answer_of(one, document) for one, document in read if document)
        answered = bool(answers) and answers[0].confidence >= threshold
        verified = self._store.verified(question)
        return Reply(question, answers, answered, verified, time.perf_counter() - began, words)

    def refresh(self) -> None:
        """Bring the index up to date after documents were added or removed."""
        with self._changing:
            following = self._service.now.following
            following.look()
            following.take_in(time.monotonic() + _PATIENCE_S)
        self._wake.set()

    def reload(self) -> None:
        """Take up the newest models. Until these have taken all documents in, the old ones answer."""
        with self._reloading:
            self._stamp = stamp(self._settings)
            staff = load_staff(self._settings)
            if staff.finder.digest == self._service.now.staff.finder.digest:
                with self._changing:
                    self._service.exchange(self._with(staff, self._service.now.following))
            else:
                self._move_to(self._opened(staff))
        self._wake.set()

    def _move_to(self, new: _Service) -> None:
        new.following.look()
        while not new.following.complete and not self._closed.is_set():
            new.following.take_in(time.monotonic() + _PIECE_S)
        with self._changing:
            new.following.look()  # at what has come meanwhile
            self._service.exchange(new).following.index.close()
        self._tidy()

    def settle(self) -> None:
        """Do at once what else is done in the background."""
        self.refresh()
        while not self.ready:
            self._take_in()
        self._fit()
        self._check()

    def _document(self, id: str) -> Document | None:
        return stored_document(self._store, id)

    def _catch_up(self) -> None:
        """What other processes have changed counts too; who is changing something already is not waited for."""
        if self._service.now.following.behind and self._changing.acquire(blocking=False):
            try:
                self.refresh()
            finally:
                self._changing.release()

    # -- models ------------------------------------------------------------------------------------------------------

    @property
    def _indexes(self) -> Path:
        return self._settings.kept / "index"

    @property
    def _calibration(self) -> Path:
        return self._settings.kept / "confidence.json"

    def _opened(self, staff: Staff) -> _Service:
        return self._with(staff, Following(DocumentIndex(self._indexes, staff.finder, self._turns), self._store))

    def _with(self, staff: Staff, following: Following) -> _Service:
        pipeline = Pipeline(staff.models, following.index, self._document, self._turns)
        known = calibration.load(self._calibration)
        if known and known.parts == pipeline.parts:  # of these very models, or of those before them: better than none
            pipeline = replace(pipeline, blend=known.blend)
        return _Service(staff, following, pipeline)

    def _tidy(self) -> None:
        """Delete the indexes of earlier models."""
        for path in self._indexes.iterdir():
            if path != self._service.now.following.index.folder:
                shutil.rmtree(path)

    # -- in the background -------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        fit_after = time.monotonic()
        while not self._closed.is_set():
            try:
                if stamp(self._settings) != self._stamp:
                    self.reload()
                    fit_after = time.monotonic()
                self._take_in()
                if self.ready and time.monotonic() >= fit_after:
                    self._fit()
                    self._check()
                    fit_after = time.monotonic() + _FIT_S
            except Exception:  # whatever it is, people are answered with what there is
                self._log_failure()
                self._closed.wait(_LOOK_S)
            if self.ready:
                self._wake.wait(_LOOK_S)
                self._wake.clear()

    def _take_in(self) -> None:
        """Some of the documents that are left; after the last, the index is tended."""
        with self._changing:
            following = self._service.now.following
            if following.complete:
                return
            following.take_in(time.monotonic() + _PIECE_S)
        if following.complete:
            with self._service.use() as service:
                service.following.index.tend()

    def _fit(self) -> None:
        """Fit the confidence anew if it rests on other models or questions than there are now."""
        with self._fitting:
            self._fit_anew()

    def _fit_anew(self) -> None:
        service, looked_at = self._service.now, (self._service.now.staff.digest, self._store.version)
        if self._looked_at == looked_at:
            return
        collection = self._store.collection()
        basis, known = Basis.of(service.staff.digest, collection), calibration.load(self._calibration)
        if not (known and known.parts == service.pipeline.parts and known.basis.holds_for(basis)):
            measured = list(self._measured(service, dev_questions(collection)))
            if self._closed.is_set() or self._service.now is not service:
                return
            fitted = calibration.fitted_to(measured, service.pipeline.parts, basis)
            calibration.save(fitted, self._calibration)
            with self._changing:
                if self._service.now is service:
                    blended = replace(service.pipeline, blend=fitted.blend)
                    self._service.exchange(replace(service, pipeline=blended))
        self._looked_at = looked_at

    def _measured(self, service: _Service, dev: Dev) -> Iterator[Measured]:
        """Ends early when the desk is closed or has other models: neither must wait for all questions."""
        for question, evidence in dev:
            with self._service.use() as now:
                if now is not service or self._closed.is_set():
                    return
                measured = service.pipeline.measured(question, evidence)
            yield measured

    def _check(self) -> None:
        """Ask again what people here have corrected, if there are other models, documents or corrections by now."""
        with self._checking:
            self._check_anew()

    def _check_anew(self) -> None:
        with self._reloading:  # so that the stamp is that of these models
            service, seen = self._service.now, self._stamp
        looked_at = (service.staff.digest, self._store.version)
        if (self._checks.stamp, self._checks.looked_at) == (seen, looked_at):
            return
        right: dict[str, bool] = {}
        for example in self._store.collection().examples:
            if self._closed.is_set() or self._service.now is not service:
                return
            if example.check and not example.sql:
                reply = self.ask(example.question, 1)
                right[example.id] = is_right(example, reply.answers[0] if reply.answered else None)
        self._checks = _Checks(seen, looked_at, right)

    def _log_failure(self) -> None:
        """An error's text may quote documents, so it is written to the silo's own folder and nowhere else."""
        self._settings.kept.mkdir(parents=True, exist_ok=True)
        with (self._settings.kept / "errors.log").open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now(UTC).isoformat(timespec='seconds')}\n{traceback.format_exc()}\n")
