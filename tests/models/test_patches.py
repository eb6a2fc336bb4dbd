# SPDX-License-Identifier: Apache-2.0
"""Patches against their equations, computed here from the weights in plain tensor code."""

import copy
import dataclasses
import gc
import json
import math
import os
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import (
    AlbertConfig,
    AlbertModel,
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
    PreTrainedModel,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5ForConditionalGeneration,
)

from fedqa.errors import ConfigError, ModelError
from fedqa.federation.sharing import Rule, compile_layout
from fedqa.models.backbones import Backbone, frozen_below, load_backbone
from fedqa.models.flat import FlatModel
from fedqa.models.patches import (
    MERGES,
    PATCHES,
    Patch,
    load_exported,
    patched,
    patches_of,
    save_patches,
    without_patches,
)
from fedqa.models.tagged import TaggedModel
from fedqa.models.tagging import layers_of, tags_of
from fedqa.tables import from_table, to_table

D, WIDTH, HEADS, LAYERS = 32, 8, 2, 3
SIZES: dict[str, Any] = {"vocab_size": 40, "hidden_size": D, "intermediate_size": 48, "num_attention_heads": 4}
STILL: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
IDS = torch.tensor([[2, 11, 12, 13, 3], [2, 14, 3, 1, 1], [2, 15, 16, 3, 1]])
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]])
VARIANTS = [(site, merge) for site, merges in MERGES.items() for merge in merges]
QUIET = [(site, merge) for site, merge in VARIANTS if merge not in ("replace", "own_norm")]
PRIVATE: Rule = (("patch", "private"), ("*", "shared"))


def bert(**options: Any) -> PreTrainedModel:
    return BertModel(BertConfig(num_hidden_layers=LAYERS, **SIZES, **STILL, **options))


def roberta() -> PreTrainedModel:
    return RobertaModel(RobertaConfig(num_hidden_layers=LAYERS, **SIZES, **STILL))


def distilbert() -> PreTrainedModel:
    sizes: dict[str, Any] = {"dim": D, "hidden_dim": 48, "n_heads": 4, "n_layers": LAYERS}
    return DistilBertModel(DistilBertConfig(vocab_size=40, dropout=0.0, attention_dropout=0.0, **sizes))


def mpnet() -> PreTrainedModel:
    return MPNetModel(MPNetConfig(num_hidden_layers=LAYERS, **SIZES, **STILL))


def backbone_of(make: Callable[[], PreTrainedModel], seed: int = 5) -> Backbone:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        encoder = make().eval()
        for parameter in encoder.parameters():
            parameter.data.add_(torch.randn(parameter.shape) * 0.1)  # gains and biases other than 1 and 0
    return Backbone("small", encoder, load_backbone("tiny").tokenizer, tags_of(encoder))


@pytest.fixture(scope="module")
def plain() -> Backbone:
    return backbone_of(bert)


def shaken(backbone: Backbone, seed: int = 9) -> PreTrainedModel:
    """A copy in double precision whose patches have random weights."""
    encoder, generator = backbone.fresh().double(), torch.Generator().manual_seed(seed)
    for name, parameter in encoder.named_parameters():
        if name.split(".")[0] in {patch.name for patch in patches_of(encoder)}:
            parameter.data.normal_(0.0, 0.4, generator=generator)
    return encoder


def states_of(encoder: PreTrainedModel, mask: Tensor | None = MASK) -> Tensor:
    states: Tensor = encoder(input_ids=IDS, attention_mask=mask).last_hidden_state
    return states


def patch_of(site: str, merge: str = "", kind: str = "low_rank", **options: Any) -> Patch:
    return from_table(Patch, {"site": site, "merge": merge, "kind": kind, "width": WIDTH, "heads": HEADS} | options, "")


# The equations. A `Layer` has the weights of one layer, `Change` is Patch(states).


class Layer(NamedTuple):
    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    project: nn.Linear
    first_norm: nn.LayerNorm
    widen: nn.Linear
    narrow: nn.Linear
    second_norm: nn.LayerNorm


Change = Callable[[int, Tensor], Tensor]


def layer_parts(layer: Any) -> Layer:
    if hasattr(layer, "sa_layer_norm"):
        inner, ffn = layer.attention, layer.ffn
        heads = (inner.q_lin, inner.k_lin, inner.v_lin, inner.out_lin)
        return Layer(*heads, layer.sa_layer_norm, ffn.lin1, ffn.lin2, layer.output_layer_norm)
    inner, close = layer.attention.self, layer.attention.output
    heads = (inner.query, inner.key, inner.value, close.dense)
    return Layer(*heads, close.LayerNorm, layer.intermediate.dense, layer.output.dense, layer.output.LayerNorm)


