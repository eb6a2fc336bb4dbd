# SPDX-License-Identifier: Apache-2.0
"""The skill `parse`: write the SQL that answers a question from a silo's database.

A silo's schema is one of its documents (`fedqa.data.schema_text`), which its examples are `about`. An encoder such as
the embedded one learns to write SQL in short steps that copy the schema and the question (`sql/`); a pretrained
encoder-decoder writes it as plain text.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from fedqa.data.records import EVERY_SPLIT, Collection, Example, Split
from fedqa.data.schema_text import read_schema
from fedqa.data.splits import normalise
from fedqa.databases.contents import Contents, contents_of
from fedqa.databases.database import Database
from fedqa.errors import ConfigError, DataError
from fedqa.evaluation.sql import exact_match, execution_matches
from fedqa.models.backbones import Backbone
from fedqa.models.patches import patches_of
from fedqa.models.pointer import pointer
from fedqa.models.search import Search
from fedqa.models.seq2seq import Seq2Seq, Source, Target, cross_entropy
from fedqa.models.tagged import TaggedModel
from fedqa.seeds import derive
from fedqa.skills.by_split import BySplit
from fedqa.skills.skill import Scores, evaluating, no_draws
from fedqa.skills.sql.choosing import first_that_runs
from fedqa.skills.sql.forms import Form, PointerForm, TextForm
from fedqa.skills.sql.habits import habits_of
from fedqa.skills.sql.inventing import invented
from fedqa.skills.sql.linking import LINKS
from fedqa.skills.sql.question import LONGEST_SPAN
from fedqa.skills.sql.spelling import Spelling
from fedqa.skills.sql.symbols import SYMBOLS

_POOL = 16  # batches that are sorted together
_MOST_STEPS = 512  # the positions of most encoders, by which a decoder counts
_AT_ONCE = 128  # questions that are written for together: a step costs little more for many than for few
_MORE_STEPS = 20  # than the longest training SQL has, before a decoder that finds no end is stopped


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """What a silo or course can set for this skill."""

    decoder_layers: int = 1  # made of an encoder's upper layers; an encoder-decoder has its own
    dropout: float = 0.1  # of such a decoder
    train_encoder: bool = False  # below such a decoder; otherwise the encoder stays as loaded and is not sent
    smoothing: float = 0.0  # of the targets
    beams: int = 1
    guided: bool = False  # of the beams, the first that the silo's database can run and that finds something
    constrained: bool = False  # nothing but a well-formed SELECT over the schema is written
    max_question: int = 64  # tokens
    max_source: int = 1024  # tokens of question and schema together, for an encoder-decoder
    max_steps: int = 256  # longer SQL is not trained on, nor written
    synthetic: int = 0  # training questions that are invented from a silo's schema, beside its own
    links: bool = True  # an encoder is told which words name tables and columns, and which are values in the database

    def __post_init__(self) -> None:
        for key, least in (
            ("decoder_layers", 1),
            ("beams", 1),
            ("max_question", 8),
            ("max_source", 8),
            ("synthetic", 0),
        ):
            if getattr(self, key) < least:
                raise ConfigError(f"parse: {key} must be at least {least}, got {getattr(self, key)}")
        if not 8 <= self.max_steps <= _MOST_STEPS:
            raise ConfigError(f"parse: max_steps must be from 8 to {_MOST_STEPS}, got {self.max_steps}")
        for key in ("dropout", "smoothing"):
            if not 0 <= getattr(self, key) < 1:
                raise ConfigError(f"parse: {key} must be from 0 to below 1, got {getattr(self, key)}")


@dataclass(frozen=True, eq=False, slots=True)
class Asked:
    """A question to a database; `target` only where it is trained on."""

    id: str
    text: str
    sql: str
    source: Source
    schema: str  # the id of the document
    target: Target | None = None

    @property
    def steps(self) -> int:
        return 0 if self.target is None else len(self.target)


class Batch(NamedTuple):
    sources: list[Source]
    targets: list[Target]


class Parsed(NamedTuple):
    """SQL and the mean logarithm of its steps' probabilities."""

    sql: str
    score: float


