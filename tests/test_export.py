# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from toy_alliance import write_alliance
from transformers import AutoModel, AutoTokenizer

from fedqa.answering.assistant import Assistant
from fedqa.answering.matching import Matching
from fedqa.config import load_project
from fedqa.errors import RunError
from fedqa.export import export
from fedqa.federation.course import Course
from fedqa.models.head import HEAD
from fedqa.models.patches import PATCHES, Patch, load_exported, patches_of
from fedqa.runs import train


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    alliance = write_alliance(tmp_path_factory.mktemp("alliance"))
    train(load_project(alliance, ["local.learning_rate=1e-2"]), alliance.parent / "run", processes=1)
    return alliance.parent / "run"


@pytest.fixture(scope="module")
def folder(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(run, "north", tmp_path_factory.mktemp("exported") / "model").parent


PATCHED = {
    "in every layer": ((Patch(width=8), Patch("adapter", "sublayer_serial", "pal", width=8)), 0),
    "above a trunk": ((Patch(width=8), Patch("adapter", "stack_parallel", width=8, merge="own_norm")), 1),
    "a trunk alone": ((), 1),
}


def trained(folder: Path, patches: tuple[Patch, ...], freeze_layers: int) -> Path:
    alliance = write_alliance(folder)
    project = load_project(alliance, ["local.learning_rate=1e-2"])
    course: Course = replace(project.course, patches=patches, freeze_layers=freeze_layers)
    train(replace(project, course=course), folder / "run", processes=1)
    return folder / "run"


@pytest.fixture(scope="module", params=PATCHED)
def other(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Another run, and its model exported."""
    run = trained(tmp_path_factory.mktemp("other"), *PATCHED[request.param])
    return run, export(run, "north", tmp_path_factory.mktemp("exported") / "model").parent


def code_of(card: Path) -> str:
    return card.read_text().partition("```python\n")[2].partition("```")[0]


def test_a_folder_of_the_usual_files(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", HEAD, "README.md"} <= names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pkl"))]


def test_the_loaded_model_gives_the_same_vectors_as_the_assistant(run: Path, folder: Path) -> None:
    matching = Assistant.open(run, "north").finder
    assert isinstance(matching, Matching)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    for passage, expected in zip(matching.features.passages, matching.vectors, strict=True):
        inputs = tokenizer([passage.text], return_tensors="pt", truncation=True, max_length=128)
        with torch.no_grad():
            mean = model(**inputs).last_hidden_state.mean(dim=1)
        vector = torch.nn.functional.normalize(mean, dim=-1)[0]
        assert torch.allclose(vector, torch.from_numpy(expected), atol=1e-5)


def test_the_exported_model_is_a_trained_one(run: Path, folder: Path) -> None:
    best = json.loads((run / "silos" / "north" / "state" / "best.json").read_text())
    (kept,) = (run / "silos" / "north" / "state").glob("best-*.safetensors")
    assert best["point"] in kept.name
    name = "encoder.layer.0.output.dense.weight"
    with safe_open(kept, "pt") as theirs, safe_open(folder / "model.safetensors", "pt") as ours:
        assert torch.equal(theirs.get_tensor(f"encoder.{name}"), ours.get_tensor(name))


def test_the_head_is_all_that_is_not_the_encoder(folder: Path) -> None:
    with safe_open(folder / HEAD, "pt") as file:
        assert list(file.keys()) == ["log_scale"]
        assert file.metadata()["skill"] == "match"
        assert json.loads(file.metadata()["options"])["max_passage"] == 128


def test_the_lines_of_the_card_run(folder: Path) -> None:
    code = code_of(folder / "README.md")
    assert len(code.strip().splitlines()) == 5
    found: dict[str, Any] = {}
    exec(code, found)
    assert found["vectors"].shape == (1, 32)
    assert float(found["vectors"].detach().norm()) == pytest.approx(1)


def test_the_card_tells_course_method_model_and_scores(run: Path, folder: Path) -> None:
    card = (folder / "README.md").read_text()
    result = json.loads((run / "result.json").read_text())
    for words in ("`fedavg`", "`tiny`", "2 rounds", result["course"], "north's own text"):
        assert words in card
    assert f"| MAP | {result['silos']['north']['best']['dev']['map']:.3f} |" in card


def test_patched_models_and_those_above_a_trunk_give_the_same_vectors_as_the_assistant(
    other: tuple[Path, Path],
) -> None:
    run, folder = other
    matching = Assistant.open(run, "north").finder
    assert isinstance(matching, Matching)
    found: dict[str, Any] = {}
    exec(code_of(folder / "README.md"), found)
    tokenizer, model = found["tokenizer"], found["model"].eval()
    for passage, expected in zip(matching.features.passages, matching.vectors, strict=True):
        inputs = tokenizer([passage.text], return_tensors="pt", truncation=True, max_length=128)
        with torch.no_grad():
            mean = model(**inputs).last_hidden_state.mean(dim=1)
        vector = torch.nn.functional.normalize(mean, dim=-1)[0]
        assert torch.allclose(vector, torch.from_numpy(expected), atol=1e-5)


def test_the_weights_of_the_folder_are_those_of_a_plain_encoder(other: tuple[Path, Path]) -> None:
    _, folder = other
    model, report = AutoModel.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values())
    assert set(load_file(folder / "model.safetensors")) == set(model.state_dict())
    assert model.config.num_hidden_layers == 2


def test_patches_stand_in_a_file_of_their_own_and_the_card_says_so(other: tuple[Path, Path]) -> None:
    run, folder = other
    card, patches = (folder / "README.md").read_text(), load_project(run / "course.toml").course.patches
    assert (folder / PATCHES).exists() == (PATCHES in card) == ("load_exported" in card) == bool(patches)
    assert ("library_name: fedqa" in card) == bool(patches)
    with safe_open(folder / HEAD, "pt") as file:
        assert list(file.keys()) == ["log_scale"]
    if patches:
        assert "(`patch`, `adapter`)" in card
        assert [patch.name for patch in patches_of(load_exported(folder))] == ["patch", "adapter"]
        weights = load_file(folder / PATCHES)
        assert all(weights[name].any() for name in weights if name.endswith("up.weight"))  # they start at zero


def test_a_matcher_without_an_encoder_is_not_exported(tmp_path: Path) -> None:
    alliance = write_alliance(tmp_path)
    settings = ["method=zero_shot", "skills.match.interaction=bm25"]
    train(load_project(alliance, settings), tmp_path / "run", processes=1)
    with pytest.raises(RunError, match=r"'north' learnt .* 'bm25', which has no encoder; .*dual, cross, residual can"):
        export(tmp_path / "run", "north", tmp_path / "model")
