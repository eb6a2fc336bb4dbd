# SPDX-License-Identifier: Apache-2.0
"""The model of the skill `retrieve`: two encoders, one for questions and one for sentences, compared by their vectors.

Both start from the same weights and are then apart ("untied"), so that a silo can go on training the encoder of its
questions while that of sentences, frozen, keeps all silos' sentences in one common space.
"""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from blake3 import blake3
from torch import Tensor, nn

from fedqa.errors import ModelError
from fedqa.models.annotations import PreTrainedModel
from fedqa.models.backbones import Backbone
from fedqa.models.encoding import Framing, Tokens
from fedqa.models.pooling import Pool, first, mean, pooled
from fedqa.models.tagged import TaggedModel, Tags
from fedqa.models.tagging import retagged
from fedqa.models.trunk import Trunk

Pooling = Literal["cls", "mean"]


class Retriever(nn.Module):
    """Questions and sentences as vectors, and their scores.

    The vector of a question is the state of its first token ("cls") or the mean of all ("mean"), that of a sentence
    always the mean. With `normalise` vectors have length one and a score is `scale` times the cosine; without, it is
    the plain dot product.
    """

    def __init__(
        self,
        query: PreTrainedModel,
        sentence: PreTrainedModel,
        framing: Framing,
        *,
        question_pooling: Pooling,
        normalise: bool,
        scale: float,
        trunk: Trunk | None = None,
    ) -> None:
        super().__init__()
        self.query, self.sentence = query, sentence
        self.trunk = trunk
        self.framing = framing
        self.normalise = normalise
        self.scale = scale if normalise else 1.0
        self._pool_question = {"cls": first, "mean": mean}[question_pooling]

    def forward(self, questions: Sequence[Tokens], sentences: Sequence[Tokens]) -> Tensor:
        """Scores of each question with each sentence: [questions, sentences]."""
        return self.scores(self.question_vectors(questions), self.sentence_vectors(sentences))

    def scores(self, questions: Tensor, sentences: Tensor) -> Tensor:
        """Scores of vectors: [questions, width] with [sentences, width], or with their own [questions, n, width]."""
        if sentences.dim() == 2:
            return self.scale * (questions @ sentences.T)
        return self.scale * (sentences @ questions.unsqueeze(-1)).squeeze(-1)

    def question_vectors(self, texts: Sequence[Tokens]) -> Tensor:
        """[texts, width]"""
        return self._vectors(self.query, texts, self._pool_question)

    def sentence_vectors(self, texts: Sequence[Tokens]) -> Tensor:
        """[texts, width]"""
        return self._vectors(self.sentence, texts, mean)

    @property
    def width(self) -> int:
        width: int = self.query.config.hidden_size
        return width

    @property
    def sentences_frozen(self) -> bool:
        """Whether no training can change the vectors of sentences."""
        return not any(parameter.requires_grad for parameter in self.sentence.parameters())

    def sentence_digest(self) -> str:
        """What tells apart two states of the sentence encoder; takes a small part of the time of encoding."""
        digest = blake3()
        for parameter in self.sentence.parameters():
            digest.update(parameter.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def _vectors(self, encoder: PreTrainedModel, texts: Sequence[Tokens], pool: Pool) -> Tensor:
        vectors = pooled(encoder, [(text,) for text in texts], pool, framing=self.framing, trunk=self.trunk)
        return F.normalize(vectors, dim=-1) if self.normalise else vectors


class NoTowers(nn.Module):
    """In place of a `Retriever` where keywords alone search: nothing to train."""


def retriever(backbone: Backbone, *, question_pooling: Pooling, normalise: bool, scale: float) -> TaggedModel:
    """A `Retriever` on two copies of the backbone's encoder; their tags say which is which."""
    query, sentence = backbone.fresh(), backbone.fresh()
    if query.config.is_encoder_decoder:
        raise ModelError(f"retrieve needs an encoder, but {backbone.spec!r} is an encoder-decoder; try 'embedded'")
    module = Retriever(
        query,
        sentence,
        Framing(backbone.tokenizer, segments=getattr(query.config, "type_vocab_size", 0) > 1),
        question_pooling=question_pooling,
        normalise=normalise,
        scale=scale,
        trunk=backbone.trunk,
    )
    return TaggedModel(module, _tower(backbone, "query") | _tower(backbone, "sentence"))


def _tower(backbone: Backbone, name: str) -> dict[str, Tags]:
    return {parameter: tags | {f"tower.{name}"} for parameter, tags in retagged(backbone.tags, name).items()}
