# SPDX-License-Identifier: Apache-2.0
"""A silo's passages as vectors, made once for a model and kept in the silo's own folder."""

import hashlib
from pathlib import Path

import torch
from torch import nn

from fedqa.files import read_tensors, write_tensors
from fedqa.skills.match import Match, MatchFeatures, Vectors


def passage_vectors(skill: Match, model: nn.Module, features: MatchFeatures, folder: Path) -> Vectors:
    """The vectors of all passages, read from the folder if this model has encoded these passages before."""
    path = folder / f"{_digest(model, features)}.safetensors"
    if not path.exists():
        write_tensors(path, {"vectors": torch.from_numpy(skill.passage_vectors(model, features))})
    vectors: Vectors = read_tensors(path)["vectors"].numpy()
    return vectors


def _digest(model: nn.Module, features: MatchFeatures) -> str:
    """Of all that the vectors depend on: the model's values and the passages' tokens."""
    digest = hashlib.sha256()
    for _, parameter in model.named_parameters():
        digest.update(parameter.detach().contiguous().numpy().data)
    for tokens in features.tokens:
        digest.update(len(tokens).to_bytes(4, "big") + tokens.tobytes())
    return digest.hexdigest()[:32]
