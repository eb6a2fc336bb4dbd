# SPDX-License-Identifier: Apache-2.0
"""The skill `match`: rank a silo's passages by how well they answer a question.

Training sets the gold passage of a question against passages that keyword search takes for good ones. Evaluation
ranks fixed lists: all gold passages (at most ten) and the best non-gold ones by keywords.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from fedqa.data.passages import Passage, passages
from fedqa.data.records import SPLITS, Collection, Split
from fedqa.errors import ConfigError, DataError, ModelError, unknown
from fedqa.evaluation.metrics import RANKING
from fedqa.models.backbones import Backbone
from fedqa.models.encoding import Framing, Tokens, tokenised
from fedqa.models.matcher import Interaction, Matcher
from fedqa.models.tagged import TaggedModel
from fedqa.models.tagging import retagged
from fedqa.skills.bm25 import KeywordIndex
from fedqa.skills.losses import cross_entropy, hinge, listwise
from fedqa.skills.questions import JudgedQuestion, judged_questions
from fedqa.skills.skill import Scores, evaluating

LossName = Literal["hinge", "cross_entropy", "listwise"]
Vectors = npt.NDArray[np.float32]  # [passages, hidden], each of length one
Asked = tuple[Tokens, Sequence[int]]  # a question and the positions of the passages wanted for it
T = TypeVar("T")

_MOST_GOLD = 10  # gold passages in a list that is ranked
_RERANKED = 50  # passages that a model which reads pairs looks at when asked
_POOL = 16  # batches that are sorted by length together


@dataclass(frozen=True, slots=True)
class MatchOptions:
    """What a silo or course can set for this skill."""

    interaction: Interaction = "dual"
    loss: LossName = "listwise"
    negatives: int = 5  # per training question: the best non-gold passages by keywords
    train_negatives: int = 2  # of these, drawn anew in each epoch
    candidates: int = 5  # non-gold passages in each list of dev and test
    max_question: int = 48  # tokens
    max_passage: int = 128  # tokens
    margin: float = 1.0  # of the hinge
    scale: float = 20.0  # a score is this times the cosine, at the start
    in_batch: bool = True  # dual, listwise: the batch's other passages are negatives too, unless relevant

    def __post_init__(self) -> None:
        for key, known in (("interaction", get_args(Interaction)), ("loss", get_args(LossName))):
            if getattr(self, key) not in known:
                raise ConfigError(unknown(f"{key} of match", str(getattr(self, key)), known))
        self._at_least(1, "negatives", "train_negatives", "candidates")
        self._at_least(8, "max_question", "max_passage")
        for key in ("margin", "scale"):
            if not getattr(self, key) > 0:
                raise ConfigError(f"match: {key} must be above 0, got {getattr(self, key)}")
        if self.train_negatives > self.negatives:
            raise ConfigError(
                f"match: train_negatives are drawn from negatives, so at most {self.negatives}, "
                f"got {self.train_negatives} (or raise negatives)"
            )

    def _at_least(self, least: int, *keys: str) -> None:
        for key in keys:
            if getattr(self, key) < least:
                raise ConfigError(f"match: {key} must be at least {least}, got {getattr(self, key)}")


@dataclass(frozen=True, eq=False, slots=True)
class Question:
    """A tokenised question; passages are meant by their position in `MatchFeatures.passages`."""

    id: str
    tokens: Tokens
    gold: tuple[int, ...]
    relevant: frozenset[int]
    others: tuple[int, ...]  # the best by keywords that are not relevant


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """Distinct texts, and which passage is gold or negative for which question, both [questions, passages]."""

    questions: list[Tokens]
    passages: list[Tokens]
    gold: Tensor  # one entry a row is true
    negatives: Tensor


class _Drawn(NamedTuple):
    question: Question
    gold: int
    negatives: list[int]


@dataclass(frozen=True, eq=False)
class MatchFeatures:
    """A silo's passages and questions, tokenised once."""

    options: MatchOptions
    passages: tuple[Passage, ...]
    tokens: list[Tokens]  # of the passages
    splits: Mapping[Split, tuple[Question, ...]]
    index: KeywordIndex
    tokenizer: PreTrainedTokenizerBase

    @property
    def n_train(self) -> int:
        return len(self.splits["train"])

    def n_batches(self, size: int) -> int:
        return -(-self.n_train // size)

    def questions(self, split: Split) -> tuple[str, ...]:
        """The ids of the questions that `Match.score` gives values for, in its order."""
        return tuple(question.id for question in self.splits[split])

    def ids(self, positions: Sequence[int]) -> list[str]:
        return [self.passages[i].id for i in positions]

    def epoch(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Batch, int]]:
        """Every training question once, `size` in a batch, each with one of its gold passages and new negatives."""
        train = self.splits["train"]
        drawn = [self._draw(train[i], rng) for i in rng.permutation(len(train))]
        pools = [sorted(pool, key=self._length) for pool in _cut(drawn, size * _POOL)]
        batches = [batch for pool in pools for batch in _cut(pool, size)]
        for i in rng.permutation(len(batches)):
            yield self._batch(batches[i]), len(batches[i])

    def _draw(self, question: Question, rng: np.random.Generator) -> _Drawn:
        gold = question.gold[int(rng.integers(len(question.gold)))]
        negatives = rng.permutation(question.others)[: self.options.train_negatives]
        return _Drawn(question, gold, negatives.tolist())

    def _length(self, drawn: _Drawn) -> int:
        return sum(len(self.tokens[i]) for i in (drawn.gold, *drawn.negatives))

    def _batch(self, drawn: Sequence[_Drawn]) -> Batch:
        positions = sorted({i for one in drawn for i in (one.gold, *one.negatives)})
        in_batch = self.options.in_batch and (self.options.interaction, self.options.loss) == ("dual", "listwise")

        def negative(one: _Drawn, i: int) -> bool:
            return i not in one.question.relevant if in_batch else i in one.negatives

        return Batch(
            questions=[one.question.tokens for one in drawn],
            passages=[self.tokens[i] for i in positions],
            gold=torch.tensor([[i == one.gold for i in positions] for one in drawn]),
            negatives=torch.tensor([[negative(one, i) for i in positions] for one in drawn]),
        )


