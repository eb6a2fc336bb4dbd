# SPDX-License-Identifier: Apache-2.0
"""The skill `match`: rank a silo's passages by how well they answer a question.

Training sets the gold passage of a question against passages that keyword search takes for good ones. Evaluation
ranks fixed lists: all gold passages (at most ten) and the best non-gold ones by keywords. How a pair of question and
passage is scored is its interaction; a new one is a model (see `Scorer`) and a line in `KINDS`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fedqa.data.passages import Passage, passages
from fedqa.data.records import EVERY_SPLIT, Collection, Split
from fedqa.errors import ConfigError, DataError, unknown
from fedqa.evaluation.metrics import RANKING
from fedqa.models.aligners import Esim, Re2, aligner
from fedqa.models.annotations import PreTrainedTokenizerBase
from fedqa.models.backbones import Backbone
from fedqa.models.encoding import Tokens, tokenised
from fedqa.models.matcher import Pairs, Parts, Scorer, encoder_matcher, keyword_matcher
from fedqa.models.tagged import TaggedModel
from fedqa.skills.bm25 import KeywordIndex
from fedqa.skills.by_split import BySplit
from fedqa.skills.losses import cross_entropy, hinge, listwise
from fedqa.skills.questions import JudgedQuestion, judged_questions
from fedqa.skills.skill import Scores, evaluating, no_draws

LossName = Literal["hinge", "cross_entropy", "listwise"]
Vectors = npt.NDArray[np.float32]  # [passages, hidden], each of length one; hidden is 0 where a model has none
T = TypeVar("T")

_MOST_GOLD = 10  # gold passages in a list that is ranked
_RERANKED = 50  # passages that a model which reads pairs looks at when asked
_POOL = 16  # batches that are sorted by length together


@dataclass(frozen=True, slots=True)
class Kind:
    """An interaction: how its model is made, and what it means for features and batches."""

    build: Callable[[Parts], TaggedModel]
    together: int = 0  # texts that the backbone reads in one row, which must fit into its positions
    all_pairs: bool = False  # scoring each question of a batch with each passage costs no more than with its own


KINDS: Mapping[str, Kind] = {
    "dual": Kind(partial(encoder_matcher, "dual"), together=1, all_pairs=True),
    "cross": Kind(partial(encoder_matcher, "cross"), together=2),
    "residual": Kind(partial(encoder_matcher, "residual"), together=2),
    "esim": Kind(partial(aligner, Esim)),
    "re2": Kind(partial(aligner, Re2)),
    "bm25": Kind(keyword_matcher),
}


@dataclass(frozen=True, slots=True)
class MatchOptions:
    """What a silo or course can set for this skill."""

    interaction: str = "dual"  # a name in KINDS
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
        for key, known in (("interaction", tuple(KINDS)), ("loss", get_args(LossName))):
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

    @property
    def kind(self) -> Kind:
        return KINDS[self.interaction]

    def _at_least(self, least: int, *keys: str) -> None:
        for key in keys:
            if getattr(self, key) < least:
                raise ConfigError(f"match: {key} must be at least {least}, got {getattr(self, key)}")


@dataclass(frozen=True, eq=False, slots=True)
class Question:
    """A tokenised question; passages are meant by their position in `MatchFeatures.passages`."""

    id: str
    text: str
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


class _Asked(NamedTuple):
    """A question and the positions of the passages wanted for it."""

    question: Question
    wanted: Sequence[int]


class _Drawn(NamedTuple):
    question: Question
    gold: int
    negatives: list[int]


@dataclass(frozen=True, eq=False)
class MatchFeatures(BySplit[Question]):
    """A silo's passages and questions, tokenised once."""

    options: MatchOptions
    passages: tuple[Passage, ...]
    tokens: list[Tokens]  # of the passages
    splits: Mapping[Split, tuple[Question, ...]]
    index: KeywordIndex
    tokenizer: PreTrainedTokenizerBase

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
        in_batch = self.options.in_batch and self.options.kind.all_pairs and self.options.loss == "listwise"

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
    right = "mrr"

    def __init__(self, options: MatchOptions | None = None) -> None:
        self.options = options or MatchOptions()

    def build(self, backbone: Backbone, seed: int) -> TaggedModel:
        options = self.options
        parts = Parts(
            backbone,
            torch.Generator().manual_seed(seed),
            scale=options.scale,
            biased=options.loss == "cross_entropy",
        )
        return options.kind.build(parts)

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

    def check_draws(self, draws: Mapping[str, Any], where: str) -> None:
        no_draws(draws, self.name, where)

    def drawn(
        self,
        model: nn.Module,
        features: MatchFeatures,
        draws: Mapping[str, Any],
        received: Mapping[str, Tensor],
    ) -> MatchFeatures:
        return features

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        scores: Tensor = model(batch.questions, batch.passages, batch.gold | batch.negatives)
        gold, negatives = batch.gold.to(scores.device), batch.negatives.to(scores.device)
        if self.options.loss == "hinge":
            return hinge(scores, gold, negatives, self.options.margin)
        return {"cross_entropy": cross_entropy, "listwise": listwise}[self.options.loss](scores, gold, negatives)

    def score(self, model: nn.Module, features: MatchFeatures, split: Split) -> Scores:
        questions = features.splits[split]
        gold = [question.gold[:_MOST_GOLD] for question in questions]
        asked = [_Asked(one, right + one.others) for one, right in zip(questions, gold, strict=True)]
        scores = _scores(model, features, asked)
        judged = [
            (values, features.ids(wanted), features.ids(right))
            for values, (_, wanted), right in zip(scores, asked, gold, strict=True)
        ]
        return {name: np.array([metric(*one) for one in judged]) for name, metric in RANKING.items()}

    def passage_vectors(self, model: nn.Module, features: MatchFeatures) -> Vectors:
        """The vectors of all passages, to be kept from one question to the next; empty ones if the model has none."""
        with evaluating(model):
            vectors: Vectors = _scorer(model).vectors(features.tokens).cpu().numpy()
        return vectors

    def rank(
        self, model: nn.Module, features: MatchFeatures, question: str, k: int, *, vectors: Vectors | None = None
    ) -> list[tuple[Passage, float]]:
        """The best `k` passages for a question that somebody asks; `vectors` are those of `passage_vectors`.

        A model that reads pairs looks only at the fifty best passages by keywords and, where it has them, vectors.
        """
        scorer = _scorer(model)
        table = self.passage_vectors(model, features) if vectors is None else vectors
        (tokens,) = tokenised(features.tokenizer, [question], self.options.max_question)
        keywords = cache(partial(features.index.scores, question))
        wanted = list(range(len(features.passages)))
        with evaluating(model):
            cosines = table @ scorer.vectors([tokens])[0].cpu().numpy()
            if scorer.reads:
                wanted = _fused(keywords(), *([cosines] if table.shape[1] else []))[:_RERANKED]
            pairs = Pairs(
                [(tokens, features.tokens[i]) for i in wanted],
                cosines=lambda: torch.from_numpy(cosines[wanted]),
                keywords=lambda: torch.from_numpy(keywords()[wanted]),
            )
            scores = scorer.total(pairs).cpu().numpy()
        return [(features.passages[wanted[i]], float(scores[i])) for i in _descending(scores)[:k]]

    def scores_of(self, model: nn.Module, features: MatchFeatures, question: str, texts: Sequence[str]) -> Tensor:
        """How well texts that need not be passages, such as sentences, answer a question: [texts]."""
        scorer = _scorer(model)
        (asked,) = tokenised(features.tokenizer, [question], self.options.max_question)
        read = tokenised(features.tokenizer, texts, self.options.max_passage)
        pairs = Pairs(
            [(asked, tokens) for tokens in read],
            cosines=lambda: (scorer.vectors([asked]) @ scorer.vectors(read).T)[0],
            keywords=lambda: torch.from_numpy(KeywordIndex(texts).scores(question)),
        )
        with evaluating(model):
            return scorer.total(pairs)

    def _splits(
        self, judged: Sequence[JudgedQuestion], index: KeywordIndex, tokenizer: PreTrainedTokenizerBase
    ) -> dict[Split, tuple[Question, ...]]:
        splits: dict[Split, list[Question]] = {split: [] for split in EVERY_SPLIT}
        tokens = tokenised(tokenizer, [question.text for question in judged], self.options.max_question)
        for question, ids in zip(judged, tokens, strict=True):
            count = self.options.negatives if question.split == "train" else self.options.candidates
            others = tuple(index.top(question.text, count, leave_out=question.relevant))
            asked = Question(question.id, question.text, ids, question.gold, question.relevant, others)
            splits[question.split].append(asked)
        return {split: tuple(questions) for split, questions in splits.items()}

    def _check_length(self, backbone: Backbone) -> None:
        together = self.options.kind.together
        if not together:
            return
        longest = self.options.max_passage + (self.options.max_question if together == 2 else 0)
        positions = min(backbone.tokenizer.model_max_length, backbone.encoder.config.max_position_embeddings)
        if longest > positions:
            raise ConfigError(
                f"match: {longest} tokens of max_question and max_passage do not fit into the {positions} positions of "
                f"{backbone.spec!r}; lower max_passage"
            )


