# SPDX-License-Identifier: Apache-2.0
"""How a question, a schema and SQL are told to a model: as steps and copies to a pointer, as plain text to others."""

from collections.abc import Sequence
from copy import copy
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fedqa.data.schema_text import schema_text
from fedqa.databases.contents import Contents
from fedqa.databases.schema import Schema
from fedqa.evaluation.sql import normalised
from fedqa.models.annotations import PreTrainedTokenizerBase
from fedqa.models.backbones import Backbone
from fedqa.models.encoding import tokenised
from fedqa.models.pointer import item_vectors
from fedqa.models.search import PIECE, Rule, Step
from fedqa.models.seq2seq import Items, Source, Target, target_of
from fedqa.skills.sql.grammar import Grammar
from fedqa.skills.sql.linking import Linker
from fedqa.skills.sql.notation import Notation
from fedqa.skills.sql.question import Question
from fedqa.skills.sql.schema import SchemaItems
from fedqa.skills.sql.spelling import Spelling

TABLE, COLUMN = range(2)  # kinds of items
_ITEM_TOKENS = 64  # the longest name that is read whole


class Form(Protocol):
    """One schema, and how what is asked of it is written for a model."""

    def source(self, question: str) -> Source: ...

    def target(self, question: str, sql: str) -> Target: ...

    def sql(self, question: str, steps: Sequence[Step]) -> str:
        """What steps say; some text whatever they are."""

    def rule(self) -> Rule | None:
        """What binds the steps to SQL, if anything can."""

    def knowing(self, contents: Contents) -> "Form":
        """The same for a database that holds these contents, if the form tells of them."""


class PointerForm:
    """Questions word by word, the schema item by item, SQL as steps that copy both."""

    def __init__(
        self,
        schema: Schema,
        backbone: Backbone,
        spelling: Spelling,
        longest: int,
        *,
        links: bool = False,
    ) -> None:
        """With `links`, a question is told with its links to the schema."""
        self._tokenizer, self._longest = backbone.tokenizer, longest
        self._schema = SchemaItems(schema)
        self._linker = Linker(self._schema) if links else None
        self._notation = Notation(self._schema, spelling)
        items = self._schema.items
        vectors = item_vectors(backbone, tokenised(backbone.tokenizer, [item.words for item in items], _ITEM_TOKENS))
        self._items = Items(vectors, tuple(COLUMN if item.column else TABLE for item in items))

    def source(self, question: str) -> Source:
        asked = Question(question)
        words = asked.words
        ids = self._tokenizer(words, add_special_tokens=False)["input_ids"] if words else []
        room = self._longest - self._tokenizer.num_special_tokens_to_add(pair=False)
        pieces = [row or [self._tokenizer.unk_token_id] for row in ids]  # of some signs, tokenizers make nothing
        ends = np.cumsum([len(row) for row in pieces], dtype=np.int64)
        places = np.stack([np.concatenate([[0], ends[:-1]]), ends - 1], axis=1) if words else np.zeros((0, 2))
        fitting = int((ends <= room).sum())
        tokens = np.array([id for row in pieces[:fitting] for id in row], dtype=np.int64)
        return Source(tokens, places[:fitting].astype(np.int64), self._items, self._links(asked, fitting))

    def _links(self, question: Question, fitting: int) -> npt.NDArray[np.int64] | None:
        """The links of the words that can be read."""
        if self._linker is None:
            return None
        found = [link for link in self._linker.links(question) if link.last < fitting]
        return np.array(found, dtype=np.int64).reshape(-1, 4)

    def knowing(self, contents: Contents) -> "PointerForm":
        if self._linker is None:
            return self
        other = copy(self)
        other._linker = Linker(self._schema, contents)
        other._notation = Notation(self._schema, self._notation.spelling, other._linker)
        return other

    def target(self, question: str, sql: str) -> Target:
        return target_of(self._notation.steps(sql, Question(question)))

    def sql(self, question: str, steps: Sequence[Step]) -> str:
        return self._notation.sql(steps, Question(question))

    def rule(self) -> Rule:
        return Grammar(self._schema)


class TextForm:
    """Question and schema as one text, SQL as another, both by the model's own vocabulary."""

    def __init__(self, schema: Schema, tokenizer: PreTrainedTokenizerBase, longest: int, end: int) -> None:
        self._schema, self._tokenizer, self._longest, self._end = schema_text(schema), tokenizer, longest, end
        unknown = tokenizer.unk_token_id
        self._escapes = unknown in tokenizer("<", add_special_tokens=False)["input_ids"]  # as T5's vocabulary

    def source(self, question: str) -> Source:
        (tokens,) = tokenised(self._tokenizer, [f"{question} ; structured knowledge:{self._schema}"], self._longest)
        return Source(tokens, np.zeros((0, 2), dtype=np.int64))

    def target(self, question: str, sql: str) -> Target:
        text = normalised(sql).removesuffix(";")
        if self._escapes:
            text = text.replace("&", "&amp;").replace("<", "&lt;")
        ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return target_of(Step(PIECE, id) for id in (*ids, self._end))

    def sql(self, question: str, steps: Sequence[Step]) -> str:
        text = str(self._tokenizer.decode([step.index for step in steps], skip_special_tokens=True))
        return text.replace("&lt;", "<").replace("&amp;", "&") if self._escapes else text

    def rule(self) -> None:
        return None

    def knowing(self, contents: Contents) -> "TextForm":
        return self
