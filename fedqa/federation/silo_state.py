# SPDX-License-Identifier: Apache-2.0
"""What a silo keeps on its own disk: private parameters, optimiser moments, its personal and best models."""

import json
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor

from fedqa.federation.messages import Point
from fedqa.files import read_tensors, write_json, write_tensors

_ROUND = re.compile(r"\w+-(\d{6})\.safetensors")


@dataclass(frozen=True)
class Best:
    """The model that did best so far on the silo's own dev questions, and on what people there have corrected."""

    score: float
    point: Point
    round: int
    asked: str  # a digest of these questions: with a score on others, this one cannot be compared


class SiloState:
    """Files by kind and round; the two newest of a kind stay, so a round that is asked for again starts the same."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, kind: str, round_number: int, tensors: Mapping[str, Tensor]) -> None:
        if not tensors:  # a course that trains nothing keeps nothing
            return
        write_tensors(self._folder / f"{kind}-{round_number:06d}.safetensors", tensors)
        for old in self._rounds(kind)[:-2]:
            (self._folder / f"{kind}-{old:06d}.safetensors").unlink(missing_ok=True)

    def newest(self, kind: str, first: int, before: int) -> dict[str, Tensor]:
        """The newest of a kind with `first <= round < before`; empty if there is none."""
        rounds = [number for number in self._rounds(kind) if first <= number < before]
        return read_tensors(self._folder / f"{kind}-{rounds[-1]:06d}.safetensors") if rounds else {}

    def _rounds(self, kind: str) -> list[int]:
        matches = (_ROUND.fullmatch(path.name) for path in self._folder.glob(f"{kind}-*.safetensors"))
        return sorted(int(match[1]) for match in matches if match)

    def personal(self, rounds: int) -> dict[str, Tensor]:
        """The silo's own model after a course of so many rounds: a mixture if there is one, else as last trained."""
        return self.newest("mixture", rounds + 1, rounds + 2) or self.newest("personal", 0, rounds + 1)

    def forget(self, kind: str) -> None:
        """Remove all of a kind."""
        for number in self._rounds(kind):
            (self._folder / f"{kind}-{number:06d}.safetensors").unlink(missing_ok=True)

    def secret(self) -> int:
        """A random number made once. What must be the same when a round is asked again, yet unknown outside, is drawn
        from it."""
        path = self._folder / "secret.json"
        if not path.exists():
            write_json(path, {"secret": secrets.randbits(128)})
        return int(json.loads(path.read_text(encoding="utf-8"))["secret"])

    def spend(self, what: str, key: str, amount: int) -> int:
        """Note an amount spent on a request; returns the sum. The same request, asked again, counts once."""
        path = self._folder / f"spent-{what}.json"
        spent = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        spent[key] = amount
        write_json(path, spent)
        return sum(spent.values())

    def keep_trained(self, examples: Iterable[str]) -> None:
        """The ids of the examples that the run, now at its end, was trained on."""
        write_json(self._folder / "trained.json", sorted(examples))

    def trained(self) -> frozenset[str]:
        """What it was trained on when it last ended; nothing before that."""
        path = self._folder / "trained.json"
        return frozenset(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else frozenset()

    def keep_best(self, best: Best, tensors: Mapping[str, Tensor]) -> None:
        if tensors:
            write_tensors(self._best_path(best), tensors)
        write_json(self._folder / "best.json", asdict(best))  # from here on the new one counts
        for path in self._folder.glob("best-*.safetensors"):
            if path != self._best_path(best):
                path.unlink(missing_ok=True)

    def best(self) -> Best | None:
        path = self._folder / "best.json"
        return Best(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None

    def best_tensors(self) -> dict[str, Tensor]:
        best = self.best()
        return read_tensors(self._best_path(best)) if best and self._best_path(best).exists() else {}

    def _best_path(self, best: Best) -> Path:
        return self._folder / f"best-{best.round:06d}-{best.point}.safetensors"