class Match:
    """The skill with its options; `fedqa.skills.skill.Skill` says what the methods are for."""

    name = "match"
    higher_is_better = "map"

    def __init__(self, options: MatchOptions | None = None) -> None:
        self.options = options or MatchOptions()

    def build(self, backbone: Backbone, seed: int) -> TaggedModel:
        encoder = backbone.fresh()
        if encoder.config.is_encoder_decoder:
            raise ModelError(f"match needs an encoder, but {backbone.spec!r} is an encoder-decoder; try 'embedded'")
        matcher = Matcher(
            encoder,
            Framing(backbone.tokenizer, segments=getattr(encoder.config, "type_vocab_size", 0) > 1),
            self.options.interaction,
            scale=self.options.scale,
            biased=self.options.loss == "cross_entropy",
            generator=torch.Generator().manual_seed(seed),
        )
        tags = retagged(backbone.tags, "encoder")
        head = {name: frozenset({"head"}) for name, _ in matcher.named_parameters() if name not in tags}
        return TaggedModel(matcher, tags | head)

    def prepare(self, collection: Collection, backbone: Backbone, seed: int) -> MatchFeatures:
        """Features of all three splits. Nothing in them is random: `seed` has no influence."""
        self._check_length(backbone)
        found = tuple(passage for document in collection.documents for passage in passages(document))
        judged = judged_questions(collection.examples, found)
        train = sum(question.split == "train" for question in judged)
        if not train or len(found) < 2:
            raise DataError(
                f"match has nothing to train on: {train} training questions with evidence and {len(found)} passages, "
                "where it needs one and two; add documents and examples with evidence"
            )
        texts = [passage.text for passage in found]
        index, tokenizer = KeywordIndex(texts), backbone.tokenizer
        tokens = tokenised(tokenizer, texts, self.options.max_passage)
        return MatchFeatures(self.options, found, tokens, self._splits(judged, index, tokenizer), index, tokenizer)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        scores: Tensor = model(batch.questions, batch.passages, batch.gold | batch.negatives)
        gold, negatives = batch.gold.to(scores.device), batch.negatives.to(scores.device)
        if self.options.loss == "hinge":
            return hinge(scores, gold, negatives, self.options.margin)
        return {"cross_entropy": cross_entropy, "listwise": listwise}[self.options.loss](scores, gold, negatives)

    def score(self, model: nn.Module, features: MatchFeatures, split: Split) -> Scores:
        questions = features.splits[split]
        gold = [question.gold[:_MOST_GOLD] for question in questions]
        asked = [(one.tokens, right + one.others) for one, right in zip(questions, gold, strict=True)]
        scores = _scores(_matcher(model), features, asked)
        judged = [
            (values, features.ids(wanted), features.ids(right))
            for values, (_, wanted), right in zip(scores, asked, gold, strict=True)
        ]
        return {name: np.array([metric(*one) for one in judged]) for name, metric in RANKING.items()}

    def passage_vectors(self, model: nn.Module, features: MatchFeatures) -> Vectors:
        """The vectors of all passages, to be kept from one question to the next."""
        with evaluating(model):
            vectors: Vectors = _matcher(model).vectors(features.tokens).cpu().numpy()
        return vectors

    def rank(
        self, model: nn.Module, features: MatchFeatures, question: str, k: int, *, vectors: Vectors | None = None
    ) -> list[tuple[Passage, float]]:
        """The best `k` passages for a question that somebody asks; `vectors` are those of `passage_vectors`.

        A model that reads pairs looks only at the fifty best passages by keywords and vectors together.
        """
        matcher = _matcher(model)
        table = self.passage_vectors(model, features) if vectors is None else vectors
        (tokens,) = tokenised(features.tokenizer, [question], self.options.max_question)
        wanted = list(range(len(features.passages)))
        with evaluating(matcher):
            cosines = table @ matcher.vectors([tokens])[0].cpu().numpy()
            if matcher.cross is not None:
                wanted = _fused(features.index.scores(question), cosines)[:_RERANKED]
            pairs = [(tokens, features.tokens[i]) for i in wanted]
            scores = matcher.total(torch.from_numpy(cosines[wanted]).to(matcher.encoder.device), pairs).cpu().numpy()
        return [(features.passages[wanted[i]], float(scores[i])) for i in _descending(scores)[:k]]

    def _splits(
        self, judged: Sequence[JudgedQuestion], index: KeywordIndex, tokenizer: PreTrainedTokenizerBase
    ) -> dict[Split, tuple[Question, ...]]:
        splits: dict[Split, list[Question]] = {split: [] for split in SPLITS}
        tokens = tokenised(tokenizer, [question.text for question in judged], self.options.max_question)
        for question, ids in zip(judged, tokens, strict=True):
            count = self.options.negatives if question.split == "train" else self.options.candidates
            others = tuple(index.top(question.text, count, leave_out=question.relevant))
            splits[question.split].append(Question(question.id, ids, question.gold, question.relevant, others))
        return {split: tuple(questions) for split, questions in splits.items()}

    def _check_length(self, backbone: Backbone) -> None:
        longest = self.options.max_passage
        if self.options.interaction != "dual":
            longest += self.options.max_question
        positions = min(backbone.tokenizer.model_max_length, backbone.encoder.config.max_position_embeddings)
        if longest > positions:
            raise ConfigError(
                f"match: {longest} tokens of max_question and max_passage do not fit into the {positions} positions of "
                f"{backbone.spec!r}; lower max_passage"
            )


