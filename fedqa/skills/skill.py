# SPDX-License-Identifier: Apache-2.0
"""What every skill offers to local training and evaluation. Nothing here knows that training is federated."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from fedqa.data.records import Collection, Split
from fedqa.errors import ConfigError
from fedqa.models.backbones import Backbone
from fedqa.models.tagged import TaggedModel
from fedqa.training import Epochs

Scores = Mapping[str, np.ndarray]  # metric -> one value per scored question, in the order of the split


class Features(Epochs, Protocol):
    """A silo's examples as tensors, ready for training and scoring. Built once, kept in memory."""

    @property
    def n_train(self) -> int:
        """Training examples (questions), never batches."""

    def questions(self, split: Split) -> tuple[str, ...]:
        """The ids of the questions that `Skill.score` gives values for, in its order."""


class Skill(Protocol):
    """A task: examples to features, a head on a backbone, a loss, and metrics. Carries its options."""

    name: str
    higher_is_better: str  # the metric that decides on dev, e.g. "map"
    right: str  # the metric that is 1 where the first answer is right, and only there

    def build(self, backbone: Backbone, seed: int) -> TaggedModel:
        """The backbone with this skill's head; same seed, same weights."""

    def prepare(self, collection: Collection, backbone: Backbone, seed: int) -> Features:
        """Features of all splits. Raises DataError if there is nothing to train on."""

    def check_draws(self, draws: Mapping[str, Any], where: str) -> None:
        """Raise ConfigError unless `drawn` knows these options."""

    def drawn(
        self,
        model: nn.Module,
        features: Any,
        draws: Mapping[str, Any],
        received: Mapping[str, Tensor],
    ) -> Epochs:
        """What a round's local work trains on: the features, or what the model as it is now finds hard in them.

        `draws` are a stage's options for it, `received` is what channels brought to this silo for this round.
        """

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Mean task loss of one batch."""

    def score(self, model: nn.Module, features: Any, split: Split) -> Scores:
        """Per-question metric values; empty arrays if the split has no question."""


def no_draws(draws: Mapping[str, Any], skill: str, where: str) -> None:
    """For skills that train on their features as they are."""
    if draws:
        raise ConfigError(f"{where}: {skill} has no options for drawing examples, got {sorted(draws)[0]!r}")


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout and gradients inside; the model is left in the mode it was in."""
    mode = model.training
    model.train(False)
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(mode)
