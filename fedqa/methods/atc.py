# SPDX-License-Identifier: Apache-2.0
"""ATC, Assign-Then-Contrast (Dong et al. 2022): silos whose tasks differ, or are secret, share one encoder.

*assign*: in each round all silos work on one self-supervised task; their updates are clustered, and each cluster has a
model. *contrast*: each silo works on its own task, from the model of its cluster; only the encoder travels, mixed among
the silos whose updates were nearest, and a contrastive term draws a silo towards these on a common probe set.

Beyond the paper: the probe set is made of sums that hide every silo's part, and of representations a few bytes travel.
Unlike its code, silos count by their examples, and a parameter that is no part of an assigned task does not move.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

from fedqa.errors import ConfigError
from fedqa.federation.course import Assignment, Choice, Mixing, Stage
from fedqa.federation.probe import ProbeOptions
from fedqa.federation.representations import RepresentationOptions
from fedqa.federation.sharing import Mode, Rule
from fedqa.methods.method import Method, Plan, Together
from fedqa.tables import to_table
from fedqa.training import Local, Term

FILLING: tuple[str, Mode] = ("lm_head", "frozen")  # the head that fills in words; no silo's own task trains it


@dataclass(frozen=True)
class AtcOptions(Together):
    assign: bool = True  # without: the second stage alone, from the loaded model
    contrast: bool = True  # without: the second stage is fedavg of the encoder
    alone_first: bool = False  # also train alone, so that the best model on dev is never worse than without the others
    tasks: tuple[Literal["mlm", "denoise"], ...] = ("mlm", "denoise")
    assign_rounds: int | None = None  # None = the rounds of the alliance
    assign_steps: int | None = None  # None = as the alliance says; so with the next
    assign_learning_rate: float | None = None
    text_length: int = 128  # tokens of a text in the first stage
    clusters: int = 5
    neighbours: int = 8  # silos whose updates make a silo's encoder, itself among them
    contrast_weight: float = 1.0
    count: Literal["examples", "seen"] = "examples"  # a silo's size: what it has, or what it worked on in a round
    probe: ProbeOptions = ProbeOptions()  # noqa: RUF009 - frozen
    representations: RepresentationOptions = RepresentationOptions()  # noqa: RUF009 - frozen

    def __post_init__(self) -> None:
        for key, least in (("clusters", 1), ("neighbours", 2)):
            if getattr(self, key) < least:
                raise ConfigError(f"{key} must be at least {least}, got {getattr(self, key)}")
        if self.assign_rounds is not None and self.assign_rounds < 1:
            raise ConfigError(f"assign_rounds must be at least 1, got {self.assign_rounds} (or set assign = false)")

    def encoder_only(self) -> Rule:
        """What a decoder learns would tell the task."""
        return self.rule(FILLING, ("enc", "shared"), rest="private")


def _stages(plan: Plan, options: AtcOptions) -> tuple[Stage, ...]:
    second = _contrast(plan, options) if options.contrast else _averaged(plan, options)
    stages = (_assign(plan, options), second) if options.assign else (second,)
    if not options.alone_first:
        return stages
    rounds = sum(stage.rounds for stage in stages)  # as many as with the others, or the comparison would not be fair
    alone = Stage(rounds, options.rule(FILLING, rest="private"), name="alone", local=plan.local)
    return (alone, replace(stages[0], fresh=True), *stages[1:])


def _assign(plan: Plan, options: AtcOptions) -> Stage:
    return Stage(
        options.assign_rounds or plan.rounds,
        options.rule(("head", "frozen")),
        name="assign",
        mixing=Mixing(Choice("clusters", {"n": options.clusters, "count": options.count})),
        participation=options.participation(),
        local=_local(plan.local, options),
        assign=Assignment(options.tasks, options.text_length),
    )


def _local(local: Local, options: AtcOptions) -> Local:
    given: dict[str, Any] = {"steps": options.assign_steps, "learning_rate": options.assign_learning_rate}
    return replace(local, **{key: value for key, value in given.items() if value is not None})


def _averaged(plan: Plan, options: AtcOptions) -> Stage:
    rule = options.encoder_only()
    return Stage(plan.rounds, rule, name="own", participation=options.participation(), local=plan.local)


def _contrast(plan: Plan, options: AtcOptions) -> Stage:
    return replace(
        _averaged(plan, options),
        name="contrast",
        objective=(Term("task"), Term("contrast", options.contrast_weight)),
        mixing=Mixing(Choice("nearest", {"k": options.neighbours - 1, "count": options.count})),
        channels=("probe", "representations"),
        channel_options={"probe": to_table(options.probe), "representations": to_table(options.representations)},
    )


ATC = Method(
    "atc",
    "silos of different tasks: assigned tasks first, then their own with an encoder in common",
    AtcOptions,
    _stages,
)
