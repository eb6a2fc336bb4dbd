# SPDX-License-Identifier: Apache-2.0
"""The ATC study (Dong et al. 2022): silos that classify, read, summarise and write questions share one encoder.

Thirteen silos of six public data sets, which stand for the paper's six; every silo has one of its kind to learn with.
The arms are those of its tables 2 and 3, and beside them: the probe set as published, the contrastive term switched
off, silos that train alone first, and everything shared but the heads. In every arm a silo takes the same number of
steps on its own task, as in the paper; those on assigned tasks come on top, so silos are also trained alone for as many
steps in all.

The coordinator of some arms is watched: who clusters with whom, who is whose neighbour (figures 4 to 6), and how well
it guesses the silos' tasks.

The data are public and not part of the project; they are looked for in `../shared/data`, or where FEDQA_DATA says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.atc_report.arms import (
    ALL_SHARED,
    ALONE,
    ALONE_FIRST,
    ASSIGNED,
    ATC,
    FEDAVG,
    LONGER,
    NO_ASSIGN,
    NO_CONTRAST,
    PUBLISHED_PROBE,
    SET_OF,
    SETS,
    SILOS,
    WEIGHTLESS,
    Family,
)
from benchmarks.atc_report.report import tables, write_report
from benchmarks.atc_secrecy.view import Coordinator
from benchmarks.study.public_data import public_data
from benchmarks.study.runner import Arm, Study, run_groups
from benchmarks.study.subjqa import short_documents, subjqa
from fedqa.data.formats import read_format
from fedqa.data.records import Collection, Example, Split
from fedqa.data.splits import by_question, rank

PROJECT = Path(__file__).parents[1]
RESULTS = PROJECT / "benchmarks" / "results" / "atc"
COUNTS: Mapping[Split, int] = {"test": 100, "dev": 60, "train": 80}  # examples of a silo
OF_WRITERS: Mapping[Split, int] = {"test": 80, "dev": 30, "train": 80}  # as writing takes longer than any other scoring
LONGEST = 350  # characters of a document that is read
SEEDS = (1, 2, 3)
QUICK_SILOS, QUICK_SEEDS = ("rt_polarity-1", "agnews-1", "policyqa-1", "scitldr-1", "squad-1"), (1,)

ASSIGN_ROUNDS, ROUNDS = 4, 15  # of assigned tasks, and of a silo's own
ASSIGN_RATE = 1e-4  # tried beside the rate of a silo's own task, after which scores were lower
LOCAL = {"batch": 4, "steps": 10, "learning_rate": 5e-4, "schedule": "linear", "warmup": 0.1}
SKILLS: Mapping[str, Mapping[str, Any]] = {
    "classify": {"max_length": 32},
    "read": {"pair": True, "window": 96, "overlap": 24, "max_answer": 24, "max_question": 24},
    "generate": {"max_source": 32, "max_target": 12, "beams": 1},
}
SKILL_OF: Mapping[Family, str] = {  # family -> skill
    "classify": "classify",
    "read": "read",
    "summarise": "generate",
    "ask": "generate",
}
PROBE = {"items": 16, "length": 24}
AS_PUBLISHED = {"texts": 1, "shuffled": False, "noise": 0.0}
TWO_STAGES = {
    "assign_rounds": ASSIGN_ROUNDS,
    "assign_learning_rate": ASSIGN_RATE,
    "text_length": 24,
    "clusters": 4,
    "neighbours": 4,
    "probe": PROBE,
    "representations": {"items_per_step": 4},
}
ENCODER = {"part": "encoder"}
BASELINES: Mapping[str, tuple[str, Mapping[str, Any]]] = {  # arm -> method and its options
    "FedAvg-ST": ("fedavg_st", {}),
    **{name: (name.lower(), ENCODER) for name in ("FedProx", "Ditto", "FedBN", "PerCFL", "SPFL")},
}
VARIANTS: Mapping[str, Mapping[str, Any]] = {  # arm -> options of atc
    NO_CONTRAST: {"contrast": False},
    PUBLISHED_PROBE: {"probe": {**PROBE, **AS_PUBLISHED}},
    ALONE_FIRST: {"alone_first": True},
    WEIGHTLESS: {"contrast_weight": 0.0},
}
ASSIGNMENTS: Mapping[str, Mapping[str, Any]] = {
    ASSIGNED["+ MLM"]: {"contrast": False, "tasks": ["mlm"]},
    ASSIGNED["+ DR"]: {"contrast": False, "tasks": ["denoise"]},
    ASSIGNED["+ MLM & DR"]: {"contrast": False, "clusters": 1},
}
WATCHED = (FEDAVG, ATC, WEIGHTLESS, ALL_SHARED)
QUICK = (ALONE, FEDAVG, ATC)


def arm(name: str, method: str, options: Mapping[str, Any] = {}, *, silos: Sequence[str], rounds: int) -> Arm:
    skills = {silo: SKILL_OF[SETS[SET_OF[silo]].family] for silo in silos}
    settings = {
        "model": "embedded:2",
        "rounds": rounds,
        "local": LOCAL,
        "skills": {skill: SKILLS[skill] for skill in sorted(set(skills.values()))},
        "evaluation": {"every": 5},
        "method": method,
        "method_options": dict(options),
        "silo": [{"name": silo, "skill": skill, "data": {"sample": silo}} for silo, skill in skills.items()],
    }
    return Arm(name, settings, witness=Coordinator if name in WATCHED else None)


def arms(silos: Sequence[str] = SILOS) -> tuple[tuple[Arm, ...], ...]:
    """The arms in groups, what matters most first, should the study be broken off."""
    make = partial(arm, silos=silos, rounds=ROUNDS)
    longer = partial(arm, silos=silos, rounds=ASSIGN_ROUNDS + ROUNDS)

    def in_two(name: str, options: Mapping[str, Any]) -> Arm:
        return make(name, "atc", {**TWO_STAGES, **options})

    return (
        (make(ALONE, "isolated"), make(FEDAVG, "fedavg", ENCODER), in_two(ATC, {}), longer(LONGER, "isolated")),
        (
            in_two(NO_ASSIGN, {"assign": False}),
            *(in_two(name, options) for name, options in VARIANTS.items()),
            make(ALL_SHARED, "fedper"),
        ),
        tuple(make(name, *told) for name, told in BASELINES.items()),
        tuple(in_two(name, options) for name, options in ASSIGNMENTS.items()),
    )


def main(quick: bool = False) -> None:
    console = Console()
    silos, seeds = (QUICK_SILOS, QUICK_SEEDS) if quick else (SILOS, SEEDS)
    folder = PROJECT / "runs" / "atc-quick" if quick else RESULTS
    study = Study("atc", (), seeds, quick_drawn if quick else drawn, folder / "outcomes", metrics=())
    outcomes = run_groups(study, arms(silos), QUICK if quick else None)
    for table in tables(outcomes):
        console.print(table)
    console.print(write_report(outcomes, facts(quick), folder))


def facts(quick: bool) -> dict[str, str]:
    options = SKILLS["generate"]
    return {
        "command": f"fedqa bench atc{' --quick' if quick else ''}",
        "model": "the first two layers of the embedded encoder, and a decoder made of them; words are not trained",
        "rounds": f"{ROUNDS} of a silo's own task in every arm, and before them {ASSIGN_ROUNDS} of assigned tasks "
        f"where there are any; {LONGER}: {ASSIGN_ROUNDS + ROUNDS} of its own",
        "a round": f"{LOCAL['steps']} steps of {LOCAL['batch']} examples, rate {LOCAL['learning_rate']:g}, falling to "
        f"0 over a stage; of assigned tasks {ASSIGN_RATE:g}",
        "examples of a silo": f"{_told(COUNTS)}; where texts are written, {_told(OF_WRITERS)}",
        "lengths": f"texts to classify {SKILLS['classify']['max_length']} tokens, to read {LONGEST} characters, to "
        f"write from {options['max_source']} tokens and to write {options['max_target']}; words are written one by "
        "one, the likeliest first",
        "ATC": f"{TWO_STAGES['clusters']} clusters, {TWO_STAGES['neighbours']} neighbours with the silo itself, a "
        f"probe set of {PROBE['items']} texts of {PROBE['length']} tokens",
        "scores": "BLEU is of single texts and smoothed, METEOR without synonyms; the paper's are of whole sets and "
        "with them",
    }


def _told(counts: Mapping[Split, int]) -> str:
    return ", ".join(f"{count} {split}" for split, count in counts.items())


# -- data --------------------------------------------------------------------------------------------------------


def drawn(seed: int, train: int | None, *, silos: Sequence[str] = SILOS) -> dict[str, Collection]:
    """Every silo's examples, drawn by the seed. None is in two splits, and of a data set none in two silos.

    `train` is how many training examples a silo has, where fewer than the study's.
    """
    found: dict[str, Collection] = {}
    for name in dict.fromkeys(SET_OF[silo] for silo in silos):
        whole = counts_of(SETS[name].family)
        if name == "subjqa":  # each silo has a domain of its own
            for silo in SETS[name].silos:
                found |= _dealt(_read(silo), [silo], whole, train, seed)
        else:
            found |= _dealt(_read(name), SETS[name].silos, whole, train, seed)
    return {silo: found[silo] for silo in silos}


def quick_drawn(seed: int, train: int | None) -> dict[str, Collection]:
    return drawn(seed, train, silos=QUICK_SILOS)


def counts_of(family: Family) -> Mapping[Split, int]:
    return OF_WRITERS if SKILL_OF[family] == "generate" else COUNTS


def _dealt(
    whole: Collection, silos: Sequence[str], most: Mapping[Split, int], train: int | None, seed: int
) -> dict[str, Collection]:
    """Examples in an order that the seed decides: the first silo's test, dev and training examples, then the next's."""
    counts = dict(most) | ({} if train is None else {"train": train})
    asked = by_question(whole.examples)
    order = iter(sorted(asked, key=lambda question: rank(seed, question)))
    largest = sum(most.values())
    found = {}
    for silo in silos:
        own = [next(order) for _ in range(largest)]
        splits = [split for split, count in counts.items() for _ in range(count)]
        examples = [
            replace(e, split=split) for q, split in zip(own, splits, strict=False) for e in _asked_once(asked[q])
        ]
        found[silo] = _about(whole, examples)
    return found


def _asked_once(examples: Sequence[Example]) -> list[Example]:
    """A question that is asked of many documents, of one of them: taken of all, it would be all there is."""
    return [example for example in examples if example.about == examples[0].about]


def _about(whole: Collection, examples: Sequence[Example]) -> Collection:
    kept = {example.about for example in examples}
    return Collection(tuple(document for document in whole.documents if document.id in kept), tuple(examples))


@lru_cache(maxsize=len(SILOS))
def _read(name: str) -> Collection:
    """A data set or, of SubjQA, a domain."""
    if name == "squad":
        return read_format("question_generation", public_data("squad_sentences"), {})
    if name == "policyqa":
        return _short(read_format(name, public_data(name), {}))
    if name.startswith("subjqa-"):
        return _short(subjqa(name.removeprefix("subjqa-")))
    return read_format(name, public_data(name), {})


def _short(whole: Collection) -> Collection:
    """Only documents that are read at once, and what is asked about them."""
    documents = short_documents(whole, LONGEST)
    examples = tuple(example for example in whole.examples if example.about in documents)
    return Collection(tuple(documents.values()), examples)


ARMS = tuple(one for group in arms() for one in group)
