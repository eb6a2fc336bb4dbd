# SPDX-License-Identifier: Apache-2.0
"""Selectors, rules, and the layouts they are compiled into."""

import pytest
from torch import nn
from toys import toy_model

from fedqa.errors import ConfigError
from fedqa.federation.sharing import Rates, Rule, check_rates, check_rule, check_stages, compile_layout, matches
from fedqa.models.layout import Entry, Layout
from fedqa.models.tagged import TaggedModel

EMBEDDINGS = frozenset({"embeddings", "words"})
LAYER_4_NORM = frozenset({"enc.4", "norm"})
DECODER_0 = frozenset({"dec.0"})
HEAD = frozenset({"head"})
QUERY_LAYER_1 = frozenset({"tower.query", "enc.1"})


@pytest.mark.parametrize(
    ("selector", "tags", "expected"),
    [
        ("*", HEAD, True),
        ("head", HEAD, True),
        ("head", LAYER_4_NORM, False),
        ("enc", LAYER_4_NORM, True),
        ("enc.*", LAYER_4_NORM, True),
        ("enc.*", DECODER_0, False),
        ("enc.4", LAYER_4_NORM, True),
        ("enc.44", LAYER_4_NORM, False),
        ("enc.0-3", LAYER_4_NORM, False),
        ("enc.0-4", LAYER_4_NORM, True),
        ("enc.4-", LAYER_4_NORM, True),
        ("enc.5-", LAYER_4_NORM, False),
        ("dec", DECODER_0, True),
        ("!head", HEAD, False),
        ("!head", LAYER_4_NORM, True),
        ("! enc.*", LAYER_4_NORM, False),
        ("head|norm", LAYER_4_NORM, True),
        ("head|norm", EMBEDDINGS, False),
        ("enc.* & norm", LAYER_4_NORM, True),
        ("enc.*&!norm", LAYER_4_NORM, False),
        ("enc.*&!norm", QUERY_LAYER_1, True),
        ("head | tower.query & enc.0-1", QUERY_LAYER_1, True),
        ("head | tower.query & enc.2-", QUERY_LAYER_1, False),
        ("words", EMBEDDINGS, True),
    ],
)
def test_a_selector_matches_by_tags(selector: str, tags: frozenset[str], expected: bool) -> None:
    assert matches(selector, tags) is expected
    check_rule(((selector, "shared"),), "test")


@pytest.mark.parametrize(
    "selector", ["hed", "", "enc.x", "enc.1-x", "enc.-3", "lm_head.decoder", "!!head", "head,norm"]
)
def test_a_selector_that_means_nothing_is_an_error(selector: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown selector .* in stage 'train'"):
        check_rule(((selector, "private"),), "stage 'train'")


def test_the_nearest_selector_is_proposed() -> None:
    with pytest.raises(ConfigError, match="unknown selector 'hed' in here; did you mean 'head'"):
        check_rule((("norm|hed", "private"),), "here")


def test_an_unknown_mode_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"unknown sharing mode 'secret' in here .*frozen, private, shared, synced"):
        check_rule((("head", "secret"),), "here")  # type: ignore[arg-type]


def test_a_layout_sorts_parameters_into_modes_and_keeps_their_order() -> None:
    rule = (("words", "frozen"), ("head", "private"), ("enc.1", "synced"), ("*", "shared"))
    layout = compile_layout(toy_model(), rule)
    assert layout.private == (Entry("head.weight", (1, 4)), Entry("head.bias", (1,)))
    assert [entry.name for entry in layout.shared] == ["layer0.weight", "layer0.bias", "norm.weight", "norm.bias"]
    assert [entry.name for entry in layout.synced] == ["layer1.weight", "layer1.bias"]
    assert [entry.name for entry in layout.frozen] == ["words.weight"]
    assert layout.changeable == layout.private + layout.shared + layout.synced
    assert layout.received == layout.shared + layout.synced
    # head 4 + 1; layer 0 16 + 4 and its norm 4 + 4; layer 1 16 + 4
    assert (layout.n_private, layout.n_shared, layout.n_received) == (5, 28, 48)


