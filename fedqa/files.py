# SPDX-License-Identifier: Apache-2.0
"""Files that are either wholly there or not there at all, whenever the process is killed."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor


def write_text(path: Path, text: str) -> None:
    """Replace a file in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def write_json(path: Path, value: object) -> None:
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Replace a safetensors file in one step; tensors may be views of one another's memory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    own = {name: _own(tensor.detach()) for name, tensor in tensors.items()}
    save_file(own, draft, metadata=dict(metadata or {}))
    with draft.open("rb") as file:
        os.fsync(file.fileno())  # what is committed by another file must be on the disk before that one is
    draft.replace(path)


def _own(tensor: Tensor) -> Tensor:
    """The tensor, copied if it is a part of something larger."""
    whole = tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    return tensor if whole else tensor.clone().contiguous()


def read_tensors(path: Path) -> dict[str, Tensor]:
    return load_file(path)
