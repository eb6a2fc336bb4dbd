# SPDX-License-Identifier: Apache-2.0
"""An encoder-decoder whose halves both start from one encoder (Rothe et al. 2020), with a head that fills in words.

Silos whose tasks differ share it: those that tell classes or spans use the encoder, those that write use both halves,
and every one of them carries all of it, so that what travels is the same everywhere. The decoder has the encoder's
input embeddings, which nobody trains. Words come out through the same table, so neither the size of the output nor its
training says anything of a silo's vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedqa.errors import ModelError
from fedqa.models.annotations import PreTrainedModel, PreTrainedTokenizerBase
from fedqa.models.backbones import Backbone
from fedqa.models.decoder import DecoderLayer, Kept, Read
from fedqa.models.encoding import Framing, Tokens
from fedqa.models.matcher import with_head
from fedqa.models.seq2seq import read_texts
from fedqa.models.tagged import TaggedModel, Tags
from fedqa.models.tagging import is_norm, layers_of, retagged
from fedqa.models.trunk import Trunk

OWN = 15.0  # enough for 0.99 of a softmax over thirty thousand words
Which = npt.NDArray[np.bool_]  # [words], true for some of them

_STOPS = frozenset(".!?\u2026\u3002\uff01\uff1f")  # the last three are Chinese and Japanese
_CONTINUED = "#\u0120\u2581"  # what tokenizers put before a piece


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The word pieces of a model: how many, those with a meaning of their own, and some kinds of them."""

    size: int
    start: int
    end: int
    mask: int
    special: Which  # no words: never chosen, drawn or written
    stops: Which  # may end a sentence
    digits: Which

    @classmethod
    def of(cls, backbone: Backbone) -> "Vocabulary":
        tokenizer = backbone.tokenizer
        size, known = _words_of(_bottom(backbone)).num_embeddings, len(tokenizer)
        pieces = [piece.lstrip(_CONTINUED) for piece in tokenizer.convert_ids_to_tokens(list(range(known)))]
        special = np.ones(size, dtype=bool)  # a table may be longer than the list of words
        special[:known] = False
        special[list(tokenizer.all_special_ids)] = True
        stops, digits = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
        stops[:known] = [piece in _STOPS for piece in pieces]
        digits[:known] = [piece.isdecimal() for piece in pieces]
        return cls(size, *_marks(tokenizer, backbone.spec), special, stops, digits)


class WordHead(nn.Module):
    """States to what a word table is compared with. Before it is trained it gives the states, at a common length.

    That length is such that a state which points to a word gives it a score of about `OWN`, however long the vectors
    of the table are. BERT's head has no such start: it would first have to learn what the states say already, since an
    encoder's states are near the words they stand for.
    """

    def __init__(self, words: Tensor) -> None:
        super().__init__()
        width = words.shape[1]
        # Made on "meta" and filled here: nn.Linear's own initialisation would draw from the global generator.
        self.dense = nn.Linear(width, width, device="meta").to_empty(device="cpu")
        self.norm = nn.LayerNorm(width, eps=1e-12)
        with torch.no_grad():
            self.dense.weight.zero_()
            self.dense.bias.zero_()
            self.norm.weight.fill_(OWN / (math.sqrt(width) * float(words.norm(dim=1).mean())))

    def forward(self, states: Tensor) -> Tensor:
        out: Tensor = self.norm(states + F.gelu(self.dense(states)))
        return out


