# SPDX-License-Identifier: Apache-2.0
"""What a folder of `fedqa export` holds beside its encoder: all else that was trained, and for which skill.

A course whose model is such a folder starts from it: silos of that skill go on with what another run has learnt.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from fedqa.errors import ModelError

HEAD = "fedqa_head.safetensors"
_ENCODER = "encoder."  # its weights may stand in the folder's own file instead


@dataclass(frozen=True, eq=False)
class Head:
    path: Path
    weights: Mapping[str, Tensor]
    told: Mapping[str, Any]  # beside the weights: the skill, its options and whatever else its export writes

    @property
    def skill(self) -> str:
        return str(self.told.get("skill", ""))


def read_head(folder: Path) -> Head | None:
    """The head in a folder, if there is one."""
    path = folder / HEAD
    if not path.is_file():
        return None
    try:
        with safe_open(path, "pt") as file:
            texts = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except SafetensorError as problem:
        raise ModelError(f"{path} cannot be read ({problem}); export the model again") from problem
    return Head(path, weights, {key: _value(text) for key, text in texts.items()})


def fill(model: nn.Module, head: Head) -> None:
    """Put a head's weights into a model of its skill. An encoder of which it says nothing stays as it is."""
    slots = {
        name: slot for name, slot in model.named_parameters() if name in head.weights or not name.startswith(_ENCODER)
    }
    wrong = [name for name in {**slots, **head.weights} if _shape(slots, name) != _shape(head.weights, name)]
    if wrong:
        raise ModelError(
            f"{head.path} does not fit the model, first at {wrong[0]!r}; set the options of {head.skill!r} with which "
            f"it was trained, {json.dumps(head.told.get('options', {}))}, or take the file away to start from the "
            "encoder alone"
        )
    with torch.no_grad():
        for name, slot in slots.items():
            slot.copy_(head.weights[name])


def _value(text: str) -> object:
    """What a text of the file says; some are plain texts."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _shape(tensors: Mapping[str, Tensor], name: str) -> torch.Size | None:
    return tensors[name].shape if name in tensors else None
