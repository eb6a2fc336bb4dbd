# SPDX-License-Identifier: Apache-2.0
"""A silo's model of the skill `parse` as a folder, and back from it.

A pretrained encoder-decoder is the folder. Of a pointer the folder holds the encoder as it was loaded, by which a
schema is read, and beside it all that was trained. Nothing of a schema is in it: it is read from the database that is
asked.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from fedqa.errors import ModelError
from fedqa.federation.silo import Silo
from fedqa.files import write_tensors
from fedqa.models.backbones import Backbone, frozen_below, load_backbone
from fedqa.models.head import HEAD, read_head
from fedqa.models.patches import Patch, patched, without_patches
from fedqa.models.text_writer import TextWriter
from fedqa.opening import OpenRun
from fedqa.seeds import derive
from fedqa.skills import make_skill, started
from fedqa.skills.parse import Parse, ParseFeatures
from fedqa.tables import from_table, plain, to_table


@dataclass(frozen=True)
class ExportedParser:
    """What asking a database needs, but for the database."""

    silo: str
    skill: Parse
    model: nn.Module
    backbone: Backbone
    longest: int  # steps of the longest SQL it was trained on


@dataclass(frozen=True)
class _Facts:
    """What is written beside the weights."""

    silo: str
    longest: int
    freeze_layers: int = 0
    patches: tuple[Patch, ...] = ()
    patch_seed: int = 0


def save_parser(run: OpenRun, silo: Silo, module: nn.Module, folder: Path) -> None:
    """Write the weights and the tokenizer; the card is `fedqa.export`'s."""
    features, course, backbone = silo.features, run.course, run.setting.backbone
    assert isinstance(features, ParseFeatures)
    weights = dict(module.named_parameters())
    if isinstance(module, TextWriter):
        whole = backbone.fresh()
        whole.load_state_dict(module.model.state_dict())  # as its own tensors: the module's lie in one buffer
        weights = {}
    else:
        whole = backbone.frozen.lower
    whole.save_pretrained(folder, state_dict=without_patches(whole))
    backbone.tokenizer.save_pretrained(folder)
    seed = derive(course.seed, "patch") % 2**31
    facts = _Facts(silo.name, features.longest, course.freeze_layers, course.patches, seed)
    told = {"skill": silo.skill.name, "options": plain(getattr(silo.skill, "options", {})), "facts": to_table(facts)}
    write_tensors(folder / HEAD, weights, {key: json.dumps(value) for key, value in told.items()})


def load_parser(folder: Path) -> ExportedParser:
    """The model of a folder that `fedqa export` wrote for a silo of the skill `parse`."""
    head = read_head(folder)
    if head is None:
        raise ModelError(f"{folder} has no {HEAD}; give a folder that `fedqa export` wrote")
    if head.skill != "parse":
        raise ModelError(
            f"{folder} holds a model of the skill {head.skill!r}, which writes no SQL; ask the run it was exported from"
        )
    facts = from_table(_Facts, head.told.get("facts", {}), str(head.path))
    skill = make_skill("parse", head.told.get("options", {}), str(head.path))
    assert isinstance(skill, Parse)
    loaded = frozen_below(load_backbone(str(folder)), facts.freeze_layers)
    backbone = patched(loaded, facts.patches, facts.patch_seed)
    model = started(skill, backbone, 0).module.eval()
    return ExportedParser(facts.silo, skill, model, backbone, facts.longest)


def is_exported(folder: Path) -> bool:
    """Whether it is a folder of `fedqa export` rather than one of a run."""
    return (folder / HEAD).is_file() and not (folder / "course.toml").exists()
