# SPDX-License-Identifier: Apache-2.0
"""Figures 4 to 6 of the Lorar study: losses by silo, dev scores by round, and the weights behind them.

The published figures have no numbers, so what the paper says of them stands in the captions.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from benchmarks.lorar_report.arms import BEST, CENTRAL, EQUAL, ONLY_LOSS, Findings
from benchmarks.lorar_report.rounds import Round, Rounds
from benchmarks.study.charts import Curve, line_chart
from benchmarks.study.page import Cell, Grid, Note, Row, Section
from fedqa.evaluation.charts import Chart, Look
from fedqa.evaluation.run_scores import Estimate
from fedqa.evaluation.words import DASH, percent

Watched = Mapping[str, Sequence[Rounds]]  # arm -> of every seed
LOSSES: Mapping[str, Look] = {"FedOPT": "received", BEST: "personal"}
METHODS: Mapping[str, Look] = {CENTRAL: "quiet", "FedOPT": "received", BEST: "personal", "FedAvg": "best"}
WEIGHTINGS: Mapping[str, Look] = {"FedOPT": "received", BEST: "personal", ONLY_LOSS: "best", EQUAL: "strong"}
WEIGHED = (*WEIGHTINGS, f"{BEST}, bounded")
BANDS = "Means of seeds; the bands reach from the lowest to the highest."
WEIGHTS_EXPLAINED = "Means of rounds and seeds. By size alone they are the same in every round."


def curve_sections(found: Findings) -> list[Section]:
    watched = _watched(found)
    return [*_losses(found, watched), *_scores(watched), *_weights(found, watched)]


def _watched(found: Findings) -> Watched:
    return {
        arm: [rounds for outcome in of.values() if (rounds := Rounds.of(outcome)).rounds]
        for arm, of in found.results.by_arm.items()
    }


# -- figure 4 ----------------------------------------------------------------------------------------------------


def _losses(found: Findings, watched: Watched) -> list[Section]:
    shown = _shown(watched, LOSSES)
    if not shown:
        return []
    panels = {silo: [_loss_curve(arm, silo, watched[arm]) for arm in shown] for silo in found.results.silos}
    rounds = max(len(one.rounds) for arm in shown for one in watched[arm])
    chart = line_chart(
        "losses",
        panels,
        caption="Loss of the same training examples when a round begins: what the others' changes have left of a "
        f"silo's own progress. {BANDS} The paper: small silos swing under FedOPT; with Lorar almost all fall faster.",
        x="round",
        y="loss",
        ticks=[str(n) if _ticked(n, rounds) else "" for n in range(1, rounds + 1)],
    )
    return [Section("losses", "Figure 4: losses", [chart], short="Losses")]


def _ticked(n: int, last: int) -> bool:
    return n in (1, last) or (n % 5 == 0 and last - n > 2)  # the last one has room


def _loss_curve(arm: str, silo: str, seeds: Sequence[Rounds]) -> Curve:
    rounds = range(min(len(one.rounds) for one in seeds))
    return Curve(arm, LOSSES[arm], [(i, _estimate([one.rounds[i].losses[silo] for one in seeds])) for i in rounds])


# -- figures 5 and 6 ---------------------------------------------------------------------------------------------


def _scores(watched: Watched) -> list[Section]:
    methods = _scores_chart("methods-by-round", watched, METHODS, "The paper: FedOPT is the best of the plain ones.")
    weights = _scores_chart("weightings-by-round", watched, WEIGHTINGS, "The paper: Lorar is best throughout.")
    drawn = [chart for chart in (methods, weights) if chart]
    return [Section("rounds", "Figures 5 and 6: scores by round", drawn, short="Rounds")] if drawn else []


def _scores_chart(name: str, watched: Watched, looks: Mapping[str, Look], paper: str) -> Chart | None:
    shown = _shown(watched, looks)
    numbers = sorted({number for arm in shown for one in watched[arm] for number in one.scored()})
    if len(numbers) < 2:
        return None
    kinds: Mapping[str, Callable[[Round], float]] = {"mean of silos": _macro, "all questions": _micro}
    panels = {
        title: [Curve(arm, looks[arm], _score_points(watched[arm], numbers, of)) for arm in shown]
        for title, of in kinds.items()
    }
    caption = f"Exact match on dev of the model that serves everybody. {BANDS} {paper}"
    return line_chart(name, panels, caption=caption, x="round", y="EM on dev", ticks=[str(n) for n in numbers])


def _score_points(
    seeds: Sequence[Rounds], numbers: Sequence[int], of: Callable[[Round], float]
) -> list[tuple[int, Estimate]]:
    by_round = {n: [of(scored[n]) for one in seeds if n in (scored := one.scored())] for n in numbers}
    return [(numbers.index(n), _estimate(values)) for n, values in by_round.items() if values]


def _macro(one: Round) -> float:
    return fmean(share for _, share in one.dev.values())


def _micro(one: Round) -> float:
    return sum(n * share for n, share in one.dev.values()) / sum(n for n, _ in one.dev.values())


# -- weights -----------------------------------------------------------------------------------------------------


def _weights(found: Findings, watched: Watched) -> list[Section]:
    shown = [arm for arm in WEIGHED if any(one.weights for rounds in watched.get(arm, ()) for one in rounds.rounds)]
    if not shown:
        return []
    silos = found.results.silos
    rows = [Row(Cell(arm), [Cell(_weight(watched[arm], silo)) for silo in silos]) for arm in shown]
    grid = Grid("How much a silo counts", [Cell("Weights"), *(Cell(silo) for silo in silos)], rows)
    return [Section("weights", "How much a silo counts", [grid, Note(WEIGHTS_EXPLAINED)], short="Weights")]


def weights_of(found: Findings, arm: str) -> dict[str, float]:
    """How much each silo counts, mean of rounds and seeds; nothing of an arm without weights."""
    seeds = _watched(found).get(arm, ())
    return {silo: weight for silo in found.results.silos if (weight := _mean_weight(seeds, silo)) is not None}


def _weight(seeds: Sequence[Rounds], silo: str) -> str:
    weight = _mean_weight(seeds, silo)
    return DASH if weight is None else percent(weight)


def _mean_weight(seeds: Sequence[Rounds], silo: str) -> float | None:
    weights = [one.weights[silo] for rounds in seeds for one in rounds.rounds if silo in one.weights]
    return fmean(weights) if weights else None


def _shown(watched: Watched, looks: Mapping[str, Look]) -> list[str]:
    return [arm for arm in looks if watched.get(arm)]


def _estimate(values: Sequence[float]) -> Estimate:
    return Estimate(fmean(values), min(values), max(values))
