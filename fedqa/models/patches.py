# SPDX-License-Identifier: Apache-2.0
"""Patches: small trained modules put into an encoder by its structure, without a subclass per model.

After FedMatch (Chen et al., CIKM 2021). A patch is `V_D g(V_E h)`, its *site* says what it reads and where its output
goes, its *merge* how. In the tables, h is a layer's input, MH attention with its output projection, SA what the first
norm gives, BL the layer, e the input of the stack's first layer, out the output of its last.

    site               merge (the first is the site's own)
    sublayer_serial    skip       LN(x + Patch(x) + h) with x = MH(h); LN(x + Patch(x) + SA) with x = FFN(SA)
                       replace    LN(Patch(MH(h)) + h); LN(Patch(FFN(SA)) + SA)          inner, as printed
    sublayer_parallel  pre_norm   LN(MH(h) + h + Patch(h)); LN(FFN(SA) + SA + Patch(SA)) outer
    layer_parallel     post_norm  BL(h) + Patch(h)                                       horizontal, as printed
                       pre_norm   LN(FFN(SA) + SA + Patch(h))
    stack_parallel     post_norm  out + Patch(e)
                       own_norm   LN_own(out + Patch(e))                                 horizontal, as run
    stack_serial       skip       out + Patch(out)
                       replace    Patch(out)                                             vertical, as printed

Patches that stand in parallel read the same state and are all added; serial ones follow one another in the order given.
Stack patches come after all others. The published code applies a GELU after the up projection of `pal`; here, as in
the paper's formula, there is none.
"""

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from fedqa.errors import ConfigError, ModelError, unknown
from fedqa.files import write_tensors
from fedqa.models.annotations import PreTrainedModel
from fedqa.models.backbones import Backbone, load_backbone
from fedqa.models.tagging import is_norm, layers_of, tagged_module
from fedqa.seeds import derive
from fedqa.tables import from_table, to_table

Site = Literal["sublayer_serial", "sublayer_parallel", "stack_serial", "layer_parallel", "stack_parallel"]
Kind = Literal["low_rank", "pal"]
Merge = Literal["", "skip", "replace", "pre_norm", "post_norm", "own_norm"]

MERGES: Mapping[Site, tuple[Merge, ...]] = {
    "sublayer_serial": ("skip", "replace"),
    "sublayer_parallel": ("pre_norm",),
    "stack_serial": ("skip", "replace"),
    "layer_parallel": ("post_norm", "pre_norm"),
    "stack_parallel": ("post_norm", "own_norm"),
}
PATCHES = "fedqa_patches.safetensors"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TAKEN = frozenset({"words", "embeddings", "enc", "dec", "norm", "pooler", "head", "lm_head", "other"})


@dataclass(frozen=True)
class Patch:
    """One kind of module and where it goes, as a course's table says it."""

    name: str = "patch"  # the tag of its parameters: by convention "patch" for private, "adapter" for shared ones
    site: Site = "layer_parallel"
    kind: Kind = "low_rank"
    width: int = 64
    merge: Merge = ""  # "" = the site's own
    heads: int = 4  # of pal
    from_layer: int = 0  # the lowest layer that gets one, if it is not in a trunk; a stack is all from here to the top

    def __post_init__(self) -> None:
        where = f"patch {self.name!r}"
        if not _NAME.fullmatch(self.name) or self.name in _TAKEN:
            raise ConfigError(
                f"{where}: this name cannot be used; write small letters, digits and '_', a letter first, "
                f'and none of the tags {", ".join(sorted(_TAKEN))}, as in name = "patch"'
            )
        for key, known in (("site", get_args(Site)), ("kind", get_args(Kind))):
            if getattr(self, key) not in known:
                raise ConfigError(unknown(key, str(getattr(self, key)), known, where))
        if self.merge and self.merge not in MERGES[self.site]:
            raise ConfigError(unknown(f"merge of {self.site}", str(self.merge), MERGES[self.site], where))
        for key, least in (("width", 1), ("heads", 1), ("from_layer", 0)):
            if getattr(self, key) < least:
                raise ConfigError(f"{where}: {key} must be at least {least}, got {getattr(self, key)}")
        if self.kind == "pal" and self.width % self.heads:
            raise ConfigError(
                f"{where}: the {self.heads} heads of pal must divide its width, got {self.width}; "
                f"take a width of {self.heads * max(1, self.width // self.heads)} or other heads"
            )

    @property
    def merging(self) -> Merge:
        """The merge, named."""
        return self.merge or MERGES[self.site][0]

    @property
    def inside(self) -> bool:
        """Whether it reaches into layers, rather than around them."""
        return self.site.startswith("sublayer") or self.merging == "pre_norm"


