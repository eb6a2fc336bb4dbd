# SPDX-License-Identifier: Apache-2.0
"""Tags from a model's structure: which parameter belongs to which layer, table or head. Names are never searched.

A skill composes the tags of its own model: `retagged` moves a backbone's tags under a prefix, `tagged_module` gives
one set of tags to all parameters of a module that was added (a head) or inserted into a layer (a patch).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from torch import nn

from fedqa.models.annotations import PreTrainedModel
from fedqa.models.tagged import Tags


def tags_of(model: PreTrainedModel) -> dict[str, Tags]:
    """The tags of every parameter, by name; a parameter that two modules share has one name and the tags of both."""
    tags: dict[int, set[str]] = defaultdict(set)
    for module, tag in _tagged_modules(model):
        for parameter in module.parameters():
            tags[id(parameter)].add(tag)
    for module in model.modules():
        if is_norm(module):
            for parameter in module.parameters():
                tags[id(parameter)].update({"norm"} if tags[id(parameter)] else {"norm", "other"})
    return {name: frozenset(tags[id(parameter)] or {"other"}) for name, parameter in model.named_parameters()}


def layers_of(stack: PreTrainedModel) -> nn.ModuleList | None:
    """The list of a stack's layers, or None where there is none, as in models whose layers share their weights."""
    counts = {getattr(stack.config, key, None) for key in ("num_hidden_layers", "num_decoder_layers", "decoder_layers")}
    for module in stack.modules():  # an outer list comes before those inside its layers
        if isinstance(module, nn.ModuleList) and len(module) in counts:
            return module
    return None


def retagged(tags: Mapping[str, Tags], prefix: str) -> dict[str, Tags]:
    """The tags of a module that now stands under `prefix` in a larger one."""
    return {f"{prefix}.{name}": entry for name, entry in tags.items()}


def tagged_module(prefix: str, module: nn.Module, *tags: str) -> dict[str, Tags]:
    """The same tags for every parameter of a module that stands under `prefix`: a head, or a patch in a layer."""
    return {f"{prefix}.{name}": frozenset(tags) for name, _ in module.named_parameters()}


def _tagged_modules(model: PreTrainedModel) -> Iterator[tuple[nn.Module, str]]:
    words = model.get_input_embeddings()
    yield words, "words"
    yield words, "embeddings"
    inside: set[nn.Module] = set()
    for name, stack in _stacks(model):
        layers = layers_of(stack)
        for k, layer in enumerate(layers or ()):
            yield layer, f"{name}.{k}"
            inside.update(layer.modules())
    for module in model.modules():
        # A table outside the layers (positions, segments) and the module that gathers them, its norm included.
        gathers = words in module.children() and not inside.intersection(module.modules())
        if gathers or (isinstance(module, nn.Embedding) and module not in inside):
            yield module, "embeddings"
    pooler, head = getattr(model, "pooler", None), model.get_output_embeddings()  # type: ignore[no-untyped-call]
    if isinstance(pooler, nn.Module):
        yield pooler, "pooler"
    if isinstance(head, nn.Module):
        yield head, "lm_head"


def _stacks(model: PreTrainedModel) -> Iterator[tuple[str, PreTrainedModel]]:
    if model.config.is_encoder_decoder:
        yield "enc", model.get_encoder()
        yield "dec", model.get_decoder()  # type: ignore[no-untyped-call]
    else:
        yield "enc", model


def is_norm(module: nn.Module) -> bool:
    """Whether a module is a normalisation of states."""
    # transformers has many norm classes without a common base; all of them are named after one of the two kinds.
    return type(module).__name__.endswith(("LayerNorm", "RMSNorm"))
