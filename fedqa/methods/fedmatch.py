# SPDX-License-Identifier: Apache-2.0
"""FedMatch (Chen et al. 2021): silos share a backbone, and each keeps a patch of its own beside it.

With `share = "low_rank"` the backbone stays as it was loaded, and a small shared patch, the adapter, is federated in
its place: a round then costs a few hundredths of the bytes.
"""

from dataclasses import dataclass, replace
from typing import Literal

from fedqa.errors import ConfigError
from fedqa.federation.course import Mixing, Stage
from fedqa.federation.sharing import Rates, Rule
from fedqa.methods.method import Common, Federated, Method, Plan, Weights
from fedqa.models.patches import Kind, Merge, Patch, Site

PATCH, ADAPTER = "patch", "adapter"  # the tags of what stays and of what travels


@dataclass(frozen=True)
class FedMatchOptions(Federated):
    weights: Weights = "uniform"
    patch: Kind = "low_rank"
    site: Site = "layer_parallel"
    merge: Merge = ""  # how the patch joins; the site's own where left out
    width: int = 64
    heads: int = 4  # of a pal
    patch_rate: float = 10.0  # times the learning rate: a patch starts at nothing and must catch up
    private_norms: bool = True
    private_head: bool = False
    share_layers: int | None = None  # the lowest layers that are shared, those above are private; None = all
    aggregate_every: int = 1  # epochs between two rounds; the number of epochs in all stays the same
    share: Literal["full", "low_rank"] = "full"
    adapter_width: int = 32  # of the shared patch, with share = "low_rank"
    alone_first: bool = True  # also train alone, so that the best model on dev is never worse than without the others
    blend: float = 0.5  # with alone_first: how much of the model trained alone is in the silo's own in the end

    def __post_init__(self) -> None:
        if not 0 < self.patch_rate < float("inf"):
            raise ConfigError(f"patch_rate must be above 0, got {self.patch_rate}")
        if not 0 <= self.blend < 1:
            raise ConfigError(f"blend must be a share from 0 to below 1, got {self.blend}")
        if self.aggregate_every < 1:
            raise ConfigError(f"aggregate_every must be at least 1 epoch, got {self.aggregate_every}")
        if self.share_layers is not None and self.share_layers < 0:
            raise ConfigError(f"share_layers must be 0 or more, got {self.share_layers} (leave it out to share all)")
        if self.share_layers is not None and self.share == "low_rank":
            raise ConfigError(
                'share_layers goes with share = "full": with "low_rank" no layer of the backbone is shared'
            )

    def rates(self) -> Rates:
        return ((f"{PATCH}|{ADAPTER}", self.patch_rate),)

    def sharing(self) -> Rule:
        low_rank = self.share == "low_rank"
        lines: Rule = ((PATCH, "private"),)
        if low_rank:
            lines += ((ADAPTER, "shared"),)
        if self.private_norms:
            lines += (("norm", "private"),)
        lines += (("head", "private" if self.private_head else "shared"),)
        if self.share_layers is not None:
            lines += ((f"enc.{self.share_layers}-", "private"),)
        return self.rule(*lines, rest="frozen" if low_rank else "shared")


def _patches(options: FedMatchOptions) -> tuple[Patch, ...]:
    own = Patch(
        PATCH,
        site=options.site,
        kind=options.patch,
        width=options.width,
        merge=options.merge,
        heads=options.heads,
    )
    adapter = Patch(ADAPTER, site="sublayer_parallel", width=options.adapter_width)
    return (own, adapter) if options.share == "low_rank" else (own,)


def _stages(plan: Plan, options: FedMatchOptions) -> tuple[Stage, ...]:
    federated = Stage(
        -(-plan.rounds // options.aggregate_every),
        options.sharing(),
        name="federate",
        mixing=Mixing(*options.choices()),
        participation=options.participation(),
        rates=options.rates(),
        local=replace(plan.local, epochs=plan.local.epochs * options.aggregate_every),
    )
    if not options.alone_first:
        return (federated,)
    return (alone(plan, options), replace(federated, fresh=True, blend=options.blend))


def alone(plan: Plan, options: Common) -> Stage:
    """What a silo would have without the others: no patch, nothing sent."""
    rule = options.rule((PATCH, "frozen"), (ADAPTER, "frozen"), rest="private")
    return Stage(plan.rounds, rule, name="alone", local=plan.local)


FEDMATCH = Method(
    "fedmatch", "a shared backbone, and a private patch in every silo", FedMatchOptions, _stages, _patches
)