def attend(query: Tensor, key: Tensor, value: Tensor, heads: int) -> Tensor:
    outputs = []
    for q, k, v in zip(*(part.chunk(heads, dim=-1) for part in (query, key, value)), strict=True):
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
        outputs.append(torch.softmax(scores.masked_fill(MASK[:, None, :] == 0, -math.inf), dim=-1) @ v)
    return torch.cat(outputs, dim=-1)


def mapped(linear: nn.Linear, states: Tensor) -> Tensor:
    return F.linear(states, linear.weight, linear.bias)


def normed(norm: nn.LayerNorm, states: Tensor) -> Tensor:
    centred = states - states.mean(dim=-1, keepdim=True)
    variance = (centred**2).mean(dim=-1, keepdim=True)
    return centred / torch.sqrt(variance + norm.eps) * norm.weight + norm.bias


def attention(parts: Layer, h: Tensor) -> Tensor:
    mixed = attend(mapped(parts.query, h), mapped(parts.key, h), mapped(parts.value, h), 4)
    return mapped(parts.project, mixed)


def feed_forward(parts: Layer, states: Tensor) -> Tensor:
    return mapped(parts.narrow, F.gelu(mapped(parts.widen, states)))


def changes(encoder: PreTrainedModel, patch: Patch) -> Change:
    weights = dict(encoder.named_parameters())

    def linear(number: int, part: str, states: Tensor) -> Tensor:
        owner = 0 if patch.kind == "pal" and part in ("down", "up") else number
        name = f"{patch.name}.{owner}.branch.{part}"
        return states @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def change(number: int, states: Tensor) -> Tensor:
        narrow = linear(number, "down", states)
        if patch.kind == "low_rank":
            return linear(number, "up", F.gelu(narrow))
        query, key, value = (linear(number, part, narrow) for part in ("query", "key", "value"))
        return linear(number, "up", attend(query, key, value, patch.heads))

    return change


def plain_layer(parts: Layer, h: Tensor) -> Tensor:
    first = normed(parts.first_norm, attention(parts, h) + h)
    return normed(parts.second_norm, feed_forward(parts, first) + first)


def patched_layer(parts: Layer, h: Tensor, number: int, patch: Patch, change: Change) -> Tensor:
    """One layer of which `number` others with a patch lie below."""
    a, b = 2 * number, 2 * number + 1
    x = attention(parts, h)
    match patch.site, patch.merging:
        case "sublayer_serial", "skip":
            first = normed(parts.first_norm, x + change(a, x) + h)
            y = feed_forward(parts, first)
            return normed(parts.second_norm, y + change(b, y) + first)
        case "sublayer_serial", "replace":
            first = normed(parts.first_norm, change(a, x) + h)
            return normed(parts.second_norm, change(b, feed_forward(parts, first)) + first)
        case "sublayer_parallel", "pre_norm":
            first = normed(parts.first_norm, x + h + change(a, h))
            return normed(parts.second_norm, feed_forward(parts, first) + change(b, first) + first)
        case "layer_parallel", "post_norm":
            return plain_layer(parts, h) + change(number, h)
        case "layer_parallel", "pre_norm":
            first = normed(parts.first_norm, x + h)
            return normed(parts.second_norm, feed_forward(parts, first) + first + change(number, h))
    return plain_layer(parts, h)


def expected(encoder: PreTrainedModel, patch: Patch) -> Tensor:
    layers, change = layers_of(encoder), changes(encoder, patch)
    assert layers is not None
    states = encoder.embeddings(IDS)
    for k, layer in enumerate(layers):
        parts = layer_parts(layer)
        if k == patch.from_layer:
            e = states
        number = k - patch.from_layer
        states = plain_layer(parts, states) if number < 0 else patched_layer(parts, states, number, patch, change)
    match patch.site, patch.merging:
        case "stack_serial", "skip":
            return states + change(0, states)
        case "stack_serial", "replace":
            return change(0, states)
        case "stack_parallel", "post_norm":
            return states + change(0, e)
        case "stack_parallel", "own_norm":
            return normed(encoder.get_submodule(f"{patch.name}.0.norm"), states + change(0, e))
    return states


@pytest.mark.parametrize("from_layer", [0, 1])
@pytest.mark.parametrize("kind", ["low_rank", "pal"])
@pytest.mark.parametrize(("site", "merge"), VARIANTS)
@pytest.mark.parametrize("make", [bert, distilbert])
def test_a_patch_follows_its_equation(
    make: Callable[[], PreTrainedModel], site: str, merge: str, kind: str, from_layer: int
) -> None:
    patch = patch_of(site, merge, kind, from_layer=from_layer)
    encoder = shaken(patched(backbone_of(make), [patch], seed=1))
    with torch.no_grad():
        assert torch.allclose(states_of(encoder), expected(encoder, patch), rtol=0, atol=1e-6)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize(("site", "merge"), VARIANTS)
