# SPDX-License-Identifier: Apache-2.0
"""The skill `retrieve`: find, among all sentences of a silo's documents, the one that answers a question.

After PDD-AS2 (Wang 2023): two encoders trained with a contrastive loss. What a question is set against is the matter
of `negatives.py`. Evaluation ranks all sentences of the silo, and its passages by their best sentence.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from fedqa.data.passages import Passage, passages
from fedqa.data.records import EVERY_SPLIT, Collection, Split
from fedqa.data.sentences import sentences_of
from fedqa.errors import ConfigError, DataError, unknown
from fedqa.evaluation.metrics import RETRIEVAL, Ranks, ranks_of, refuse_nan, tie_order
from fedqa.models.backbones import Backbone
from fedqa.models.encoding import Tokens, tokenised
from fedqa.models.retriever import NoTowers, Pooling, Retriever, retriever
from fedqa.models.tagged import TaggedModel
from fedqa.skills.bm25 import KeywordIndex
from fedqa.skills.by_split import BySplit
from fedqa.skills.losses import listwise
from fedqa.skills.negatives import Found, Ground, Negatives, Question, Sampler, Vectors
from fedqa.skills.questions import JudgedQuestion, judged_questions
from fedqa.skills.skill import Scores, evaluating
from fedqa.tables import from_table
from fedqa.training import Epochs

Form = Literal["dense", "bm25", "hybrid"]
Table = npt.NDArray[np.floating]  # scores [questions, sentences]

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


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, once, however often it stands in the documents; each place has its exact offsets."""

    text: str
    places: tuple[Passage, ...]

    @property
    def id(self) -> str:
        return self.places[0].id


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """Distinct sentences, and which is gold or negative for which question, both [questions, sentences].

    Sentences are tokens to be encoded or, where their encoder is frozen, vectors that were encoded before.
    """

    questions: list[Tokens]
    sentences: list[Tokens] | Tensor
    gold: Tensor  # one entry a row is true
    negatives: Tensor
    received: Tensor | None = (
        None  # [questions, n, width]: vectors of other silos' sentences, for each question its own
    )
    counted: Tensor | None = None  # [questions, n]: which of them are no padding


@dataclass
class _Kept:
    """The vectors of all sentences as they were last encoded: dev and test of one model need them only once."""

    digest: str = ""
    vectors: Vectors = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))


