# SPDX-License-Identifier: Apache-2.0
"""The full plan of a training, as frozen records that are a TOML file and back.

A silo approves a course by its fingerprint, so everything that decides what is computed or sent stands in it, and
nothing that is a silo's own business (paths, sizes) does.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from fedqa.errors import ConfigError, unknown
from fedqa.federation.channels import CHANNELS
from fedqa.federation.combiners import COMBINERS
from fedqa.federation.server_optimisers import SERVER_OPTIMISERS
from fedqa.federation.sharing import Rates, Rule, check_rates, check_rule
from fedqa.federation.weighers import WEIGHERS
from fedqa.models.patches import Patch
from fedqa.seeds import generator
from fedqa.skills.self_supervised import TASKS
from fedqa.tables import from_table, to_table
from fedqa.training import BROUGHT, Local, Term

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
POOL = "pool"  # the coordinator's own workplace in central training; no silo may have this name


@dataclass(frozen=True)
class Choice:
    """A component by name, with its options."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Mixing:
    """Who counts how much (weigher), how updates become one (combiner), what is done with it (server optimiser)."""

    weigher: Choice = field(default_factory=lambda: Choice("size"))
    combiner: Choice = field(default_factory=lambda: Choice("mean"))
    optimiser: Choice = field(default_factory=lambda: Choice("none"))

    def __post_init__(self) -> None:
        parts: tuple[tuple[str, Choice, Mapping[str, Any]], ...] = (
            ("weigher", self.weigher, WEIGHERS),
            ("combiner", self.combiner, COMBINERS),
            ("server optimiser", self.optimiser, SERVER_OPTIMISERS),
        )
        for kind, choice, known in parts:
            if choice.name not in known:
                raise ConfigError(unknown(kind, choice.name, known, "mixing"))
            from_table(known[choice.name], choice.options, f"options of {kind} {choice.name!r}")

    @property
    def one_row(self) -> bool:
        """Whether one model comes out for all silos."""
        return WEIGHERS[self.weigher.name].one_row


@dataclass(frozen=True)
class Participation:
    """Who is asked in a round and how many must answer for it to count."""

    sample: int | None = None  # silos drawn each round; None = all
    quorum: int = 1  # accepted updates needed; below it the round changes nothing
    timeout_s: float = 3600.0

    def __post_init__(self) -> None:
        for name in ("sample", "quorum"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"participation: {name} must be at least 1, got {value}")
        if not 0 < self.timeout_s < float("inf"):
            raise ConfigError(f"participation: timeout_s must be above 0, got {self.timeout_s}")


@dataclass(frozen=True)
class Replica:
    """A second model that never leaves the silo, drawn towards the received one (Ditto)."""

    proximal_weight: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.proximal_weight < float("inf"):
            raise ConfigError(f"replica: proximal_weight must be a number from 0, got {self.proximal_weight}")


@dataclass(frozen=True)
class Assignment:
    """Rounds in which all silos work on one self-supervised task, whatever their own is; nobody's labels are used."""

    tasks: tuple[str, ...] = ("mlm", "denoise")  # in every so many rounds each comes once, in an order that is drawn
    length: int = 128  # tokens of a text

    def __post_init__(self) -> None:
        for task in self.tasks:
            if task not in TASKS:
                raise ConfigError(unknown("assigned task", task, TASKS))
        if not self.tasks:
            raise ConfigError(f"an assignment needs at least one task of {', '.join(TASKS)}")
        if self.length < 8:
            raise ConfigError(f"assignment: length must be at least 8 tokens, got {self.length}")


@dataclass(frozen=True)
class Stage:
    """A run of rounds with fixed rules."""

    rounds: int
    sharing: Rule
    name: str = "train"
    objective: tuple[Term, ...] = (Term("task"),)
    mixing: Mixing = field(default_factory=Mixing)
    participation: Participation = field(default_factory=Participation)
    local: Local = field(default_factory=Local)
    channels: tuple[str, ...] = ()
    channel_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by channel
    draws: Mapping[str, Any] = field(default_factory=dict)  # how skills draw what they train on; options of theirs
    rates: Rates = ()  # parameters that learn faster or slower than `local` says
    replica: Replica | None = None
    assign: Assignment | None = None  # what silos work on in place of their own skill
    fresh: bool = False  # it starts from the loaded model, whatever earlier stages did
    blend: float = 0.0  # how much of the model that the stage before left is in the silo's own at the end
    loss_window: int = 1  # steps whose mean is one loss of what silos tell of theirs
    loss_probe: int = 0  # training examples whose loss before and after the work they tell instead; 0 = none

    def __post_init__(self) -> None:
        where = f"stage {self.name!r}"
        if self.rounds < 1:
            raise ConfigError(f"{where} needs at least 1 round, got {self.rounds}")
        if self.loss_window < 1:
            raise ConfigError(f"{where}: loss_window must be at least 1 step, got {self.loss_window}")
        if self.loss_probe < 0:
            raise ConfigError(f"{where}: loss_probe must be 0 or more examples, got {self.loss_probe}")
        if not 0 <= self.blend < 1:
            raise ConfigError(f"{where}: blend must be a share from 0 to below 1, got {self.blend}")
        check_rule(self.sharing, where)
        check_rates(self.rates, where)
        for channel in self.channel_options:
            if channel not in self.channels:
                raise ConfigError(unknown("channel with options", channel, self.channels, where))
        for channel in self.channels:
            if channel not in CHANNELS:
                raise ConfigError(unknown("channel", channel, CHANNELS, where))
            self.options_of(channel)
            missing = [needed for needed in CHANNELS[channel].needs if needed not in self.channels]
            if missing:
                raise ConfigError(f"{where}: the channel {channel!r} needs the channel {missing[0]!r}; add it")
        for term in self.objective:
            if term.name in BROUGHT and not any(term.name in CHANNELS[name].terms for name in self.channels):
                bringing = ", ".join(name for name, channel in CHANNELS.items() if term.name in channel.terms)
                raise ConfigError(f"{where}: the objective term {term.name!r} needs the channel {bringing}")
        if any(CHANNELS[name].pools for name in self.channels) and (
            not self.mixing.one_row or self.participation.quorum > 1
        ):
            raise ConfigError(f"{where} pools all examples: it has one model and one update a round, no quorum above 1")

    @property
    def text_lengths(self) -> dict[str, int]:
        """How long, in tokens, are the texts that silos work on apart from their skills, by what works on them."""
        lengths = {name: self.options_of(name).length for name in self.channels if CHANNELS[name].reads_texts}
        return {**lengths, **({"assign": self.assign.length} if self.assign else {})}

    def options_of(self, channel: str) -> Any:
        """The options of one of the stage's channels."""
        where = f"options of channel {channel!r} in stage {self.name!r}"
        return from_table(CHANNELS[channel].options, self.channel_options.get(channel, {}), where)