def test_the_first_line_that_matches_decides() -> None:
    first = compile_layout(toy_model(), (("norm", "private"), ("enc.0", "frozen"), ("*", "shared")))
    assert [entry.name for entry in first.private] == ["norm.weight", "norm.bias"]
    second = compile_layout(toy_model(), (("enc.0", "frozen"), ("norm", "private"), ("*", "shared")))
    assert second.private == ()


def test_a_rule_must_cover_every_parameter() -> None:
    with pytest.raises(ConfigError, match=r"no sharing line matches parameter 'layer0.weight' \(tags \['enc.0'\]\)"):
        compile_layout(toy_model(), (("embeddings", "frozen"), ("head", "shared")))


def with_head(width: int) -> TaggedModel:
    module = nn.ModuleDict({"body": nn.Linear(3, 3), "head": nn.Linear(3, width)})
    tags = {name: frozenset({"head" if name.startswith("head") else "enc.0"}) for name, _ in module.named_parameters()}
    return TaggedModel(module, tags)


def test_silos_with_different_private_heads_agree_on_what_travels() -> None:
    apart = (("head", "private"), ("*", "shared"))
    one, other = (compile_layout(with_head(width), apart) for width in (2, 5))
    assert one != other
    assert one.fingerprint == other.fingerprint
    together = (("*", "shared"),)
    one, other = (compile_layout(with_head(width), together) for width in (2, 5))
    assert one.fingerprint != other.fingerprint


def test_what_is_sent_down_only_is_not_the_same_as_what_is_sent_both_ways() -> None:
    entry = (Entry("a", (2,)),)
    assert Layout((), entry, (), ()).fingerprint != Layout((), (), entry, ()).fingerprint


def stages(*rules: Rule) -> dict[str, Layout]:
    return {f"{number}": compile_layout(toy_model(), rule) for number, rule in enumerate(rules, start=1)}


ALL_SHARED: Rule = (("*", "shared"),)
HEAD_SHARED: Rule = (("head", "shared"), ("*", "frozen"))


def test_what_a_stage_lets_go_cannot_be_shared_again() -> None:
    with pytest.raises(ConfigError, match=r"stage '3' shares 'layer0.bias' again .*make it synced in between"):
        check_stages(stages(ALL_SHARED, HEAD_SHARED, ALL_SHARED))


def test_what_is_synced_in_between_or_shared_later_on_is_no_problem() -> None:
    check_stages(stages(ALL_SHARED, (("head", "shared"), ("*", "synced")), ALL_SHARED))
    check_stages(stages(HEAD_SHARED, ALL_SHARED, HEAD_SHARED))
    check_stages({})


def test_a_stage_that_starts_afresh_may_share_anything() -> None:
    layouts = stages(ALL_SHARED, HEAD_SHARED, ALL_SHARED)
    check_stages(layouts, fresh=["3"])
    check_stages(layouts, fresh=["2"])  # nothing that the first stage held is asked for again
    with pytest.raises(ConfigError, match="stage '3' shares"):
        check_stages(layouts, fresh=["1"])


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ((("attic", 2.0),), "unknown selector 'attic' in stage 'x'"),
        ((("head", 0.0),), "stage 'x': the learning rate of 'head' needs a factor above 0, got 0.0"),
        ((("head|patch", float("inf")),), "needs a factor above 0, got inf"),
    ],
)
def test_rates_that_mean_nothing_are_refused(rates: Rates, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_rates(rates, "stage 'x'")
    check_rates((("patch|enc.4-", 10.0), ("*", 0.5)), "stage 'x'")


def test_tags_must_cover_the_parameters() -> None:
    with pytest.raises(ValueError, match=r"tags do not cover the parameters: \['bias'\]"):
        TaggedModel(nn.Linear(2, 2), {"weight": frozenset({"head"})})
