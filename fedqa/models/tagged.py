# SPDX-License-Identifier: Apache-2.0
"""A model whose every parameter carries tags. Sharing is decided by tags, never by pieces of a name."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

Tags = frozenset[str]


@dataclass(frozen=True)
class TaggedModel:
    """A module with the tags of each parameter, by its name in `module.named_parameters()`.

    Tags: `embeddings` (all input embeddings) and `words` (the word table among them), `enc.k`, `dec.k` (layer k),
    `norm`, `pooler`, `head`, `patch`, `adapter` (a patch that travels), `lm_head`, `tower.query`, `tower.sentence`. A
    parameter may have several.
    """

    module: nn.Module
    tags: Mapping[str, Tags]

    def __post_init__(self) -> None:
        names = {name for name, _ in self.module.named_parameters()}
        if names != set(self.tags):
            raise ValueError(f"tags do not cover the parameters: {sorted(names ^ set(self.tags))[:5]}")
