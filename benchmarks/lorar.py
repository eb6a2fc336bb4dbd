# SPDX-License-Identifier: Apache-2.0
"""The Lorar study (Zhang et al. 2023): questions to eight databases parsed into SQL by one model, learnt together.

The arms are those of its tables 2 and 3: every silo alone, all data pooled, FedAvg, FedProx and FedOPT with weights by
size and by Lorar, and FedOPT with the two other weightings; beside them, Lorar with its bound, which is the default
here, with a head of each silo's own, with losses taken from the steps of a round, and for twice as many rounds; and
silos that learn together first and then each by itself, beside those that are alone for as long. The silos are its
eight data sets with all their training examples, as weights are about sizes; how many steps a silo takes in a round is
limited instead, and FedOPT is weighted in all four ways again with steps by passes over the data, which the paper
counts: there a large silo works more than a small one. Splits are the published ones.

T5-base is replaced by a small decoder on the embedded encoder, which stays as loaded. It has learnt plain SQL from the
sample databases before (`lorar_start.py`), written in the style of these sets, as T5 has learnt English. A loss
reduction is that of the same examples: in the paper a window of four steps is 256 examples or more, here 16, and what
these differ by is noise.

The data are public and not part of the project; they are looked for in `../shared/data`, or where FEDQA_DATA says.
"""

from collections.abc import Mapping, Sequence
from contextlib import chdir
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.lorar_report.arms import (
    ALONE,
    ALONE_LONGER,
    BEST,
    BOUNDED,
    CENTRAL,
    LONGER,
    OWN_END,
    OWN_HEAD,
    WEIGHTED,
    WEIGHTINGS,
    WINDOWS,
    by_passes,
    sizes_fact,
)
from benchmarks.lorar_report.report import tables, write_report
from benchmarks.lorar_report.rounds import RoundWitness
from benchmarks.lorar_start import QUESTIONS, started
from benchmarks.study.public_data import public_data
from benchmarks.study.runner import Arm, Study, run_groups
from fedqa.data.formats import read_format
from fedqa.data.records import EVERY_SPLIT, Collection, Split
from fedqa.data.splits import rank

PROJECT = Path(__file__).parents[1]
RESULTS = PROJECT / "benchmarks" / "results" / "lorar"
SILOS = ("advising", "atis", "geography", "restaurants", "scholar", "academic", "imdb", "yelp")
START = "runs/lorar-sql/model"  # from the project's folder
STEPS = {silo: 10 if silo in ("advising", "atis") else 20 for silo in SILOS}  # in a round: fewer where SQL is long
MOST: Mapping[Split, int] = {"dev": 30, "test": 100}  # examples of a silo
# A fifth of the paper's: six passes in batches of 128 over the two large sets, twelve in batches of 64 over the others.
PASSES = dict(zip(SILOS, (25, 41, 21, 9, 19, 4, 3, 3), strict=True))
SEEDS, ROUNDS = (1, 2, 3), 36
ONE_SEED = (1,)  # of arms that explain the others
QUICK_SILOS = ("geography", "restaurants", "academic", "yelp")
QUICK_MOST: Mapping[Split, int] = {"train": 240, "dev": 20, "test": 60}
QUICK_SEEDS, QUICK_ROUNDS = (1,), 16

LOCAL = {"batch": 4, "learning_rate": 1e-3, "schedule": "linear", "warmup": 0.05, "keep_optimiser": True}
TOGETHER = 2e-3  # the rate where updates are averaged; alone and pooled it is too high
SKILL = {"max_steps": 80}  # 4 % of advising's SQL is longer; a decoder that finds no end is stopped sooner

# The paper's momentum of 0.9 overshoots here: a new decoder moves far in a round, a pretrained T5 does not.
SERVER = {"server_learning_rate": 1.0, "momentum": 0.5}
OWN = {"weights": "uniform", "own_learning_rate": LOCAL["learning_rate"]}  # where the last rounds are a silo's own
UNBOUNDED = {"cap_factor": 1e6, "probe": 16}  # as published, but for what a reduction is measured on