@dataclass(frozen=True, eq=False)
class ParseFeatures(BySplit[Asked]):
    """A silo's questions as a model reads them, and its SQL as a model writes it."""

    forms: Mapping[str, Form]  # by document
    splits: Mapping[Split, tuple[Asked, ...]]
    n_too_long: int  # training questions that were left out
    longest: int  # steps of the longest SQL that is trained on
    database: str = ""  # in which what the model writes is tried, where the silo has one

    def only_schema(self) -> str:
        """The id of the document that tells of the database, where there is one only."""
        if len(self.forms) != 1:
            raise ConfigError(f"there are {len(self.forms)} schemas; name one of {', '.join(sorted(self.forms))}")
        return next(iter(self.forms))

    def epoch(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Batch, int]]:
        """Every training question once, `size` in a batch, of one schema and similar length where possible."""
        train = self.splits["train"]
        drawn = [train[i] for i in rng.permutation(len(train))]
        pools = [sorted(pool, key=lambda one: (one.schema, one.steps)) for pool in _cut(drawn, size * _POOL)]
        batches = [batch for pool in pools for batch in _cut(pool, size)]
        for i in rng.permutation(len(batches)):
            targets = [one.target for one in batches[i] if one.target is not None]
            yield Batch([one.source for one in batches[i]], targets), len(batches[i])


