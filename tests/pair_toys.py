# SPDX-License-Identifier: Apache-2.0
"""Small silos and their training, for the skills that have a pair of encoder and decoder."""

from functools import cache

import numpy as np
import torch
from torch import nn

from fedqa.data.records import Collection, Document, Example, Split
from fedqa.models.backbones import Backbone, load_backbone
from fedqa.skills.skill import Features, Skill
from fedqa.training import Adam, Local, Term, Trace, fit

ANIMALS = ("cat", "dog", "horse", "cow", "sheep", "goat", "pig", "duck", "hen", "fox", "wolf", "bear")
PLACES = ("house", "garden", "forest", "river", "barn")


@cache
def tiny() -> Backbone:
    return load_backbone("tiny")


def split_number(number: int) -> Split:
    """Of 36, with each animal three times: the first 24 for training, the others by turns for dev and test."""
    return "train" if number < 24 else ("dev", "test")[number % 2]


def texts_silo() -> Collection:
    """Documents of two sentences, where each animal has its place; every document has a question."""
    documents, examples = [], []
    for number in range(36):
        animal, place = ANIMALS[number % 12], PLACES[number % 12 % 5]
        text = f"The {animal} sat in the {place} . It ran off ."
        documents.append(Document(f"d{number}", text))
        question = f"secret question {number}"
        examples.append(
            Example(f"q{number}", question, about=f"d{number}", answers=("secret",), split=split_number(number))
        )
    return Collection(tuple(documents), tuple(examples))


def trained(
    skill: Skill, features: Features, *, epochs: int, rate: float, batch: int = 8, frozen: str = "embeddings"
) -> tuple[nn.Module, Trace]:
    """A new model after some epochs; input embeddings stay as they were."""
    tagged = skill.build(tiny(), 0)
    named = dict(tagged.module.named_parameters())
    for name, parameter in named.items():
        parameter.requires_grad_(frozen not in tagged.tags[name])
    parameters = [parameter for parameter in named.values() if parameter.requires_grad]
    optimiser, local = Adam(parameters), Local(epochs=epochs, batch=batch, learning_rate=rate, weight_decay=0.0)
    optimiser.start(local, None, 0)
    tagged.module.train()
    trace = fit(
        lambda drawn: skill.loss(tagged.module, drawn),
        parameters,
        optimiser,
        data=features,
        local=local,
        terms=[Term("task")],
        rng=np.random.default_rng(0),
    )
    return tagged.module, trace


def same_bits(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)
