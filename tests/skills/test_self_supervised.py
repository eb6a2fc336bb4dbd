# SPDX-License-Identifier: Apache-2.0
"""Assigned tasks on a real pair: each has a loss, and what it spares has no part in it."""

import numpy as np
import pytest
import torch
from torch import nn

from fedqa.federation.sharing import matches
from fedqa.models.backbones import load_backbone
from fedqa.models.contrast import pair_in
from fedqa.models.tagged import TaggedModel
from fedqa.skills import make_skill
from fedqa.skills.self_supervised import TASKS
from fedqa.skills.silo_texts import Texts
from fedqa.skills.texts import Text


@pytest.fixture(scope="module")
def model() -> TaggedModel:
    return make_skill("classify", {"classes": 3}, "test").build(load_backbone("tiny"), 0)


@pytest.fixture(scope="module")
def texts() -> Texts:
    tokenizer = load_backbone("tiny").tokenizer
    rows = ["The ferry leaves at nine. Dogs travel free.", "Rain is likely. Take a coat with you."]
    tokens = [np.array(tokenizer(row, add_special_tokens=False)["input_ids"]) for row in rows]
    ends = tokenizer("a")["input_ids"]
    return Texts([Text(str(i), row) for i, row in enumerate(tokens)], (ends[0],), (ends[-1],), 0)


def gradients(task: str, module: nn.Module, texts: Texts) -> set[str]:
    """Names of the parameters that a task's loss depends on."""
    module.zero_grad(set_to_none=True)
    rows = [text.tokens for text in texts.texts]
    loss = TASKS[task].loss(pair_in(module), texts, rows, np.random.default_rng(0))
    assert loss.item() > 0
    loss.backward()
    return {name for name, parameter in module.named_parameters() if parameter.grad is not None}


@pytest.mark.parametrize(
    ("task", "trained", "spared"),
    [("mlm", ("enc", "lm_head"), "dec|head"), ("denoise", ("enc", "dec"), "lm_head|head")],
)
def test_a_task_trains_its_own_part_and_spares_the_rest(
    task: str, trained: tuple[str, ...], spared: str, model: TaggedModel, texts: Texts
) -> None:
    assert TASKS[task].spares == spared
    moved = {name for name in gradients(task, model.module.eval(), texts) if "embeddings" not in model.tags[name]}
    for part in trained:
        own = {name for name, tags in model.tags.items() if matches(f"{part}&!embeddings&!pooler", tags)}
        assert own and own <= moved
    assert not {name for name in moved if matches(spared, model.tags[name])}


@pytest.mark.parametrize("task", TASKS)
def test_what_is_hidden_is_drawn_from_the_generator(task: str, model: TaggedModel, texts: Texts) -> None:
    pair, rows = pair_in(model.module.eval()), [text.tokens for text in texts.texts]
    with torch.no_grad():
        losses = [TASKS[task].loss(pair, texts, rows, np.random.default_rng(seed)).item() for seed in (1, 1, 2)]
    assert losses[0] == losses[1] != losses[2]
