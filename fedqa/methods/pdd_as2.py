# SPDX-License-Identifier: Apache-2.0
"""PDD-AS2 (Wang 2023): silos learn together to find answer sentences, then each fits its own question encoder.

Three stages. *warm*: both towers shared, negatives by keywords and from other questions. *hard*: the same with
negatives that the model as it is now takes for answers, looked for anew each round. *customise*: the sentence tower
stays as it is, and each silo trains its question tower alone, against the hardest negatives of its own and, with
`fed_negative`, of the others.
"""

from dataclasses import dataclass, replace
from typing import Literal

from fedqa.errors import ConfigError
from fedqa.federation.course import Mixing, Stage
from fedqa.federation.fed_negative import FedNegativeOptions
from fedqa.methods.method import Common, Federated, Method, Plan
from fedqa.tables import to_table

SENTENCE = "tower.sentence"


@dataclass(frozen=True)
class PddAs2Options(Federated):
    warm_rounds: int = 2
    hard_rounds: int | None = None  # None = the rounds of the alliance
    customise_rounds: int = 2
    negatives: int = 8  # for each question, in the shared stages
    pool: int = 300  # hard negatives are drawn from this many: the nearest of all may answer as well
    customise_negatives: int = 200
    customise_with: Literal["fed_negative", "own"] = "fed_negative"
    fed_negative: FedNegativeOptions = FedNegativeOptions()  # noqa: RUF009 - frozen
    fed_negative_in_hard: bool = False  # also while the towers still move

    def __post_init__(self) -> None:
        for key, least in (("warm_rounds", 0), ("customise_rounds", 0), ("negatives", 1), ("customise_negatives", 1)):
            if getattr(self, key) < least:
                raise ConfigError(f"{key} must be at least {least}, got {getattr(self, key)}")
        if self.hard_rounds is not None and self.hard_rounds < 0:
            raise ConfigError(f"hard_rounds must be at least 0, got {self.hard_rounds}")
        if self.pool < self.negatives:
            raise ConfigError(f"pool must be at least negatives = {self.negatives}, got {self.pool}")


def _stages(plan: Plan, options: PddAs2Options) -> tuple[Stage, ...]:
    hard = plan.rounds if options.hard_rounds is None else options.hard_rounds
    found = (
        (options.warm_rounds, _warm(plan, options)),
        (hard, _hard(plan, options)),
        (options.customise_rounds, _customise(plan, options)),
    )
    stages = tuple(replace(stage, rounds=rounds) for rounds, stage in found if rounds)
    if not stages:
        raise ConfigError("pdd_as2 has no rounds at all; give warm_rounds, hard_rounds or customise_rounds")
    return stages


def _warm(plan: Plan, options: PddAs2Options) -> Stage:
    return Stage(
        1,
        options.rule(),
        name="warm",
        mixing=Mixing(*options.choices()),
        participation=options.participation(),
        local=plan.local,
        draws={"sources": ["bm25", "gold"], "count": options.negatives},
    )


def _hard(plan: Plan, options: PddAs2Options) -> Stage:
    sources = ["index", "fed"] if options.fed_negative_in_hard else ["index"]
    draws = {"sources": sources, "count": options.negatives, "pool": options.pool}
    stage = replace(_warm(plan, options), name="hard", draws=draws)
    return _exchanging(stage, options) if options.fed_negative_in_hard else stage


def _customise(plan: Plan, options: PddAs2Options) -> Stage:
    """Nothing is mixed any more. The sentence tower is the same in every silo, so that vectors can be compared."""
    rule = options.rule((SENTENCE, "frozen"), rest="private")
    shares = options.customise_with == "fed_negative"
    draws = {"sources": ["dynamic", "fed"] if shares else ["dynamic"], "count": options.customise_negatives}
    stage = Stage(1, rule, name="customise", participation=options.participation(), local=plan.local, draws=draws)
    return _exchanging(stage, options) if shares else stage


def _exchanging(stage: Stage, options: PddAs2Options) -> Stage:
    return replace(stage, channels=("fed_negative",), channel_options={"fed_negative": to_table(options.fed_negative)})


@dataclass(frozen=True)
class DenseOptions(Common):
    negatives_from: Literal["random", "bm25", "index"] = "index"
    negatives: int = 8
    pool: int = 300
    warm_rounds: int = 2  # by keywords, before the model looks for its own ("index" alone)
    pooled: bool = False  # all examples at the coordinator: the bound nobody may reach

    def draws(self, source: str) -> dict[str, object]:
        return {"sources": [source], "count": self.negatives, "pool": self.pool}


def _dense(plan: Plan, options: DenseOptions) -> tuple[Stage, ...]:
    main = Stage(
        plan.rounds,
        options.rule(rest="shared" if options.pooled else "private"),
        local=plan.local,
        channels=("examples",) if options.pooled else (),
        draws=options.draws(options.negatives_from),
    )
    if options.negatives_from != "index" or not options.warm_rounds:
        return (main,)
    return (replace(main, rounds=options.warm_rounds, name="warm", draws=options.draws("bm25")), main)


PDD_AS2 = Method(
    "pdd_as2", "find answer sentences: shared towers, then each silo's own question encoder", PddAs2Options, _stages
)
DENSE = Method("dense", "find answer sentences, every silo alone (STAR by default)", DenseOptions, _dense)
