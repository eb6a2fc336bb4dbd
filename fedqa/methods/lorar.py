# SPDX-License-Identifier: Apache-2.0
"""Lorar (Zhang et al. 2023): a silo counts by its examples times how far its loss fell in the round.

Silos whose data are few or unlike the others' are outvoted when only sizes count. What a silo says of its losses cannot
be checked, so its weight is bounded (`cap_factor`); the published method has no bound.
"""

from dataclasses import dataclass, replace
from typing import Literal

from fedqa.errors import ConfigError
from fedqa.federation.course import Choice, Mixing, Stage
from fedqa.federation.sharing import Rule
from fedqa.methods.method import Federated, Method, Plan, Weights
from fedqa.models.patches import Patch, Site
from fedqa.training import Term

PATCH = "patch"


@dataclass(frozen=True)
class LorarOptions(Federated):
    weights: Weights = "lorar"
    algorithm: Literal["fedavg", "fedprox", "fedopt"] = "fedopt"
    estimator: Literal["max_min", "first_last"] = "max_min"  # how far a loss fell
    window: int = 4  # steps whose mean loss counts as one: single batches are noise
    probe: int = 0  # or: training examples whose loss is measured before and after a round, where its steps are few
    relative: bool = False  # to the loss it fell from
    cap_factor: float = 3.0
    proximal_weight: float = 1e-4  # of fedprox
    server_learning_rate: float = 1.0  # of fedopt
    momentum: float = 0.9  # of fedopt
    own_rounds: int = 0  # of all rounds the last, in which each silo goes on by itself
    own_learning_rate: float | None = None  # in these; None = as the alliance says
    private_head: bool = False
    patch: Literal["", "low_rank", "pal"] = ""  # a private patch in the encoder, none where left out
    site: Site = "layer_parallel"
    width: int = 64
    patch_rate: float = 10.0  # times the learning rate: a patch starts at nothing and must catch up

    def __post_init__(self) -> None:
        if not 0 < self.patch_rate < float("inf"):
            raise ConfigError(f"patch_rate must be above 0, got {self.patch_rate}")

    def sharing(self) -> Rule:
        own: Rule = ((PATCH, "private"),) if self.patch else ()
        if self.private_head:
            own += (("head", "private"),)
        return self.rule(*own)

    def mixing(self) -> Mixing:
        weigher, combiner = self.choices()
        if self.weights in ("lorar", "loss_reduction"):
            told = {"estimator": self.estimator, "relative": self.relative, "cap_factor": self.cap_factor}
            weigher = Choice(self.weights, told)
        if self.algorithm != "fedopt":
            return Mixing(weigher, combiner)
        return Mixing(
            weigher, combiner, Choice("sgd", {"learning_rate": self.server_learning_rate, "momentum": self.momentum})
        )


def _stages(plan: Plan, options: LorarOptions) -> tuple[Stage, ...]:
    if not 0 <= options.own_rounds < plan.rounds:
        raise ConfigError(f"own_rounds must be from 0 to below the {plan.rounds} rounds, got {options.own_rounds}")
    stage = Stage(
        plan.rounds - options.own_rounds,
        options.sharing(),
        mixing=options.mixing(),
        participation=options.participation(),
        rates=((PATCH, options.patch_rate),) if options.patch else (),
        local=plan.local,
        loss_window=options.window,
        loss_probe=options.probe,
    )
    if options.algorithm == "fedprox":
        stage = replace(stage, objective=(Term("task"), Term("prox", options.proximal_weight)))
    if not options.own_rounds:
        return (stage,)
    local = plan.local
    if options.own_learning_rate is not None:
        local = replace(local, learning_rate=options.own_learning_rate)
    own = Stage(options.own_rounds, options.rule(rest="private"), name="own", rates=stage.rates, local=local)
    return (replace(stage, name="together"), own)


def _patches(options: LorarOptions) -> tuple[Patch, ...]:
    if not options.patch:
        return ()
    return (Patch(PATCH, site=options.site, kind=options.patch, width=options.width),)


LORAR = Method(
    "lorar", "everything shared; a silo counts by its size and how far its loss fell", LorarOptions, _stages, _patches
)