class Parse:
    """The skill with its options; `fedqa.skills.skill.Skill` says what the methods are for."""

    name = "parse"
    higher_is_better = "em"
    right = "em"

    def __init__(self, options: ParseOptions | None = None) -> None:
        self.options = options or ParseOptions()

    def build(self, backbone: Backbone, seed: int) -> TaggedModel:
        """A pointer on an encoder; an encoder-decoder as it is."""
        if backbone.encoder.config.is_encoder_decoder:
            from fedqa.models.text_writer import text_writer  # transformers: seconds, for those alone who need it

            return text_writer(backbone)
        if patches_of(backbone.encoder) and not self.options.train_encoder:
            raise ConfigError("parse: patches stand in the encoder, which is not trained; set train_encoder = true")
        return pointer(
            backbone,
            symbols=len(SYMBOLS),
            item_kinds=2,
            longest_span=LONGEST_SPAN,
            link_kinds=LINKS if self.options.links else 0,
            decoder_layers=self.options.decoder_layers,
            dropout=self.options.dropout,
            train_encoder=self.options.train_encoder,
            seed=seed,
        )

    def prepare(self, collection: Collection, backbone: Backbone, seed: int, *, database: str = "") -> ParseFeatures:
        """Features of all splits. Nothing in them is random, but for the training questions that are invented.

        What a `database` holds is looked up in it for the links of the questions and for those that are invented.
        """
        examples = [example for example in collection.examples if example.sql]
        contents = self._contents(database)
        forms = _knowing(self._forms(collection, examples, backbone), contents)
        splits: dict[Split, list[Asked]] = {split: [] for split in EVERY_SPLIT}
        for example in examples:
            splits[_split(example)].append(_asked(example, forms, _schema_of(example, collection)))
        train = [one for one in splits["train"] if one.steps <= self.options.max_steps]
        train += self._invented(collection, forms, contents, seed)
        if not train:
            raise DataError(
                f"parse has nothing to train on: of {len(splits['train'])} training questions with SQL none has SQL of "
                f"at most max_steps = {self.options.max_steps}; add examples with SQL"
            )
        kept = {split: tuple(train if split == "train" else asked) for split, asked in splits.items()}
        n_too_long = sum(one.steps > self.options.max_steps for one in splits["train"])
        return ParseFeatures(forms, kept, n_too_long, max(one.steps for one in train), database)

    def asking(self, schema: str, backbone: Backbone, longest: int, *, database: str = "") -> ParseFeatures:
        """Features without examples, for questions about a schema; `longest` is that of what the model learnt from."""
        spelling = Spelling(backbone.tokenizer.get_vocab())
        forms = {"database": self._form(schema, backbone, spelling)}
        none = ParseFeatures(forms, {split: () for split in EVERY_SPLIT}, 0, longest)
        return self.with_database(none, database)

    def with_database(self, features: ParseFeatures, database: str) -> ParseFeatures:
        """The same for questions that will be asked of another database; those of the splits stay as they are."""
        return replace(features, forms=_knowing(features.forms, self._contents(database)), database=database)

    def _contents(self, database: str) -> Contents | None:
        return contents_of(database) if database and self.options.links else None

    def check_draws(self, draws: Mapping[str, Any], where: str) -> None:
        no_draws(draws, self.name, where)

    def drawn(
        self, model: nn.Module, features: ParseFeatures, draws: Mapping[str, Any], received: Mapping[str, Tensor]
    ) -> ParseFeatures:
        return features

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        writer = _writer(model)
        logits = writer.logits(writer.encode(batch.sources), batch.targets)
        return cross_entropy(logits, self.options.smoothing)

    def score(self, model: nn.Module, features: ParseFeatures, split: Split) -> Scores:
        """`em`: whether the SQL is the gold one, as a text; with a database `ex`: whether it finds the same in it.

        `ex` leaves out questions whose gold SQL cannot be run to its end within the limits.
        """
        asked = features.splits[split]
        written = self.predict(model, features, split)
        scores = {"em": np.array([exact_match(sql, one.sql) for sql, one in zip(written, asked, strict=True)])}
        if features.database:
            pairs = [(sql, one.sql) for sql, one in zip(written, asked, strict=True)]
            scores["ex"] = np.array(execution_matches(features.database, pairs))
        return scores

    def predict(self, model: nn.Module, features: ParseFeatures, split: Split) -> list[str]:
        """The SQL that the model writes for each question of a split."""
        found = self._written(model, features, features.splits[split], self.options.beams)
        written = [[one.sql for one in candidates[: self.options.beams]] for candidates in found]
        return _guided(written, features.database) if self.options.guided else [queries[0] for queries in written]

    def candidates(
        self, model: nn.Module, features: ParseFeatures, question: str, *, beams: int = 4, schema: str = ""
    ) -> list[Parsed]:
        """Different SQL for a question that somebody asks, the likeliest first.

        `schema` is the id of the document that tells of the database, where a silo has several.
        """
        known = schema or features.only_schema()
        asked = Asked("", question, "", features.forms[known].source(question), known)
        (found,) = self._written(model, features, [asked], beams)
        return found

    def parse(
        self,
        model: nn.Module,
        features: ParseFeatures,
        question: str,
        *,
        beams: int = 4,
        schema: str = "",
        choose: Callable[[list[str]], int] = lambda candidates: 0,
    ) -> str:
        """The SQL for a question. `choose` sees the candidates, the likeliest first, and says which one it is to be:
        for instance the first that a database can run."""
        found = [one.sql for one in self.candidates(model, features, question, beams=beams, schema=schema)]
        return found[choose(found)]

    def _written(
        self, model: nn.Module, features: ParseFeatures, asked: Sequence[Asked], beams: int
    ) -> list[list[Parsed]]:
        writer, found = _writer(model), dict[int, list[Parsed]]()
        search = Search(min(self.options.max_steps, features.longest + _MORE_STEPS), beams)
        order = sorted(range(len(asked)), key=lambda i: (asked[i].schema, len(asked[i].source.tokens)))
        with evaluating(model):
            for rows in _cut(order, _AT_ONCE):
                part = [asked[i] for i in rows]
                memory = writer.encode([one.source for one in part])
                rules = [features.forms[one.schema].rule() for one in part] if self.options.constrained else None
                bound = None if rules is None else [rule for rule in rules if rule is not None]
                for i, one, written in zip(rows, part, writer.write(memory, search, bound), strict=True):
                    found[i] = _distinct(features.forms[one.schema], one.text, written)
        return [found[i] for i in range(len(asked))]

    def _invented(
        self, collection: Collection, forms: Mapping[str, Form], contents: Contents | None, seed: int
    ) -> Iterator[Asked]:
        """Training questions made of the schemas; none that is asked in another split."""
        if not self.options.synthetic:
            return
        habits = habits_of(e.sql for e in collection.examples if e.split == "train")
        held = {normalise(example.question) for example in collection.examples if example.split != "train"}
        for document in collection.documents:
            if document.id not in forms:
                continue
            schema, own_seed = read_schema(document.text), derive(seed, document.id)
            pairs = invented(schema, self.options.synthetic, own_seed, contents=contents, habits=habits)
            for i, (question, sql) in enumerate(pairs):
                if normalise(question) not in held:
                    example = Example(f"invented/{document.id}/{i}", question, sql=sql, split="train")
                    yield _asked(example, forms, document.id)

    def _forms(self, collection: Collection, examples: Sequence[Example], backbone: Backbone) -> dict[str, Form]:
        used = {_schema_of(example, collection) for example in examples}
        spelling = Spelling(backbone.tokenizer.get_vocab())
        return {
            document.id: self._form(document.text, backbone, spelling)
            for document in collection.documents
            if document.id in used
        }

    def _form(self, text: str, backbone: Backbone, spelling: Spelling) -> Form:
        schema, tokenizer, config = read_schema(text), backbone.tokenizer, backbone.encoder.config
        if not config.is_encoder_decoder:
            return PointerForm(schema, backbone, spelling, self.options.max_question, links=self.options.links)
        if self.options.constrained:
            raise ConfigError(
                f"parse: constrained goes with an encoder such as 'embedded', but {backbone.spec!r} writes plain text"
            )
        positions = getattr(config, "max_position_embeddings", self.options.max_source)
        return TextForm(schema, tokenizer, min(self.options.max_source, positions), int(config.eos_token_id))


