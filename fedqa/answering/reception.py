# SPDX-License-Identifier: Apache-2.0
"""Who is asked before a silo's desk is open: answers by keywords, and hands over to the desk once this is there.

Importing what models need takes seconds, and nothing can be done about it but not to wait for it. So nothing of it is
imported here before `open`, which whoever has a reception calls in a thread of its own; questions are answered
meanwhile, and say that they were answered by keywords. Where there is no index yet, as at the first start, they wait.
"""

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fedqa.answering.answers import Reply, check_question
from fedqa.answering.keywords import UNREADABLE, Keywords
from fedqa.errors import RunError
from fedqa.settings import Settings
from fedqa.store import Store

if TYPE_CHECKING:
    from fedqa.answering.database_desk import DatabaseDesk
    from fedqa.answering.desk import Desk

BY_KEYWORDS = "keywords alone, while the models were being loaded"


class Reception:
    """See the module's text. Safe to use from several threads."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._store = settings, store
        self._keywords = Keywords.open(settings.kept / "index", store)
        self._desk: Desk | None = None
        self._database: DatabaseDesk | None = None
        self._opening = threading.Lock()
        self._closing = False
        self._decided = threading.Event()  # the desk is open, or will never be

    def open(self) -> None:
        """Load the models and open the desk, which answers from then on; raises what is wrong with them."""
        with self._opening:
            try:
                # Only here: it brings PyTorch and all that models need.
                from fedqa.answering.desk import Desk

                if not self._closing:
                    self._desk = Desk.open(self._settings, self._store)
            finally:
                self._decided.set()
            if self._settings.querying and not self._closing:
                from fedqa.answering.database_desk import DatabaseDesk  # as above

                self._database = DatabaseDesk.open(self._settings)
        if self._keywords:
            self._keywords.close()

    def close(self) -> None:
        """End all of it; a desk that is being opened is waited for, because imports cannot be broken off."""
        self._closing = True
        with self._opening:
            self._decided.set()
            if self._database:
                self._database.close()
            if self._desk:
                self._desk.close()
        if self._keywords:
            self._keywords.close()

    @property
    def loaded(self) -> bool:
        """Do the models answer?"""
        return self._desk is not None

    @property
    def ready(self) -> bool:
        """Do the models answer, from all documents?"""
        return self._desk is not None and self._desk.ready

    @property
    def model(self) -> str:
        """Which models answer, in words for people."""
        return self._desk.model if self._desk else BY_KEYWORDS

    @property
    def database(self) -> "DatabaseDesk":
        """Where the silo's database is asked. Raises RunError if it has none, or before it is open."""
        if self._database is None:
            raise RunError("the silo's database cannot be asked here yet, or it has none; try again in a moment")
        return self._database

    @property
    def checked(self) -> Mapping[str, bool]:
        """As the desk's; nothing is known before it is open."""
        return self._desk.checked if self._desk else {}

    def refresh(self) -> None:
        """Bring the index up to date. A desk that is not open yet sees all changes when it is first asked."""
        if self._desk:
            self._desk.refresh()

    def ask(self, question: str, k: int = 3) -> Reply:
        """The best `k` answers: of the desk, or by keywords as long as it is not open."""
        return (
            self._desk.ask(question, k) if self._desk else self._provisional(question, k) or self._waited(question, k)
        )

    def _provisional(self, question: str, k: int) -> Reply | None:
        """None if there is no index, or it is just being replaced."""
        began = time.perf_counter()
        check_question(question, k)
        if self._keywords is None:
            return None
        try:
            answers = self._keywords.answers(question, k)
        except UNREADABLE:
            return None
        verified = self._store.verified(question)
        return Reply(question, answers, bool(answers), verified, time.perf_counter() - began, BY_KEYWORDS, True)

    def _waited(self, question: str, k: int) -> Reply:
        self._decided.wait()
        if self._desk is None:
            raise RunError("the models could not be loaded, so nobody can answer here; the page is being stopped")
        return self._desk.ask(question, k)
