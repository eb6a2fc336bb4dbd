# SPDX-License-Identifier: Apache-2.0
"""FedQAS (Ait-Mlouk et al. 2022): silos learn to read together by a mean of their weights, by size.

The paper prints a step that damps round t by 1/t, the framework it used has none; here it is a key. So are what the
paper leaves for later: a proximal term, an optimiser at the coordinator, a head of the silo's own.
"""

from dataclasses import dataclass, replace
from typing import Literal

from fedqa.errors import ConfigError
from fedqa.federation.course import Choice, Mixing, Stage
from fedqa.federation.sharing import Rule
from fedqa.methods.method import Federated, Method, Plan
from fedqa.training import Term


@dataclass(frozen=True)
class FedQASOptions(Federated):
    server: Literal["none", "damped", "sgd", "adam", "yogi"] = "none"  # what the coordinator does with the mean
    proximal_weight: float = 0.0  # how strongly silos are held near the received weights
    private_head: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.proximal_weight < float("inf"):
            raise ConfigError(f"proximal_weight must be a number from 0, got {self.proximal_weight}")

    def sharing(self) -> Rule:
        return self.rule(*((("head", "private"),) if self.private_head else ()))


def _stages(plan: Plan, options: FedQASOptions) -> tuple[Stage, ...]:
    stage = Stage(
        plan.rounds,
        options.sharing(),
        mixing=Mixing(*options.choices(), Choice(options.server)),
        participation=options.participation(),
        local=plan.local,
    )
    if options.proximal_weight:
        stage = replace(stage, objective=(Term("task"), Term("prox", options.proximal_weight)))
    return (stage,)


FEDQAS = Method("fedqas", "everything shared and averaged by size, as readers learn together", FedQASOptions, _stages)
