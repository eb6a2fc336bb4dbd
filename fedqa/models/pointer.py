# SPDX-License-Identifier: Apache-2.0
"""An encoder-decoder that writes symbols of a fixed list, word pieces, and copies of what it reads.

The encoder is any of BERT's form, the decoder starts from its upper layers. What can be copied are items that are known
beside the text (a schema's tables and columns) and runs of words of the text. Items are read one by one, once, by the
encoder as it was loaded: there may be any number of them, and reading them costs training nothing. Texts are too,
unless the encoder is to be trained. Pieces are spelled through the word table as it was loaded, so neither the size of
the output nor its training says anything of a silo's vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from fedqa.errors import ConfigError, ModelError
from fedqa.models.backbones import Backbone
from fedqa.models.decoder import DecoderLayer, Kept, Read, new_linear
from fedqa.models.encoding import Framing, Tokens
from fedqa.models.pooling import mean
from fedqa.models.search import ITEM, PIECE, SPAN, SYMBOL, Allowed, Likely, Rule, Search, Step, Written, searched
from fedqa.models.seq2seq import (
    FORBIDDEN,
    Items,
    Logits,
    Memory,
    Source,
    Target,
    padded_targets,
    read_texts,
    steps_tensor,
)
from fedqa.models.tagged import TaggedModel, Tags
from fedqa.models.tagging import is_norm, layers_of, retagged

END = Step(SYMBOL, 0)  # the first symbol is the end; it also stands for the start
_SHARE = 0.5  # of an item in the words that mean it, at first
_UNLIKELY = math.log(1e-3)  # below it, no piece is looked for: telling thirty thousand apart costs more than a step


class Copying(nn.Module):
    """Maps for what is copied: as query and key where it is looked for, as input where it was written last."""

    def __init__(self, width: int, generator: torch.Generator, share: float) -> None:
        super().__init__()
        self.query, self.key, self.input = (new_linear(width, width, generator) for _ in range(3))
        with torch.no_grad():
            self.input.weight.copy_(torch.eye(width) * share)

    def scores(self, states: Tensor, keys: Tensor) -> Tensor:
        """[rows, steps, keys]"""
        scores: Tensor = self.query(states) @ keys.transpose(1, 2)
        return scores / math.sqrt(states.shape[-1])


class Linking(nn.Module):
    """What links between words and items add to both (after Wang et al. 2020, but far smaller): a vector for each kind
    to the first and the last token of the words and to the item, and a share of the item to all tokens of the words.

    Without links it changes nothing. In training, some sources go without, as many as `dropout` says: what is asked
    later may be in no table.
    """

    def __init__(self, kinds: int, width: int, dropout: float) -> None:
        super().__init__()
        self.kinds, self.dropout = kinds, dropout
        self.first, self.last, self.item = (nn.Parameter(torch.zeros(kinds, width)) for _ in range(3))
        self.share = nn.Parameter(torch.full((kinds, width), _SHARE))

    def forward(self, memory: Memory, links: Tensor) -> Memory:
        """The memory with what links [links, 5] add to it: row, first word, last word, item and kind of each."""
        if self.training and self.dropout:
            links = links[torch.rand(len(memory.text), device=links.device)[links[:, 0]] >= self.dropout]
        row, first, last, item, kind = links.unbind(dim=1)
        begin, end = memory.words[row, first, 0], memory.words[row, last, 1]
        parts = self._parts(memory, links, begin, end).unsqueeze(-1)  # [links, length, 1]
        shares = parts * (memory.items[memory.group[row], item] * self.share[kind]).unsqueeze(1)
        text = memory.text.index_add(0, row, shares)
        text = text.index_put((row, begin), self.first[kind], accumulate=True)
        text = text.index_put((row, end), self.last[kind], accumulate=True)
        flags = text.new_zeros(len(text), memory.items.shape[1], self.kinds)
        flags[row, item, kind] = 1.0
        return replace(memory, text=text, flags=flags, flag_vectors=self.item)

    def _parts(self, memory: Memory, links: Tensor, begin: Tensor, end: Tensor) -> Tensor:
        """Of each link the tokens it covers, [links, length]; those of the same kind at one token sum to one."""
        at = torch.arange(memory.text.shape[1], device=links.device)
        covered = ((at >= begin.unsqueeze(1)) & (at <= end.unsqueeze(1))).to(memory.text.dtype)
        alike = links[:, 0] * self.kinds + links[:, 4]
        total = covered.new_zeros(len(memory.text) * self.kinds, len(at)).index_add(0, alike, covered)
        return covered / total[alike].clamp(min=1)


@dataclass(frozen=True, eq=False)
class Reading:
    """What of a memory is the same at every step: keys and values for the decoder's layers, and items as inputs."""

    layers: Sequence[Read]
    items: Tensor  # [rows, items, hidden]

    def take(self, rows: Tensor) -> "Reading":
        return Reading([(keys[rows], values[rows]) for keys, values in self.layers], self.items[rows])


