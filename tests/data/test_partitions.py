# SPDX-License-Identifier: Apache-2.0
"""Dealing one collection to several silos."""

from collections import Counter

import pytest

from fedqa.data.partitions import by_key, dirichlet, iid
from fedqa.data.records import Collection, Document, Example, Quarantined, Span
from fedqa.errors import ConfigError, DataError


def collection(n: int, keys: str = "ab", spare: int = 0) -> Collection:
    """Examples e0, e1, … with the keys in turn, each resting on a document of its own and one that all share."""
    documents = [Document(f"d{i}", f"Text {i}.") for i in range(n + spare)] + [Document("shared", "Shared.")]
    evidence = [(Span(f"d{i}", 0, 1), Span("shared", 0, 1)) for i in range(n)]
    examples = [
        Example(f"e{i}", f"Question {i}?", evidence[i], key=keys[i % len(keys)] if keys else "") for i in range(n)
    ]
    return Collection(tuple(documents), tuple(examples), (Quarantined("x:1", "bad", "mend"),))


def check(whole: Collection, parts: dict[str, Collection]) -> None:
    """Every example in one part, every document in one at least, all evidence at hand."""
    assert Counter(e for part in parts.values() for e in part.examples) == Counter(whole.examples)
    assert {d for part in parts.values() for d in part.documents} == set(whole.documents)
    for part in parts.values():
        ids = {document.id for document in part.documents}
        assert all(span.document in ids for e in part.examples for span in e.evidence)


def test_iid_deals_evenly() -> None:
    whole = collection(10, spare=9)
    parts = iid(whole, 3, seed=1)
    check(whole, parts)
    assert list(parts) == ["silo-1", "silo-2", "silo-3"]
    assert sorted(len(part.examples) for part in parts.values()) == [3, 3, 4]
    # Own documents, the shared one, and three of the nine that no question needs.
    assert all(len(part.documents) == len(part.examples) + 1 + 3 for part in parts.values())


def test_iid_does_not_depend_on_order_but_on_the_seed() -> None:
    whole = collection(20)
    turned = Collection(whole.documents, whole.examples[::-1])
    first, same, other = iid(whole, 2, seed=1), iid(turned, 2, seed=1), iid(whole, 2, seed=2)
    assert set(first["silo-1"].examples) == set(same["silo-1"].examples) != set(other["silo-1"].examples)


def test_one_silo_gets_everything() -> None:
    whole = collection(5, spare=2)
    assert iid(whole, 1, seed=0)["silo-1"] == Collection(whole.documents, whole.examples)


def test_by_key_makes_a_part_of_each_key() -> None:
    whole = collection(10, keys="cab", spare=4)
    parts = by_key(whole)
    check(whole, parts)
    assert list(parts) == ["a", "b", "c"]
    assert all(example.key == key for key, part in parts.items() for example in part.examples)


def test_dirichlet_with_a_large_alpha_is_nearly_even_and_with_a_small_one_is_not() -> None:
    whole = collection(400, keys="abcd")
    even, uneven = dirichlet(whole, 4, 1e6, seed=1), dirichlet(whole, 4, 0.05, seed=1)
    check(whole, even)
    check(whole, uneven)
    assert all(Counter(e.key for e in part.examples) == dict(a=25, b=25, c=25, d=25) for part in even.values())
    largest = [max(Counter(e.key for e in part.examples).values()) for part in uneven.values()]
    assert max(largest) > 80
    assert dirichlet(whole, 4, 0.05, seed=1) == uneven != dirichlet(whole, 4, 0.05, seed=2)


@pytest.mark.parametrize("alpha", [1e-300, 0.01])
def test_dirichlet_leaves_no_silo_empty(alpha: float) -> None:
    whole = collection(6, keys="a")
    parts = dirichlet(whole, 6, alpha, seed=0)
    check(whole, parts)
    assert [len(part.examples) for part in parts.values()] == [1] * 6


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("inf"), float("nan")])
def test_alpha_must_be_positive(alpha: float) -> None:
    with pytest.raises(ConfigError, match=f"partition 'dirichlet' needs a finite alpha > 0, got {alpha}"):
        dirichlet(collection(4), 2, alpha, seed=0)


def test_there_is_at_least_one_silo_and_not_more_than_examples() -> None:
    with pytest.raises(ConfigError, match="at least 1 silo, got 0"):
        iid(collection(4), 0, seed=0)
    with pytest.raises(DataError, match="4 examples cannot be dealt to 5 silos"):
        iid(collection(4), 5, seed=0)
    with pytest.raises(DataError, match="0 examples cannot be dealt to 1 silos"):
        iid(Collection((), ()), 1, seed=0)


def test_keys_are_needed_where_parts_go_by_keys() -> None:
    with pytest.raises(DataError, match="'by_key' needs examples with keys, but 4 of 4 have none, the first is 'e0'"):
        by_key(collection(4, keys=""))
    with pytest.raises(DataError, match="'dirichlet' needs examples with keys, but 4 of 4 have none"):
        dirichlet(collection(4, keys=""), 2, 1.0, seed=0)
    with pytest.raises(DataError, match="'by_key' needs examples with keys, but 0 of 0 have none; add"):
        by_key(Collection((), ()))
