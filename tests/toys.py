# SPDX-License-Identifier: Apache-2.0
"""A toy skill that trains in milliseconds, with every kind of parameter a real model has, and courses for it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils.rnn import pad_sequence

from fedqa.data.records import Collection, Document, Example, Span, Split
from fedqa.engines.local import InProcess
from fedqa.federation.coordinator import Coordinator, Outcome
from fedqa.federation.course import Course, SiloPlan, Stage
from fedqa.federation.engine import Engine
from fedqa.federation.messages import LossSummary, Update
from fedqa.federation.run_folder import RunFolder
from fedqa.federation.silo import Silo
from fedqa.federation.workshop import Workshop
from fedqa.files import read_tensors
from fedqa.methods import stages_of
from fedqa.methods.method import Plan
from fedqa.models.tagged import TaggedModel
from fedqa.models.text_pair import Vocabulary
from fedqa.runs import Setting, pool
from fedqa.seeds import derive
from fedqa.skills.silo_texts import Texts
from fedqa.skills.skill import no_draws
from fedqa.skills.texts import Text
from fedqa.training import Local

WIDTH = 4


class ToyModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(8, WIDTH)
        self.layer0 = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.layer1 = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = torch.tanh(self.layer0(self.words(tokens).mean(dim=1)))
        return self.head(torch.tanh(self.layer1(self.norm(hidden)))).squeeze(-1)

    @property
    def pair(self) -> "ToyPair":
        return ToyPair(self)


class ToyPair:
    """The toy's layers as an encoder (layer 0) and a decoder (norm, layer 1); words go in and out by one table."""

    vocabulary = Vocabulary(8, 0, 0, 0, *np.zeros((3, 8), dtype=bool))
    device = torch.device("cpu")

    def __init__(self, model: ToyModel) -> None:
        self._model = model

    def encode(self, ids: Tensor, mask: Tensor, *, again: bool = True) -> Tensor:
        return torch.tanh(self._model.layer0(self._model.words(ids)))

    def read(self, texts: Sequence[np.ndarray], *, again: bool = True) -> tuple[Tensor, Tensor]:
        ids = pad_sequence([torch.from_numpy(text) for text in texts], batch_first=True)
        mask = torch.arange(ids.shape[1]) < torch.tensor([len(text) for text in texts]).unsqueeze(1)
        return self.encode(ids, mask), mask

    def decode(self, ids: Tensor, memory: Tensor, memory_mask: Tensor | None) -> Tensor:
        mask = torch.ones(memory.shape[:2]) if memory_mask is None else memory_mask.float()
        read = (memory * mask.unsqueeze(-1)).sum(dim=1, keepdim=True) / mask.sum(dim=1)[:, None, None]
        return torch.tanh(self._model.layer1(self._model.norm(self._model.words(ids) + read)))

    def fill(self, states: Tensor) -> Tensor:
        return linear(states, self._model.words.weight)

    write = fill


TAGS = {
    "words": {"embeddings", "words"},
    "layer0": {"enc.0"},
    "norm": {"enc.0", "norm"},
    "layer1": {"enc.1"},
    "head": {"head"},
}


def toy_model(seed: int = 0) -> TaggedModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = ToyModel()
    tags = {name: frozenset(TAGS[name.split(".")[0]]) for name, _ in module.named_parameters()}
    return TaggedModel(module, tags)


@dataclass
class ToyFeatures:
    tokens: Tensor
    targets: Tensor

    @property
    def n_train(self) -> int:
        return len(self.targets)

    def n_batches(self, size: int) -> int:
        return -(-len(self.targets) // size)

    def questions(self, split: Split) -> tuple[str, ...]:
        return () if split == "check" else tuple(f"e{i}" for i in range(len(self.targets)))

    def epoch(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Any, int]]:
        order = torch.from_numpy(rng.permutation(len(self.targets)))
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            yield (self.tokens[chosen], self.targets[chosen]), len(chosen)


class ToySkill:
    """Predict a number from three tokens. Examples are documents' digits: 'tokens | target'."""

    name = "toy"
    higher_is_better = "fit"
    right = "fit"

    def build(self, backbone: object, seed: int) -> TaggedModel:
        return toy_model(seed)

    def prepare(self, collection: Collection, backbone: object, seed: int) -> ToyFeatures:
        rows = [document.text.split("|") for document in collection.documents]
        tokens = torch.tensor([[int(digit) for digit in left.split()] for left, _ in rows], dtype=torch.long)
        return ToyFeatures(tokens.reshape(-1, 3), torch.tensor([float(right) for _, right in rows]))

    def check_draws(self, draws: Mapping[str, Any], where: str) -> None:
        no_draws(draws, self.name, where)

    def drawn(self, model: nn.Module, features: ToyFeatures, draws: Any, received: Any) -> ToyFeatures:
        return features

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return (model(batch[0]) - batch[1]).square().mean()

    def score(self, model: nn.Module, features: ToyFeatures, split: Split) -> Mapping[str, np.ndarray]:
        with torch.no_grad():
            errors = (model(features.tokens) - features.targets).abs()
        return {"fit": torch.exp(-errors).numpy().astype(float)}


class ToySilo(Silo):
    """A silo whose secret is no secret, so that what it draws from it is the same in every run."""

    def secret(self) -> int:
        return derive(1, self.name)


