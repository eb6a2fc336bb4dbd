# SPDX-License-Identifier: Apache-2.0
"""Methods that give every silo a model of its own, made of the updates of silos like it.

FedAvg-ST: one course for each task, in one. PerCFL: Sattler et al. 2020, silos part when they pull in different ways.
SPFL: every silo takes of every update as much as it goes its own way.
"""

from dataclasses import dataclass

from fedqa.federation.course import Choice, Mixing, Stage
from fedqa.federation.sharing import Mode
from fedqa.methods.method import Method, Parted, Plan, Together


@dataclass(frozen=True)
class SameTaskOptions(Together):
    private_head: bool = True


@dataclass(frozen=True)
class PerCflOptions(Parted, Together):
    mean_below: float = 0.4  # the mean update, as a share of the longest, at which a group parts
    one_above: float = 0.0  # if somebody's is longer than this
    smallest: int = 2  # silos in a group


@dataclass(frozen=True)
class SpflOptions(Parted, Together):
    sharpness: float = 1.0  # above 1, those most alike count more


def _mixed_by(plan: Plan, options: Together, weigher: Choice, *lines: tuple[str, Mode]) -> tuple[Stage, ...]:
    stage = Stage(
        plan.rounds,
        options.rule(*lines),
        mixing=Mixing(weigher),
        participation=options.participation(),
        local=plan.local,
    )
    return (stage,)


def _same_task(plan: Plan, options: SameTaskOptions) -> tuple[Stage, ...]:
    return _mixed_by(plan, options, Choice("groups"), *((("head", "private"),) if options.private_head else ()))


def _percfl(plan: Plan, options: PerCflOptions) -> tuple[Stage, ...]:
    told = {"mean_below": options.mean_below, "one_above": options.one_above, "smallest": options.smallest}
    return _mixed_by(plan, options, Choice("bipartition", told))


def _spfl(plan: Plan, options: SpflOptions) -> tuple[Stage, ...]:
    return _mixed_by(plan, options, Choice("similarity", {"sharpness": options.sharpness}))


FEDAVG_ST = Method("fedavg_st", "fedavg among silos of one skill or group", SameTaskOptions, _same_task)
PERCFL = Method("percfl", "one model, until silos pull it in different ways and part", PerCflOptions, _percfl)
SPFL = Method("spfl", "every silo takes of each update as much as it goes its way", SpflOptions, _spfl)
PERSONAL = (FEDAVG_ST, PERCFL, SPFL)
