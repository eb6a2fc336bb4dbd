# SPDX-License-Identifier: Apache-2.0
"""Asking a silo's database: a model of the skill `parse` writes SQL, and what can be run is the answer.

The model writes several queries, the likeliest first. Each is run, read-only and within limits, until one has an
answer; SQL that does not run is never shown as one. All of it happens inside the silo and nothing is sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from torch import nn

from fedqa.answering.loaded import model_words
from fedqa.answering.saying import sentence
from fedqa.data.schema_text import read_schema, schema_text
from fedqa.databases.database import Database
from fedqa.databases.records import Limits, Table
from fedqa.databases.schema import Schema
from fedqa.databases.statement import checked
from fedqa.errors import ConfigError, RunError, unknown
from fedqa.federation.messages import Point
from fedqa.federation.run_folder import RunFolder
from fedqa.federation.silo import Silo
from fedqa.opening import check_silo, model_at, open_run
from fedqa.parser_export import load_parser
from fedqa.skills.parse import Parse, ParseFeatures
from fedqa.skills.sql.choosing import Choice, first_that_runs
from fedqa.training import one_thread

BEAMS = 5
_NO_DATABASE = (
    "Not run: this silo names no database. Name one with --database, or in the run's course.toml, under [data.{silo}]: "
    'database = "the path of an SQLite file, or a URL like postgresql://name@host/database".'
)
_NOTHING_RUNS = (
    "No answer: of the {written} that the model wrote, none can be run{why}. Ask in other words, or train on."
)


@dataclass(frozen=True)
class Record:
    """How a model did on the silo's own dev questions: the share it got right, by `ex` or else `em`."""

    metric: str
    right: float
    questions: int


@dataclass(frozen=True)
class QueryAnswer:
    """What a database says to a question. Without a table nothing was run, and the sentence says why."""

    question: str
    sql: str  # empty if the model wrote nothing that can be run
    table: Table | None
    sentence: str
    tried: int  # queries that were tried, of those that the model wrote
    written: int
    score: float | None  # the mean logarithm of the probabilities of the SQL's steps
    record: Record | None  # how far to trust the model, where that is known

    @property
    def answered(self) -> bool:
        return self.table is not None


@dataclass(frozen=True)
class Querying:
    """A silo's model and database, opened once. To be closed, or used in a `with`."""

    silo: str
    skill: Parse
    model: nn.Module
    features: ParseFeatures
    schema: Schema
    database: Database | None
    record: Record | None = None
    words: str = ""  # which model it is, for people

    @classmethod
    def open(
        cls, run: Path, silo: str, point: Point = "best", *, database: str = "", limits: Limits | None = None
    ) -> Self:
        """The model of a silo of a finished run; `database`, a path or URL, instead of the one that the silo names."""
        opened = open_run(run)
        check_silo(run, opened.course, silo)
        own = opened.project.data[silo]
        where = _there(database) if database else own.database_from(opened.project.folder)
        if database:  # the one that the silo named may be gone; a sample knows its schema without any
            data = {**opened.project.data, silo: replace(own, database="" if own.sample else where)}
            opened = replace(opened, project=replace(opened.project, data=data))
        made = cls.of(opened.silo(silo), point, database=where, limits=limits)
        return replace(made, record=_record(RunFolder(run).result(), silo, point), words=model_words(opened, silo))

    @classmethod
    def of(cls, silo: Silo, point: Point = "best", *, database: str = "", limits: Limits | None = None) -> Self:
        skill, features = silo.skill, silo.features
        if not isinstance(skill, Parse) or not isinstance(features, ParseFeatures):
            raise RunError(
                f"silo {silo.name!r} learnt {skill.name!r}, whose model writes no SQL; ask it for its documents instead"
            )
        (document,) = (document for document in silo.collection.documents if document.id == features.only_schema())
        with one_thread():
            model = model_at(silo, point)
        opened = Database.open(database, limits) if database else None
        if database and database != features.database:
            features = skill.with_database(features, database)
        return cls(silo.name, skill, model, features, read_schema(document.text), opened)

    @classmethod
    def exported(cls, folder: str | Path, database: str, silo: str = "", *, limits: Limits | None = None) -> Self:
        """A model that `fedqa export` wrote, and any database; `silo` is checked against the model's if given."""
        parser = load_parser(Path(folder))
        if silo and silo != parser.silo:
            raise RunError(unknown("silo", silo, [parser.silo], str(folder)))
        if not database:
            raise ConfigError(f"{folder} is a model alone; name the database to ask: --database PATH or URL")
        opened = Database.open(database, limits)
        with one_thread():
            schema = schema_text(opened.schema())
            features = parser.skill.asking(schema, parser.backbone, parser.longest, database=database)
        return cls(parser.silo, parser.skill, parser.model, features, opened.schema(), opened)

    def ask(self, question: str, *, beams: int = BEAMS, prefer_rows: bool = True) -> QueryAnswer:
        """Run what the model makes of the question; of `beams` queries, the first that has an answer."""
        if not question.strip():
            raise ConfigError("the question is empty; ask something, in quotation marks")
        if beams < 1:
            raise ConfigError(f"beams must be at least 1 query, got {beams}")
        with one_thread():
            candidates = self.skill.candidates(self.model, self.features, question, beams=beams)[:beams]
        run = self.database.run if self.database else self._checked
        choice = first_that_runs([one.sql for one in candidates], run, prefer_rows=prefer_rows)
        parsed = None if choice.chosen is None else candidates[choice.chosen]
        return QueryAnswer(
            question=question,
            sql=parsed.sql if parsed else "",
            table=choice.table,
            sentence=self._sentence(question, choice, len(candidates)),
            tried=choice.tried,
            written=len(candidates),
            score=parsed.score if parsed else None,
            record=self.record,
        )

    def close(self) -> None:
        if self.database:
            self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _checked(self, sql: str) -> None:
        """Where there is no database, SQL is at least one SELECT from the schema's tables."""
        checked(sql, "sqlite", self.schema)

    def _sentence(self, question: str, choice: Choice, written: int) -> str:
        if choice.chosen is None:
            why = f" (the likeliest: {choice.why.reason})" if choice.why else ""
            return _NOTHING_RUNS.format(written=f"{written} queries" if written > 1 else "one query", why=why)
        return sentence(question, choice.table) if choice.table else _NO_DATABASE.format(silo=self.silo)


def _record(result: Mapping[str, Any], silo: str, point: Point) -> Record | None:
    scores, counts = (result[part].get(silo, {}).get(point, {}).get("dev", {}) for part in ("silos", "questions"))
    metric = next((metric for metric in ("ex", "em") if metric in scores), None)
    return Record(metric, scores[metric], counts[metric]) if metric else None


def _there(database: str) -> str:
    """As given on a command line: relative to where the caller stands. What is asked must be there, not be built."""
    path = Path(database).absolute()
    if "://" not in database and not path.is_file():
        raise ConfigError(
            f"there is no database {path}; name the path of an SQLite file, or a URL like postgresql://name@host/database"
        )
    return database if "://" in database else str(path)
