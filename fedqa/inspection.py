# SPDX-License-Identifier: Apache-2.0
"""What a course would make leave each silo, before anything does: only the model is built, no data are read."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from fedqa.federation import wire
from fedqa.federation.channels import CHANNELS
from fedqa.federation.course import Course, Stage
from fedqa.federation.messages import Finish, LossSummary, Train, Update
from fedqa.federation.run_folder import RunFolder
from fedqa.federation.sharing import MODES, Mode
from fedqa.models.flat import FlatModel
from fedqa.models.layout import Layout
from fedqa.models.tagged import Tags
from fedqa.runs import Setting, skills_of, workplace

_GROUPS = ("words", "embeddings", "patch", "adapter", "norm", "pooler", "head", "lm_head")  # looked for in this order


@dataclass(frozen=True)
class Part:
    """Parameters of one kind that are treated alike."""

    skill: str
    group: str  # a tag: words, embeddings, norm, enc.0, head …
    mode: Mode
    parameters: int


@dataclass(frozen=True)
class StagePreview:
    """One stage: bytes are those of one silo in one round, as the messages will have them (scores aside)."""

    name: str
    rounds: int
    asked: int  # silos in a round
    parts: tuple[Part, ...]
    bytes_up: int
    bytes_down: int
    channels: tuple[tuple[str, str], ...]  # name and summary
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Preview:
    """The whole course; totals are of all silos and rounds, without what channels carry."""

    name: str
    method: str
    model: str
    fingerprint: str
    silos: tuple[str, ...]
    rounds: int
    stages: tuple[StagePreview, ...]
    bytes_up: int
    bytes_down: int


def preview(course: Course) -> Preview:
    backbone, workshop = workplace(course)
    setting = Setting(course, backbone, workshop, skills_of(course), [], RunFolder(Path()))
    stages, finish = [], 0
    pooled = False
    for index, stage in enumerate(course.stages):
        # From a pooling stage on the coordinator trains, and asks nobody.
        pooled = pooled or any(CHANNELS[name].pools for name in stage.channels)
        layout = setting.start_of(index).layout
        stages.append(_stage(setting, index, stage, layout, pooled=pooled))
        finish += len(course.silos) * wire.size(Finish(course.fingerprint, index, torch.zeros(layout.n_received)))
    return Preview(
        name=course.name,
        method=course.method,
        model=course.model,
        fingerprint=course.fingerprint,
        silos=tuple(plan.name for plan in course.silos),
        rounds=course.rounds,
        stages=tuple(stages),
        bytes_up=sum(stage.rounds * stage.asked * stage.bytes_up for stage in stages),
        bytes_down=sum(stage.rounds * stage.asked * stage.bytes_down for stage in stages) + finish,
    )


def _stage(setting: Setting, index: int, stage: Stage, layout: Layout, *, pooled: bool) -> StagePreview:
    course = setting.course
    train = Train(course.fingerprint, course.rounds, torch.zeros(layout.n_received))
    parts = tuple(_all_parts(setting, index))
    return StagePreview(
        name=stage.name,
        rounds=stage.rounds,
        asked=0 if pooled else stage.participation.sample or len(course.silos),
        parts=parts,
        bytes_up=0 if pooled else wire.size(_empty_update(course, layout)),
        bytes_down=0 if pooled else wire.size(train),
        channels=tuple((name, CHANNELS[name].summary) for name in stage.channels),
        warnings=tuple(_warnings(stage, parts)),
    )


def _empty_update(course: Course, layout: Layout) -> Update:
    """As large as a silo's real one, but for the scores in it and the digits of its numbers."""
    name = max((plan.name for plan in course.silos), key=len)
    return Update(
        silo=name,
        course=course.fingerprint,
        round=course.rounds,
        layout=layout.fingerprint,
        delta=torch.zeros(layout.n_shared),
        n_examples=1,
        n_seen=1,
        n_steps=1,
        loss=LossSummary(0.0, 0.0, 0.0, 0.0),
    )


def _all_parts(setting: Setting, stage: int) -> Iterator[Part]:
    for skill in dict.fromkeys(setting.skills.values()):
        yield from _parts(skill.name, setting.workshop.bench(skill, stage).model)


def _parts(skill: str, model: FlatModel) -> Iterator[Part]:
    sizes: Counter[tuple[str, Mode]] = Counter()
    for mode in MODES:
        for entry in getattr(model.layout, mode):
            sizes[group_of(model.model.tags[entry.name]), mode] += entry.size
    for (group, mode), size in sorted(sizes.items(), key=lambda item: _place(item[0][0])):
        yield Part(skill, group, mode, size)


def group_of(tags: Tags) -> str:
    """The one tag that a parameter is shown under."""
    layers = sorted(tag for tag in tags if tag.startswith(("enc.", "dec.", "tower.")))
    return next((group for group in _GROUPS if group in tags), layers[0] if layers else "other")


def _place(group: str) -> tuple[int, str, int]:
    """Embeddings first, then the layers by number, then the rest."""
    stack, _, number = group.partition(".")
    if number.isdigit():
        return 1, stack, int(number)
    return (0, "", _GROUPS.index(group)) if group in ("words", "embeddings") else (2, group, 0)


def _warnings(stage: Stage, parts: tuple[Part, ...]) -> Iterator[str]:
    modes = {part.mode for part in parts if part.group == "words"}
    if "shared" in modes:
        yield (
            "The word embeddings are trained and sent: one update gives the silo's vocabulary away. "
            "Freeze them unless all silos may know each other's words."
        )
    if "private" in modes:
        yield (
            "The word embeddings are trained in the silo: they are not sent, but whoever gets its exported model can "
            "read its vocabulary off them."
        )
    if "probe" in stage.channels and not stage.options_of("probe").guarded:
        yield (
            "The probe set is made of few texts of a silo, in their order or without noise: what all silos learn of it "
            "may give whole sentences of one silo away. Leave probe.texts, shuffled and noise as they are by default."
        )
    if "examples" in stage.channels:
        yield (
            "The channel 'examples' is open: every silo sends all its documents and examples, in clear, to the "
            "coordinator. That is pooling, not federated training."
        )
    if "covered_examples" in stage.channels:
        yield (
            "The channel 'covered_examples' is open: every silo sends all its documents in clear, and its training "
            "questions among invented ones, to the coordinator. That is pooling, not federated training."
        )