def _knowing(forms: Mapping[str, Form], contents: Contents | None) -> dict[str, Form]:
    return {name: form if contents is None else form.knowing(contents) for name, form in forms.items()}


def _guided(written: Sequence[Sequence[str]], where: str) -> list[str]:
    """Of each question's queries the one that is to be; the likeliest where none runs, or there is no database."""
    if not where:
        return [queries[0] for queries in written]
    try:
        with Database.open(where) as database:
            chosen = [first_that_runs(queries, database.run).chosen or 0 for queries in written]
    except ConfigError:  # it is away: what was learnt is not lost for that
        chosen = [0] * len(written)
    return [queries[i] for queries, i in zip(written, chosen, strict=True)]


def _asked(example: Example, forms: Mapping[str, Form], schema: str) -> Asked:
    form, question = forms[schema], example.question
    target = form.target(question, example.sql) if example.split == "train" else None
    return Asked(example.id, question, example.sql, form.source(question), schema, target)


def _schema_of(example: Example, collection: Collection) -> str:
    """The document that tells of the database an example is about."""
    named = example.documents or {document.id for document in collection.documents}
    known = {document.id for document in collection.documents}
    if len(named) != 1 or not named <= known:
        raise DataError(
            f"the example {example.id!r} is about {len(named & known)} documents; parse needs to know the one that "
            "tells of its database's schema: name it in the example's field `about`"
        )
    return next(iter(named))


def _split(example: Example) -> Split:
    if example.split is None:
        raise DataError(f"the example {example.id!r} is in no split; give the collection to fedqa.data.splits.split")
    return example.split


def _distinct(form: Form, question: str, written: Sequence[Any]) -> list[Parsed]:
    """What was written, each SQL once."""
    best: dict[str, float] = {}
    for steps, score in written:
        best.setdefault(form.sql(question, steps), score)
    return [Parsed(sql, score) for sql, score in best.items()] or [Parsed("", -np.inf)]


def _cut(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _writer(model: nn.Module) -> Seq2Seq:
    assert isinstance(model, Seq2Seq)
    return model
