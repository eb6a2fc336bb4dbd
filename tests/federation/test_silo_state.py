# SPDX-License-Identifier: Apache-2.0
"""What a silo keeps on disk, and what it finds again."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from fedqa.federation.silo_state import Best, SiloState


@pytest.fixture
def state(tmp_path: Path) -> SiloState:
    return SiloState(tmp_path / "state")


def of(number: float) -> dict[str, Tensor]:
    return {"head": torch.tensor([number])}


def found(tensors: dict[str, Tensor]) -> float | None:
    return tensors["head"].item() if tensors else None


def test_the_newest_within_bounds_is_found(state: SiloState) -> None:
    state.keep("round", 3, of(3))
    state.keep("round", 7, of(7))
    assert found(state.newest("round", 1, 8)) == 7
    assert found(state.newest("round", 1, 7)) == 3  # a round that is asked for again starts from the one before
    assert found(state.newest("round", 4, 7)) is None  # rounds of an earlier stage do not count
    assert found(state.newest("round", 1, 3)) is None


def test_the_two_newest_of_each_kind_stay(state: SiloState, tmp_path: Path) -> None:
    for number in (1, 2, 9, 10):
        state.keep("round", number, of(number))
    state.keep("personal", 1, of(1))
    names = sorted(path.name for path in (tmp_path / "state").iterdir())
    assert names == ["personal-000001.safetensors", "round-000009.safetensors", "round-000010.safetensors"]


def test_a_round_done_again_replaces_itself(state: SiloState) -> None:
    for number, value in ((1, 1.0), (2, 2.0), (2, 5.0)):
        state.keep("round", number, of(value))
    assert found(state.newest("round", 1, 3)) == 5
    assert found(state.newest("round", 1, 2)) == 1


def test_nothing_to_keep_leaves_no_file(state: SiloState, tmp_path: Path) -> None:
    state.keep("round", 1, {})
    assert not (tmp_path / "state").exists()
    assert state.newest("round", 0, 9) == {}


def test_views_of_one_memory_can_be_kept(state: SiloState) -> None:
    buffer = torch.arange(6.0)
    state.keep("personal", 1, {"a": buffer[:4].view(2, 2), "b": buffer[2:]})
    kept = state.newest("personal", 0, 2)
    assert kept["a"].tolist() == [[0, 1], [2, 3]]
    assert kept["b"].tolist() == [2, 3, 4, 5]


def test_the_best_model_replaces_the_one_before(state: SiloState, tmp_path: Path) -> None:
    assert state.best() is None
    assert state.best_tensors() == {}
    state.keep_best(Best(0.5, "received", 1, "d"), of(1))
    state.keep_best(Best(0.75, "personal", 2, "d"), of(2))
    assert state.best() == Best(0.75, "personal", 2, "d")
    assert found(state.best_tensors()) == 2
    assert [path.name for path in (tmp_path / "state").glob("best-*")] == ["best-000002-personal.safetensors"]


def test_the_best_of_a_model_that_never_changes_has_no_file(state: SiloState) -> None:
    state.keep_best(Best(0.5, "received", 1, "d"), {})
    assert state.best() == Best(0.5, "received", 1, "d")
    assert state.best_tensors() == {}