class Pointer(nn.Module):
    """`symbols` is their number, the first being the end; a span is at most `longest_span` words."""

    def __init__(
        self,
        backbone: Backbone,
        *,
        symbols: int,
        item_kinds: int,
        longest_span: int,
        link_kinds: int,
        decoder_layers: int,
        dropout: float,
        train_encoder: bool,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.encoder = backbone.fresh() if train_encoder else None
        self.frozen, self.trunk = backbone.frozen, backbone.trunk
        config = backbone.encoder.config
        self.framing = _framing(backbone)
        self.longest_span, self.n_symbols = longest_span, symbols
        self.register_buffer("positions", _positions(backbone), persistent=False)
        make = partial(DecoderLayer, heads=config.num_attention_heads, dropout=dropout, generator=generator)
        self.decoder = nn.ModuleList(make(layer) for layer in _layers(backbone, decoder_layers))
        width = config.hidden_size
        self.symbols = _embedding(symbols + 1, width, generator)  # the last one says that a piece is spelled
        self.bias = nn.Parameter(torch.zeros(symbols + 1))
        self.kinds = _embedding(item_kinds + 1, width, generator)  # the last one is that of words
        self.item, self.first, self.last = (Copying(width, generator, share) for share in (1.0, 0.5, 0.5))
        self.spelling = new_linear(width, width, generator)
        with torch.no_grad():
            self.spelling.weight.copy_(torch.eye(width))
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(dropout)
        self.linking = Linking(link_kinds, width, dropout) if link_kinds else None

    # -- reading

    def encode(self, sources: Sequence[Source]) -> Memory:
        text, mask = read_texts([source.tokens for source in sources], self.framing, self._encoded)
        groups = list(dict.fromkeys(source.items for source in sources))
        items = [self._items(group, text) for group in groups]
        device, padded = text.device, pad_sequence(items, batch_first=True)
        counts = torch.tensor([len(group) for group in items], device=device)
        words = [torch.from_numpy(source.words) + self.framing.before for source in sources]
        memory = Memory(
            text + self.kinds.weight[-1],
            mask,
            padded,
            torch.arange(padded.shape[1], device=device) < counts.unsqueeze(1),
            torch.tensor([groups.index(source.items) for source in sources], device=device),
            pad_sequence(words, batch_first=True).to(device),
            torch.tensor([len(source.words) for source in sources], device=device),
        )
        return memory if self.linking is None else self.linking(memory, _links(sources, device))

    def _encoded(self, inputs: dict[str, Tensor]) -> Tensor:
        device = self.bias.device
        if self.encoder is None:
            return self.frozen(inputs)["inputs_embeds"].to(device)
        given = self.trunk(inputs) if self.trunk else inputs
        states: Tensor = self.encoder(**{name: tensor.to(device) for name, tensor in given.items()})[0]
        return states

    def _items(self, items: Items | None, text: Tensor) -> Tensor:
        if items is None:
            return text.new_zeros(0, text.shape[-1])
        kinds: Tensor = self.kinds(torch.tensor(items.kinds, device=text.device))
        return items.vectors.to(text.device) + kinds

    # -- writing what is given

    def logits(self, memory: Memory, targets: Sequence[Target]) -> Logits:
        gold = padded_targets(targets, memory.text.device)
        start = steps_tensor([END] * len(gold), END, gold.device)
        given = torch.cat([start, gold[:, :-1].clamp(min=0)], dim=1)
        states = self.states(memory, given, self.reading(memory))
        spelled = gold[..., 0] == PIECE
        return Logits(
            self._scores(memory, states, self._keys(memory)),
            self._classes(memory, gold),
            self._piece_scores(states[spelled]),
            gold[..., 1][spelled],
        )

    def reading(self, memory: Memory) -> Reading:
        layers = [
            (one.source.split(memory.mapped(one.source.key)), one.source.split(memory.mapped(one.source.value)))
            for one in self._decoder_layers
        ]
        return Reading(layers, memory.mapped_items(self.item.input))

    def states(self, memory: Memory, steps: Tensor, reading: Reading, kept: Kept | None = None) -> Tensor:
        """The decoder's states after steps [rows, steps, 2]: [rows, steps, hidden]."""
        at = kept.steps if kept else 0
        places = self._position_table[at : at + steps.shape[1]]
        states: Tensor = self.dropout(self.norm(self._inputs(memory, steps, reading) + places))
        mask = memory.mask[:, None, None]
        for place, (layer, read) in enumerate(zip(self._decoder_layers, reading.layers, strict=True)):
            states = layer(states, read, mask, kept, place)
        return states

    def _inputs(self, memory: Memory, steps: Tensor, reading: Reading) -> Tensor:
        """What was written, as vectors: each kind in its places."""
        kind, index = steps.unbind(dim=-1)
        inputs: Tensor = self.symbols(torch.where(kind == SYMBOL, index, 0))
        pieces, items, spans = (kind == one for one in (PIECE, ITEM, SPAN))
        if pieces.any():
            inputs = inputs.index_put(_places(pieces), F.embedding(index[pieces], self._words))
        if items.any():
            rows, _ = at = _places(items)
            inputs = inputs.index_put(at, reading.items[rows, index[items]])
        if spans.any():
            rows, _ = at = _places(spans)
            first, more = index[spans] // self.longest_span, index[spans] % self.longest_span
            begin, end = memory.words[rows, first, 0], memory.words[rows, first + more, 1]
            said = self.first.input(memory.text[rows, begin]) + self.last.input(memory.text[rows, end])
            inputs = inputs.index_put(at, said)
        return inputs

    def _keys(self, memory: Memory) -> tuple[Tensor, Tensor, Tensor]:
        """Of items [rows, items, hidden], and of the first and the last token of words [rows, words, hidden]."""
        rows = torch.arange(len(memory.text), device=memory.text.device).unsqueeze(1)
        begins, ends = (memory.text[rows, memory.words[..., i]] for i in (0, 1))
        return memory.mapped_items(self.item.key), self.first.key(begins), self.last.key(ends)

    def _scores(self, memory: Memory, states: Tensor, keys: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Of symbols, of a piece, of items and of spans: [rows, steps, symbols + 1 + items + words * longest_span]."""
        of_items, begins, ends = keys
        symbols = F.linear(states, self.symbols.weight, self.bias)
        items = self.item.scores(states, of_items)
        items = items.masked_fill(~memory.item_mask[memory.group].unsqueeze(1), FORBIDDEN)
        spans = self._span_scores(memory, self.first.scores(states, begins), self.last.scores(states, ends))
        return torch.cat([symbols, items, spans], dim=-1)

    def _span_scores(self, memory: Memory, first: Tensor, last: Tensor) -> Tensor:
        """A span's score is that of its first word as such plus that of its last: [rows, steps, words * spans]."""
        words = torch.arange(first.shape[-1], device=first.device)
        ends = words.unsqueeze(1) + torch.arange(self.longest_span, device=first.device)  # [words, spans]
        scores = first.unsqueeze(-1) + last[:, :, ends.clamp(max=len(words) - 1)]
        beyond = ends >= memory.n_words[:, None, None]
        return scores.masked_fill(beyond.unsqueeze(1), FORBIDDEN).flatten(start_dim=2)

    def _classes(self, memory: Memory, steps: Tensor) -> Tensor:
        kind, index = steps.unbind(dim=-1)
        first_item = self.n_symbols + 1
        classes = torch.where(kind == PIECE, self.n_symbols, index)
        classes = torch.where(kind == ITEM, first_item + index, classes)
        return torch.where(kind == SPAN, first_item + memory.items.shape[1] + index, classes)

    def _piece_scores(self, states: Tensor) -> Tensor:
        return F.linear(self.spelling(states), self._words)

    # -- writing

    def write(self, memory: Memory, search: Search, rules: Sequence[Rule] | None = None) -> list[list[Written]]:
        longest = min(search.longest, len(self._position_table))
        with torch.inference_mode():
            stepper = _Stepper(self, memory)
            return searched(stepper, len(memory.text), Search(longest, search.beams), end=END, rules=rules)

    # -- parts whose types torch does not tell

    @property
    def _words(self) -> Tensor:
        table = self.frozen.lower.get_input_embeddings().weight
        assert isinstance(table, Tensor)
        return table.to(self.bias.device)

    @property
    def _position_table(self) -> Tensor:
        assert isinstance(self.positions, Tensor)
        return self.positions

    @property
    def _decoder_layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]


class _Stepper:
    """A pointer in the middle of writing."""

    def __init__(self, model: Pointer, memory: Memory) -> None:
        self._model, self._memory, self._kept = model, memory, Kept()
        self._reading, self._keys = model.reading(memory), model._keys(memory)

    def likely(self, last: Sequence[Step | None], k: int, allowed: Sequence[Allowed] | None) -> list[list[Likely]]:
        model, memory = self._model, self._memory
        steps = steps_tensor(last, END, memory.text.device)
        states = model.states(memory, steps, self._reading, self._kept)
        scores = model._scores(memory, states, self._keys)[:, 0]
        if allowed is not None:
            scores = scores.masked_fill(~self._mask(allowed, scores), FORBIDDEN)
        likely = F.log_softmax(scores, dim=-1)
        piece = likely[:, model.n_symbols].clone()
        likely[:, model.n_symbols] = FORBIDDEN
        best = likely.topk(min(k, likely.shape[1]), dim=-1)
        found = [
            self._steps(values, classes)
            for values, classes in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]
        # No piece is likelier than that there is one: where k others are, none would be chosen.
        wanted = (piece > best.values[:, -1].clamp(min=_UNLIKELY)).nonzero()[:, 0]
        for row, pieces in zip(wanted.tolist(), self._pieces(states[wanted, 0], piece[wanted], k), strict=True):
            found[row] += pieces
        return [sorted(row, key=lambda one: -one.score)[:k] for row in found]

    def take(self, rows: Sequence[int]) -> None:
        if list(rows) == list(range(len(self._memory.text))):
            return
        at = torch.tensor(rows, device=self._memory.text.device)
        items, first, last = self._keys
        self._memory, self._keys = self._memory.take(at), (items[at], first[at], last[at])
        self._reading = self._reading.take(at)
        self._kept.take(at)

    def _steps(self, values: Sequence[float], classes: Sequence[int]) -> list[Likely]:
        return [
            Likely(value, self._step(one)) for value, one in zip(values, classes, strict=True) if value > FORBIDDEN / 2
        ]

    def _step(self, index: int) -> Step:
        first_item = self._model.n_symbols + 1
        first_span = first_item + self._memory.items.shape[1]
        if index < first_item:
            return Step(SYMBOL, index)
        return Step(ITEM, index - first_item) if index < first_span else Step(SPAN, index - first_span)

    def _pieces(self, states: Tensor, likely: Tensor, k: int) -> list[list[Likely]]:
        """The likeliest pieces after each of the states [rows, hidden]; `likely` [rows] is that there is one."""
        if not len(states):
            return []
        best = F.log_softmax(self._model._piece_scores(states), dim=-1).topk(k, dim=-1)
        scores = (best.values + likely.unsqueeze(1)).tolist()
        return [
            [Likely(score, Step(PIECE, piece)) for score, piece in zip(row, pieces, strict=True)]
            for row, pieces in zip(scores, best.indices.tolist(), strict=True)
        ]

    def _mask(self, allowed: Sequence[Allowed], scores: Tensor) -> Tensor:
        mask = torch.zeros(scores.shape, dtype=torch.bool)
        first_item = self._model.n_symbols + 1
        first_span = first_item + self._memory.items.shape[1]
        for row, one in enumerate(allowed):
            mask[row, : self._model.n_symbols] = torch.from_numpy(one.symbols)
            mask[row, self._model.n_symbols] = one.pieces
            mask[row, first_item : first_item + len(one.items)] = torch.from_numpy(one.items)
            mask[row, first_span:] = one.spans
        return mask.to(scores.device)


def item_vectors(backbone: Backbone, texts: Sequence[Tokens]) -> Tensor:
    """One vector for each text, the mean of its states in the encoder as it was loaded: [texts, hidden]."""
    return mean(*read_texts(texts, _framing(backbone), lambda inputs: backbone.frozen(inputs)["inputs_embeds"]))


def _framing(backbone: Backbone) -> Framing:
    return Framing(backbone.tokenizer, segments=getattr(backbone.encoder.config, "type_vocab_size", 0) > 1)


def pointer(
    backbone: Backbone,
    *,
    symbols: int,
    item_kinds: int,
    longest_span: int,
    decoder_layers: int,
    dropout: float,
    train_encoder: bool,
    seed: int,
    link_kinds: int = 0,
) -> TaggedModel:
    """A `Pointer` on a backbone. `dec.k` are the decoder's layers; what else is new is the head.

    `link_kinds` is the number of kinds of links between words and items that sources may tell of.
    """
    if backbone.encoder.config.is_encoder_decoder:
        raise ModelError(f"a pointer is made of an encoder, but {backbone.spec!r} is an encoder-decoder already")
    module = Pointer(
        backbone,
        symbols=symbols,
        item_kinds=item_kinds,
        longest_span=longest_span,
        link_kinds=link_kinds,
        decoder_layers=decoder_layers,
        dropout=dropout,
        train_encoder=train_encoder,
        generator=torch.Generator().manual_seed(seed),
    )
    return TaggedModel(module, (retagged(backbone.tags, "encoder") if train_encoder else {}) | _tags(module))


def _tags(module: Pointer) -> dict[str, Tags]:
    """Of all that is not the encoder."""
    names = [name for name, _ in module.named_parameters() if not name.startswith("encoder.")]
    tags = {name: {"head"} for name in names}
    for number, layer in enumerate(module.decoder):
        for name, _ in layer.named_parameters():
            tags[f"decoder.{number}.{name}"] = {f"dec.{number}"}
    for place, part in module.named_modules():
        if is_norm(part) and not place.startswith("encoder."):
            for name, _ in part.named_parameters():
                tags[f"{place}.{name}"].add("norm")
    for name, _ in module.spelling.named_parameters():
        tags[f"spelling.{name}"].add("lm_head")
    return {name: frozenset(own) for name, own in tags.items()}


def _layers(backbone: Backbone, count: int) -> list[nn.Module]:
    """The upper layers of the whole encoder."""
    layers = list(layers_of(backbone.frozen.lower) or ())
    if not layers:
        raise ModelError(f"a decoder is made of an encoder's layers, and {backbone.spec!r} has no list of them")
    if not 0 < count <= len(layers):
        raise ConfigError(f"decoder_layers must be 1 to {len(layers)} for {backbone.spec!r}, got {count}")
    return layers[-count:]


def _positions(backbone: Backbone) -> Tensor:
    """The encoder's table of positions: [positions, hidden]."""
    encoder = backbone.frozen.lower
    count, words = encoder.config.max_position_embeddings, encoder.get_input_embeddings()
    tables = [one for one in encoder.modules() if isinstance(one, nn.Embedding) and one is not words]
    table = next((one for one in tables if one.num_embeddings == count), None)
    if table is None:
        raise ModelError(f"a decoder needs a table of positions, and {backbone.spec!r} has none; take 'embedded'")
    return table.weight.detach()[(-1 if table.padding_idx is None else table.padding_idx) + 1 :].clone()


def _embedding(count: int, width: int, generator: torch.Generator) -> nn.Embedding:
    table = nn.Embedding(count, width, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        table.weight.normal_(0.0, 0.02, generator=generator)
    return table


def _links(sources: Sequence[Source], device: torch.device) -> Tensor:
    """The links of all sources: [links, 5], the row of each before what `Source` says of it."""
    found = [np.insert(one.links, 0, row, axis=1) for row, one in enumerate(sources) if one.links is not None]
    return torch.from_numpy(np.concatenate([np.zeros((0, 5), dtype=np.int64), *found])).to(device)


def _places(mask: Tensor) -> tuple[Tensor, Tensor]:
    rows, steps = mask.nonzero(as_tuple=True)
    return rows, steps
