# SPDX-License-Identifier: Apache-2.0
"""A folder of `fedqa export` as the model of a course: silos of its skill start from all that was trained."""

import shutil
from pathlib import Path

import pytest
import torch
from toy_database import ALONE, write_towns

from fedqa.config import load_project
from fedqa.errors import ModelError
from fedqa.export import export
from fedqa.files import read_tensors, write_tensors
from fedqa.models.backbones import load_backbone
from fedqa.models.head import HEAD, read_head
from fedqa.opening import model_at, open_run
from fedqa.runs import train
from fedqa.skills import make_skill, started

SHORT = ["local.epochs=1", "rounds=1", "evaluation.every=0"]
STILL = ["local.learning_rate=0.0", *SHORT]  # a round in which nothing moves
OPTIONS = {"dropout": 0.0, "links": False}  # those of the towns


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    train(load_project(write_towns(folder, ALONE), SHORT), folder / "run", processes=1)
    return export(folder / "run", "north", folder / "model").parent


def test_silos_start_from_what_was_exported(exported: Path, tmp_path: Path) -> None:
    project = load_project(write_towns(tmp_path, ALONE), [*STILL, f'model="{exported}"'])
    train(project, tmp_path / "run", processes=1)
    ended = dict(model_at(open_run(tmp_path / "run").silo("north"), "best").named_parameters())
    begun, new = read_tensors(exported / HEAD), make_skill("parse", OPTIONS, "").build(load_backbone("tiny"), 0).module
    assert begun.keys() == ended.keys() == dict(new.named_parameters()).keys()
    assert all(torch.equal(begun[name], ended[name]) for name in begun)
    assert not torch.equal(begun["symbols.weight"], new.get_parameter("symbols.weight"))


def test_a_head_is_part_of_what_a_model_is(exported: Path, tmp_path: Path) -> None:
    """Silos compare fingerprints before they train together: other heads are other models."""
    bare, other = (Path(shutil.copytree(exported, tmp_path / name)) for name in ("bare", "other"))
    (bare / HEAD).unlink()
    weights = read_tensors(exported / HEAD)
    write_tensors(other / HEAD, {**weights, "bias": weights["bias"] + 1}, {"skill": "parse"})
    same = load_backbone(str(exported)).fingerprint()
    assert load_backbone(str(exported)).fingerprint() == same
    assert len({same, *(load_backbone(str(folder)).fingerprint() for folder in (bare, other))}) == 3


def test_another_skill_starts_from_the_encoder_alone(exported: Path) -> None:
    backbone = load_backbone(str(exported))
    assert backbone.head is not None
    assert backbone.head.skill == "parse"
    names = dict(started(make_skill("match", {}, ""), backbone, 0).module.named_parameters())
    assert not backbone.head.weights.keys() & names.keys()


def test_other_options_than_it_was_trained_with_are_an_error(exported: Path) -> None:
    skill = make_skill("parse", {**OPTIONS, "decoder_layers": 2}, "")
    with pytest.raises(ModelError, match=r"first at 'decoder\.1\..*; set the options .*decoder_layers.: 1,"):
        started(skill, load_backbone(str(exported)), 0)


def test_a_folder_without_a_head_has_none_and_a_broken_one_says_so(tmp_path: Path) -> None:
    assert read_head(tmp_path) is None
    assert load_backbone("tiny").head is None
    (tmp_path / HEAD).write_bytes(b"nothing")
    with pytest.raises(ModelError, match=r"cannot be read .*; export the model again"):
        read_head(tmp_path)
