# SPDX-License-Identifier: Apache-2.0
"""How sure a desk may be, fitted to the dev questions of its store and kept on disk from one start to the next."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isinf
from pathlib import Path

from blake3 import blake3

from fedqa.answering.blending import Blend, Measured, fitted
from fedqa.answering.confidence import Confidence
from fedqa.answering.retrieving import dev_questions
from fedqa.data.records import Collection
from fedqa.files import write_json

_DRIFT = 0.05  # a share of documents that may come or go before it is fitted anew


@dataclass(frozen=True)
class Basis:
    """What a calibration rests on."""

    models: str  # digest
    dev: str  # digest of the questions and their evidence
    documents: int

    @classmethod
    def of(cls, models: str, collection: Collection) -> "Basis":
        dev = [[question, [asdict(span) for span in spans]] for question, spans in dev_questions(collection)]
        return cls(models, blake3(json.dumps(dev).encode()).hexdigest(), len(collection.documents))

    def holds_for(self, other: "Basis") -> bool:
        drift = abs(self.documents - other.documents)
        return (self.models, self.dev) == (other.models, other.dev) and drift <= _DRIFT * self.documents


@dataclass(frozen=True)
class Calibration:
    """The blend of a pipeline's parts, with its confidence, and what it rests on."""

    basis: Basis
    parts: tuple[str, ...]
    blend: Blend


def fitted_to(dev: Sequence[Measured], parts: tuple[str, ...], basis: Basis) -> Calibration:
    return Calibration(basis, parts, fitted(dev, parts))


def save(calibration: Calibration, path: Path) -> None:
    table = asdict(calibration)
    confidence = table["blend"]["confidence"]
    if isinf(confidence["nothing"]):  # JSON has no infinity
        confidence["nothing"] = None
    write_json(path, table)


def load(path: Path) -> Calibration | None:
    """None if there is none, or none that this version understands: it is fitted anew."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        confidence = table["blend"]["confidence"]
        if confidence["nothing"] is None:
            confidence["nothing"] = float("-inf")
        blend = Blend(table["blend"]["weights"], Confidence(**confidence))
        return Calibration(Basis(**table["basis"]), tuple(table["parts"]), blend)
    except (OSError, ValueError, KeyError, TypeError):
        return None
