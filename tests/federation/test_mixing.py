# SPDX-License-Identifier: Apache-2.0
"""Mixing on a few numbers: streams, rows, and what is done to the weights."""

from collections.abc import Iterator

import pytest
import torch
from toys import toy_update

from fedqa.federation.combiners import Mean
from fedqa.federation.course import Choice, Mixing
from fedqa.federation.messages import Update
from fedqa.federation.mixing import ALL, Mixed, Mixer, starting_weights, weights_for
from fedqa.federation.server_optimisers import State

NAMES = ["a", "b", "c"]
GROUPS = {"a": "law", "b": "bank", "c": "law"}


def mixer(weigher: str = "size", combiner: str = "mean", optimiser: str = "none") -> Mixer:
    return Mixer(Mixing(Choice(weigher), Choice(combiner), Choice(optimiser)), NAMES, GROUPS)


def updates() -> list[Update]:
    return [toy_update("a", [4.0, 0.0], 1), toy_update("b", [0.0, 8.0], 2), toy_update("c", [8.0, 8.0], 1)]


def test_weights_by_size_give_the_weighted_mean() -> None:
    mixed = mixer().mix(updates())
    # (1 * 4 + 2 * 0 + 1 * 8) / 4 = 3 and (0 + 16 + 8) / 4 = 6
    assert mixed.deltas[ALL].tolist() == [3, 6]
    assert mixed.weights == {ALL: {"a": 0.25, "b": 0.5, "c": 0.25}}


def test_uniform_weights_give_the_plain_mean() -> None:
    assert mixer("uniform").mix(updates()).deltas[ALL].tolist() == [4, pytest.approx(16 / 3)]


def test_a_running_mean_is_the_mean_of_the_batch() -> None:
    generator = torch.Generator().manual_seed(3)
    deltas, sizes = torch.randn(7, 50, generator=generator), [3, 1, 4, 1, 5, 9, 2]
    streamed = mixer().mix(
        toy_update(f"s{i}", d.tolist(), n) for i, (d, n) in enumerate(zip(deltas, sizes, strict=True))
    )
    batch = Mean().combine(list(deltas), [float(n) for n in sizes])
    exact = (deltas.double() * torch.tensor(sizes)[:, None]).sum(dim=0) / 25
    torch.testing.assert_close(streamed.deltas[ALL], batch, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(batch.double(), exact, rtol=1e-6, atol=1e-6)


def test_a_stream_holds_one_update_at_a_time() -> None:
    first: list[Update] = []

    def stream() -> Iterator[Update]:
        for update in updates():
            first[:] = first or [update]
            yield update

    mixed = mixer().mix(stream())
    assert mixed.deltas[ALL].data_ptr() == first[0].delta.data_ptr()


@pytest.mark.parametrize("n_examples", [1, 3, 7, 12, 49])
def test_an_update_alone_keeps_its_bits(n_examples: int) -> None:
    delta = torch.randn(1000, generator=torch.Generator().manual_seed(4))
    mixed = mixer().mix([toy_update("a", delta.tolist(), n_examples)])
    assert torch.equal(mixed.deltas[ALL], delta)


def test_no_update_makes_no_delta() -> None:
    for weigher in ("size", "identity"):
        assert not mixer(weigher).mix([]).deltas
    assert not mixer(combiner="median").mix([]).deltas


def test_a_robust_combiner_sees_all_updates() -> None:
    mixed = mixer(combiner="median").mix(updates())
    assert mixed.deltas[ALL].tolist() == [4, 8]
    assert mixed.weights == {ALL: {"a": 0.25, "b": 0.5, "c": 0.25}}


def test_rows_give_every_recipient_its_own_delta() -> None:
    mixed = mixer("groups").mix(updates())
    assert {name: delta.tolist() for name, delta in mixed.deltas.items()} == {"a": [6, 4], "b": [0, 8], "c": [6, 4]}
    assert mixed.weights["a"] == {"a": 0.5, "b": 0.0, "c": 0.5}


def test_a_recipient_nobody_sent_for_has_no_delta() -> None:
    mixed = mixer("groups").mix([updates()[1]])
    assert set(mixed.deltas) == {"b"}
    assert mixed.weights["a"] == {"b": 0.0}


def test_rows_do_not_share_memory() -> None:
    # A server optimiser may overwrite its delta: a, b and c must not be the same memory, nor the update's.
    held = updates()
    mixed = mixer("identity").mix(held)
    memory = {delta.data_ptr() for delta in (*mixed.deltas.values(), *(update.delta for update in held))}
    assert len(memory) == 6


def test_only_the_shared_part_of_the_weights_moves() -> None:
    mixing = mixer()
    weights = starting_weights(mixing, torch.tensor([1.0, 1.0, 5.0]))  # the last is synced
    mixing.apply(mixing.mix(updates()), weights, {}, 1)
    assert weights[ALL].tolist() == [4, 7, 5]


def test_every_recipient_has_an_optimiser_state_of_its_own() -> None:
    mixing, states = mixer("identity", optimiser="sgd"), dict[str, State]()
    weights = starting_weights(mixing, torch.zeros(2))
    mixing.apply(mixing.mix(updates()), weights, states, 1)
    mixing.apply(mixing.mix(updates()[:1]), weights, states, 2)
    # a: velocity 4, then 0.9 * 4 + 4 = 7.6; b was not there the second time
    assert weights["a"].tolist() == [pytest.approx(4 + 7.6), 0]
    assert weights["b"].tolist() == [0, 8]
    assert states["b"]["velocity"].tolist() == [0, 8]


def test_weights_are_looked_up_for_all_or_for_one() -> None:
    one, own = torch.zeros(1), torch.ones(1)
    assert weights_for("a", {ALL: one}) is one
    assert weights_for("a", {"a": own, "b": one}) is own


def test_starting_weights_are_copies() -> None:
    vector = torch.zeros(2)
    weights = starting_weights(mixer("identity"), vector)
    weights["a"].add_(1)
    assert vector.tolist() == weights["b"].tolist() == [0, 0]


def test_mixing_nothing_leaves_the_weights() -> None:
    weights = {ALL: torch.ones(2)}
    mixer().apply(Mixed({}, {}), weights, {}, 1)
    assert weights[ALL].tolist() == [1, 1]
