# SPDX-License-Identifier: Apache-2.0
"""A Transformer decoder whose layers start as layers of an encoder (Rothe et al. 2020); what reads the source is new.

Made of layers of BERT's form: attention, norm, feed-forward, norm. It works on a whole target at once in training, and
step by step, keeping what it has computed, in writing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedqa.errors import ModelError

Read = tuple[Tensor, Tensor]  # keys and values of what is read, for one layer: [rows, heads, places, width]


@dataclass
class Kept:
    """Keys and values of the steps taken so far, by layer: [rows, heads, steps, width]."""

    layers: list[Read] = field(default_factory=list)

    def add(self, layer: int, keys: Tensor, values: Tensor) -> Read:
        if layer == len(self.layers):
            self.layers.append((keys, values))
        else:
            old_keys, old_values = self.layers[layer]
            self.layers[layer] = torch.cat([old_keys, keys], dim=2), torch.cat([old_values, values], dim=2)
        return self.layers[layer]

    def take(self, rows: Tensor) -> None:
        """Go on with these rows, of which one may stand several times."""
        self.layers = [(keys[rows], values[rows]) for keys, values in self.layers]

    @property
    def steps(self) -> int:
        return self.layers[0][0].shape[2] if self.layers else 0


class Attention(nn.Module):
    def __init__(self, maps: Sequence[nn.Linear], norm: nn.LayerNorm, heads: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = maps
        self.norm, self.heads = norm, heads

    def keys_and_values(self, states: Tensor) -> Read:
        return self.split(self.key(states)), self.split(self.value(states))

    def mixed(self, states: Tensor, read: Read, *, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """What each state finds, before it is added to it."""
        found = F.scaled_dot_product_attention(self.split(self.query(states)), *read, attn_mask=mask, is_causal=causal)
        out: Tensor = self.out(found.transpose(1, 2).flatten(start_dim=2))
        return out

    def split(self, states: Tensor) -> Tensor:
        """[rows, places, hidden] -> [rows, heads, places, hidden / heads]"""
        return states.view(*states.shape[:-1], self.heads, -1).transpose(1, 2)


class DecoderLayer(nn.Module):
    """Self-attention and feed-forward part of an encoder's layer, and between them attention to what is read."""

    def __init__(self, layer: nn.Module, *, heads: int, dropout: float, generator: torch.Generator) -> None:
        super().__init__()
        maps, first_norm, (inner, outer), last_norm = _parts(layer)
        self.own = Attention([_copied(one) for one in maps], _norm_like(first_norm), heads)
        new = [new_linear(one.in_features, one.out_features, generator) for one in maps]
        self.source = Attention(new, nn.LayerNorm(first_norm.normalized_shape, eps=first_norm.eps), heads)
        self.inner, self.outer, self.norm = _copied(inner), _copied(outer), _norm_like(last_norm)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, read: Read, mask: Tensor, kept: "Kept | None", place: int) -> Tensor:
        """`states` are those of a whole target or, with `kept`, of one step; `mask` says which places are read."""
        own = self.own.keys_and_values(states)
        if kept is not None:
            own = kept.add(place, *own)
        states = self.own.norm(states + self.dropout(self.own.mixed(states, own, causal=kept is None)))
        states = self.source.norm(states + self.dropout(self.source.mixed(states, read, mask=mask)))
        states = self.norm(states + self.dropout(self.outer(F.gelu(self.inner(states)))))
        return states


def new_linear(inputs: int, outputs: int, generator: torch.Generator, deviation: float = 0.02) -> nn.Linear:
    # Made on "meta" and filled here: nn.Linear's own initialisation would draw from the global generator.
    layer = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        layer.weight.normal_(0.0, deviation, generator=generator)
        layer.bias.zero_()
    return layer


def _parts(layer: nn.Module) -> tuple[list[nn.Linear], nn.LayerNorm, list[nn.Linear], nn.LayerNorm]:
    """The linear maps and norms of a layer, told by the order in which they stand."""
    linears = [module for module in layer.modules() if isinstance(module, nn.Linear)]
    norms = [module for module in layer.modules() if isinstance(module, nn.LayerNorm)]
    order = [type(module) for module in layer.modules() if isinstance(module, nn.Linear | nn.LayerNorm)]
    attention, feed_forward = [nn.Linear] * 4, [nn.Linear] * 2
    if order != [*attention, nn.LayerNorm, *feed_forward, nn.LayerNorm]:
        raise ModelError(
            f"a decoder cannot be made of a {type(layer).__name__}: it is not attention, norm, feed-forward, norm, as "
            "the layers of BERT, RoBERTa and DistilBERT are; take 'embedded', or an encoder-decoder such as T5"
        )
    return linears[:4], norms[0], linears[4:], norms[1]


# New modules with the same values: a copy of a module would bring along the hooks that patches put on it.
def _copied(linear: nn.Linear) -> nn.Linear:
    layer = nn.Linear(linear.in_features, linear.out_features, device="meta").to_empty(device="cpu")
    layer.load_state_dict(linear.state_dict())
    return layer


def _norm_like(norm: nn.LayerNorm) -> nn.LayerNorm:
    layer = nn.LayerNorm(norm.normalized_shape, eps=norm.eps)
    layer.load_state_dict(norm.state_dict())
    return layer
