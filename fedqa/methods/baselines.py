# SPDX-License-Identifier: Apache-2.0
"""The methods everything else is measured against, each a course of a few lines.

FedAvg: McMahan et al. 2017. FedProx: Li et al. 2020. FedOpt: Reddi et al. 2021. FedBN: Li et al. 2021. FedPer:
Arivazhagan et al. 2019. LG-FedAvg: Liang et al. 2020. Ditto: Li et al. 2021.
"""

from dataclasses import dataclass, replace
from typing import Literal

from fedqa.federation.course import Choice, Mixing, Replica, Stage
from fedqa.federation.sharing import Mode
from fedqa.methods.method import Common, Federated, Method, Parted, Plan
from fedqa.training import Term


@dataclass(frozen=True)
class NoOptions:
    """Nothing to choose."""


@dataclass(frozen=True)
class Plain(Parted, Federated):
    """Options of the methods with one model, shared whole or in part."""


@dataclass(frozen=True)
class FedProxOptions(Plain):
    proximal_weight: float = 0.01


@dataclass(frozen=True)
class FedOptOptions(Plain):
    optimiser: Literal["sgd", "adam", "yogi", "damped"] = "sgd"
    server_learning_rate: float | None = None  # None = the optimiser's own

    def server(self) -> Choice:
        if self.server_learning_rate is None or self.optimiser == "damped":
            return Choice(self.optimiser)
        return Choice(self.optimiser, {"learning_rate": self.server_learning_rate})


@dataclass(frozen=True)
class DittoOptions(Plain):
    proximal_weight: float = 0.1


def _zero_shot(plan: Plan, options: NoOptions) -> tuple[Stage, ...]:
    return ()


def _isolated(plan: Plan, options: Common) -> tuple[Stage, ...]:
    return (Stage(plan.rounds, options.rule(("*", "private")), local=plan.local),)


def _central(plan: Plan, options: Common) -> tuple[Stage, ...]:
    return (Stage(plan.rounds, options.rule(), local=plan.local, channels=("examples",)),)


def _federated(plan: Plan, options: Plain, *lines: tuple[str, Mode]) -> Stage:
    return Stage(
        plan.rounds,
        options.rule(*lines),
        mixing=Mixing(*options.choices()),
        participation=options.participation(),
        local=plan.local,
    )


def _fedavg(plan: Plan, options: Plain) -> tuple[Stage, ...]:
    return (_federated(plan, options),)


def _fedprox(plan: Plan, options: FedProxOptions) -> tuple[Stage, ...]:
    objective = (Term("task"), Term("prox", options.proximal_weight))
    return (replace(_federated(plan, options), objective=objective),)


def _fedopt(plan: Plan, options: FedOptOptions) -> tuple[Stage, ...]:
    return (replace(_federated(plan, options), mixing=Mixing(*options.choices(), options.server())),)


def _fedbn(plan: Plan, options: Plain) -> tuple[Stage, ...]:
    return (_federated(plan, options, ("norm", "private")),)


def _fedper(plan: Plan, options: Plain) -> tuple[Stage, ...]:
    return (_federated(plan, options, ("head", "private")),)


def _lg_fedavg(plan: Plan, options: Plain) -> tuple[Stage, ...]:
    return (_federated(plan, options, ("!head", "private")),)


def _ditto(plan: Plan, options: DittoOptions) -> tuple[Stage, ...]:
    return (replace(_federated(plan, options), replica=Replica(options.proximal_weight)),)


BASELINES = (
    Method("zero_shot", "the model as it is loaded, untrained", NoOptions, _zero_shot),
    Method("isolated", "every silo alone, nothing shared", Common, _isolated),
    Method("central", "all examples pooled at the coordinator: the bound nobody may reach", Common, _central),
    Method("fedavg", "everything shared and averaged", Plain, _fedavg),
    Method("fedprox", "fedavg, silos held near the received weights", FedProxOptions, _fedprox),
    Method("fedopt", "fedavg with an optimiser at the coordinator", FedOptOptions, _fedopt),
    Method("fedbn", "normalisation layers private, the rest shared", Plain, _fedbn),
    Method("fedper", "head private, the rest shared", Plain, _fedper),
    Method("lg_fedavg", "head shared, the rest private", Plain, _lg_fedavg),
    Method("ditto", "fedavg, and a second model per silo drawn towards it", DittoOptions, _ditto),
)
