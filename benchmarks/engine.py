# SPDX-License-Identifier: Apache-2.0
"""What a round of fedqa costs beside a bare PyTorch loop that does the same arithmetic and nothing else.

The workload: a BERT of 2 layers (hidden 128, 4.39 M parameters, all shared and trained) with a 2-class head, sequences
of 64, batches of 16, fresh fused AdamW per silo and round, size-weighted averaging, 3 rounds. W has 20 silos of very
different sizes, W100 a hundred silos of two batches. Both programs run on one thread in a process of their own, by
turns, so that the noise of the machine falls on both; the ratio is of CPU seconds. Final weights must agree.
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from fedqa.data.records import Collection, Split
from fedqa.engines.local import InProcess
from fedqa.federation.coordinator import Coordinator
from fedqa.federation.course import Course, Evaluation, SiloPlan, Stage
from fedqa.federation.engine import Silent
from fedqa.federation.run_folder import RoundRecord, RunFolder
from fedqa.federation.silo import Silo
from fedqa.federation.workshop import Workshop
from fedqa.models.tagged import TaggedModel
from fedqa.runs import Setting
from fedqa.skills.skill import no_draws
from fedqa.training import Local

WORKLOADS = {
    "W": (2, 30, 2, 3, 4, 2, 12, 3, 5, 2, 8, 3, 2, 18, 4, 2, 6, 3, 2, 4),
    "W100": (2,) * 100,
}
LIMITS = {"W": 1.05, "W100": 1.15}
ROUNDS, BATCH, LENGTH, VOCABULARY, RATE = 3, 16, 64, 30522, 5e-4


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        config = BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=512,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        self.encoder = BertModel(config)  # type: ignore[no-untyped-call]
        self.head = nn.Linear(128, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.encoder(tokens).pooler_output)
        return logits


def make_model() -> Classifier:
    torch.manual_seed(0)
    return Classifier()


@dataclass
class Batches:
    """A silo's batches in fixed order: Zipf-distributed tokens, random labels."""

    tokens: Tensor  # [n, BATCH, LENGTH]
    labels: Tensor  # [n, BATCH]

    @property
    def n_train(self) -> int:
        return self.labels.numel()

    def questions(self, split: Split) -> tuple[str, ...]:
        return ()  # nothing is scored

    def n_batches(self, size: int) -> int:
        return len(self.labels)

    def epoch(self, size: int, rng: np.random.Generator | None = None) -> Iterator[tuple[Any, int]]:
        for tokens, labels in zip(self.tokens, self.labels, strict=True):
            yield (tokens, labels), len(labels)


def make_batches(workload: str) -> list[Batches]:
    rng = np.random.default_rng(0)
    silos = []
    for n in WORKLOADS[workload]:
        tokens = np.minimum(rng.zipf(1.3, size=(n, BATCH, LENGTH)) + 999, VOCABULARY - 1)
        labels = rng.integers(0, 2, size=(n, BATCH))
        silos.append(Batches(torch.from_numpy(tokens), torch.from_numpy(labels)))
    return silos


class ClassifySkill:
    name = "workload"
    higher_is_better = "accuracy"

    def build(self, backbone: object, seed: int) -> TaggedModel:
        module = make_model()
        return TaggedModel(module, {name: frozenset({"other"}) for name, _ in module.named_parameters()})

    def prepare(self, collection: Collection, backbone: object, seed: int) -> Batches:
        raise NotImplementedError("the workload's batches are made, not read")

    def check_draws(self, draws: Mapping[str, Any], where: str) -> None:
        no_draws(draws, self.name, where)

    def drawn(self, model: nn.Module, features: Batches, draws: Any, received: Any) -> Batches:
        return features

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    def score(self, model: nn.Module, features: Any, split: Split) -> Mapping[str, np.ndarray]:
        return {}


def run_bare(workload: str) -> tuple[list[float], Tensor]:
    """The loop somebody would write by hand."""
    silos, model = make_batches(workload), make_model()
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    seconds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        total = {name: torch.zeros_like(value) for name, value in weights.items()}
        examples = sum(silo.n_train for silo in silos)
        for silo in silos:
            model.load_state_dict(weights)
            optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)
            for (tokens, labels), _ in silo.epoch(BATCH):
                loss = nn.functional.cross_entropy(model(tokens), labels)
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                optimiser.zero_grad()
            for name, value in model.state_dict().items():
                total[name].add_(value, alpha=silo.n_train / examples)
        weights = total
        seconds.append(time.process_time() - began)
    model.load_state_dict(weights)
    return seconds, torch.cat([p.detach().reshape(-1) for p in model.parameters()])


