# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
import torch
from toy_alliance import write_alliance

from fedqa.answering.index import passage_vectors
from fedqa.config import load_project
from fedqa.federation.silo import Silo
from fedqa.opening import model_at, open_run
from fedqa.runs import train
from fedqa.skills.match import Match, MatchFeatures


@pytest.fixture(scope="module")
def silo(tmp_path_factory: pytest.TempPathFactory) -> Silo:
    alliance = write_alliance(tmp_path_factory.mktemp("alliance"))
    train(load_project(alliance, ["method=zero_shot"]), alliance.parent / "run", processes=1)
    return open_run(alliance.parent / "run").silo("north")


def vectors(silo: Silo, folder: Path, change: float = 0.0) -> np.ndarray:
    assert isinstance(silo.skill, Match) and isinstance(silo.features, MatchFeatures)
    model = model_at(silo, "best")
    with torch.no_grad():
        model.get_parameter("encoder.encoder.layer.1.output.dense.bias")[0] += change
    return passage_vectors(silo.skill, model, silo.features, folder)


def test_vectors_are_made_once_and_read_back_the_same(silo: Silo, tmp_path: Path) -> None:
    first = vectors(silo, tmp_path)
    (path,) = tmp_path.iterdir()
    written = path.stat().st_mtime_ns
    assert np.array_equal(vectors(silo, tmp_path), first)
    assert path.stat().st_mtime_ns == written
    assert first.shape == (20, 32)
    assert np.linalg.norm(first, axis=1) == pytest.approx(1)


def test_another_model_has_vectors_of_its_own(silo: Silo, tmp_path: Path) -> None:
    assert not np.array_equal(vectors(silo, tmp_path), vectors(silo, tmp_path, change=1.0))
    assert len(list(tmp_path.iterdir())) == 2
