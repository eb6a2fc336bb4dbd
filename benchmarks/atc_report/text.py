# SPDX-License-Identifier: Apache-2.0
"""What the ATC study found, in sentences made of its numbers: true whatever these are."""

from collections.abc import Mapping

from benchmarks.atc_report.arms import (
    ALONE,
    ATC,
    CHOSEN,
    FEDAVG,
    NO_ASSIGN,
    NO_CONTRAST,
    Findings,
    Safety,
    average_cells,
    part_gains,
    published_gain,
    safety_of,
)
from benchmarks.atc_report.figures import Secrecy, secrecy_of
from benchmarks.atc_secrecy.guessing import Guesses
from benchmarks.study.statistics import ROUNDING, Versus, overall
from benchmarks.study.wording import verdict
from fedqa.evaluation.report import Tile
from fedqa.evaluation.report_text import interval
from fedqa.evaluation.words import listed, number, percent, plural, signed

WITHIN = 0.003  # how much of the average the private probe set may cost


def lead(found: Findings) -> list[str]:
    return [
        *_reached(found),
        *_gains(found),
        *_kinds(found),
        *_stages(found),
        *_worse_off(safety_of(found.results)),
        *_probe(found.probe),
        *_guessed(secrecy_of(found.results)),
    ]


def tiles(found: Findings) -> list[Tile]:
    shown = {
        f"{ATC} over {ALONE}": found.alone.get(ATC),
        f"{ATC} over {FEDAVG}": found.averaged.get(ATC),
        "private probe set": found.probe,
    }
    return [
        Tile(f"{name}: average", signed(v.bootstrap.difference), f"{interval(v.bootstrap)}, {verdict(v)}")
        for name, v in shown.items()
        if v
    ]


def _reached(found: Findings) -> list[str]:
    results = found.results
    trained = f"{plural(len(results.silos), 'silo')} and {plural(len(results.seeds), 'seed')}"
    if ATC not in results:
        return [f"{ATC} is not among the {plural(len(results.by_arm), 'arm')} of this study of {trained}."]
    cells = average_cells(results, ATC)
    reached = overall(cells)
    within = f" ({interval(reached)})" if interval(reached) else ""
    return [
        f"On {plural(sum(map(len, cells.values())), 'test example')} of {trained}, {ATC} reaches an average of "
        f"{number(reached.mean)}{within} with the models that silos choose on dev."
    ]


def _gains(found: Findings) -> list[str]:
    sides = {ALONE: found.alone.get(ATC), FEDAVG: found.averaged.get(ATC)}
    told = [
        f"from {name} by {difference(versus)}{_published(name)}" for name, versus in sides.items() if versus is not None
    ]
    return [f"It differs {listed(told)}."] if told else []


def _published(reference: str) -> str:
    gain = published_gain(ATC, reference)
    return "" if gain is None else f", in the paper {signed(gain)}"


def _kinds(found: Findings) -> list[str]:
    told = [
        f"{part} {signed(ours)} (paper {signed(theirs)})" for part, (ours, theirs) in part_gains(found.results).items()
    ]
    kinds = "CLS classifying, QA reading, NLG writing"
    return [f"By kind of task ({kinds}), {ATC} differs from {ALONE} by: {', '.join(told)}."] if told else []


def _stages(found: Findings) -> list[str]:
    """What is left without either stage."""
    told = [
        f"{arm} {signed(versus.bootstrap.difference)}"
        for arm, versus in found.alone.items()
        if arm in (NO_ASSIGN, NO_CONTRAST)
    ]
    return [f"Without one of its stages, the difference to {ALONE} is: {listed(told)}."] if told else []


def _worse_off(found: Mapping[str, Safety]) -> list[str]:
    told = []
    for arm, safety in found.items():
        test = safety.by_silo(safety.test)
        lower = sum(value < -ROUNDING for value in test.values())
        on_dev = sum(value < -ROUNDING for value in safety.dev.values())
        told.append(
            f"with {arm}, {lower} of {plural(len(test), 'silo')} on test in the mean of seeds, and on dev "
            f"{on_dev} of {len(safety.dev)} silos and seeds"
        )
    note = f" {CHOSEN} is whichever did better on a silo's dev examples." if CHOSEN in found else ""
    return [f"Worse off than {ALONE} with dev-selected models are, {'; '.join(told)}.{note}"] if told else []


def _probe(versus: Versus | None) -> list[str]:
    if versus is None:
        return []
    aim = "meets" if versus.bootstrap.difference >= -WITHIN else "misses"
    return [
        f"Making the probe set of noisy sums instead of plain mixtures changes the average by {difference(versus)}; "
        f"the aim, to lose at most {number(WITHIN)}, it {aim}."
    ]


def _guessed(found: Mapping[str, Secrecy]) -> list[str]:
    known = {what: one.known for what, one in found.items() if one.known}
    unknown = {what: one.unknown for what, one in found.items() if one.unknown}
    return [
        *_told("From updates the coordinator guesses the task of a silo", known),
        *_told("Of a data set that it has never seen, it guesses the kind of task", unknown),
    ]


def _told(what: str, guessed: Mapping[str, Guesses]) -> list[str]:
    if not guessed:
        return []
    shares = "; ".join(f"{sent}, {percent(one.accuracy)}" for sent, one in guessed.items())
    return [f"{what} that often: {shares} (chance {percent(next(iter(guessed.values())).chance)})."]


def difference(versus: Versus) -> str:
    return f"{signed(versus.bootstrap.difference)} ({interval(versus.bootstrap)}: {verdict(versus)})"
