# SPDX-License-Identifier: Apache-2.0
"""The skill `read`: the exact words of a document that answer a question, or that there are none.

After FedQAS (Ait-Mlouk et al. 2022), with what it left out: long documents are read in windows instead of being
dropped, and questions without an answer are learnt. A window that holds a whole answer is to give its span, any other
one "no answer". The best span of all windows is the answer, unless its log-odds against no answer are below a
threshold. The threshold is a matter of the silo: it is fitted to its dev questions with the model as it is, whichever
split is scored. So test selects nothing, and what is fitted never leaves the silo.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from blake3 import blake3
from torch import Tensor, nn

from fedqa.data.records import Collection, Split
from fedqa.errors import ConfigError, DataError
from fedqa.evaluation.spans import exact_match, overlap, threshold
from fedqa.models.annotations import PreTrainedTokenizerBase
from fedqa.models.backbones import Backbone
from fedqa.models.encoding import Tokens
from fedqa.models.reader import Reader, SpanScores, reader
from fedqa.models.tagged import TaggedModel
from fedqa.models.text_pair import text_pair
from fedqa.skills.read_features import (
    Prediction,
    ReadFeatures,
    ReadOptions,
    Target,
    question_tokens,
    read_features,
    row_of,
)
from fedqa.skills.skill import Scores, evaluating, no_draws
from fedqa.skills.windows import Extent, TokenText, token_texts, windows

_AT_ONCE = 64  # windows whose scores are in memory together


class ReadSpan(NamedTuple):
    """Characters `start` to `end` of one of the texts asked about.

    `score` minus `null_score` are the log-odds that they answer, against the text not answering at all.
    """

    text_index: int
    start: int
    end: int
    score: float
    null_score: float

    @property
    def odds(self) -> float:
        return self.score - self.null_score


class Read:
    """The skill with its options; `fedqa.skills.skill.Skill` says what the methods are for."""

    name = "read"
    higher_is_better = "f1"
    right = "em"

    def __init__(self, options: ReadOptions | None = None) -> None:
        self.options = options or ReadOptions()

    def build(self, backbone: Backbone, seed: int) -> TaggedModel:
        """`seed` draws the other half of a pair; nothing else in it is random."""
        pair = text_pair(backbone, seed) if self.options.pair else None
        return reader(backbone, max_answer=self.options.max_answer, pair=pair)

    def prepare(self, collection: Collection, backbone: Backbone, seed: int) -> ReadFeatures:
        """Features of all splits. Nothing in them is random: `seed` has no influence."""
        self._check_length(backbone)
        features = read_features(collection, backbone.tokenizer, self.options)
        if not features.n_train:
            raise DataError(
                f"read has nothing to train on: none of {len(collection.examples)} examples is a training question "
                f"about one of {len(collection.documents)} documents; add examples with evidence"
            )
        return features

    def check_draws(self, draws: Mapping[str, Any], where: str) -> None:
        no_draws(draws, self.name, where)

    def drawn(
        self,
        model: nn.Module,
        features: ReadFeatures,
        draws: Mapping[str, Any],
        received: Mapping[str, Tensor],
    ) -> ReadFeatures:
        return features

    def loss(self, model: nn.Module, batch: Sequence[Target]) -> Tensor:
        """-log of the gold spans' share in a softmax over all spans of a window and "no answer", mean over windows."""
        scores = _reader(model)([target.row for target in batch])
        return torch.cat([_losses(found, [batch[i].gold for i in found.rows]) for found in scores]).mean()

    def score(self, model: nn.Module, features: ReadFeatures, split: Split) -> Scores:
        """EM and F1; `no_answer`, whether it was right to give an answer or none; `refused`, whether none was given."""
        line = self.threshold(model, features)
        found = features.kept.dev if split == "dev" else self.predict(model, features, split)
        answers = [prediction.answer if prediction.odds > line else "" for prediction in found]
        accepted = [question.accepted for question in features.splits[split]]
        asked = list(zip(answers, accepted, strict=True))
        return {
            "f1": np.array([overlap(answer, gold) for answer, gold in asked]),
            "em": np.array([exact_match(answer, gold) for answer, gold in asked]),
            "no_answer": np.array([float(bool(answer) == bool(gold)) for answer, gold in asked]),
            "refused": np.array([float(not answer) for answer in answers]),
        }

    def threshold(self, model: nn.Module, features: ReadFeatures) -> float:
        """The log-odds up to which this silo gives no answer with this model: the best for F1 on its dev questions."""
        digest, kept = _digest(model), features.kept
        if digest != kept.digest:
            kept.dev, kept.digest = self.predict(model, features, "dev"), digest
        dev = [(one.answer, question.accepted) for one, question in zip(kept.dev, features.splits["dev"], strict=True)]
        return threshold(
            np.array([prediction.odds for prediction in kept.dev]),
            answered=np.array([overlap(answer, gold) for answer, gold in dev]),
            refused=np.array([overlap("", gold) for _, gold in dev]),
        )

    def predict(self, model: nn.Module, features: ReadFeatures, split: Split) -> list[Prediction]:
        """The best span for each question of a split, whether it is good enough to be given or not."""
        questions = features.splits[split]
        wanted = (
            _Window(number, question.texts[i], extent)
            for number, question in enumerate(questions)
            for i, extent in features.windows(question)
        )
        best: dict[int, tuple[int, _Best]] = {}
        for window, found in _read(model, wanted, [question.tokens for question in questions], features.texts):
            if window.question not in best or found.odds > best[window.question][1].odds:
                best[window.question] = window.text, found
        return [_prediction(features, *best[number]) for number in range(len(questions))]

    def find(
        self, model: nn.Module, tokenizer: PreTrainedTokenizerBase, question: str, texts: Sequence[str], k: int
    ) -> list[ReadSpan]:
        """The best span of each text for a question that somebody asks; of the best `k` texts, best first."""
        read, options = list(token_texts(tokenizer, texts)), self.options
        wanted = (
            _Window(0, number, extent)
            for number, text in enumerate(read)
            for extent in windows(len(text), options.window, options.overlap)
        )
        best: dict[int, _Best] = {}
        for window, found in _read(model, wanted, [question_tokens(tokenizer, question, options.max_question)], read):
            if window.text not in best or found.odds > best[window.text].odds:
                best[window.text] = found
        spans = [
            ReadSpan(number, *read[number].characters(found.extent), found.score, found.none)
            for number, found in sorted(best.items())
        ]
        return sorted(spans, key=lambda span: -span.odds)[:k]

    def _check_length(self, backbone: Backbone) -> None:
        options, tokenizer = self.options, backbone.tokenizer
        longest = options.max_question + options.window + tokenizer.num_special_tokens_to_add(pair=True)
        positions = min(tokenizer.model_max_length, backbone.encoder.config.max_position_embeddings)
        if longest > positions:
            raise ConfigError(
                f"read: {longest} tokens of max_question, window and special tokens do not fit into the {positions} "
                f"positions of {backbone.spec!r}; lower window"
            )