def arm(
    name: str,
    method: str,
    options: Mapping[str, Any] = {},
    *,
    silos: Sequence[str],
    rounds: int,
    steps: Mapping[str, int] = STEPS,
) -> Arm:
    pooled = method == CENTRAL
    plans = [
        {"name": one, "skill": "parse", "data": {"sample": one}, "local": {} if pooled else {"steps": steps[one]}}
        for one in silos
    ]
    own = {"steps": sum(steps[one] for one in silos)} if pooled else {}
    settings = {
        "model": START,
        "rounds": rounds,
        "local": {**LOCAL, **own, **({"learning_rate": TOGETHER} if method == "lorar" else {})},
        "skills": {"parse": SKILL},
        "evaluation": {"every": rounds // 4},
        "method": method,
        "method_options": dict(options),
        "silo": plans,
    }
    return Arm(name, settings, witness=RoundWitness)


def arms(silos: Sequence[str], rounds: int) -> tuple[tuple[Arm, ...], ...]:
    """The arms in groups, what matters most first, should the study be broken off."""
    make = partial(arm, silos=silos, rounds=rounds)
    longer = partial(arm, silos=silos, rounds=2 * rounds)
    federated = {
        name: make(name, "lorar", {"algorithm": algorithm, "weights": weights, **SERVER, **UNBOUNDED})
        for name, (algorithm, weights) in WEIGHTED.items()
    }
    passes = [
        make(by_passes(name), "lorar", federated[name].settings["method_options"], steps=PASSES) for name in WEIGHTINGS
    ]
    bounds = (make(ALONE, "isolated"), make(CENTRAL, "central"))
    fedopt = tuple(federated[name] for name in WEIGHTINGS)
    turns = (
        longer(OWN_END, "lorar", {**SERVER, **UNBOUNDED, **OWN, "own_rounds": rounds}),
        longer(ALONE_LONGER, "isolated"),
    )
    once = (
        *passes,
        make(BOUNDED, "lorar", {**SERVER, "probe": UNBOUNDED["probe"]}),
        make(OWN_HEAD, "lorar", {**SERVER, **UNBOUNDED, "private_head": True}),
        make(WINDOWS, "lorar", {**SERVER, **UNBOUNDED, "probe": 0}),
        longer(LONGER, "lorar", {**SERVER, **UNBOUNDED}),
    )
    rest = tuple(one for one in federated.values() if one not in fedopt)
    return (*fedopt, *bounds), rest, tuple(replace(one, seeds=ONE_SEED) for one in once), turns


QUICK = (ALONE, CENTRAL, "FedOPT", BEST)


def main(quick: bool = False) -> None:
    console = Console()
    silos, most = (QUICK_SILOS, QUICK_MOST) if quick else (SILOS, MOST)
    seeds, rounds = (QUICK_SEEDS, QUICK_ROUNDS) if quick else (SEEDS, ROUNDS)
    folder = PROJECT / "runs" / "lorar-quick" if quick else RESULTS
    data = partial(drawn, silos=silos, most=tuple(most.items()))
    study = Study("lorar", (), seeds, data, folder / "outcomes", ("em",), skill="parse")
    with chdir(PROJECT):
        started(Path(START))
        outcomes = run_groups(study, arms(silos, rounds), QUICK if quick else None)
    known = facts(data(seeds[0], None), seeds, rounds, quick)
    for table in tables(outcomes):
        console.print(table)
    console.print(write_report(outcomes, known, folder))


def facts(first: Mapping[str, Collection], seeds: Sequence[int], rounds: int, quick: bool) -> dict[str, str]:
    return {
        "command": f"fedqa bench lorar{' --quick' if quick else ''}",
        "model": "a decoder of one layer on the first four of the embedded encoder, which are not trained; it copies "
        f"tables, columns and words of the question, and has learnt plain SQL in the style of these sets from "
        f"{2 * QUESTIONS:,} questions invented for the sample databases",
        "data": "text-to-SQL sets of Finegan-Dollak et al. (2018), question split as published; of sets with ten "
        "folds six are for training, two for dev, two for test. Some questions stand in several splits, as published",
        "rounds": f"{rounds}; steps of a silo in each: {', '.join(f'{one} {STEPS[one]}' for one in first)}, of "
        f"{LOCAL['batch']} examples; rate {TOGETHER:g}, {ALONE} and {CENTRAL} {LOCAL['learning_rate']:g}, falling to 0 "
        f"over the run, moments kept from round to round; {CENTRAL}: as many steps as all together",
        "FedOPT": f"server rate {SERVER['server_learning_rate']:g}, momentum {SERVER['momentum']:g} (paper: 1 and 0.9)",
        "Lorar": f"a loss reduction is that of the same {UNBOUNDED['probe']} training examples over a round; "
        f"{WINDOWS}: highest minus lowest mean of four steps, as published; {BOUNDED}: no silo's odds are more than "
        "three times those of its size",
        "passes": f"steps of a silo in each round: {', '.join(f'{one} {PASSES[one]}' for one in first)}",
        "seeds": f"{', '.join(map(str, seeds))}; of arms that explain the others {', '.join(map(str, ONE_SEED))}",
        **sizes_fact({name: _counts(silo) for name, silo in first.items()}),
    }


# -- data --------------------------------------------------------------------------------------------------------


def drawn(
    seed: int,
    train: int | None,
    *,
    silos: Sequence[str] = SILOS,
    most: Sequence[tuple[Split, int]] = tuple(MOST.items()),
) -> dict[str, Collection]:
    """The silos; which folds of the small sets and which examples of the large ones are drawn by the seed.

    `train` is the most training examples of a silo, where fewer than the study's.
    """
    limits = dict(most) | ({} if train is None else {"train": train})
    folder = public_data("text2sql")
    return {name: _limited(_read(folder / f"{name}.json", seed), limits, seed) for name in silos}


@lru_cache(maxsize=len(SILOS) * len(SEEDS))
def _read(path: Path, seed: int) -> Collection:
    return read_format("text2sql", path, {"seed": seed})


def _limited(silo: Collection, most: Mapping[Split, int], seed: int) -> Collection:
    ordered = sorted(silo.examples, key=lambda example: rank(seed, example.id))
    of_split = {split: [example for example in ordered if example.split == split] for split in EVERY_SPLIT}
    kept = {example.id for split, some in of_split.items() for example in some[: most.get(split)]}
    return replace(silo, examples=tuple(example for example in silo.examples if example.id in kept))


def _counts(silo: Collection) -> dict[Split, int]:
    return {split: sum(example.split == split for example in silo.examples) for split in EVERY_SPLIT}


ARMS = tuple(one for group in arms(SILOS, ROUNDS) for one in group)
