# SPDX-License-Identifier: Apache-2.0
"""Where a silo's people ask its database: by its model of `parse`, the newest there is."""

import threading

from fedqa.answering.querying import QueryAnswer, Querying
from fedqa.answering.staff import ended_at, to_come
from fedqa.databases.records import Table
from fedqa.errors import ConfigError, RunError
from fedqa.settings import QUERYING, Settings


class DatabaseDesk:
    """Safe to use from several threads, one of which is served at a time."""

    def __init__(self, settings: Settings) -> None:
        assert settings.querying
        self._settings, self._run = settings, settings.querying
        self._turn = threading.Lock()
        self._querying: Querying | None = None
        self._ended_at = 0  # the training whose model is asked

    @classmethod
    def open(cls, settings: Settings) -> "DatabaseDesk":
        """Load the model and open the database; a model whose training has not ended yet is waited for."""
        desk = cls(settings)
        with desk._turn:
            if not to_come(desk._run, settings):
                desk._newest()
        return desk

    def close(self) -> None:
        with self._turn:
            if self._querying:
                self._querying.close()
                self._querying = None

    @property
    def words(self) -> str:
        """Which model is asked, for people."""
        return self._querying.words if self._querying else "no model yet"

    def ask(self, question: str) -> QueryAnswer:
        """What the database says to a question."""
        with self._turn:
            return self._newest().ask(question)

    def run(self, sql: str) -> Table:
        """What it says to a query that somebody has written: read-only and within the limits, like any other."""
        with self._turn:
            database = self._newest().database
            assert database
            return database.run(sql)

    def _newest(self) -> Querying:
        ended = ended_at(self._run)
        if not ended and self._settings.training:
            raise RunError("no model has learnt to ask the database yet; train it first")
        if self._querying is None or ended != self._ended_at:
            opened = self._opened()
            if self._querying:
                self._querying.close()
            self._querying, self._ended_at = opened, ended
        return self._querying

    def _opened(self) -> Querying:
        opened = Querying.open(self._run, self._settings.name)
        if opened.database is None:
            raise ConfigError(
                f"{self._settings.path}: [runs] {QUERYING} = {str(self._run)!r} names no database for "
                f'{self._settings.name!r}; add database = "…" to its data in the alliance file, and train again'
            )
        return opened
