# SPDX-License-Identifier: Apache-2.0
"""Sentences that a training question is set against. A source of them is a function and one line in `SOURCES`.

A source is made once at the start of a round, from the `Ground`, and then draws for one question at a time. What is
relevant to a question is never drawn for it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedqa.errors import ConfigError, DataError, unknown
from fedqa.models.encoding import Tokens

Vectors = npt.NDArray[np.float32]  # [texts, width]

_BLOCK = 64  # questions that are searched for at once
_SAME = 0.999  # cosine from which a vector of another silo is taken for a sentence this silo has itself


@dataclass(frozen=True)
class Negatives:
    """How negatives are drawn, as a stage can set it."""

    sources: tuple[str, ...] = ("bm25", "gold")  # names in SOURCES
    count: int = 8  # per question, shared equally among the sources
    pool: int = 300  # "index" draws from this many nearest: the nearest of all are often answers nobody labelled
    in_batch: bool = True  # the batch's other sentences are negatives too

    def __post_init__(self) -> None:
        for source in self.sources:
            if source not in SOURCES:
                raise ConfigError(unknown("source of negatives", source, SOURCES))
        if not self.sources or len(set(self.sources)) < len(self.sources):
            raise ConfigError(f"sources must be one or more different names, got {list(self.sources)}")
        if self.count < len(self.sources):
            raise ConfigError(f"count must be at least 1 for each of {len(self.sources)} sources, got {self.count}")
        if "index" in self.sources and self.pool < self.count:
            raise ConfigError(f"pool must be at least count, which is {self.count}, got {self.pool}")

    def shares(self) -> dict[str, int]:
        """How many each source gives; what cannot be divided goes to the first ones."""
        each, left = divmod(self.count, len(self.sources))
        return {source: each + (i < left) for i, source in enumerate(self.sources)}


@dataclass(frozen=True, eq=False, slots=True)
class Question:
    """A tokenised question; sentences and passages are meant by their positions in the features."""

    id: str
    text: str
    tokens: Tokens
    gold: tuple[int, ...]  # sentences
    relevant: frozenset[int]  # the gold ones and those of the same words: not wrong answers
    gold_passages: tuple[int, ...]
    relevant_passages: frozenset[int]


@dataclass(frozen=True, eq=False)
class Ground:
    """What a round's negatives are drawn from: a silo's training questions and sentences, and what others sent."""

    questions: Sequence[Question]
    n_sentences: int
    keywords: Callable[[int, int], Sequence[int]]  # of a question, the best n by keywords that are not relevant
    question_vectors: Callable[[], Vectors]  # at the start of the round
    sentence_vectors: Callable[[], Vectors]  # at the start of the round
    received: npt.NDArray[np.float32] | None  # [questions, n, width]; rows of zeros are padding


class Asked(NamedTuple):
    """The question at `row` of the training questions, what must not be drawn for it, and its vector as it is now."""

    row: int
    barred: Collection[int]
    vector: Callable[[], npt.NDArray[np.float32]]


class Found(NamedTuple):
    """Negatives of one question: sentences of the silo by position, and others by their vectors."""

    positions: list[int]
    vectors: Vectors | None = None


Draw = Callable[[Asked, int, np.random.Generator], Found]


@dataclass(frozen=True, slots=True)
class Source:
    """Where negatives come from. The finds of all `nearest` sources are one list, of which the nearest are taken."""

    make: Callable[[Ground, Negatives], Draw]
    nearest: bool = False


class Sampler:
    """All sources of a round together."""

    def __init__(self, options: Negatives, ground: Ground) -> None:
        self._ground = ground
        shares = options.shares()
        self._plain = [(SOURCES[name].make(ground, options), n) for name, n in shares.items() if not _nearest(name)]
        self._searching = [SOURCES[name].make(ground, options) for name in shares if _nearest(name)]
        self._searched = sum(n for name, n in shares.items() if _nearest(name))

    def __call__(self, row: int, vector: Callable[[], npt.NDArray[np.float32]], rng: np.random.Generator) -> Found:
        """Different negatives for the training question at `row`; fewer than asked for where a silo is small."""
        barred = set(self._ground.questions[row].relevant)
        positions: list[int] = []
        for draw, n in self._plain:
            drawn = draw(Asked(row, barred, vector), n, rng).positions
            positions += drawn
            barred.update(drawn)
        searched = self._search(Asked(row, barred, vector), rng)
        return Found(positions + searched.positions, searched.vectors)

    def _search(self, asked: Asked, rng: np.random.Generator) -> Found:
        """The nearest of what all searching sources find (equation 4.2 of PDD-AS2, with the silo's own if asked)."""
        n, found = self._searched, [draw(asked, self._searched, rng) for draw in self._searching]
        own = [position for one in found for position in one.positions]
        given = [one.vectors for one in found if one.vectors is not None]
        vectors = np.concatenate(given) if given else None
        if vectors is None or len(own) + len(vectors) <= n:
            return Found(own, vectors)
        table = np.concatenate([self._ground.sentence_vectors()[own], vectors]) if own else vectors
        best = np.argsort(-(table @ asked.vector()), kind="stable")[:n]
        return Found([own[i] for i in best if i < len(own)], table[best[best >= len(own)]])


def _random(ground: Ground, options: Negatives) -> Draw:
    """Any sentences."""
    return lambda asked, n, rng: Found(_drawn(ground.n_sentences, n, asked.barred, rng))


def _bm25(ground: Ground, options: Negatives) -> Draw:
    """The best by keywords, always the same."""

    def draw(asked: Asked, n: int, rng: np.random.Generator) -> Found:
        return Found([i for i in ground.keywords(asked.row, options.count) if i not in asked.barred][:n])

    return draw


def _gold(ground: Ground, options: Negatives) -> Draw:
    """Gold sentences of the silo's other training questions."""
    every = np.array(sorted({i for question in ground.questions for i in question.gold}))
    return lambda asked, n, rng: Found(_drawn(every, n, asked.barred, rng))


def _index(ground: Ground, options: Negatives) -> Draw:
    """Drawn from the `pool` sentences that were nearest at the start of the round (PDD-AS2's guard against hubs)."""
    pools: list[npt.NDArray[np.intp]] = []
    asked, searched = ground.question_vectors(), ground.sentence_vectors()
    for start in range(0, len(asked), _BLOCK):
        for row, scores in enumerate(asked[start : start + _BLOCK] @ searched.T, start=start):
            pools.append(nearest(scores, options.pool, ground.questions[row].relevant))
    return lambda asked, n, rng: Found(_drawn(pools[asked.row], n, asked.barred, rng))


def _dynamic(ground: Ground, options: Negatives) -> Draw:
    """The nearest to the question as it is encoded now, among the sentences as they were encoded at the start."""
    searched = ground.sentence_vectors()

    def draw(asked: Asked, n: int, rng: np.random.Generator) -> Found:
        return Found(nearest(searched @ asked.vector(), n, asked.barred).tolist())

    return draw


def _fed(ground: Ground, options: Negatives) -> Draw:
    """Vectors of other silos' sentences that came for the question, but for those of sentences relevant to it."""
    received, own = _checked(ground), ground.sentence_vectors()
    given = [
        vectors[vectors.any(axis=1) & ~_alike(vectors, own[sorted(question.relevant)])]
        for vectors, question in zip(received, ground.questions, strict=True)
    ]
    return lambda asked, n, rng: Found([], given[asked.row])


SOURCES: Mapping[str, Source] = {
    "random": Source(_random),
    "bm25": Source(_bm25),
    "gold": Source(_gold),
    "index": Source(_index),
    "dynamic": Source(_dynamic, nearest=True),
    "fed": Source(_fed, nearest=True),
}


def nearest(scores: npt.NDArray[np.float32], n: int, barred: Collection[int] = ()) -> npt.NDArray[np.intp]:
    """The positions of the `n` highest scores besides those barred, best first, equal ones by position."""
    scores = scores.copy()
    scores[list(barred)] = -np.inf
    n = min(n, len(scores) - len(barred))
    best = np.sort(np.argpartition(-scores, n - 1)[:n]) if n > 0 else np.zeros(0, dtype=np.intp)
    return best[np.argsort(-scores[best], kind="stable")]


def _drawn(source: int | npt.NDArray[np.intp], n: int, barred: Collection[int], rng: np.random.Generator) -> list[int]:
    """Up to `n` different positions, of all below a number or of those given, that are not barred."""
    size = source if isinstance(source, int) else len(source)
    drawn: list[int] = rng.choice(source, size=min(size, n + len(barred)), replace=False).tolist()
    return [i for i in drawn if i not in barred][:n]


def _nearest(name: str) -> bool:
    return SOURCES[name].nearest


def _checked(ground: Ground) -> npt.NDArray[np.float32]:
    received = ground.received
    if received is None:
        raise ConfigError(
            "retrieve: the source 'fed' draws from vectors that a channel brings, and none came; "
            "open such a channel in the stage, or take another source"
        )
    width = ground.sentence_vectors().shape[1]
    if received.ndim != 3 or (len(received), received.shape[2]) != (len(ground.questions), width):
        raise DataError(
            f"retrieve: the negatives received have the shape {list(received.shape)}, where "
            f"[{len(ground.questions)}, any number, {width}] is expected: a row for each training question"
        )
    return received


def _alike(vectors: Vectors, own: Vectors) -> npt.NDArray[np.bool_]:
    """Which vectors are, but for rounding, one of the silo's own."""
    lengths = np.linalg.norm(vectors, axis=1)[:, None] * np.linalg.norm(own, axis=1)
    alike: npt.NDArray[np.bool_] = (vectors @ own.T > _SAME * lengths).any(axis=1)
    return alike
