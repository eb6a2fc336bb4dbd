# SPDX-License-Identifier: Apache-2.0
"""What a silo's decoder makes of common texts, as a vector each, and how such vectors are set against other silos'.

After Dong et al. 2022 (ATC), section 3.3: the texts are synthetic, the same for all silos, and each comes with the
states that a decoder is to read.
"""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedqa.errors import ConfigError
from fedqa.models.decoder import new_linear
from fedqa.models.tagged import TaggedModel
from fedqa.models.tagging import tagged_module
from fedqa.models.text_pair import TextPair

DROPOUT = 0.1


class ContrastHead(nn.Sequential):
    """From a state of the decoder to what is compared."""

    def __init__(self, width: int, generator: torch.Generator) -> None:
        first, second = (new_linear(width, width, generator, width**-0.5) for _ in range(2))
        super().__init__(nn.Dropout(DROPOUT), first, nn.Tanh(), nn.Dropout(DROPOUT), second)


def pair_in(module: nn.Module) -> TextPair:
    """The pair of a model that `check_pair` has found to have one."""
    return cast(TextPair, module.pair)


def check_pair(module: nn.Module, skill: str) -> None:
    """Raise ConfigError unless the model has an encoder and a decoder that silos of other skills have too."""
    if not hasattr(module, "pair"):
        raise ConfigError(
            f"skill {skill!r} has a model without the encoder-decoder that silos of different skills share; "
            "take classify or generate, or read with pair = true, or another method"
        )


def with_contrast_head(model: TaggedModel, seed: int) -> TaggedModel:
    """The model with a head of the silo's own for its representations; it is tagged as heads are."""
    module = model.module
    head = ContrastHead(_width(module), torch.Generator().manual_seed(seed))
    module.add_module("contrast", head)
    return TaggedModel(module, {**model.tags, **tagged_module("contrast", head, "head")})


def _width(module: nn.Module) -> int:
    """Of the encoder's states, found by making one."""
    ids, mode = torch.zeros(1, 1, dtype=torch.long), module.training
    module.eval()  # dropout would draw from the global generator
    with torch.no_grad():
        width = int(pair_in(module).encode(ids, torch.ones_like(ids)).shape[-1])
    module.train(mode)
    return width


def represented(module: nn.Module, tokens: Tensor, states: Tensor | None) -> Tensor:
    """A vector for each text, [texts, width]: the mean over its tokens of what decoder and contrast head make of them.

    The decoder reads `states` [texts, length, width]; where there are none, what the encoder makes of the tokens.
    """
    if states is None:
        states = pair_in(module).encode(tokens, torch.ones_like(tokens))
    head = cast(ContrastHead, module.contrast)
    vectors: Tensor = head(pair_in(module).decode(tokens, states, None)).mean(dim=1)
    return vectors


def contrastive(own: Tensor, near: Tensor, far: Tensor, temperature: float) -> Tensor:
    """Equation 3 of the paper, mean over texts: -log of the share of what is near among all that is compared.

    `own` and `near`, the mean of the neighbours' vectors, are [texts, width]; `far` is [silos, texts, width].
    """
    likeness = torch.cat([F.cosine_similarity(own, near, dim=-1)[None], F.cosine_similarity(own[None], far, dim=-1)])
    scores = likeness / temperature  # [1 + silos, texts]
    return (scores.logsumexp(dim=0) - scores[0]).mean()