@dataclass(frozen=True, eq=False)
class RetrieveFeatures(BySplit[Question]):
    """A silo's sentences and questions, tokenised once."""

    sentences: tuple[Sentence, ...]
    tokens: list[Tokens]  # of the sentences
    passages: tuple[Passage, ...]
    places: tuple[npt.NDArray[np.intp], ...]  # of each passage, its sentences
    splits: Mapping[Split, tuple[Question, ...]]
    index: KeywordIndex
    tokenizer: PreTrainedTokenizerBase
    _kept: _Kept = field(default_factory=_Kept)

    def epoch(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Batch, int]]:
        """Every training question once with negatives that need no model; `Retrieve.drawn` knows the others."""
        return Drawn(self, Negatives()).epoch(size, rng)

    def vectors(self, towers: Retriever) -> Vectors:
        """All sentences as the model encodes them now: [sentences, width]."""
        digest = towers.sentence_digest()
        if digest != self._kept.digest:
            with evaluating(towers):
                self._kept.vectors = towers.sentence_vectors(self.tokens).cpu().numpy()
            self._kept.digest = digest
        return self._kept.vectors

    @cached_property
    def keywords(self) -> Callable[[int, int], Sequence[int]]:
        """Of the training question at a row, the best n sentences by keywords that are not relevant; kept."""
        train = self.splits["train"]
        return cache(lambda row, n: self.index.top(train[row].text, n, leave_out=train[row].relevant))

    @cached_property
    def sentence_order(self) -> npt.NDArray[np.intp]:
        return tie_order([sentence.id for sentence in self.sentences])

    @cached_property
    def passage_order(self) -> npt.NDArray[np.intp]:
        return tie_order([passage.id for passage in self.passages])

    def passage_scores(self, scores: Table) -> Table:
        """Those of a question's sentences to those of its passages: each is as good as its best sentence."""
        sentences, starts = self._by_passage
        return np.maximum.reduceat(scores[sentences], starts)

    @cached_property
    def _by_passage(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """The sentences of all passages one after the other, and where each passage begins: none is empty."""
        return np.concatenate(self.places), np.cumsum([0, *map(len, self.places[:-1])])


class Drawn:
    """What a round trains on: every question with one of its gold sentences and newly drawn negatives."""

    def __init__(
        self,
        features: RetrieveFeatures,
        options: Negatives,
        towers: Retriever | None = None,
        received: Tensor | None = None,
    ) -> None:
        self._features, self._options, self._towers = features, options, towers
        self._train = features.splits["train"]
        # A frozen encoder would make the same vectors in every batch; they are taken from here instead.
        self._encoded = features.vectors(towers) if towers is not None and towers.sentences_frozen else None
        ground = Ground(
            self._train,
            len(features.sentences),
            features.keywords,
            question_vectors=lambda: self._question_vectors(self._train),
            sentence_vectors=cache(self._sentence_vectors),
            received=None if received is None else received.float().numpy(),
        )
        self._sampler = Sampler(options, ground)

    def n_batches(self, size: int) -> int:
        return self._features.n_batches(size)

    def epoch(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Batch, int]]:
        """Every training question once. A batch is made when it is asked for: negatives may depend on the model."""
        order: list[int] = rng.permutation(len(self._train)).tolist()
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            yield self._batch(rows, rng), len(rows)

    def _batch(self, rows: Sequence[int], rng: np.random.Generator) -> Batch:
        questions = [self._train[row] for row in rows]
        now = cache(partial(self._question_vectors, questions))
        gold = [question.gold[int(rng.integers(len(question.gold)))] for question in questions]
        found = [self._sampler(row, partial(_row, now, i), rng) for i, row in enumerate(rows)]
        positions = sorted({*gold, *(i for one in found for i in one.positions)})
        received, counted = _padded(found)
        return Batch(
            [question.tokens for question in questions],
            self._sentences(positions),
            _mask([[i] for i in gold], positions),
            self._negatives(questions, found, positions),
            received,
            counted,
        )

    def _negatives(self, questions: Sequence[Question], found: Sequence[Found], positions: Sequence[int]) -> Tensor:
        if self._options.in_batch:
            return ~_mask([question.relevant for question in questions], positions)
        return _mask([one.positions for one in found], positions)

    def _sentences(self, positions: Sequence[int]) -> list[Tokens] | Tensor:
        if self._encoded is None:
            return [self._features.tokens[i] for i in positions]
        return torch.from_numpy(self._encoded[positions])

    def _question_vectors(self, questions: Sequence[Question]) -> Vectors:
        assert self._towers is not None
        return _question_vectors(self._towers, [question.tokens for question in questions])

    def _sentence_vectors(self) -> Vectors:
        assert self._towers is not None
        return self._features.vectors(self._towers)


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
        cut = _Cut(found)
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
        asked = _question_vectors(towers, tokens)
        dense = towers.scale * (asked @ (features.vectors(towers) if vectors is None else vectors).T)
        refuse_nan(dense)
        return dense if form == "dense" else _reciprocals(dense) + np.where(keywords > 0, _reciprocals(keywords), 0)

    def _splits(
        self, judged: Sequence[JudgedQuestion], cut: "_Cut", tokenizer: PreTrainedTokenizerBase
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


class _Cut:
    """Passages cut into sentences: all their places in order, and the different sentences that stand there."""

    def __init__(self, found: Sequence[Passage]) -> None:
        by_passage = [sentences_of(passage) for passage in found]
        self.places = tuple(place for places in by_passage for place in places)
        by_text: dict[str, list[Passage]] = defaultdict(list)
        for place in self.places:
            by_text[place.text].append(place)
        self.sentences = tuple(Sentence(text, tuple(places)) for text, places in by_text.items())
        position = {text: i for i, text in enumerate(by_text)}
        self._sentence = [position[place.text] for place in self.places]
        self._passage = [i for i, places in enumerate(by_passage) for _ in places]
        self.by_passage = tuple(np.array([position[place.text] for place in places]) for places in by_passage)

    def question(self, judged: JudgedQuestion, tokens: Tokens) -> Question:
        """A question whose gold is given by places."""
        return Question(
            judged.id,
            judged.text,
            tokens,
            gold=tuple(sorted({self._sentence[i] for i in judged.gold})),
            relevant=frozenset(self._sentence[i] for i in judged.relevant),
            gold_passages=tuple(sorted({self._passage[i] for i in judged.gold})),
            relevant_passages=frozenset(self._passage[i] for i in judged.relevant),
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


def _question_vectors(towers: Retriever, tokens: Sequence[Tokens]) -> Vectors:
    with evaluating(towers):
        vectors: Vectors = towers.question_vectors(tokens).cpu().numpy()
    return vectors


def _row(vectors: Callable[[], Vectors], i: int) -> Vectors:
    row: Vectors = vectors()[i]
    return row


def _mask(rows: Sequence[frozenset[int] | Sequence[int]], positions: Sequence[int]) -> Tensor:
    """Which of the positions each row names: [rows, positions]."""
    column = {position: i for i, position in enumerate(positions)}
    mask = torch.zeros(len(rows), len(positions), dtype=torch.bool)
    for i, row in enumerate(rows):
        mask[i, [column[position] for position in row if position in column]] = True
    return mask


def _padded(found: Sequence[Found]) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """The received vectors of all questions, and which are no padding; none if no question has any."""
    given = [torch.from_numpy(one.vectors) for one in found if one.vectors is not None]
    if not given or not any(map(len, given)):
        return None, None
    assert len(given) == len(found)
    lengths = torch.tensor([len(vectors) for vectors in given])
    counted = torch.arange(int(lengths.max())) < lengths.unsqueeze(1)
    return nn.utils.rnn.pad_sequence(given, batch_first=True), counted


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