def test_roberta_follows_the_equations_with_both_kinds_of_attention(site: str, merge: str, implementation: str) -> None:
    patch = patch_of(site, merge, "pal")
    backbone = backbone_of(roberta)
    backbone.encoder.set_attn_implementation(implementation)
    encoder = shaken(patched(backbone, [patch], seed=1))
    with torch.no_grad():
        assert torch.allclose(states_of(encoder), expected(encoder, patch), rtol=0, atol=1e-6)


def test_the_equations_here_are_those_of_the_plain_encoder(plain: Backbone) -> None:
    encoder = shaken(plain)
    layers = layers_of(encoder)
    assert layers is not None
    with torch.no_grad():
        states = encoder.embeddings(IDS)
        for layer in layers:
            states = plain_layer(layer_parts(layer), states)
        assert torch.allclose(states_of(encoder), states, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["low_rank", "pal"])
@pytest.mark.parametrize(("site", "merge"), VARIANTS)
def test_padding_never_reaches_a_text(plain: Backbone, site: str, merge: str, kind: str) -> None:
    encoder = shaken(patched(plain, [patch_of(site, merge, kind)], seed=1))
    with torch.no_grad():
        alone = encoder(input_ids=IDS[1:2, :3]).last_hidden_state  # without padding the layers get no mask at all
        assert torch.allclose(states_of(encoder)[1, :3], alone[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["low_rank", "pal"])
@pytest.mark.parametrize(("site", "merge"), QUIET)
@pytest.mark.parametrize("make", [bert, roberta, distilbert, mpnet])
def test_an_untrained_patch_changes_no_bit(
    make: Callable[[], PreTrainedModel], site: str, merge: str, kind: str
) -> None:
    backbone = backbone_of(make)
    with torch.inference_mode():
        changed = states_of(patched(backbone, [patch_of(site, merge, kind)], seed=1).encoder)
        assert torch.equal(changed, states_of(backbone.encoder))


@pytest.mark.parametrize(("site", "merge"), [variant for variant in VARIANTS if variant not in QUIET])
def test_replace_and_own_norm_change_the_output_from_the_start(plain: Backbone, site: str, merge: str) -> None:
    with torch.no_grad():
        states = states_of(patched(plain, [patch_of(site, merge)], seed=1).encoder)
        assert not torch.allclose(states, states_of(plain.encoder), atol=1e-2)
        assert not torch.allclose(states[0, 0], states[0, 1], atol=1e-5)  # and is not the same at every position


def test_an_own_norm_starts_with_gain_one_and_bias_zero(plain: Backbone) -> None:
    norm = patched(plain, [patch_of("stack_parallel", "own_norm")], seed=1).encoder.get_submodule("patch.0.norm")
    assert torch.equal(norm.weight, torch.ones(D)) and torch.equal(norm.bias, torch.zeros(D))


def test_a_model_whose_layers_return_tuples_can_be_patched() -> None:
    encoder = shaken(patched(backbone_of(mpnet), [patch_of("stack_serial", "replace")], seed=1))
    kept: list[Tensor] = []
    layers = layers_of(encoder)
    assert layers is not None
    layers[-1].register_forward_hook(lambda module, args, output: kept.append(output[0]), prepend=True)
    with torch.no_grad():
        assert torch.allclose(states_of(encoder), encoder.get_submodule("patch.0.branch")(kept[0], None), atol=1e-9)


# Several patches.


def test_parallel_patches_read_the_same_state_and_are_both_added(plain: Backbone) -> None:
    one, two = patch_of("layer_parallel", from_layer=2), patch_of("layer_parallel", name="adapter", from_layer=2)
    encoder = shaken(patched(plain, [one, two], seed=1))
    with torch.no_grad():
        h = encoder(input_ids=IDS, attention_mask=MASK, output_hidden_states=True).hidden_states[2]
        below = states_of(plain.fresh().double())
        both = below + changes(encoder, one)(0, h) + changes(encoder, two)(0, h)
        assert torch.allclose(states_of(encoder), both, rtol=0, atol=1e-6)


def test_serial_patches_follow_one_another_and_stack_patches_come_last(plain: Backbone) -> None:
    first, second = patch_of("stack_serial", name="first"), patch_of("stack_serial", name="second")
    layer = patch_of("layer_parallel", name="layer", from_layer=2)
    encoder = shaken(patched(plain, [first, second, layer], seed=1))
    assert [patch.name for patch in patches_of(encoder)] == ["layer", "first", "second"]
    with torch.no_grad():
        states = expected(encoder, layer)
        for patch in (first, second):
            states = states + changes(encoder, patch)(0, states)
        assert torch.allclose(states_of(encoder), states, rtol=0, atol=1e-6)


def test_a_patch_is_drawn_alike_whatever_stands_beside_it(plain: Backbone) -> None:
    alone = patched(plain, [Patch(width=8)], seed=3).encoder
    beside = patched(plain, [Patch("adapter", width=8), Patch(width=8)], seed=3).encoder
    other = patched(plain, [Patch(width=8)], seed=4).encoder
    name = "patch.1.branch.down.weight"
    assert torch.equal(alone.get_parameter(name), beside.get_parameter(name))
    assert not torch.equal(alone.get_parameter(name), other.get_parameter(name))
    assert not torch.equal(beside.get_parameter(name), beside.get_parameter(f"adapter.{name[6:]}"))


@pytest.mark.parametrize("kind", ["low_rank", "pal"])
@pytest.mark.parametrize(("site", "merge"), VARIANTS)
def test_above_a_trunk_layers_keep_their_numbers(plain: Backbone, site: str, merge: str, kind: str) -> None:
    cut = patched(frozen_below(plain, 1), [patch_of(site, merge, kind)], seed=1)
    whole = patched(plain, [patch_of(site, merge, kind, from_layer=1)], seed=1)
    assert patches_of(cut.encoder) == patches_of(whole.encoder)
    assert cut.trunk is not None
    upper, encoder = shaken(cut).float(), shaken(whole).float()
    with torch.no_grad():
        states = upper(**cut.trunk({"input_ids": IDS, "attention_mask": MASK})).last_hidden_state
        assert torch.allclose(states[MASK == 1], states_of(encoder)[MASK == 1], rtol=0, atol=1e-4)


# Weights: how many, how drawn, how tagged, how trained.


# d = 32, w = 8: a pair of projections has 32 * 8 + 8 down and 8 * 32 + 32 up, the attention of a pal 3 * (8 * 8 + 8).
PAIR, INNER = (32 * 8 + 8) + (8 * 32 + 32), 3 * (8 * 8 + 8)
COUNTS = [
    ("sublayer_serial", "skip", 6 * PAIR, PAIR + 6 * INNER),
    ("sublayer_parallel", "pre_norm", 6 * PAIR, PAIR + 6 * INNER),
    ("stack_serial", "skip", PAIR, PAIR + INNER),
    ("layer_parallel", "post_norm", 3 * PAIR, PAIR + 3 * INNER),
    ("layer_parallel", "pre_norm", 3 * PAIR, PAIR + 3 * INNER),
    ("stack_parallel", "post_norm", PAIR, PAIR + INNER),
    ("stack_parallel", "own_norm", PAIR + 2 * 32, PAIR + INNER + 2 * 32),
]


@pytest.mark.parametrize(("site", "merge", "low_rank", "pal"), COUNTS)
def test_the_number_of_weights(plain: Backbone, site: str, merge: str, low_rank: int, pal: int) -> None:
    assert (PAIR, INNER) == (552, 216)
    for kind, count in (("low_rank", low_rank), ("pal", pal)):
        backbone = patched(plain, [patch_of(site, merge, kind)], seed=1)
        names = [name for name, tags in backbone.tags.items() if "patch" in tags]
        assert sum(backbone.encoder.get_parameter(name).numel() for name in names) == count


def test_upper_layers_alone_can_be_patched(plain: Backbone) -> None:
    backbone = patched(plain, [patch_of("layer_parallel", from_layer=2)], seed=1)
    assert sum(p.numel() for p in backbone.encoder.get_submodule("patch").parameters()) == PAIR


@pytest.mark.parametrize("kind", ["low_rank", "pal"])
@pytest.mark.parametrize(("site", "merge"), VARIANTS)
def test_every_weight_of_a_patch_has_its_name_as_the_only_tag(
    plain: Backbone, site: str, merge: str, kind: str
) -> None:
    backbone = patched(plain, [patch_of(site, merge, kind, name="adapter")], seed=1)
    TaggedModel(backbone.encoder, backbone.tags)  # raises if names and tags differ
    added = {name: tags for name, tags in backbone.tags.items() if name not in plain.tags}
    assert added and set(added.values()) == {frozenset({"adapter"})}
    assert {name: tags for name, tags in backbone.tags.items() if name in plain.tags} == plain.tags


def test_weights_are_drawn_from_the_seed_and_leave_the_global_generator_alone(plain: Backbone) -> None:
    torch.manual_seed(99)
    before = torch.get_rng_state()
    first, again = (patched(plain, [patch_of("layer_parallel", kind="pal")], seed=2) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    assert first.fingerprint() == again.fingerprint()
    wide = patched(plain, [Patch(width=512)], seed=2).encoder.get_parameter("patch.0.branch.down.weight")
    assert float(wide.detach().std()) == pytest.approx(0.02, rel=0.05)  # 32 * 512 draws


@pytest.mark.parametrize("merge", ["skip", "replace"])
def test_up_projections_start_at_zero_unless_they_replace(plain: Backbone, merge: str) -> None:
    up = patched(plain, [patch_of("stack_serial", merge)], seed=2).encoder.get_submodule("patch.0.branch.up")
    assert bool(up.weight.any()) == (merge == "replace")
    assert not up.bias.any()


@pytest.mark.parametrize("kind", ["low_rank", "pal"])
@pytest.mark.parametrize(("site", "merge"), VARIANTS)
def test_gradients_reach_every_weight_of_a_patch_and_nothing_frozen(
    plain: Backbone, site: str, merge: str, kind: str
) -> None:
    backbone = patched(plain, [patch_of(site, merge, kind)], seed=1)
    encoder = backbone.fresh().train()
    for name, parameter in encoder.named_parameters():
        parameter.requires_grad_("patch" in backbone.tags[name])
    target = torch.randn(3, 5, D, generator=torch.Generator().manual_seed(0))
    trained = [parameter for parameter in encoder.parameters() if parameter.requires_grad]
    optimiser = torch.optim.SGD(trained, lr=0.1)
    for _ in range(2):  # what lies behind a zero up projection gets its gradient in the second step
        optimiser.zero_grad()
        ((states_of(encoder) - target) ** 2).mean().backward()
        optimiser.step()
    for name, parameter in encoder.named_parameters():
        if "patch" not in backbone.tags[name]:
            assert parameter.grad is None
        elif not name.endswith("key.bias"):  # the same for all positions, a softmax does not see it
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_sharing_rules_keep_exactly_the_patch_at_home(plain: Backbone) -> None:
    for site, merge in VARIANTS:
        backbone = patched(plain, [patch_of(site, merge, "pal")], seed=1)
        layout = compile_layout(TaggedModel(backbone.encoder, backbone.tags), PRIVATE)
        assert {entry.name for entry in layout.shared} == set(plain.tags)
        assert all(entry.name.startswith("patch.") for entry in layout.private) and layout.private


def test_a_flat_model_takes_tied_projections_once(plain: Backbone) -> None:
    backbone = patched(plain, [patch_of("layer_parallel", kind="pal")], seed=1)
    tagged = TaggedModel(backbone.fresh(), backbone.tags)
    model = FlatModel(tagged, compile_layout(tagged, PRIVATE))
    assert len(model.private) == PAIR + 3 * INNER
    with torch.no_grad():
        assert torch.equal(states_of(tagged.module), states_of(plain.encoder))  # type: ignore[arg-type]
        model.private.normal_(0.0, 0.4, generator=torch.Generator().manual_seed(0))
        spots = [tagged.module.get_submodule(f"patch.{k}.branch.up") for k in range(3)]
        assert spots[0] is spots[1] is spots[2]
        start = model.private.data_ptr()
        assert all(start <= p.data_ptr() < start + 4 * len(model.private) for p in spots[0].parameters())
        changed = states_of(tagged.module)  # type: ignore[arg-type]
        assert not torch.allclose(changed, states_of(plain.encoder), atol=1e-2)
        copied = copy.deepcopy(tagged.module)
        assert torch.equal(states_of(copied), changed)  # type: ignore[arg-type]
        model.reset()
        assert torch.equal(states_of(tagged.module), states_of(plain.encoder))  # type: ignore[arg-type]


# Copies, and what hooks keep.


def test_the_given_backbone_is_untouched_and_no_patches_give_it_back(plain: Backbone) -> None:
    before, tags = plain.fingerprint(), dict(plain.tags)
    patched(plain, [Patch(), Patch("adapter", "sublayer_serial")], seed=1)
    assert patched(plain, (), seed=1) is plain
    assert (dataclasses.replace(plain).fingerprint(), plain.tags) == (before, tags)
    hooks = [m for m in plain.encoder.modules() if m._forward_hooks or m._forward_pre_hooks]
    assert not hooks


@pytest.mark.parametrize("kind", ["low_rank", "pal"])
@pytest.mark.parametrize(("site", "merge"), VARIANTS)
def test_copies_do_not_share_their_patches(plain: Backbone, site: str, merge: str, kind: str) -> None:
    backbone = patched(plain, [patch_of(site, merge, kind)], seed=1)
    one, two = backbone.fresh(), backbone.fresh()
    with torch.no_grad():
        before = states_of(two)
        for parameter in one.get_submodule("patch").parameters():
            parameter.normal_(0.0, 0.4, generator=torch.Generator().manual_seed(1))
        assert torch.equal(states_of(two), before) and torch.equal(states_of(backbone.encoder), before)
        assert not torch.allclose(states_of(one), before, atol=1e-2)
        for parameter in two.get_submodule("patch").parameters():
            parameter.zero_()
        assert not torch.allclose(states_of(one), states_of(two), atol=1e-2)


def test_a_copy_in_the_middle_of_a_forward_has_no_states_in_it(plain: Backbone) -> None:
    encoder = patched(plain, [patch_of("stack_parallel")], seed=1).fresh()
    layers = layers_of(encoder)
    assert layers is not None
    copies: list[PreTrainedModel] = []
    layers[1].register_forward_pre_hook(lambda *_: copies.append(copy.deepcopy(encoder)) if not copies else None)
    before = states_of(encoder)  # a tensor with a graph cannot be copied, so this would raise
    assert copies[0].get_submodule("patch.0").held.states is None
    assert torch.equal(states_of(copies[0]), before)


def held(encoder: nn.Module) -> Iterator[object]:
    for module in encoder.modules():
        if hasattr(module, "held"):
            yield from (module.held.states, module.held.mask)


@pytest.mark.parametrize(("site", "merge"), VARIANTS)
def test_nothing_is_kept_after_a_forward(plain: Backbone, site: str, merge: str) -> None:
    encoder = patched(plain, [patch_of(site, merge, "pal")], seed=1).fresh()
    layers, seen = layers_of(encoder), []
    assert layers is not None
    for layer in layers:
        layer.register_forward_pre_hook(lambda layer, args: seen.append(weakref.ref(args[0])))
    states_of(encoder)
    gc.collect()
    assert len(seen) == LAYERS and all(ref() is None for ref in seen)
    kept = list(held(encoder))
    assert kept and all(value is None for value in kept)


@pytest.mark.parametrize("site", ["sublayer_serial", "sublayer_parallel", "layer_parallel"])
def test_a_layer_keeps_nothing_for_the_layers_above(plain: Backbone, site: str) -> None:
    encoder = patched(plain, [patch_of(site)], seed=1).fresh()
    layers, seen = layers_of(encoder), []
    assert layers is not None
    layers[1].register_forward_pre_hook(lambda layer, args: seen.append(weakref.ref(args[0])))
    layers[2].register_forward_pre_hook(lambda *_: seen.append(seen[0]()))
    with torch.inference_mode():  # without a graph nobody else needs them
        states_of(encoder)
    assert len(seen) == 2 and seen[1] is None


@pytest.mark.parametrize(("site", "merge"), VARIANTS)
def test_nothing_is_kept_after_a_forward_that_failed(plain: Backbone, site: str, merge: str) -> None:
    encoder = patched(plain, [patch_of(site, merge, "pal")], seed=1).fresh()

    def fail(*_: object) -> None:
        raise RuntimeError("no memory")

    layers = layers_of(encoder)
    assert layers is not None
    handle = layer_parts(layers[-1]).query.register_forward_pre_hook(fail)  # after the layer has been entered
    with pytest.raises(RuntimeError, match="no memory"):
        states_of(encoder)
    assert all(value is None for value in held(encoder))
    handle.remove()
    with torch.no_grad():
        assert torch.equal(states_of(encoder), states_of(patched(plain, [patch_of(site, merge, "pal")], 1).encoder))


@pytest.mark.parametrize(("site", "merge"), VARIANTS)
def test_an_encoder_is_used_twice_in_one_forward(plain: Backbone, site: str, merge: str) -> None:
    encoder = shaken(patched(plain, [patch_of(site, merge, "pal")], seed=1))
    questions, passages = IDS[1:2, :3], IDS
    alone = [encoder(input_ids=ids).last_hidden_state.sum() for ids in (questions, passages)]
    gradients = [torch.autograd.grad(total, list(encoder.get_submodule("patch").parameters())) for total in alone]
    both = encoder(input_ids=questions).last_hidden_state.sum() + encoder(input_ids=passages).last_hidden_state.sum()
    both.backward()
    for parameter, a, b in zip(encoder.get_submodule("patch").parameters(), *gradients, strict=True):
        assert torch.allclose(parameter.grad, a + b, atol=1e-9)


@pytest.mark.parametrize(("site", "merge"), VARIANTS)
def test_a_forked_process_computes_the_same(plain: Backbone, site: str, merge: str) -> None:
    encoder = patched(plain, [patch_of(site, merge, "pal")], seed=1).fresh()
    with torch.inference_mode():
        before = states_of(encoder)
    child = os.fork()
    if child == 0:
        try:
            with torch.inference_mode():
                os._exit(0 if torch.equal(states_of(encoder), before) else 1)
        finally:
            os._exit(2)  # whatever happens, the child must not go on with the tests
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_layers_can_be_run_again_for_their_gradients_where_a_patch_is_within_them(plain: Backbone) -> None:
    def gradient(encoder: PreTrainedModel) -> Tensor:
        states_of(encoder).pow(2).sum().backward()
        found = encoder.get_parameter("patch.0.branch.up.weight").grad
        assert found is not None
        return found

    backbone = patched(plain, [patch_of("sublayer_parallel")], seed=1)
    again = backbone.fresh().train()
    again.gradient_checkpointing_enable({"use_reentrant": False})
    assert torch.allclose(gradient(again), gradient(backbone.fresh().train()), atol=1e-6)


def test_a_patch_beside_the_stack_says_that_layers_cannot_be_run_again(plain: Backbone) -> None:
    encoder = patched(plain, [patch_of("stack_parallel")], seed=1).fresh().train()
    encoder.gradient_checkpointing_enable({"use_reentrant": False})
    with pytest.raises(ModelError, match="cannot be trained with gradient checkpointing; turn it off"):
        states_of(encoder).sum().backward()


# Files.


@pytest.fixture
def exported(plain: Backbone, tmp_path: Path) -> tuple[PreTrainedModel, Path]:
    patches = [patch_of("layer_parallel", kind="pal"), patch_of("stack_parallel", "own_norm", name="adapter")]
    encoder = shaken(patched(plain, patches, seed=1)).float()
    encoder.save_pretrained(tmp_path, state_dict=without_patches(encoder))
    plain.tokenizer.save_pretrained(tmp_path)
    save_patches(encoder, tmp_path / PATCHES)
    return encoder, tmp_path


def test_a_patched_encoder_comes_back_from_its_folder(exported: tuple[PreTrainedModel, Path]) -> None:
    encoder, folder = exported
    loaded = load_exported(folder)
    assert not loaded.training and patches_of(loaded) == patches_of(encoder)
    with torch.no_grad():
        assert torch.equal(states_of(loaded), states_of(encoder))


def test_the_file_of_patches_holds_tied_weights_once_and_the_tables(exported: tuple[PreTrainedModel, Path]) -> None:
    encoder, folder = exported
    with safe_open(folder / PATCHES, "pt") as file:
        assert json.loads(file.metadata()["patches"]) == [to_table(patch) for patch in patches_of(encoder)]
        assert sum(file.get_tensor(name).numel() for name in file.keys()) == 2 * PAIR + 3 * INNER + 2 * D  # noqa: SIM118


def test_a_folder_without_patches_is_not_loaded_as_if_it_had_some(exported: tuple[PreTrainedModel, Path]) -> None:
    (exported[1] / PATCHES).unlink()
    with pytest.raises(ModelError, match=r"has no fedqa_patches\.safetensors; .*AutoModel\.from_pretrained"):
        load_exported(exported[1])


def test_a_damaged_file_of_patches_is_refused(exported: tuple[PreTrainedModel, Path]) -> None:
    (exported[1] / PATCHES).write_bytes(b"\0" * 100)
    with pytest.raises(ModelError, match=r"cannot be read .*export the model again"):
        load_exported(exported[1])


@pytest.mark.parametrize("damage", ["missing", "shape", "table"])
def test_a_file_whose_weights_and_tables_differ_is_refused(exported: tuple[PreTrainedModel, Path], damage: str) -> None:
    path = exported[1] / PATCHES
    with safe_open(path, "pt") as file:
        weights, metadata = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    if damage == "missing":
        del weights["patch.0.branch.up.bias"]
    elif damage == "shape":
        weights["patch.0.branch.up.bias"] = torch.zeros(1)
    else:
        metadata = {"patches": "[]"}
    save_file(weights, path, metadata)
    with pytest.raises(ModelError, match=r"does not hold the weights its tables ask for \(.*\); export the model"):
        load_exported(exported[1])


# Errors.


def test_a_patch_goes_through_a_table() -> None:
    patch = Patch("adapter", "stack_parallel", "pal", 12, "own_norm", 6, 1)
    assert from_table(Patch, to_table(patch), "course") == patch
    assert all(isinstance(value, str | int) for value in to_table(patch).values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"site": "layer"}, r"unknown site 'layer' in patch 'patch'.*known: layer_parallel, stack_parallel"),
        ({"kind": "low"}, r"unknown kind 'low' in patch 'patch'.*known: low_rank, pal"),
        ({"merge": "sum"}, r"unknown merge of layer_parallel 'sum' in patch 'patch'.*known: post_norm, pre_norm"),
        ({"merge": "skip"}, r"unknown merge of layer_parallel 'skip'"),
        ({"width": 0}, r"patch 'patch': width must be at least 1, got 0"),
        ({"kind": "pal", "heads": 0}, r"patch 'patch': heads must be at least 1, got 0"),
        ({"kind": "pal", "width": 10}, r"the 4 heads of pal must divide its width, got 10; take a width of 8"),
        ({"from_layer": -1}, r"patch 'patch': from_layer must be at least 0, got -1"),
        ({"name": "My patch"}, r"patch 'My patch': this name cannot be used; write small letters"),
        ({"name": ""}, r"patch '': this name cannot be used"),
        ({"name": "head"}, r"patch 'head': this name cannot be used; .*none of the tags dec, embeddings"),
    ],
)
def test_a_patch_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Patch(**options)


