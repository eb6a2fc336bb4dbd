# SPDX-License-Identifier: Apache-2.0
"""One collection dealt to several silos, to study federations. Every example goes to exactly one of them.

Documents follow the examples that rest on them, so one may be in several parts; the others are dealt evenly. The
quarantine stays with the whole collection.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from fedqa.data.records import Collection, Example
from fedqa.data.splits import rank
from fedqa.errors import ConfigError, DataError


def iid(collection: Collection, n: int, seed: int) -> dict[str, Collection]:
    """Deal the examples evenly to `silo-1` to `silo-n`, in an order drawn from the seed."""
    names = _names(n, collection)
    order = _shuffled(collection.examples, seed)
    return _parts(collection, names, {example.id: names[i % n] for i, example in enumerate(order)}, seed)


def by_key(collection: Collection) -> dict[str, Collection]:
    """A part for each key: a topic, a site, a product."""
    keys = _keys(collection, "by_key")
    return _parts(collection, keys, {example.id: example.key for example in collection.examples}, seed=0)


def dirichlet(collection: Collection, n: int, alpha: float, seed: int) -> dict[str, Collection]:
    """Deal each key's examples to `silo-1` to `silo-n` in shares drawn from a Dirichlet distribution.

    A small alpha makes silos that know a few keys, a large one silos that are alike. No silo is left empty.
    """
    if not 0 < alpha < math.inf:
        raise ConfigError(
            f"partition 'dirichlet' needs a finite alpha > 0, got {alpha}; 0.1 is uneven, 100 nearly even"
        )
    names = _names(n, collection)
    rng = np.random.default_rng(seed)
    owners: dict[str, str] = {}
    for key in _keys(collection, "dirichlet"):
        members = _shuffled([example for example in collection.examples if example.key == key], seed)
        bounds = np.rint(np.cumsum(rng.dirichlet([alpha] * n)) * len(members))
        silos = np.searchsorted(bounds, np.arange(len(members)), side="right").clip(max=n - 1)
        owners |= {example.id: names[silo] for example, silo in zip(members, silos, strict=True)}
    _fill_empty(owners, names)
    return _parts(collection, names, owners, seed)


def _names(n: int, collection: Collection) -> list[str]:
    if n < 1:
        raise ConfigError(f"a partition needs at least 1 silo, got {n}")
    if n > len(collection.examples):
        raise DataError(
            f"{len(collection.examples)} examples cannot be dealt to {n} silos; take fewer silos or more data"
        )
    return [f"silo-{i}" for i in range(1, n + 1)]


def _keys(collection: Collection, partition: str) -> list[str]:
    missing = [example.id for example in collection.examples if not example.key]
    if missing or not collection.examples:
        which = f"{len(missing)} of {len(collection.examples)} have none"
        first = f", the first is {missing[0]!r}" if missing else ""
        raise DataError(f"partition {partition!r} needs examples with keys, but {which}{first}; add keys or use 'iid'")
    return sorted({example.key for example in collection.examples})


def _shuffled(examples: Sequence[Example], seed: int) -> list[Example]:
    return sorted(examples, key=lambda example: rank(seed, example.id))


def _fill_empty(owners: dict[str, str], names: Sequence[str]) -> None:
    """Give each empty silo one example of the fullest."""
    sizes = Counter(owners.values())
    for name in names:
        if not sizes[name]:
            fullest = max(names, key=lambda other: sizes[other])
            owners[next(id for id, owner in owners.items() if owner == fullest)] = name
            sizes.update({name: 1, fullest: -1})


def _parts(collection: Collection, names: Sequence[str], owners: Mapping[str, str], seed: int) -> dict[str, Collection]:
    examples: dict[str, list[Example]] = {name: [] for name in names}
    for example in collection.examples:
        examples[owners[example.id]].append(example)
    needed = {name: {id for example in examples[name] for id in example.documents} for name in names}
    used = set().union(*needed.values())
    spare = sorted((d.id for d in collection.documents if d.id not in used), key=lambda id: rank(seed, id))
    for i, id in enumerate(spare):
        needed[names[i % len(names)]].add(id)
    return {
        name: Collection(tuple(d for d in collection.documents if d.id in needed[name]), tuple(examples[name]))
        for name in names
    }
