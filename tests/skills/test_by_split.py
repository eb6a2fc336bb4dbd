# SPDX-License-Identifier: Apache-2.0
"""Features over splits: counts are of examples, ids stand in the order of the split."""

from dataclasses import dataclass
from typing import Any

import pytest

from fedqa.skills.by_split import BySplit
from fedqa.skills.classify import ClassifyFeatures
from fedqa.skills.generate import GenerateFeatures
from fedqa.skills.match import MatchFeatures
from fedqa.skills.mending import TextFeatures
from fedqa.skills.parse import ParseFeatures
from fedqa.skills.read_features import ReadFeatures
from fedqa.skills.retrieve_features import RetrieveFeatures

FEATURES = (
    *(MatchFeatures, ReadFeatures, RetrieveFeatures, ParseFeatures),
    *(ClassifyFeatures, GenerateFeatures, TextFeatures),
)


@dataclass(frozen=True)
class Toy:
    id: str


@dataclass(frozen=True)
class ToyFeatures(BySplit[Toy]):
    splits: Any


def test_examples_are_counted_and_the_last_batch_may_be_short() -> None:
    features = ToyFeatures({"train": tuple(map(Toy, "edcba")), "dev": (Toy("y"), Toy("x")), "test": ()})
    assert features.n_train == 5
    assert [features.n_batches(size) for size in (1, 2, 4, 5, 6)] == [5, 3, 2, 1, 1]
    assert (features.questions("dev"), features.questions("test")) == (("y", "x"), ())


@pytest.mark.parametrize("features", FEATURES)
def test_the_features_of_every_skill_count_in_one_place(features: type[BySplit[Any]]) -> None:
    assert features.n_train is BySplit.n_train and features.n_batches is BySplit.n_batches