class TextPair(nn.Module):
    """Encoder, decoder, and a head on each that scores words. See `text_pair`."""

    def __init__(self, backbone: Backbone, generator: torch.Generator) -> None:
        super().__init__()
        self.encoder, self.trunk = backbone.fresh(), backbone.trunk
        config = backbone.encoder.config
        dropout = next((m.p for m in self.encoder.modules() if isinstance(m, nn.Dropout)), 0.0)
        make = partial(DecoderLayer, heads=config.num_attention_heads, dropout=dropout, generator=generator)
        self.decoder = nn.ModuleList(make(layer) for layer in _layers(backbone))
        words = _words_of(_bottom(backbone)).weight
        self.spelling, self.filling = WordHead(words), WordHead(words)
        self.framing, self.vocabulary = Framing(backbone.tokenizer, segments=False), Vocabulary.of(backbone)
        self.first_position = _first_position(backbone)
        self.positions = int(config.max_position_embeddings) - self.first_position

    # -- the encoder

    def encode(self, ids: Tensor, mask: Tensor, *, again: bool = True) -> Tensor:
        """States [texts, length, hidden] of ids [texts, length], special ones among them; `mask` is 1 where a text is.

        Where lower layers are frozen, what they make of a text is kept if it will be read `again`.
        """
        inputs = {"input_ids": ids, "attention_mask": mask.long()}
        if self.trunk is not None:
            inputs = _through(self.trunk, {name: tensor.cpu() for name, tensor in inputs.items()}, again=again)
        states: Tensor = self.encoder(**{name: tensor.to(self.device) for name, tensor in inputs.items()})[0]
        return states

    def read(self, texts: Sequence[Tokens], *, again: bool = True) -> tuple[Tensor, Tensor]:
        """The states of texts, framed by special tokens, and where there are any: [texts, length, hidden] and mask."""
        return read_texts(
            texts, self.framing, lambda inputs: self.encode(inputs["input_ids"], inputs["attention_mask"], again=again)
        )

    def fill(self, states: Tensor) -> Tensor:
        """Scores of all words at each of the encoder's states: [..., hidden] -> [..., words]."""
        return F.linear(self.filling(states), self._words)

    # -- the decoder

    def decode(self, ids: Tensor, memory: Tensor, memory_mask: Tensor | None) -> Tensor:
        """States [rows, steps, hidden] after ids [rows, steps], each of which sees those before it and the memory.

        `memory` is [rows, length, hidden]; `memory_mask` [rows, length] is true where it is to be read.
        """
        return self.decoded(ids, self.reads(memory), reading_mask(memory, memory_mask))

    def reads(self, memory: Tensor) -> list[Read]:
        """What the decoder's layers read of a memory."""
        return [layer.source.keys_and_values(memory) for layer in self._decoder_layers]

    def decoded(self, ids: Tensor, reads: Sequence[Read], mask: Tensor, kept: Kept | None = None) -> Tensor:
        """As `decode`, of what was read before; with `kept`, ids are one step more than those it has seen."""
        states = self._inputs(ids.to(self.device), kept.steps if kept else 0)
        for place, (layer, read) in enumerate(zip(self._decoder_layers, reads, strict=True)):
            states = layer(states, read, mask, kept, place)
        return states

    def write(self, states: Tensor) -> Tensor:
        """Scores of all words as the next one at each of the decoder's states: [..., hidden] -> [..., words]."""
        return F.linear(self.spelling(states), self._words)

    def _inputs(self, ids: Tensor, at: int) -> Tensor:
        places = torch.arange(at, at + ids.shape[1], device=ids.device).unsqueeze(0) + self.first_position
        embeddings = _embeddings(self._lowest)
        if self.trunk is None:
            states: Tensor = embeddings(input_ids=ids, position_ids=places)
            return states
        with torch.no_grad():
            states = embeddings(input_ids=ids.cpu(), position_ids=places.cpu())
        return states.to(self.device)

    # -- parts whose types torch does not tell

    @property
    def device(self) -> torch.device:
        return self.spelling.dense.weight.device

    @property
    def _lowest(self) -> PreTrainedModel:
        return self.encoder if self.trunk is None else self.trunk.lower

    @property
    def _words(self) -> Tensor:
        return _words_of(self._lowest).weight.to(self.device)

    @property
    def _decoder_layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]


class Paired(nn.Module):
    """A model that is a pair and nothing else: that of the skills `generate`, `mlm` and `denoise`."""

    def __init__(self, pair: TextPair) -> None:
        super().__init__()
        self.pair = pair


def text_pair(backbone: Backbone, seed: int) -> TextPair:
    """Both halves from the backbone's encoder; `seed` draws what reads the encoder's states in the decoder."""
    if backbone.encoder.config.is_encoder_decoder:
        raise ModelError(
            f"a pair is made of an encoder, but {backbone.spec!r} is an encoder-decoder already; try 'embedded'"
        )
    return TextPair(backbone, torch.Generator().manual_seed(seed))