def _scores(matcher: Matcher, features: MatchFeatures, asked: Sequence[Asked]) -> Iterator[npt.NDArray[np.float32]]:
    """The scores of each question's passages; each text is encoded once, each pair read once."""
    pairs = [(tokens, features.tokens[i]) for tokens, wanted in asked for i in wanted]
    with evaluating(matcher):
        cosines = torch.zeros(len(pairs), device=matcher.encoder.device)
        if matcher.log_scale is not None:
            used = sorted({i for _, wanted in asked for i in wanted})
            column = {i: at for at, i in enumerate(used)}
            rows = [row for row, (_, wanted) in enumerate(asked) for _ in wanted]
            columns = [column[i] for _, wanted in asked for i in wanted]
            questions = matcher.vectors([tokens for tokens, _ in asked])
            passages = matcher.vectors([features.tokens[i] for i in used])
            cosines = (questions[rows] * passages[columns]).sum(dim=-1)
        scores = matcher.total(cosines, pairs).cpu().numpy()
    start = 0
    for _, wanted in asked:
        yield scores[start : start + len(wanted)]
        start += len(wanted)


def _fused(*scores: npt.NDArray[np.float32]) -> list[int]:
    """Positions by several scores together: the sum of 1 / (60 + rank), which needs no common scale."""
    ranks = [np.argsort(_descending(one)) + 1 for one in scores]
    order: list[int] = _descending(np.sum([1 / (60 + rank) for rank in ranks], axis=0)).tolist()
    return order


def _descending(scores: npt.NDArray[np.floating]) -> npt.NDArray[np.intp]:
    return np.argsort(-scores, kind="stable")


def _cut(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _matcher(model: nn.Module) -> Matcher:
    assert isinstance(model, Matcher)
    return model
