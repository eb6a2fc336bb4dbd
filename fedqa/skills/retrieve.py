# SPDX-License-Identifier: Apache-2.0
"""The skill `retrieve`: find, among all sentences of a silo's documents, the one that answers a question.

After PDD-AS2 (Wang 2023): two encoders trained with a contrastive loss. What a question is set against is the matter
of `negatives.py`. Evaluation ranks all sentences of the silo, and its passages by their best sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from fedqa.data.passages import passages
from fedqa.data.records import EVERY_SPLIT, Collection, Split
from fedqa.errors import ConfigError, DataError, unknown
from fedqa.evaluation.metrics import RETRIEVAL, Ranks, ranks_of, refuse_nan
from fedqa.models.annotations import PreTrainedTokenizerBase
from fedqa.models.backbones import Backbone
from fedqa.models.encoding import Tokens, tokenised
from fedqa.models.retriever import NoTowers, Pooling, Retriever, retriever
from fedqa.models.tagged import TaggedModel
from fedqa.skills.bm25 import KeywordIndex
from fedqa.skills.losses import listwise
from fedqa.skills.negatives import Negatives, Question, Vectors
from fedqa.skills.questions import JudgedQuestion, judged_questions
from fedqa.skills.retrieve_features import Batch, Cut, Drawn, RetrieveFeatures, Sentence, Table, question_vectors
from fedqa.skills.skill import Scores, evaluating
from fedqa.tables import from_table
from fedqa.training import Epochs

Form = Literal["dense", "bm25", "hybrid"]

_BLOCK = 64  # questions that are ranked at once
_FUSION = 60  # of reciprocal rank fusion: how little the very first ranks stand out


@dataclass(frozen=True, slots=True)
class RetrieveOptions:
    """What a silo or course can set for this skill."""

    form: Form = "dense"  # by vectors, by keywords, or by both, their ranks fused
    question_pooling: Pooling = "mean"  # what the embedded model was trained with; "cls" is the paper's
    normalise: bool = True  # vectors of length one; false = the plain dot product, as in the paper
    scale: float = 20.0  # with normalise, a score is this times the cosine
    max_question: int = 32  # tokens
    max_sentence: int = 96  # tokens

    def __post_init__(self) -> None:
        for key, known in (("form", get_args(Form)), ("question_pooling", get_args(Pooling))):
            if getattr(self, key) not in known:
                raise ConfigError(unknown(f"{key} of retrieve", str(getattr(self, key)), known))
        for key in ("max_question", "max_sentence"):
            if getattr(self, key) < 8:
                raise ConfigError(f"retrieve: {key} must be at least 8, got {getattr(self, key)}")
        if not self.scale > 0:
            raise ConfigError(f"retrieve: scale must be above 0, got {self.scale}")


class Retrieve:
    """The skill with its options; `fedqa.skills.skill.Skill` says what the methods are for."""

    name = "retrieve"
    higher_is_better = "mrr10"
    right = "mrr10"

    def __init__(self, options: RetrieveOptions | None = None) -> None:
        self.options = options or RetrieveOptions()

    def build(self, backbone: Backbone, seed: int) -> TaggedModel:
        """Nothing in it is random: `seed` has no influence."""
        options = self.options
        if options.form == "bm25":
            return TaggedModel(NoTowers(), {})
        return retriever(
            backbone,
            question_pooling=options.question_pooling,
            normalise=options.normalise,
            scale=options.scale,
        )

    def prepare(self, collection: Collection, backbone: Backbone, seed: int) -> RetrieveFeatures:
        """Features of all three splits. Nothing in them is random: `seed` has no influence."""
        self._check_length(backbone)
        found = tuple(passage for document in collection.documents for passage in passages(document))
        cut = Cut(found)
        judged = judged_questions(collection.examples, cut.places)
        train = sum(question.split == "train" for question in judged)
        if not train or len(cut.sentences) < 2:
            raise DataError(
                f"retrieve has nothing to train on: {train} training questions with evidence and {len(cut.sentences)} "
                "sentences, where it needs one and two; add documents and examples with evidence"
            )
        texts, tokenizer = [sentence.text for sentence in cut.sentences], backbone.tokenizer
        return RetrieveFeatures(
            cut.sentences,
            tokenised(tokenizer, texts, self.options.max_sentence),
            found,
            cut.by_passage,
            self._splits(judged, cut, tokenizer),
            KeywordIndex(texts),
            tokenizer,
        )

    def check_draws(self, draws: Mapping[str, Any], where: str) -> None:
        _negatives(draws, where)

    def drawn(
        self,
        model: nn.Module,
        features: RetrieveFeatures,
        draws: Mapping[str, Any],
        received: Mapping[str, Tensor],
    ) -> Epochs:
        """`draws` are those of `Negatives`; "negatives" among what was received are for its source "fed".

        Nothing is drawn yet, so `rng` has no influence: every epoch draws anew.
        """
        return Drawn(features, _negatives(draws, "draws"), _towers(model), received.get("negatives"))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """-log of the gold sentence's share in a softmax over it and its negatives (InfoNCE), mean over questions."""
        towers = _towers(model)
        asked = towers.question_vectors(batch.questions)
        told = batch.sentences
        sentences = told.to(asked.device) if isinstance(told, Tensor) else towers.sentence_vectors(told)
        scores, gold, negatives = towers.scores(asked, sentences), batch.gold, batch.negatives
        if batch.received is not None and batch.counted is not None:
            scores = torch.cat([scores, towers.scores(asked, batch.received.to(asked.device))], dim=1)
            gold = torch.cat([gold, torch.zeros_like(batch.counted)], dim=1)
            negatives = torch.cat([negatives, batch.counted], dim=1)
        return listwise(scores, gold.to(scores.device), negatives.to(scores.device))

    def score(self, model: nn.Module, features: RetrieveFeatures, split: Split) -> Scores:
        """Sentence metrics, and with the prefix `p_` those of passages.

        What has the same words as a gold sentence, but is not labelled, is neither right nor wrong: it is left out of
        the question's ranking.
        """
        questions = features.splits[split]
        ranked: list[tuple[Ranks, Ranks]] = []
        for start in range(0, len(questions), _BLOCK):
            block = questions[start : start + _BLOCK]
            table = self._table(model, features, [one.text for one in block], [one.tokens for one in block])
            ranked += [_ranks(features, one, scores) for one, scores in zip(block, table, strict=True)]
        values = {name: np.array([metric(ranks) for ranks, _ in ranked]) for name, metric in RETRIEVAL.items()}
        return values | {f"p_{name}": np.array([metric(p) for _, p in ranked]) for name, metric in RETRIEVAL.items()}

    def sentence_vectors(self, model: nn.Module, features: RetrieveFeatures) -> Vectors:
        """The vectors of all sentences, to be kept from one question to the next; empty ones if the form has none."""
        if self.options.form == "bm25":
            return np.zeros((len(features.sentences), 0), dtype=np.float32)
        return features.vectors(_towers(model))

    def training_vectors(self, model: nn.Module, features: RetrieveFeatures) -> Vectors:
        """The vectors of the training questions, in their order."""
        towers = _towers(model)
        with evaluating(towers):
            vectors: Vectors = towers.question_vectors([one.tokens for one in features.splits["train"]]).cpu().numpy()
        return vectors

    def rank(
        self, model: nn.Module, features: RetrieveFeatures, question: str, k: int, *, vectors: Vectors | None = None
    ) -> list[tuple[Sentence, float]]:
        """The best `k` sentences for a question that somebody asks; `vectors` are those of `sentence_vectors`."""
        tokens = tokenised(features.tokenizer, [question], self.options.max_question)
        (scores,) = self._table(model, features, [question], tokens, vectors)
        best = np.argsort(-scores, kind="stable")[:k]
        return [(features.sentences[i], float(scores[i])) for i in best]

    def _table(
        self,
        model: nn.Module,
        features: RetrieveFeatures,
        texts: Sequence[str],
        tokens: Sequence[Tokens],
        vectors: Vectors | None = None,
    ) -> Table:
        """The scores of all sentences for each question."""
        form, keywords = self.options.form, np.zeros((0, 0), dtype=np.float32)
        if form != "dense":
            keywords = np.stack([features.index.scores(text) for text in texts])
        if form == "bm25":
            return keywords
        towers = _towers(model)
        asked = question_vectors(towers, tokens)
        dense = towers.scale * (asked @ (features.vectors(towers) if vectors is None else vectors).T)
        refuse_nan(dense)
        return dense if form == "dense" else _reciprocals(dense) + np.where(keywords > 0, _reciprocals(keywords), 0)

    def _splits(
        self, judged: Sequence[JudgedQuestion], cut: Cut, tokenizer: PreTrainedTokenizerBase
    ) -> dict[Split, tuple[Question, ...]]:
        splits: dict[Split, list[Question]] = {split: [] for split in EVERY_SPLIT}
        tokens = tokenised(tokenizer, [question.text for question in judged], self.options.max_question)
        for question, ids in zip(judged, tokens, strict=True):
            splits[question.split].append(cut.question(question, ids))
        return {split: tuple(questions) for split, questions in splits.items()}

    def _check_length(self, backbone: Backbone) -> None:
        longest = max(self.options.max_question, self.options.max_sentence)
        positions = min(backbone.tokenizer.model_max_length, backbone.encoder.config.max_position_embeddings)
        if self.options.form != "bm25" and longest > positions:
            raise ConfigError(
                f"retrieve: max_question or max_sentence of {longest} tokens does not fit into the {positions} "
                f"positions of {backbone.spec!r}; lower it"
            )


