# SPDX-License-Identifier: Apache-2.0
"""The run folder: what the coordinator writes down, so that a run killed at any moment goes on with the same bits.

    course.toml          the plan              environment.json   versions and machine
    rounds.jsonl         a line a round        result.json        the scores, at the end
    checkpoints/         the coordinator's state after a round (safetensors)
    lock                 empty; held by the process that trains
    silos/NAME/          a silo's own folder, when all silos are in this process

A line in rounds.jsonl commits a round. It is written after the round's checkpoint; what has no line did not happen.
"""

import fcntl
import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor

from fedqa import __version__
from fedqa.errors import RunError
from fedqa.federation.learning import silo_folder
from fedqa.files import read_tensors, write_json, write_tensors

PACKAGES = ("torch", "transformers", "safetensors", "numpy", "bm25s")


@dataclass(frozen=True)
class Accepted:
    """What is written down of an accepted update."""

    norm: float
    total: float
    n_examples: int
    n_seen: int
    n_steps: int
    loss_first: float
    loss_last: float
    loss_max: float
    loss_min: float


@dataclass(frozen=True)
class RoundRecord:
    """One line of rounds.jsonl."""

    round: int
    stage: str
    asked: tuple[str, ...]
    accepted: Mapping[str, Accepted]
    refused: tuple[tuple[str, str], ...]  # silo and code
    void: bool  # the quorum was missed and nothing was changed
    weights: Mapping[str, Mapping[str, float]]  # recipient -> sender -> weight
    metrics: Mapping[str, Mapping[str, tuple[int, float, float]]]  # silo -> "point/split/metric" -> n, mean, variance
    bytes_up: int
    bytes_down: int
    seconds: float


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Raise RunError if another process is at work in the folder; keep others out until the end.

        The system gives the lock back however a process ends, and no process that it has started keeps it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("ab") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                raise RunError(
                    f"another process is training in {self.path}; wait until it has ended, or choose another --out"
                ) from None
            yield

    @property
    def rounds_path(self) -> Path:
        return self.path / "rounds.jsonl"

    def silo(self, name: str) -> Path:
        return silo_folder(self.path, name)

    def write_environment(self) -> None:
        write_json(self.path / "environment.json", environment())

    def commit(self, record: RoundRecord, state: Mapping[str, Tensor]) -> None:
        """Write a round down: first its checkpoint, then the line that makes it count."""
        write_tensors(self._checkpoint(record.round), state)
        line = json.dumps(asdict(record), allow_nan=False) + "\n"
        with self.rounds_path.open("ab") as file:
            file.truncate(len(self._whole_lines()))  # a killed run may have left half a line
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        self._checkpoint(record.round - 2).unlink(missing_ok=True)

    def records(self) -> list[RoundRecord]:
        """All committed rounds. A half-written last line is passed over: its round did not happen."""
        return [self._record(number, line) for number, line in enumerate(self._whole_lines().splitlines(), start=1)]

    def _whole_lines(self) -> bytes:
        text = self.rounds_path.read_bytes() if self.rounds_path.exists() else b""
        return text[: text.rfind(b"\n") + 1]

    def _record(self, number: int, line: bytes) -> RoundRecord:
        try:
            table = json.loads(line)
            if table["round"] != number:
                raise ValueError(f"round {table['round']} stands where round {number} belongs")
            accepted = {silo: Accepted(**values) for silo, values in table.pop("accepted").items()}
            asked, refused = tuple(table.pop("asked")), tuple((s, c) for s, c in table.pop("refused"))
            metrics = {s: {key: tuple(v) for key, v in m.items()} for s, m in table.pop("metrics").items()}
            return RoundRecord(accepted=accepted, asked=asked, refused=refused, metrics=metrics, **table)
        except (ValueError, TypeError, KeyError, AttributeError) as problem:
            raise RunError(f"{self.rounds_path}, line {number} cannot be read ({problem}); start a new run") from None

    def checkpoint(self, round_number: int) -> dict[str, Tensor]:
        path = self._checkpoint(round_number)
        if not path.exists():
            raise RunError(f"{path} is missing, so round {round_number} cannot be continued from; start a new run")
        try:
            return read_tensors(path)
        except SafetensorError as problem:
            raise RunError(f"{path} cannot be read ({problem}); start a new run") from None

    def _checkpoint(self, round_number: int) -> Path:
        return self.path / "checkpoints" / f"round-{round_number:06d}.safetensors"

    def write_result(self, result: Mapping[str, Any]) -> None:
        write_json(self.path / "result.json", result)

    def result(self) -> dict[str, Any]:
        path = self.path / "result.json"
        if not path.exists():
            raise RunError(f"{path} is missing: the run has not ended; continue it with `fedqa train --resume`")
        table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return table


def environment() -> dict[str, str]:
    """Versions that decide the bits, and the kind of machine. No names, no paths."""
    versions = {"fedqa": __version__, "python": platform.python_version(), "machine": platform.machine()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return versions