@dataclass(frozen=True)
class SiloPlan:
    """A silo's part in a course: what it learns, and where it works otherwise than the stage says."""

    name: str
    skill: str = "match"
    skill_options: Mapping[str, Any] = field(default_factory=dict)
    local: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""  # for the weigher `groups`; the skill where left out

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name == POOL:
            raise ConfigError(
                f"silo name {self.name!r} cannot be used: 1 to 64 letters, digits, '_', '-', '.', and not {POOL!r}"
            )


@dataclass(frozen=True)
class Evaluation:
    """When silos are scored on dev. Test is scored once, at the end; nothing can be selected on it."""

    every: int = 1  # rounds between scorings on dev; 0 = never, neither dev nor test

    def __post_init__(self) -> None:
        if self.every < 0:
            raise ConfigError(f"evaluation: every must be 0 or more, got {self.every}")


@dataclass(frozen=True)
class Course:
    """Stages and an evaluation plan for named silos and one model."""

    name: str
    method: str
    seed: int
    model: str
    silos: tuple[SiloPlan, ...]
    stages: tuple[Stage, ...]
    evaluation: Evaluation = field(default_factory=Evaluation)
    freeze_layers: int = 0  # of the model, the lowest: never trained or sent, their output is kept
    patches: tuple[Patch, ...] = ()  # inserted into the model of every silo

    def __post_init__(self) -> None:
        names = [silo.name for silo in self.silos]
        if not names:
            raise ConfigError("a course needs at least one silo ([[silo]] in the alliance file)")
        double = sorted({name for name in names if names.count(name) > 1})
        if double:
            raise ConfigError(f"silo names must differ, {', '.join(double)} stands more than once")
        for stage in self.stages:
            self._check_participation(stage)
            for silo in self.silos:
                self.local_of(silo.name, stage)

    def _check_participation(self, stage: Stage) -> None:
        asked = stage.participation.sample or len(self.silos)
        if asked > len(self.silos):
            raise ConfigError(f"stage {stage.name!r} samples {asked} silos, but there are only {len(self.silos)}")
        if stage.participation.quorum > asked:
            quorum = stage.participation.quorum
            raise ConfigError(f"stage {stage.name!r}: a quorum of {quorum} cannot be reached, only {asked} are asked")

    @property
    def rounds(self) -> int:
        return sum(stage.rounds for stage in self.stages)

    def silo(self, name: str) -> SiloPlan:
        return next(silo for silo in self.silos if silo.name == name)

    def stage_of(self, round_number: int) -> int:
        """Index of the stage a round belongs to; rounds count from 1 over the whole course."""
        last = 0
        for index, stage in enumerate(self.stages):
            last += stage.rounds
            if 1 <= round_number <= last:
                return index
        raise ConfigError(f"round {round_number} is not in this course of {self.rounds} rounds")

    def first_round(self, stage: int) -> int:
        return 1 + sum(earlier.rounds for earlier in self.stages[: max(0, stage)])

    def assigned(self, round_number: int) -> str | None:
        """The task that all silos are assigned in a round; None where each works on its own.

        Drawn from the seed and the round: it needs no message, and whoever holds the course can draw it again.
        """
        index = self.stage_of(round_number)
        assign = self.stages[index].assign
        if assign is None:
            return None
        turn, place = divmod(round_number - self.first_round(index), len(assign.tasks))
        order = generator(self.seed, "assigned", index, turn).permutation(len(assign.tasks))
        return assign.tasks[int(order[place])]

    @property
    def needs_texts(self) -> bool:
        """Whether silos work on their texts as such, apart from their skills."""
        return any(stage.text_lengths for stage in self.stages)

    def local_of(self, silo: str, stage: Stage) -> Local:
        """The stage's local work with the silo's own changes."""
        changes = {} if silo == POOL else self.silo(silo).local
        merged = {**to_table(stage.local), **changes}
        return from_table(Local, merged, f"local settings of silo {silo!r}")

    def draws_as(self, silo: str) -> str:
        """Whose random numbers a silo uses: its own; the pool, those of the first silo by name.

        Central training of one silo is then that silo's own training, bit for bit.
        """
        return min(plan.name for plan in self.silos) if silo == POOL else silo

    @cached_property
    def fingerprint(self) -> str:
        """Of the course as a file would give it: a rate of 1 and one of 1.0 are the same course."""
        table = to_table(from_table(Course, to_table(self), "course"))
        text = json.dumps(table, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def without(self, silo: str) -> "Course":
        return replace(self, silos=tuple(plan for plan in self.silos if plan.name != silo))