def _ranks(features: RetrieveFeatures, question: Question, scores: Table) -> tuple[Ranks, Ranks]:
    """The ranks of a question's gold sentences and of its gold passages."""
    by_passage = features.passage_scores(scores)
    return (
        ranks_of(_without(scores, question.relevant.difference(question.gold)), features.sentence_order, question.gold),
        ranks_of(
            _without(by_passage, question.relevant_passages.difference(question.gold_passages)),
            features.passage_order,
            question.gold_passages,
        ),
    )


def _without(scores: Table, positions: frozenset[int]) -> Table:
    if not positions:
        return scores
    left = scores.copy()
    left[list(positions)] = -np.inf
    return left


def _reciprocals(scores: Table) -> Table:
    """What each sentence gets for its rank, row by row, so that scores without a common scale can be added."""
    ranks = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1) + 1
    reciprocals: Table = 1 / (_FUSION + ranks)
    return reciprocals


def _negatives(draws: Mapping[str, Any], where: str) -> Negatives:
    try:
        return from_table(Negatives, draws, where)
    except ConfigError as problem:  # an option that is wrong in itself does not know where it was written
        raise ConfigError(str(problem) if where in str(problem) else f"{where}: {problem}") from None


def _towers(model: nn.Module) -> Retriever:
    if isinstance(model, NoTowers):
        raise ConfigError("retrieve: form 'bm25' has nothing to train; use method 'zero_shot', or another form")
    assert isinstance(model, Retriever)
    return model
