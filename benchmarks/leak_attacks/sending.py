# SPDX-License-Identifier: Apache-2.0
"""The ways of sending a vector, the encoder that everybody owns, and who holds which texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from benchmarks.leak_attacks.words import Words, content_words
from fedqa.federation.fed_negative import packed, unpacked
from fedqa.models.backbones import load_backbone
from fedqa.models.encoding import tokenised
from fedqa.models.retriever import Retriever
from fedqa.seeds import generator
from fedqa.skills.retrieve import Retrieve
from fedqa.skills.skill import evaluating


@dataclass(frozen=True)
class Way:
    """How a vector is sent; noise comes before bytes, as in the channel `fed_negative`."""

    name: str
    noise: float = 0.0  # standard deviation in each dimension, where a vector has length 1
    as_bytes: bool = True

    def sent(self, vectors: Tensor, rng: np.random.Generator) -> Tensor:
        """What arrives."""
        if self.noise:
            vectors = vectors + torch.from_numpy(rng.normal(0.0, self.noise, vectors.shape).astype(np.float32))
        return unpacked(packed(vectors)) if self.as_bytes else vectors


class Encoder:
    """The sentence tower of the skill `retrieve`."""

    def __init__(self, spec: str) -> None:
        backbone, skill = load_backbone(spec), Retrieve()
        module = skill.build(backbone, seed=0).module
        assert isinstance(module, Retriever)
        self._towers, self._tokenizer, self._longest = module, backbone.tokenizer, skill.options.max_sentence

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """[texts, width]"""
        with evaluating(self._towers):
            vectors = self._towers.sentence_vectors(tokenised(self._tokenizer, texts, self._longest))
        return vectors.clone()  # made in inference mode, it could not be trained on

    def dictionary(self) -> list[str]:
        """The content words among the pieces that its tokenizer cuts texts into."""
        return sorted(piece for piece in self._tokenizer.get_vocab() if content_words(piece) == {piece})

    def seen(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """What the encoder sees of each text; texts that it sees alike have the same vector."""
        return [tuple(tokens.tolist()) for tokens in tokenised(self._tokenizer, texts, self._longest)]


@dataclass(frozen=True, eq=False)
class Texts:
    texts: Sequence[str]
    vectors: Tensor


@dataclass(frozen=True, eq=False)
class World:
    """The sentences of the silo that sends and of those that attack; no sentence is on both sides."""

    secret: Texts
    targets: Sequence[int]  # the positions of the secret sentences that are attacked
    others: Texts

    @classmethod
    def of(cls, secret: Sequence[str], others: Sequence[str], encoder: Encoder, *, attacked: int, seed: int) -> "World":
        """Attacked are sentences drawn from those that have content words."""
        mine = _distinct(secret, encoder)
        theirs = {seen: text for seen, text in _distinct(others, encoder).items() if seen not in mine}
        held, known = list(mine.values()), list(theirs.values())
        order = generator(seed, "targets").permutation(len(held)).tolist()
        targets = [i for i in order if content_words(held[i])][:attacked]
        return cls(Texts(held, encoder(held)), targets, Texts(known, encoder(known)))

    @property
    def truth(self) -> list[str]:
        """The sentences that are attacked."""
        return [self.secret.texts[i] for i in self.targets]

    @property
    def true_words(self) -> list[Words]:
        return [content_words(text) for text in self.truth]

    def received(self, way: Way, seed: int) -> Tensor:
        """The vectors of the attacked sentences as they arrive."""
        return way.sent(self.secret.vectors[list(self.targets)], generator(seed, "noise", way.name))


def _distinct(texts: Sequence[str], encoder: Encoder) -> Mapping[tuple[int, ...], str]:
    return dict(zip(encoder.seen(texts), texts, strict=True))
