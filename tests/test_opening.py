# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
import torch
from torch import nn
from toy_alliance import write_alliance

from fedqa.answering.assistant import Assistant
from fedqa.config import load_project
from fedqa.errors import RunError
from fedqa.files import read_tensors
from fedqa.opening import load_course, model_at, open_run
from fedqa.rescoring import rescore
from fedqa.runs import train

CHANGES = ("local.learning_rate=1e-2", "method=fedbn")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    alliance = write_alliance(tmp_path_factory.mktemp("alliance"))
    train(load_project(alliance, CHANGES), alliance.parent / "run", processes=1)
    return alliance.parent / "run"


def same(model: nn.Module, path: Path) -> bool:
    """Has the model the values of a file?"""
    parameters = dict(model.named_parameters())
    return all(torch.equal(parameters[name].data, value) for name, value in read_tensors(path).items())


def test_every_point_is_the_file_that_the_silo_kept(run: Path) -> None:
    opened = open_run(run)
    for name in ("north", "south"):
        silo, state = opened.silo(name), run / "silos" / name / "state"
        (best,) = state.glob("best-*.safetensors")
        received, personal = state / "stage-000001.safetensors", state / "personal-000002.safetensors"
        for point, path in (("best", best), ("received", received), ("personal", personal)):
            assert same(model_at(silo, point), path)  # type: ignore[arg-type]
        assert not same(model_at(silo, "received"), personal)


def test_models_of_several_silos_and_points_do_not_disturb_each_other(run: Path) -> None:
    opened = open_run(run)
    question = "When does the gate open?"
    north = Assistant.of(opened.silo("north"), "received")
    before = north.nearest(question)
    Assistant.of(opened.silo("south"), "personal")
    model_at(opened.silo("north"), "personal")
    assert north.nearest(question) == before


def test_a_run_that_scored_nothing_serves_what_the_silo_received(tmp_path: Path) -> None:
    alliance = write_alliance(tmp_path)
    train(load_project(alliance, [*CHANGES, "evaluation.every=0", "rounds=1"]), tmp_path / "run", processes=1)
    silo = open_run(tmp_path / "run").silo("north")
    assert same(model_at(silo, "best"), tmp_path / "run" / "silos" / "north" / "state" / "stage-000001.safetensors")
    assert rescore(tmp_path / "run").scores["silos"] == {"north": {}, "south": {}}


def test_a_silo_whose_model_is_gone_is_named(run: Path) -> None:
    silo = open_run(run).silo("north")
    for path in (run / "silos" / "north" / "state").glob("stage-*"):
        path.rename(path.with_suffix(".away"))
    try:
        with pytest.raises(RunError, match=r"silo 'north' has no model in .*errors.log there may say why"):
            model_at(silo, "received")
    finally:
        for path in (run / "silos" / "north" / "state").glob("stage-*.away"):
            path.rename(path.with_suffix(".safetensors"))


def test_a_moved_run_finds_its_data_by_its_own_course_file(run: Path) -> None:
    assert (run / load_course(run).data["north"].path).resolve() == (run.parent / "north.csv").resolve()


def test_a_folder_that_is_no_run_is_told_from_one_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"is not a run folder: it has no course\.toml"):
        open_run(tmp_path)
    with pytest.raises(RunError, match="nothing does not exist"):
        open_run(tmp_path / "nothing")