def tagged_pair(module: nn.Module, backbone: Backbone) -> TaggedModel:
    """A model that holds a pair of this backbone as `pair`, with its tags; all else in it is the head.

    The encoder has the backbone's tags, the decoder's layers are `dec.k`, its word head belongs to the last of them,
    and the head that fills in words is `lm_head`.
    """
    return with_head(module, retagged(_pair_tags(pair_of(module), backbone), "pair"))


def pair_of(module: nn.Module) -> TextPair:
    """The pair of a model that has one."""
    pair = getattr(module, "pair", None)
    if not isinstance(pair, TextPair):
        raise ModelError(
            f"a {type(module).__name__} holds no pair of encoder and decoder; take one of the skills classify, "
            "generate, mlm and denoise, or read with pair = true"
        )
    return pair


def reading_mask(memory: Tensor, mask: Tensor | None) -> Tensor:
    """Which places of a memory are read, for all heads and steps: [rows, 1, 1, length]."""
    if mask is None:
        return torch.ones(len(memory), 1, 1, memory.shape[1], dtype=torch.bool, device=memory.device)
    return mask.to(memory.device).bool()[:, None, None]


def _through(trunk: Trunk, inputs: dict[str, Tensor], *, again: bool) -> dict[str, Tensor]:
    """The arguments of the upper layers. A damaged text never comes again and would only fill the trunk's memory."""
    if again:
        return trunk(inputs)
    with torch.no_grad():
        return {"inputs_embeds": trunk.lower(**inputs)[0], "attention_mask": inputs["attention_mask"]}


def _pair_tags(pair: TextPair, backbone: Backbone) -> dict[str, Tags]:
    own = {f"decoder.{k}": (layer, f"dec.{k}") for k, layer in enumerate(pair.decoder)}
    own |= {"spelling": (pair.spelling, f"dec.{len(pair.decoder) - 1}"), "filling": (pair.filling, "lm_head")}
    tags = retagged(backbone.tags, "encoder")
    for prefix, (module, tag) in own.items():
        norms = {id(p) for part in module.modules() if is_norm(part) for p in part.parameters()}
        for name, parameter in module.named_parameters():
            tags[f"{prefix}.{name}"] = frozenset({tag, "norm"} if id(parameter) in norms else {tag})
    return tags


def _bottom(backbone: Backbone) -> PreTrainedModel:
    """What holds the input embeddings."""
    return backbone.trunk.lower if backbone.trunk else backbone.encoder


def _layers(backbone: Backbone) -> list[nn.Module]:
    """All layers of the whole encoder, frozen ones below the others."""
    stacks = [backbone.trunk.lower, backbone.encoder] if backbone.trunk else [backbone.encoder]
    layers = [layer for stack in stacks for layer in layers_of(stack) or ()]
    if not layers:
        raise ModelError(f"a decoder is made of an encoder's layers, and {backbone.spec!r} has no list of them")
    return layers


def _words_of(model: PreTrainedModel) -> nn.Embedding:
    words = model.get_input_embeddings()
    assert isinstance(words, nn.Embedding)
    return words


def _embeddings(model: PreTrainedModel) -> nn.Module:
    """The module that makes states of ids and positions."""
    words = _words_of(model)
    return next(module for module in model.modules() if words in module.children())


def _first_position(backbone: Backbone) -> int:
    """The number of the first position: some models begin behind the one that stands for padding."""
    model = _bottom(backbone)
    count, words = getattr(model.config, "max_position_embeddings", 0), _words_of(model)
    tables = [m for m in _embeddings(model).modules() if isinstance(m, nn.Embedding) and m is not words]
    table = next((one for one in tables if one.num_embeddings == count), None)
    if table is None:
        raise ModelError(f"a decoder needs a table of positions, and {backbone.spec!r} has none; take 'embedded'")
    return 0 if table.padding_idx is None else table.padding_idx + 1


def _marks(tokenizer: PreTrainedTokenizerBase, spec: str) -> tuple[int, int, int]:
    """What stands for start, end and a missing word."""
    found = {name: getattr(tokenizer, f"{name}_token_id") for name in ("cls", "sep", "mask")}
    missing = [name for name, id in found.items() if id is None]
    if missing:
        raise ModelError(f"the tokenizer of {spec!r} has no {missing[0]} token, which a pair needs; take 'embedded'")
    return int(found["cls"]), int(found["sep"]), int(found["mask"])
