# SPDX-License-Identifier: Apache-2.0
"""Statements over one schema as steps, and back."""

from collections.abc import Sequence

from fedqa.evaluation.sql import normalised
from fedqa.models.search import Step
from fedqa.skills.sql.linking import Linker
from fedqa.skills.sql.question import Question
from fedqa.skills.sql.reading import Emitting, Reading, spelled
from fedqa.skills.sql.rendering import rendered
from fedqa.skills.sql.schema import SchemaItems
from fedqa.skills.sql.spelling import Spelling
from fedqa.skills.sql.symbols import END, RAW, SPACED, symbol

_SPACED = {symbol(tight): symbol(loose) for tight, loose in SPACED.items()}


class Notation:
    """Steps are given only if they mean the same statement again, so nothing depends on how well SQL was understood."""

    def __init__(self, schema: SchemaItems, spelling: Spelling, linker: Linker | None = None) -> None:
        self.schema, self.spelling, self.linker = schema, spelling, linker

    def steps(self, sql: str, question: Question) -> list[Step]:
        """The shortest of the ways to say a statement that give it back."""
        wanted, reading = normalised(sql), Reading(sql, self.schema)
        for implied in (reading.implied(), {}):
            emitted = Emitting(reading, question, self.spelling, implied, linker=self.linker).steps()
            steps = [symbol(reading.style), *emitted, symbol(END)]
            for way in (steps, [_SPACED.get(step, step) for step in steps]):
                if normalised(self.sql(way, question)) == wanted:
                    return way
        return [symbol(RAW), *spelled(self.spelling, sql), symbol(END)]

    def sql(self, steps: Sequence[Step], question: Question) -> str:
        return rendered(steps, question, self.schema, self.spelling, linker=self.linker)
