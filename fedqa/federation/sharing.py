# SPDX-License-Identifier: Apache-2.0
"""Which parameters are trained and which travel: sharing rules by tag, compiled into a layout.

A rule is an ordered list of lines `selector: mode`; the first line whose selector matches a parameter decides.

    shared   received, trained, sent          private  trained, never sent
    synced   received, not trained, not sent  frozen   stays as the model was loaded

A selector is a tag (`head`), all layers (`enc.*`), a range of layers (`enc.4-`, `enc.0-3`), `*`, or a combination:
`a|b` either, `a&b` both, `!a` not. The layout is all that is ever used to build a message, and private parameters
are not in its shared part: they cannot be sent by mistake.
"""

import re
from collections.abc import Collection, Mapping
from typing import Literal, get_args

from fedqa.errors import ConfigError, unknown
from fedqa.models.layout import Entry, Layout
from fedqa.models.tagged import TaggedModel, Tags

Mode = Literal["shared", "private", "frozen", "synced"]
Rule = tuple[tuple[str, Mode], ...]
Rates = tuple[tuple[str, float], ...]  # selector and factor on the learning rate; the first match counts, else 1

MODES: tuple[Mode, ...] = get_args(Mode)
KNOWN_TAGS = frozenset(
    {"embeddings", "words", "enc", "dec", "norm", "pooler", "head", "patch", "adapter", "lm_head", "other"}
    | {"tower.query", "tower.sentence"}
)
_LAYERS = re.compile(r"(?P<stack>enc|dec)\.(?:(?P<all>\*)|(?P<first>\d+)(?P<dash>-(?P<last>\d*))?)")


def check_rule(rule: Rule, where: str) -> None:
    """Raise ConfigError for a selector or mode that cannot mean anything."""
    for selector, mode in rule:
        if mode not in MODES:
            raise ConfigError(unknown("sharing mode", mode, MODES, where))
        _check_selector(selector, where)


def check_rates(rates: Rates, where: str) -> None:
    """Raise ConfigError for a selector that cannot mean anything, or a factor that would stop or turn learning."""
    for selector, factor in rates:
        _check_selector(selector, where)
        if not 0 < factor < float("inf"):
            raise ConfigError(f"{where}: the learning rate of {selector!r} needs a factor above 0, got {factor}")


def _check_selector(selector: str, where: str) -> None:
    for atom in re.split(r"[|&]", selector):
        _check_atom(atom.strip().removeprefix("!").strip(), where)


def _check_atom(atom: str, where: str) -> None:
    if atom != "*" and atom not in KNOWN_TAGS and not _LAYERS.fullmatch(atom):
        raise ConfigError(unknown("selector", atom, KNOWN_TAGS | {"*", "enc.*", "enc.0-3", "enc.4-"}, where))


def matches(selector: str, tags: Tags) -> bool:
    return any(all(_atom_matches(atom, tags) for atom in part.split("&")) for part in selector.split("|"))


def _atom_matches(atom: str, tags: Tags) -> bool:
    atom = atom.strip()
    if atom.startswith("!"):
        return not _atom_matches(atom[1:], tags)
    layers = _LAYERS.fullmatch(atom)
    if layers is None:
        return atom == "*" or atom in tags or (atom in ("enc", "dec") and _atom_matches(f"{atom}.*", tags))
    return any(_in_layers(tag, layers) for tag in tags)


def _in_layers(tag: str, layers: re.Match[str]) -> bool:
    stack, _, number = tag.rpartition(".")
    if stack != layers["stack"] or not number.isdigit():
        return False
    if layers["all"]:
        return True
    first = int(layers["first"])
    if layers["dash"] is None:
        return int(number) == first
    return first <= int(number) <= (int(layers["last"]) if layers["last"] else int(number))


def compile_layout(model: TaggedModel, rule: Rule) -> Layout:
    """Sort a model's parameters, in their stable order, into the four modes."""
    sorted_out: dict[Mode, list[Entry]] = {mode: [] for mode in MODES}
    for name, parameter in model.module.named_parameters():
        sorted_out[_mode_of(name, model.tags[name], rule)].append(Entry(name, tuple(parameter.shape)))
    return Layout(**{mode: tuple(entries) for mode, entries in sorted_out.items()})


def check_stages(layouts: Mapping[str, Layout], fresh: Collection[str] = ()) -> None:
    """Raise ConfigError if a parameter travels again after a stage in which it did not: nobody held its value.

    Stages that start afresh need no value.
    """
    before: set[str] = set()
    gone: set[str] = set()
    for stage, layout in layouts.items():
        now = {entry.name for entry in layout.received}
        if stage in fresh:
            before, gone = set(), set()
        if now & gone:
            raise ConfigError(
                f"stage {stage!r} shares {min(now & gone)!r} again after a stage that did not, and would start it from "
                "the loaded model; make it synced in between"
            )
        gone |= before - now
        before = now


def _mode_of(name: str, tags: Tags, rule: Rule) -> Mode:
    for selector, mode in rule:
        if matches(selector, tags):
            return mode
    raise ConfigError(f"no sharing line matches parameter {name!r} (tags {sorted(tags)}); end the rule with '*'")