# -- training ----------------------------------------------------------------------------------------------------


def _losses(scores: SpanScores, gold: Sequence[Sequence[Extent]]) -> Tensor:
    """[rows]"""
    right = torch.zeros(scores.spans.shape, dtype=torch.bool)
    for row, spans in enumerate(gold):
        for span in spans:
            right[row, span.start, len(span) - 1] = True
    right = right.flatten(1).to(scores.spans.device)
    every = torch.cat([scores.spans.flatten(1), scores.none.unsqueeze(1)], dim=1)
    wrong = ~torch.cat([right, ~right.any(dim=1, keepdim=True)], dim=1)
    return every.logsumexp(dim=1) - every.masked_fill(wrong, -torch.inf).logsumexp(dim=1)


# -- reading -----------------------------------------------------------------------------------------------------


class _Window(NamedTuple):
    """A part of a text that is read for a question; both by their number."""

    question: int
    text: int
    extent: Extent


class _Best(NamedTuple):
    """The best span of a window, in tokens of its text, and the score of no answer."""

    extent: Extent
    score: float
    none: float

    @property
    def odds(self) -> float:
        return self.score - self.none


def _read(
    model: nn.Module, wanted: Iterable[_Window], questions: Sequence[Tokens], texts: Sequence[TokenText]
) -> Iterator[tuple[_Window, _Best]]:
    """The best span of every window, a few windows at a time, however many there are."""
    left = iter(wanted)
    while some := list(islice(left, _AT_ONCE)):
        rows = [row_of(questions[window.question], texts[window.text], window.extent) for window in some]
        with evaluating(model):
            best = [one for scores in _reader(model)(rows) for one in _best(scores, some)]
        yield from best


def _best(scores: SpanScores, windows: Sequence[_Window]) -> Iterator[tuple[_Window, _Best]]:
    lengths = scores.spans.shape[2]
    values, places = scores.spans.flatten(1).max(dim=1)
    for row, value, place, none in zip(
        scores.rows, values.tolist(), places.tolist(), scores.none.tolist(), strict=True
    ):
        start = windows[row].extent.start + place // lengths
        yield windows[row], _Best(Extent(start, start + place % lengths + 1), value, none)


def _prediction(features: ReadFeatures, text: int, best: _Best) -> Prediction:
    start, end = features.texts[text].characters(best.extent)
    return Prediction(features.documents[text].text[start:end], best.odds)


def _digest(model: nn.Module) -> bytes:
    """What tells apart two states of a model; takes a small part of the time of scoring."""
    digest = blake3()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.digest()


def _reader(model: nn.Module) -> Reader:
    assert isinstance(model, Reader)
    return model
