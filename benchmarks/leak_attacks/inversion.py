# SPDX-License-Identifier: Apache-2.0
"""Attacks by inversion: a model learns to tell a sentence's words from its vector; a search then puts them in order.

The model is trained on the attackers' own texts, sent to themselves in the way that is attacked. It can only tell
words that occur there. The search starts from the nearest texts and changes word after word, keeping what brings the
vector nearer to the one received.
"""

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.leak_attacks.guessing import cosines, named
from benchmarks.leak_attacks.sending import Encoder, Texts, Way
from benchmarks.leak_attacks.words import STOP_WORDS, Words, content_words, pieces
from fedqa.seeds import derive, generator

SURE = 0.5  # a probability above which the model says a word


@dataclass(frozen=True)
class Training:
    vocabulary: int = 8000  # the most frequent content words of the attackers
    hidden: int = 512
    epochs: int = 12
    batch: int = 128
    learning_rate: float = 1e-3


@dataclass(frozen=True, eq=False)
class Inverter:
    words: Sequence[str]
    net: nn.Module

    def probabilities(self, vectors: Tensor) -> Tensor:
        """Of each word to be in each sentence: [vectors, words]."""
        with torch.inference_mode():
            found: Tensor = self.net(vectors).sigmoid()
        return found


def vocabulary(texts: Sequence[str], most: int) -> dict[str, float]:
    """The most frequent content words, and the share of texts that have them."""
    counts = Counter(chain.from_iterable(map(content_words, texts)))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {word: count / len(texts) for word, count in ranked[:most]}


def trained_inverter(way: Way, own: Texts, training: Training, seed: int) -> Inverter:
    """A two-layer network; every epoch sends the attackers' vectors anew, so noise is never learnt by heart."""
    shares = vocabulary(own.texts, training.vocabulary)
    labels, rng = _labels(own.texts, list(shares)), generator(seed, "inversion", way.name)
    net = _network(own.vectors.shape[1], training.hidden, list(shares.values()), seed)
    optimiser = torch.optim.Adam(net.parameters(), lr=training.learning_rate)
    for _ in range(training.epochs):
        sent = way.sent(own.vectors, rng)
        for rows in torch.split(torch.from_numpy(rng.permutation(len(sent))), training.batch):
            loss = F.binary_cross_entropy_with_logits(net(sent[rows]), labels[rows].float(), reduction="none")
            optimiser.zero_grad()
            loss.sum(dim=1).mean().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return Inverter(list(shares), net)


def _labels(texts: Sequence[str], words: Sequence[str]) -> Tensor:
    column = {word: i for i, word in enumerate(words)}
    labels = torch.zeros(len(texts), len(words), dtype=torch.bool)
    for row, text in enumerate(texts):
        labels[row, [column[word] for word in content_words(text) if word in column]] = True
    return labels


def _network(width: int, hidden: int, shares: Sequence[float], seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(derive(seed, "network"))
        last = nn.Linear(hidden, len(shares))
        net = nn.Sequential(_Scaled(width**0.5), nn.Linear(width, hidden), nn.ReLU(), last)
    with torch.no_grad():
        last.bias.copy_(torch.tensor(shares).clamp(max=0.99).logit())  # it starts from how frequent words are
    return net


class _Scaled(nn.Module):
    """The numbers of a vector of length 1 are small; at their size, the network would hardly learn from them."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self._factor = factor

    def forward(self, vectors: Tensor) -> Tensor:
        return self._factor * vectors


# -- what the model tells ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inverted:
    """Of the likeliest words, as many as the sentence has: how many are right, and how often all are.

    As many are named as are true, so their recall is their precision too; `sure_precision` is that of the words the
    model would say itself, over all sentences, and none if it says nothing.
    """

    recall: float
    exact: float
    sure_precision: float | None
    sure_words: float  # a sentence

    @classmethod
    def of(cls, probabilities: Tensor, words: Sequence[str], true: Sequence[Words]) -> "Inverted":
        likeliest = [frozenset(named(row, words, len(one))) for row, one in zip(probabilities, true, strict=True)]
        sure = [frozenset(words[i] for i in (row > SURE).nonzero().flatten().tolist()) for row in probabilities]
        said = sum(map(len, sure))
        right = sum(len(a & b) for a, b in zip(sure, true, strict=True))
        return cls(
            statistics.fmean(len(a & b) / len(b) for a, b in zip(likeliest, true, strict=True)),
            statistics.fmean(a == b for a, b in zip(likeliest, true, strict=True)),
            right / said if said else None,
            said / len(true),
        )


def frequent_words(texts: Sequence[str], most: int, true: Sequence[Words]) -> Inverted:
    """The floor: the most frequent words, whatever the vector."""
    shares = vocabulary(texts, most)
    return Inverted.of(torch.tensor([list(shares.values())]).expand(len(true), -1), list(shares), true)


# -- from words to a sentence ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Search:
    """The effort for one sentence."""

    sentences: int = 20  # that are searched for, of those attacked
    steps: int = 20
    proposals: int = 48  # in a step
    beam: int = 3
    words: int = 30  # of the model, and as many of the dictionary, to put in


Pieces = tuple[str, ...]


def corrected(
    received: Tensor, starts: Sequence[str], words: Sequence[str], *, encoder: Encoder, search: Search, seed: int
) -> str:
    """The text whose vector is nearest to the one received [width], of all that were tried."""
    rng = generator(seed, "search")
    beam: list[Pieces] = list(dict.fromkeys([*map(pieces, starts), tuple(words[:10])]))
    new = sorted({*words, *STOP_WORDS, *chain.from_iterable(beam)})
    scores: dict[Pieces, float] = dict(zip(beam, _scores(beam, received, encoder), strict=True))
    for _ in range(search.steps):
        beam = sorted(scores, key=lambda one: -scores[one])[: search.beam]
        drawn = (edited(beam[i % len(beam)], new, rng) for i in range(search.proposals))
        tried = list(dict.fromkeys(one for one in drawn if one not in scores))
        scores |= dict(zip(tried, _scores(tried, received, encoder), strict=True))
    best: Pieces = max(scores, key=lambda one: scores[one])
    return " ".join(best)


def edited(text: Pieces, words: Sequence[str], rng: np.random.Generator) -> Pieces:
    """One piece replaced, put in, left out, or swapped with the next."""
    at, word = int(rng.integers(len(text))), words[int(rng.integers(len(words)))]
    before, own, after = text[:at], text[at : at + 1], text[at + 1 :]
    shorter = (*before, *after) or text  # nothing at all has no vector
    made = ((*before, word, *after), (*before, word, *own, *after), shorter, (*before, *after[:1], *own, *after[1:]))
    return made[int(rng.integers(len(made)))]


def _scores(texts: Sequence[Pieces], received: Tensor, encoder: Encoder) -> list[float]:
    scores: list[float] = cosines(received.unsqueeze(0), encoder([" ".join(one) for one in texts]))[0].tolist()
    return scores
