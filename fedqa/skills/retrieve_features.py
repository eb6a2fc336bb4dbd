# SPDX-License-Identifier: Apache-2.0
"""What `retrieve` works on: a silo's documents cut into sentences, its questions, and the batches drawn from them."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fedqa.data.passages import Passage
from fedqa.data.records import Split
from fedqa.data.sentences import sentences_of
from fedqa.evaluation.metrics import tie_order
from fedqa.models.annotations import PreTrainedTokenizerBase
from fedqa.models.encoding import Tokens
from fedqa.models.retriever import Retriever
from fedqa.skills.bm25 import KeywordIndex
from fedqa.skills.by_split import BySplit
from fedqa.skills.negatives import Found, Ground, Negatives, Question, Sampler, Vectors
from fedqa.skills.questions import JudgedQuestion
from fedqa.skills.skill import evaluating

Table = npt.NDArray[np.floating]  # scores [questions, sentences]


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
        return question_vectors(self._towers, [question.tokens for question in questions])

    def _sentence_vectors(self) -> Vectors:
        assert self._towers is not None
        return self._features.vectors(self._towers)


class Cut:
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


def question_vectors(towers: Retriever, tokens: Sequence[Tokens]) -> Vectors:
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