def _scores(model: nn.Module, features: MatchFeatures, asked: Sequence[_Asked]) -> Iterator[npt.NDArray[np.float32]]:
    """The scores of each question's passages; each text is encoded once, each pair read once."""
    scorer = _scorer(model)
    pairs = Pairs(
        [(one.question.tokens, features.tokens[i]) for one in asked for i in one.wanted],
        cosines=partial(_cosines, scorer, features, asked),
        keywords=partial(_keyword_scores, features, asked),
    )
    with evaluating(model):
        scores = scorer.total(pairs).cpu().numpy()
    start = 0
    for one in asked:
        yield scores[start : start + len(one.wanted)]
        start += len(one.wanted)


def _cosines(scorer: Scorer, features: MatchFeatures, asked: Sequence[_Asked]) -> Tensor:
    used = sorted({i for one in asked for i in one.wanted})
    column = {i: at for at, i in enumerate(used)}
    rows = [row for row, one in enumerate(asked) for _ in one.wanted]
    columns = [column[i] for one in asked for i in one.wanted]
    questions = scorer.vectors([one.question.tokens for one in asked])
    passages = scorer.vectors([features.tokens[i] for i in used])
    return (questions[rows] * passages[columns]).sum(dim=-1)


def _keyword_scores(features: MatchFeatures, asked: Sequence[_Asked]) -> Tensor:
    found = [features.index.scores(one.question.text)[list(one.wanted)] for one in asked]
    return torch.from_numpy(np.concatenate([np.zeros(0, dtype=np.float32), *found]))


def _fused(*scores: npt.NDArray[np.float32]) -> list[int]:
    """Positions by several scores together: the sum of 1 / (60 + rank), which needs no common scale."""
    ranks = [np.argsort(_descending(one)) + 1 for one in scores]
    order: list[int] = _descending(np.sum([1 / (60 + rank) for rank in ranks], axis=0)).tolist()
    return order


def _descending(scores: npt.NDArray[np.floating]) -> npt.NDArray[np.intp]:
    return np.argsort(-scores, kind="stable")


def _cut(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _scorer(model: nn.Module) -> Scorer:
    assert isinstance(model, Scorer)
    return model