def test_a_width_that_heads_do_not_divide_is_fine_without_heads() -> None:
    assert Patch(width=10).width == 10


@pytest.mark.parametrize(
    ("patches", "message"),
    [
        ([Patch(), Patch(site="stack_serial")], r"patch 'patch' stands 2 times; give each a name of its own"),
        ([Patch("encoder")], r"patch 'encoder': model 'small' has a part or a tag of this name already"),
        ([Patch("config")], r"patch 'config': model 'small' has a part or a tag of this name already"),
        ([Patch(from_layer=3)], r"patch 'patch': from_layer must be below 3, the layers of 'small', got 3"),
    ],
)
def test_patches_that_do_not_fit_the_model_are_refused(plain: Backbone, patches: list[Patch], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        patched(plain, patches, seed=1)


def test_the_layers_of_a_trunk_count_for_the_highest_number(plain: Backbone) -> None:
    patched(frozen_below(plain, 1), [Patch(from_layer=2)], seed=1)
    with pytest.raises(ConfigError, match="from_layer must be below 3, the layers of 'small', got 3"):
        patched(frozen_below(plain, 1), [Patch(from_layer=3)], seed=1)


def test_a_tag_that_a_patch_gave_cannot_be_given_again(plain: Backbone) -> None:
    with pytest.raises(ConfigError, match="has a part or a tag of this name already"):
        patched(patched(plain, [Patch()], seed=1), [Patch(site="stack_serial")], seed=1)


def albert() -> PreTrainedModel:
    return AlbertModel(AlbertConfig(num_hidden_layers=3, embedding_size=4, **SIZES))


def t5() -> PreTrainedModel:
    sizes: dict[str, Any] = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_heads": 2}
    return T5ForConditionalGeneration(T5Config(vocab_size=40, num_layers=2, num_decoder_layers=2, **sizes))


@pytest.mark.parametrize("make", [albert, t5])
def test_models_without_a_list_of_layers_are_refused(make: Callable[[], PreTrainedModel]) -> None:
    with pytest.raises(ModelError, match=r"'small': patches need an encoder with a list of layers.*choose another"):
        patched(backbone_of(make), [Patch()], seed=1)


def modernbert() -> PreTrainedModel:
    return ModernBertModel(ModernBertConfig(num_hidden_layers=LAYERS, pad_token_id=1, **SIZES))


@pytest.mark.parametrize(("site", "merge"), VARIANTS)
def test_layers_of_another_anatomy_take_only_patches_around_them(site: str, merge: str) -> None:
    patch, backbone = patch_of(site, merge), backbone_of(modernbert)
    if patch.inside:
        message = r"patch 'patch' at .*ModernBertEncoderLayer is not attention, norm, .*layer_parallel"
        with pytest.raises(ModelError, match=message):
            patched(backbone, [patch], seed=1)
    else:
        encoder = patched(backbone, [patch], seed=1).encoder
        with torch.no_grad():
            assert torch.equal(states_of(encoder), states_of(backbone.encoder)) == ((site, merge) in QUIET)


def test_patches_inside_layers_need_whole_texts() -> None:
    backbone = backbone_of(lambda: bert(chunk_size_feed_forward=1))
    patched(backbone, [Patch()], seed=1)
    with pytest.raises(ModelError, match="cuts texts into chunks; set chunk_size_feed_forward to 0"):
        patched(backbone, [Patch(site="sublayer_serial")], seed=1)


def test_pal_needs_a_mask_it_understands(plain: Backbone) -> None:
    flex = dataclasses.replace(plain, encoder=plain.fresh())
    flex.encoder.config._attn_implementation = "flex_attention"
    with pytest.raises(ModelError, match=r"pal needs the attention 'sdpa' or 'eager' .* 'flex_attention'"):
        patched(flex, [Patch(kind="pal")], seed=1)
    branch = patched(plain, [patch_of("stack_serial", kind="pal")], seed=1).encoder.get_submodule("patch.0.branch")
    with pytest.raises(ModelError, match=r"pal needs a mask of four dimensions.*got torch.int64 of shape \(3, 5\)"):
        branch(torch.zeros(3, 5, D), MASK)
