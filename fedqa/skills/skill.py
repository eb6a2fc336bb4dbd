# SPDX-License-Identifier: Apache-2.0
"""What every skill offers to local training and evaluation. Nothing here knows that training is federated."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from fedqa.data.records import Collection, Split
from fedqa.models.backbones import Backbone
from fedqa.models.tagged import TaggedModel

Scores = Mapping[str, np.ndarray]  # metric -> one value per scored question, in the order of the split


class Features(Protocol):
    """A silo's examples as tensors, ready for training and scoring. Built once, kept in memory."""

    @property
    def n_train(self) -> int:
        """Training examples (questions), never batches."""

    def n_batches(self, size: int) -> int:
        """Batches of one epoch."""

    def epoch(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Any, int]]:
        """One pass in an order drawn from `rng`: batches, each with its number of examples."""


class Skill(Protocol):
    """A task: examples to features, a head on a backbone, a loss, and metrics. Carries its options."""

    name: str
    higher_is_better: str  # the metric that decides on dev, e.g. "map"

    def build(self, backbone: Backbone, seed: int) -> TaggedModel:
        """The backbone with this skill's head; same seed, same weights."""

    def prepare(self, collection: Collection, backbone: Backbone, seed: int) -> Features:
        """Features of all three splits. Raises DataError if there is nothing to train on."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Mean task loss of one batch."""

    def score(self, model: nn.Module, features: Any, split: Split) -> Scores:
        """Per-question metric values; empty arrays if the split has no question."""


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