def patched(backbone: Backbone, patches: Sequence[Patch], seed: int) -> Backbone:
    """A new backbone with the patches in it; the given one is untouched. `seed` draws their weights.

    Before it is trained a patch changes nothing, as its up projection is zero; only those with the merge `replace` or
    `own_norm` change the output from the start.
    """
    if not patches:
        return backbone
    _check(backbone, patches)
    encoder, tags, lowest = backbone.fresh(), dict(backbone.tags), _lowest_layer(backbone)
    for given in sorted(patches, key=lambda patch: patch.site.startswith("stack")):  # hooks run as registered
        patch = replace(given, from_layer=max(given.from_layer, lowest))
        places = _places(patch, encoder, lowest)
        generator = torch.Generator().manual_seed(derive(seed, "patch", patch.name))
        inserted = Inserted(patch, encoder.config.hidden_size, len(places), generator).train(encoder.training)
        encoder.add_module(patch.name, inserted)
        inserted.register_hooks(encoder, places)
        tags |= tagged_module(patch.name, inserted, patch.name)
    return replace(backbone, encoder=encoder, tags=tags)


def patches_of(encoder: nn.Module) -> tuple[Patch, ...]:
    """The patches that stand in an encoder."""
    return tuple(child.patch for child in encoder.children() if isinstance(child, Inserted))


def without_patches(encoder: PreTrainedModel) -> dict[str, Tensor]:
    """The state of the plain encoder, by name."""
    return {name: value for name, value in encoder.state_dict().items() if not name.startswith(_prefixes(encoder))}


def save_patches(encoder: PreTrainedModel, path: Path) -> None:
    """The weights of all patches, with their tables as metadata."""
    tables = [to_table(patch) for patch in patches_of(encoder)]
    write_tensors(path, _weights(encoder), {"patches": json.dumps(tables)})