class Clock(Silent):
    """CPU seconds of each round, everything the coordinator does included."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._began = time.process_time()

    def round_ends(self, record: RoundRecord) -> None:
        now = time.process_time()
        self.seconds.append(now - self._began)
        self._began = now


def run_fedqa(workload: str) -> tuple[list[float], Tensor]:
    """The same through a coordinator, silos, guard, ledgers and a run folder."""
    batches, skill = make_batches(workload), ClassifySkill()
    local = Local(batch=BATCH, learning_rate=RATE, clip=0.0)
    names = [f"silo-{i:03d}" for i in range(len(batches))]
    course = Course(
        name=workload,
        method="fedavg",
        seed=0,
        model="workload",
        silos=tuple(SiloPlan(name, "workload") for name in names),
        stages=(Stage(ROUNDS, (("*", "shared"),), local=local),),
        evaluation=Evaluation(every=0),
    )
    with tempfile.TemporaryDirectory() as temporary:
        setting = _setting(course, skill, dict(zip(names, batches, strict=True)), Path(temporary))
        setting.start_of(0)  # builds the model, which is no part of a round
        clock = Clock()
        engine = InProcess(setting.silos)
        coordinator = Coordinator(course, engine, setting.folder, setting.start_of, watcher=clock)
        coordinator.run()
        final = setting.folder.checkpoint(ROUNDS)["weights/*"]
    return clock.seconds, final


def _setting(course: Course, skill: Any, batches: Mapping[str, Batches], folder: Path) -> Setting:
    workshop = Workshop(course, lambda skill: skill.build(None, 0))  # type: ignore[arg-type]
    run, approved = RunFolder(folder), frozenset({course.fingerprint})
    empty = Collection((), ())
    silos = [
        Silo(name, course, skill, features, empty, workshop, run.silo(name), approved)
        for name, features in batches.items()
    ]
    return Setting(course, None, workshop, dict.fromkeys(batches, skill), silos, run)  # type: ignore[arg-type]


PROGRAMS = {"bare": run_bare, "fedqa": run_fedqa}


def child(program: str, workload: str, weights_file: str) -> None:
    """One measurement in this process; prints a line of JSON."""
    torch.set_num_threads(1)
    seconds, weights = PROGRAMS[program](workload)
    np.save(weights_file, weights.numpy())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "peak_mb": peak}))


def measure(program: str, workload: str, folder: Path) -> tuple[dict[str, Any], np.ndarray]:
    file = folder / f"{program}.npy"
    command = [sys.executable, "-m", "benchmarks.engine", program, workload, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result, np.load(file)


def compare(workload: str, repeats: int) -> dict[str, float]:
    ratios, cpu, peaks, apart = [], {"bare": [], "fedqa": []}, {"bare": 0.0, "fedqa": 0.0}, 0.0  # type: ignore[var-annotated]
    with tempfile.TemporaryDirectory() as temporary:
        for turn in range(repeats):
            found = {}
            for program in ("bare", "fedqa") if turn % 2 == 0 else ("fedqa", "bare"):
                result, found[program] = measure(program, workload, Path(temporary))
                cpu[program].append(statistics.mean(result["seconds"]))
                peaks[program] = max(peaks[program], result["peak_mb"])
            ratios.append(cpu["fedqa"][-1] / cpu["bare"][-1])
            difference = np.linalg.norm(found["fedqa"] - found["bare"]) / np.linalg.norm(found["bare"])
            apart = max(apart, float(difference))
    return {
        "bare_s": statistics.median(cpu["bare"]),
        "fedqa_s": statistics.median(cpu["fedqa"]),
        "ratio": statistics.median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
        "bare_mb": peaks["bare"],
        "fedqa_mb": peaks["fedqa"],
        "apart": apart,
    }


def main(quick: bool = False) -> None:
    console = Console()
    table = Table(title="A round of fedqa beside a bare PyTorch loop: one thread, CPU seconds a round", box=SIMPLE)
    for column in ("silos", "bare", "fedqa", "ratio", "turns", "limit", "peak MB", "apart"):
        table.add_column(column, justify="right", no_wrap=True)
    for workload, sizes in WORKLOADS.items():
        with console.status(f"measuring {workload}, both programs by turns"):
            found = compare(workload, repeats=1 if quick else 3)
        table.add_row(
            str(len(sizes)),
            f"{found['bare_s']:.2f}",
            f"{found['fedqa_s']:.2f}",
            f"{found['ratio']:.3f}",
            f"{found['lowest']:.2f}-{found['highest']:.2f}",
            f"{LIMITS[workload]:.2f}",
            f"{found['bare_mb']:.0f}/{found['fedqa_mb']:.0f}",
            f"{found['apart']:.0e}",
        )
    console.print(table)
    console.print("ratio: median over the turns. apart: relative difference of the final weights, at most 1e-4.")


if __name__ == "__main__":
    child(*sys.argv[1:4])
