# SPDX-License-Identifier: Apache-2.0
"""Models to be asked, without the data they were trained on: a silo's own of a run, or the embedded one as it comes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from blake3 import blake3
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from fedqa.answering.document_index import Encoder
from fedqa.answering.entry_store import Vectors
from fedqa.data.passages import Passage, passages
from fedqa.data.records import Document
from fedqa.data.sentences import sentences_of
from fedqa.models.backbones import load_backbone
from fedqa.models.encoding import tokenised
from fedqa.models.matcher import Scorer
from fedqa.models.retriever import Retriever
from fedqa.models.trunk import Trunk
from fedqa.opening import OpenRun, open_run
from fedqa.skills.bm25 import KeywordIndex
from fedqa.skills.match import Match, MatchFeatures
from fedqa.skills.retrieve import Retrieve
from fedqa.skills.skill import Skill, evaluating
from fedqa.tables import plain

UNTRAINED = "the embedded model, untrained"
_USUAL_SCALE = 20.0  # of a cosine, for a model that has none of its own


@dataclass(frozen=True)
class Loaded:
    """A model with all that asking it needs."""

    skill: Skill
    model: nn.Module
    tokenizer: PreTrainedTokenizerBase
    words: str  # which it is, for people

    @cached_property
    def digest(self) -> str:
        """Of all that its answers depend on."""
        digest = blake3(json.dumps([self.skill.name, plain(getattr(self.skill, "options", None))]).encode())
        digest.update(f"{type(self.tokenizer).__name__} {len(self.tokenizer)}".encode())
        for name, parameter in self.model.named_parameters():
            digest.update(name.encode())
            digest.update(parameter.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()


def loaded_run(folder: Path, silo: str) -> Loaded:
    """A silo's best model of a finished run."""
    run = open_run(folder)
    model = whole(run.model(silo))
    return Loaded(run.setting.skills[silo], model, run.setting.backbone.tokenizer, model_words(run, silo))


def untrained() -> Loaded:
    """What finds before any training: good enough to be useful."""
    backbone, skill = load_backbone("embedded"), Match()
    return Loaded(skill, skill.build(backbone, 0).module.eval(), backbone.tokenizer, UNTRAINED)


def model_words(run: OpenRun, silo: str) -> str:
    """Which model of a silo is asked, for people."""
    best, rounds = run.best(silo), run.course.rounds
    if not rounds:
        return f"{run.course.method}, untrained"
    return f"{run.course.method}, round {min(best.round if best else rounds, rounds)}"


def whole(model: nn.Module) -> nn.Module:
    """The model with its frozen layers put back.

    Kept apart, they remember their output for every text they have met, which a server would go on collecting.
    """
    trunk = getattr(model, "trunk", None)
    if isinstance(trunk, Trunk):
        for name, child in list(model.named_children()):
            if isinstance(child, PreTrainedModel):
                setattr(model, name, trunk.with_layers(child).train(False))
        model.trunk = None  # type: ignore[assignment]
    return model


# -- finding -------------------------------------------------------------------------------------------------------


def finder_of(loaded: Loaded) -> Encoder:
    """What the model makes of documents and questions to find the one by the other."""
    if isinstance(loaded.skill, Retrieve):
        return _sentence_finder(loaded, loaded.skill)
    assert isinstance(loaded.skill, Match)
    return _passage_finder(loaded, loaded.skill)


def _sentence_finder(loaded: Loaded, skill: Retrieve) -> Encoder:
    model, options = loaded.model, skill.options
    if not isinstance(model, Retriever):  # by keywords alone
        return Encoder(loaded.digest, 0, 0.0, _sentences, _none, _none)

    def texts(some: Sequence[str]) -> Vectors:
        with evaluating(model):
            return _array(model.sentence_vectors(tokenised(loaded.tokenizer, some, options.max_sentence)))

    def question(text: str) -> Vectors:
        with evaluating(model):
            return _array(model.question_vectors(tokenised(loaded.tokenizer, [text], options.max_question)))

    digest = blake3(f"{model.sentence_digest()} {options.max_sentence} {options.normalise}".encode()).hexdigest()
    return Encoder(digest, model.width, model.scale, _sentences, texts, question)


def _passage_finder(loaded: Loaded, skill: Match) -> Encoder:
    model, options = loaded.model, skill.options
    assert isinstance(model, Scorer)

    def encoded(some: Sequence[str], longest: int) -> Vectors:
        with evaluating(model):
            return _array(model.vectors(tokenised(loaded.tokenizer, some, longest)))

    scale = getattr(model, "log_scale", None)
    return Encoder(
        digest=loaded.digest,
        width=encoded(["a"], options.max_question).shape[1],
        scale=float(scale.detach().exp()) if isinstance(scale, Tensor) else _USUAL_SCALE,
        cut=passages,
        texts=lambda some: encoded(some, options.max_passage),
        question=lambda text: encoded([text], options.max_question),
    )


def _sentences(document: Document) -> list[Passage]:
    return [sentence for passage in passages(document) for sentence in sentences_of(passage)]


def _array(vectors: Tensor) -> Vectors:
    return np.asarray(vectors.cpu().numpy(), dtype=np.float32)


def _none(_: object) -> Vectors:
    return np.zeros((0, 0), dtype=np.float32)


# -- matching ------------------------------------------------------------------------------------------------------


def match_scores(loaded: Loaded, question: str, texts: Sequence[str]) -> list[float]:
    """How well each text answers the question, by a model of `match`."""
    assert isinstance(loaded.skill, Match)
    features = MatchFeatures(loaded.skill.options, (), [], {}, KeywordIndex([]), loaded.tokenizer)
    scores: list[float] = loaded.skill.scores_of(loaded.model, features, question, texts).tolist()
    return scores


def reads_pairs(loaded: Loaded) -> bool:
    """Does it look at question and passage together, so that vectors alone do not say what it says?"""
    return isinstance(loaded.model, Scorer) and loaded.model.reads