def _weights(encoder: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters of all patches, tied ones once."""
    return {name: value for name, value in encoder.named_parameters() if name.startswith(_prefixes(encoder))}


def _prefixes(encoder: nn.Module) -> tuple[str, ...]:
    return tuple(f"{patch.name}." for patch in patches_of(encoder))


def load_exported(folder: str | Path) -> PreTrainedModel:
    """The encoder of a folder that `fedqa export` wrote, with its patches in it, ready for inference."""
    path = Path(folder) / PATCHES
    if not path.is_file():
        raise ModelError(
            f"{folder} has no {PATCHES}; if the model was exported without patches, load it with "
            "transformers.AutoModel.from_pretrained, otherwise export it again"
        )
    try:
        with safe_open(path, "pt") as file:
            tables = json.loads((file.metadata() or {}).get("patches", "[]"))
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except (SafetensorError, json.JSONDecodeError) as problem:
        raise ModelError(f"{path} cannot be read ({problem}); export the model again") from problem
    patches = [from_table(Patch, table, str(path)) for table in tables]
    encoder = patched(load_backbone(str(folder)), patches, seed=0).encoder
    _fill(encoder, weights, path)
    return encoder


def _fill(encoder: PreTrainedModel, weights: Mapping[str, Tensor], path: Path) -> None:
    slots = _weights(encoder)
    wrong = {name for name in slots.keys() & weights.keys() if slots[name].shape != weights[name].shape}
    wrong |= slots.keys() ^ weights.keys()
    if wrong or not slots:
        example = min(wrong, default="all of them")
        raise ModelError(f"{path} does not hold the weights its tables ask for ({example}); export the model again")
    with torch.no_grad():
        for name, slot in slots.items():
            slot.copy_(weights[name])


class Inserted(nn.Module):
    """All modules of one patch, one for each of its places."""

    def __init__(self, patch: Patch, hidden: int, count: int, generator: torch.Generator) -> None:
        super().__init__()
        self.patch = patch
        for number, branch in enumerate(_branches(patch, hidden, count, generator)):
            norm = nn.LayerNorm(hidden, eps=1e-12) if patch.merging == "own_norm" else None
            self.add_module(str(number), _Spot(branch, norm, replaces=patch.merging == "replace"))

    def register_hooks(self, encoder: nn.Module, places: Sequence["_Place"]) -> None:
        for spot, place in zip(self._spots(), places, strict=True):
            spot.register_hooks(place)
        encoder.register_forward_hook(self.drop, always_call=True)

    def drop(self, *_: object) -> None:
        """After the encoder's forward, a failed one too: nothing of it stays."""
        for spot in self._spots():
            spot.held = _Held()

    def _spots(self) -> list["_Spot"]:
        return [child for child in self.children() if isinstance(child, _Spot)]


@dataclass(frozen=True)
class _Place:
    """Where a spot reads and writes."""

    layer: nn.Module  # its call gives the mask and, unless something else is read, the state
    target: nn.Module  # what gets the branch's output
    read: nn.Module | None = None  # its output is read; None = the layer's input
    before: bool = False  # the target's input is changed rather than its output


class _Held:
    """What one hook keeps for another of the same forward. A copy starts empty: tensors with a graph have no copies."""

    def __init__(self) -> None:
        self.states: Tensor | None = None
        self.mask: Tensor | None = None

    def __deepcopy__(self, memo: object) -> "_Held":
        return _Held()


class _Spot(nn.Module):
    """A patch at one place. Its hooks are bound methods, which are copied together with the encoder."""

    def __init__(self, branch: "LowRank | Pal", norm: nn.LayerNorm | None, *, replaces: bool) -> None:
        super().__init__()
        self.branch, self.norm, self.replaces = branch, norm, replaces
        self.held = _Held()

    def register_hooks(self, place: _Place) -> None:
        place.layer.register_forward_pre_hook(self.enter, with_kwargs=True)
        if place.read is not None:
            place.read.register_forward_hook(self.keep)
        if place.before:
            place.target.register_forward_pre_hook(self.change_input)
        else:
            place.target.register_forward_hook(self.change_output)

    def enter(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.held.states = args[0] if args else kwargs["hidden_states"]
        self.held.mask = args[1] if len(args) > 1 else kwargs.get("attention_mask")

    def keep(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        self.held.states = output if isinstance(output, Tensor) else output[0]

    def change_input(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self._merged(args[0]), *args[1:])

    def change_output(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        if isinstance(output, Tensor):
            return self._merged(output)
        return (self._merged(output[0]), *output[1:])

    def _merged(self, states: Tensor) -> Tensor:
        read, mask = self.held.states, self.held.mask
        self.held = _Held()
        if read is None:  # a layer was run again for its gradient, without those below it
            raise ModelError(
                "a patch beside the whole stack cannot be trained with gradient checkpointing; turn it off"
            )
        change: Tensor = self.branch(read, mask)
        if self.replaces:
            return change
        return states + change if self.norm is None else self.norm(states + change)


class LowRank(nn.Module):
    """A position-wise map through a narrow layer."""

    def __init__(self, down: nn.Linear, up: nn.Linear) -> None:
        super().__init__()
        self.down, self.up = down, up

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        change: Tensor = self.up(F.gelu(self.down(states)))
        return change


class Pal(nn.Module):
    """Projected attention: multi-head self-attention in few dimensions, without an output matrix of its own."""

    def __init__(self, down: nn.Linear, up: nn.Linear, maps: Sequence[nn.Linear], heads: int) -> None:
        super().__init__()
        self.down, self.up, self.heads = down, up, heads
        self.query, self.key, self.value = maps

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None and (mask.dim() != 4 or not (mask.dtype == torch.bool or mask.is_floating_point())):
            raise ModelError(
                f"pal needs a mask of four dimensions, true or false or to be added, got {mask.dtype} of shape "
                f"{tuple(mask.shape)}; take the kind low_rank for this model"
            )
        narrow = self.down(states)
        query, key, value = (self._split(part(narrow)) for part in (self.query, self.key, self.value))
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)  # [batch, heads, length, width/heads]
        change: Tensor = self.up(mixed.transpose(1, 2).flatten(start_dim=2))
        return change

    def _split(self, states: Tensor) -> Tensor:
        return states.view(*states.shape[:-1], self.heads, -1).transpose(1, 2)


def _branches(patch: Patch, hidden: int, count: int, generator: torch.Generator) -> list[LowRank | Pal]:
    """Modules for all places of a patch; those of a pal share one pair of projections."""
    deviation = 0.02 if patch.merging == "replace" else 0.0  # with zeros, a replaced state would be the same for all

    def pair() -> tuple[nn.Linear, nn.Linear]:
        down = _linear(hidden, patch.width, generator, 0.02)
        return down, _linear(patch.width, hidden, generator, deviation)

    if patch.kind == "low_rank":
        return [LowRank(*pair()) for _ in range(count)]
    down, up = pair()
    width = patch.width
    maps = [[_linear(width, width, generator, 0.02) for _ in range(3)] for _ in range(count)]
    return [Pal(down, up, three, patch.heads) for three in maps]


def _linear(inputs: int, outputs: int, generator: torch.Generator, deviation: float) -> nn.Linear:
    # Made on "meta" and filled here: nn.Linear's own initialisation would draw from the global generator.
    layer = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        layer.weight.normal_(0.0, deviation, generator=generator)
        layer.bias.zero_()
    return layer


def _lowest_layer(backbone: Backbone) -> int:
    """The number of the encoder's first layer: above 0 where layers below it are in a trunk."""
    tags = frozenset().union(*backbone.tags.values())
    return min(int(tag.removeprefix("enc.")) for tag in tags if tag.startswith("enc."))


def _places(patch: Patch, encoder: PreTrainedModel, lowest: int) -> list[_Place]:
    stack = list(layers_of(encoder) or ())[patch.from_layer - lowest :]
    if patch.inside:
        return [place for layer in stack for place in _inside(patch, layer)]
    if patch.site == "stack_serial":
        return [_Place(stack[-1], stack[-1], read=stack[-1])]
    if patch.site == "stack_parallel":
        return [_Place(stack[0], stack[-1])]
    return [_Place(layer, layer) for layer in stack]


def _inside(patch: Patch, layer: nn.Module) -> list[_Place]:
    sublayers = _sublayers(layer)
    if sublayers is None:
        raise ModelError(
            f"patch {patch.name!r} at {patch.site} ({patch.merging}): a {type(layer).__name__} is not attention, norm, "
            "feed-forward, norm, as the layers of BERT, RoBERTa and DistilBERT are; the sites stack_serial, "
            "stack_parallel and layer_parallel (with the merge post_norm) need no such parts"
        )
    (first, first_norm), (second, second_norm) = sublayers
    if patch.site == "sublayer_serial":
        return [_Place(layer, module, read=module) for module in (first, second)]
    if patch.site == "sublayer_parallel":
        into_first = _Place(layer, first_norm, before=True)
        return [into_first, _Place(layer, second_norm, read=first_norm, before=True)]
    return [_Place(layer, second_norm, before=True)]


def _sublayers(layer: nn.Module) -> list[tuple[nn.Linear, nn.Module]] | None:
    """The output projection and the closing norm of attention and of the feed-forward part, if these are all."""
    found: list[tuple[nn.Linear | None, nn.Module]] = []
    last: nn.Linear | None = None
    for module in layer.modules():  # in the order of their registration
        if isinstance(module, nn.Linear):
            last = module
        elif is_norm(module):
            found.append((last, module))
            last = None
    whole = [(linear, norm) for linear, norm in found if linear is not None]
    return whole if len(whole) == len(found) == 2 and last is None else None


def _check(backbone: Backbone, patches: Sequence[Patch]) -> None:
    """Raise unless every patch can go into the encoder."""
    encoder, spec = backbone.encoder, backbone.spec
    layers = None if encoder.config.is_encoder_decoder else layers_of(encoder)
    if layers is None:
        raise ModelError(
            f"model {spec!r}: patches need an encoder with a list of layers, such as BERT; encoder-decoders and models "
            f"whose layers share their weights have none (this is a {type(encoder).__name__}); choose another model"
        )
    names = [patch.name for patch in patches]
    count = _lowest_layer(backbone) + len(layers)
    for patch in patches:
        where = f"patch {patch.name!r}"
        if names.count(patch.name) > 1:
            raise ConfigError(f"{where} stands {names.count(patch.name)} times; give each a name of its own")
        if hasattr(encoder, patch.name) or any(patch.name in tags for tags in backbone.tags.values()):
            raise ConfigError(f"{where}: model {spec!r} has a part or a tag of this name already; choose another name")
        if patch.from_layer >= count:
            raise ConfigError(
                f"{where}: from_layer must be below {count}, the layers of {spec!r}, got {patch.from_layer}"
            )
        if patch.inside and getattr(encoder.config, "chunk_size_feed_forward", False):
            raise ModelError(f"{where}: model {spec!r} cuts texts into chunks; set chunk_size_feed_forward to 0")
        if patch.kind == "pal":
            _check_mask(where, backbone, layers[0])


def _check_mask(where: str, backbone: Backbone, layer: nn.Module) -> None:
    attention = backbone.encoder.config._attn_implementation
    inputs = list(inspect.signature(layer.forward).parameters)[:2]
    if attention not in ("sdpa", "eager") or inputs != ["hidden_states", "attention_mask"]:
        raise ModelError(
            f"{where}: pal needs the attention 'sdpa' or 'eager' and layers that take hidden_states and attention_mask "
            f"first; model {backbone.spec!r} has {attention!r} and {' and '.join(inputs)}; take the kind low_rank"
        )