def toy_collection(n: int, seed: int) -> Collection:
    """`n` examples of a silo whose mapping from tokens to target differs a little from the next silo's."""
    rng = np.random.default_rng(seed)
    slope = 1 + 0.1 * (seed % 5)
    tokens = rng.integers(0, 8, size=(n, 3))
    texts = [f"{' '.join(map(str, row))}|{slope * row.mean() - 3:.4f}" for row in tokens]
    documents = tuple(Document(f"d{i}", text) for i, text in enumerate(texts))
    examples = tuple(Example(f"e{i}", f"q{i}?", (Span(f"d{i}", 0, 1),), split="train") for i in range(n))
    return Collection(documents, examples)


SIZES = {"ash": 12, "birch": 5, "cedar": 9, "dogwood": 7}


def toy_course(method: str = "fedavg", *, sizes: Mapping[str, int] = SIZES, rounds: int = 3, **options: Any) -> Course:
    local = options.pop("local", Local(batch=4, learning_rate=0.02))
    stages = stages_of(method, Plan(rounds, local), options)
    silos = tuple(SiloPlan(name, "toy") for name in sizes)
    return Course(name="toys", method=method, seed=7, model="toy", silos=silos, stages=stages)


def with_stage(course: Course, **changes: Any) -> Course:
    """The course with its first stage changed."""
    stages: tuple[Stage, ...] = (replace(course.stages[0], **changes), *course.stages[1:])
    return replace(course, stages=stages)


def toy_data() -> dict[str, Collection]:
    """What the silos hold by default: each its own examples, as many as SIZES says."""
    return {name: toy_collection(SIZES[name], i + 1) for i, name in enumerate(SIZES)}


def toy_setting(
    course: Course, folder: Path, data: Mapping[str, Collection] | None = None, skill: ToySkill | None = None
) -> Setting:
    """Silos of a course; by default each with its own data, of the sizes in SIZES."""
    skill = skill or ToySkill()
    workshop = Workshop(course, lambda skill: skill.build(None, 3))  # type: ignore[arg-type]
    run = RunFolder(folder)
    collections = data or toy_data()
    silos = [
        ToySilo(
            name=plan.name,
            course=course,
            skill=skill,
            features=skill.prepare(collections[plan.name], None, 0),
            collection=collections[plan.name],
            workshop=workshop,
            folder=run.silo(plan.name),
            approved=frozenset({course.fingerprint}),
            texts=toy_texts(collections[plan.name]),
        )
        for plan in course.silos
    ]
    return Setting(course, None, workshop, {s.name: skill for s in silos}, silos, run)  # type: ignore[arg-type]


def toy_texts(collection: Collection) -> Texts:
    """The tokens of each example, twice over, as a text."""
    tokens = [np.array(document.text.split("|")[0].split() * 2, dtype=np.int64) for document in collection.documents]
    return Texts([Text(f"d{i}", row) for i, row in enumerate(tokens)])


def toy_run(
    course: Course, folder: Path, data: Mapping[str, Collection] | None = None, engine: Engine | None = None
) -> tuple[Coordinator, Outcome]:
    """Run a course to its end; the coordinator still holds the final weights."""
    setting = toy_setting(course, folder, data)
    coordinator = toy_coordinator(setting, engine)
    try:
        return coordinator, coordinator.run()
    finally:
        InProcess(setting.silos).close()


def toy_coordinator(setting: Setting, engine: Engine | None = None) -> Coordinator:
    """The coordinator of a setting whose course has not begun, or was broken off."""
    engine = engine or InProcess(setting.silos)
    return Coordinator(setting.course, engine, setting.folder, setting.start_of, setting.make_pool)


def toy_update(silo: str, values: Sequence[float], n_examples: int = 1, round_number: int = 1) -> Update:
    """An update as a silo would send it, with a delta given number by number."""
    return Update(
        silo=silo,
        course="toys",
        round=round_number,
        layout="toy",
        delta=torch.tensor(values),
        n_examples=n_examples,
        n_seen=n_examples,
        n_steps=1,
        loss=LossSummary(1.0, 1.0, 1.0, 1.0),
    )


def left_behind(coordinator: Coordinator) -> dict[str, Tensor]:
    """Every tensor that a run left: the coordinator's checkpoint, and all that its silos kept on disk."""
    tensors = {f"coordinator/{name}": tensor.clone() for name, tensor in coordinator._tensors().items()}
    silos = coordinator.folder.path / "silos"
    for path in sorted(silos.glob("*/state/*.safetensors")):
        place = path.relative_to(silos).with_suffix("")
        tensors |= {f"{place}/{name}": tensor for name, tensor in read_tensors(path).items()}
    return tensors


def differing(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> list[str]:
    """Names of tensors that are not the same bits, or are only on one side."""
    names = sorted(set(one) | set(other))
    return [name for name in names if name not in one or name not in other or not torch.equal(one[name], other[name])]


__all__ = [
    "SIZES",
    "ToySkill",
    "differing",
    "left_behind",
    "pool",
    "toy_collection",
    "toy_coordinator",
    "toy_course",
    "toy_data",
    "toy_model",
    "toy_run",
    "toy_setting",
    "toy_update",
    "with_stage",
]
