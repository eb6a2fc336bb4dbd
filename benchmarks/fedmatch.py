# SPDX-License-Identifier: Apache-2.0
"""The FedMatch study (Chen et al. 2021) on five real domains: its tables 2 and 3, its figures 5 to 8, and beyond.

Each seed draws other questions. A silo has sixty training questions: few enough that training alone falls short,
which is what federating is for. All arms start from the embedded model with its lower four layers frozen, so that only
two layers are trained; what the frozen ones make of a text is computed once.

The data are public and not part of the project; they are looked for in `../shared/data`, or where FEDQA_DATA says.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.fedmatch_report.report import tables, write_report
from benchmarks.study.public_data import public_data
from benchmarks.study.runner import Arm, Study, run_groups
from fedqa.config import SiloData
from fedqa.data.formats import read_format
from fedqa.data.records import Collection, Example, Split
from fedqa.data.splits import by_question, limited, rank
from fedqa.files import write_text
from fedqa.models.backbones import load_backbone
from fedqa.skills import make_skill
from fedqa.skills.match import MatchFeatures
from fedqa.skills.skill import Features

PROJECT = Path(__file__).parents[1]
RESULTS = PROJECT / "benchmarks" / "results" / "fedmatch"
SOURCES = {
    "insurance": SiloData("insuranceqa", "insuranceqa"),
    "law": SiloData("policyqa", "policyqa"),
    "biomedical": SiloData("pubmedqa", "pubmedqa"),
    "financial": SiloData("tatqa", "tatqa"),
    "medical": SiloData("medquad", "medquad/medquad.zip", options={"sites": ["CancerGov", "NIDDK", "NINDS"]}),
}
TRAIN, DEV, TEST = 60, 40, 100  # questions a silo
ROUNDS, WIDTH, FROZEN = 6, 64, 4
LAYERS = 6 - FROZEN
SEEDS, QUICK_SEEDS = (1, 2, 3), (1,)

MATCH = {"loss": "hinge", "max_passage": 64, "train_negatives": 1}
# As the paper's own runs: the rate rises over the first tenth of all steps, then falls to 0; moments are kept.
LOCAL = {"learning_rate": 3e-4, "schedule": "linear", "warmup": 0.1, "keep_optimiser": True}
COMMON: Mapping[str, Any] = {
    "model": "embedded",
    "freeze_layers": FROZEN,
    "rounds": ROUNDS,
    "local": LOCAL,
    "skills": {"match": MATCH},
    "evaluation": {"every": ROUNDS},
}
UNIFORM = {"weights": "uniform"}
FEDMATCH = {"alone_first": False, "width": WIDTH}  # training alone is an arm of its own here


def arm(name: str, method: str, options: Mapping[str, Any] = {}, train: int | None = None, **settings: Any) -> Arm:
    return Arm(name, {**COMMON, "method": method, "method_options": dict(options), **settings}, train)


def fedmatch(name: str, train: int | None = None, **options: Any) -> Arm:
    return arm(name, "fedmatch", {**FEDMATCH, **options}, train)


def classic(name: str, interaction: str, method: str, **settings: Any) -> Arm:
    """A matcher of its own kind in place of the encoder's layers."""
    return arm(name, method, skills={"match": {**MATCH, "interaction": interaction}}, freeze_layers=0, **settings)


METHODS = (
    classic("BM25", "bm25", "zero_shot"),
    arm("zero-shot", "zero_shot"),
    classic("ESIM", "esim", "isolated", local={**LOCAL, "learning_rate": 1e-3}),
    classic("RE2", "re2", "isolated", local={**LOCAL, "learning_rate": 1e-3}),
    arm("BERT alone", "isolated"),
    arm("CoverQuery", "cover_query"),
    arm("LG-FedAvg", "lg_fedavg", UNIFORM),
    arm("FedPer", "fedper", UNIFORM),
    arm("FedBN", "fedbn", UNIFORM),
    arm("FedAvg", "fedavg", UNIFORM),
    fedmatch("FedMatch"),
    fedmatch("FedMatch blended", alone_first=True),
    arm("FedAvg CS", "fedavg", {**UNIFORM, "sample": 2}),
    fedmatch("FedMatch CS", sample=2),
    arm("central", "central"),
)
SITES = {"I": "sublayer_serial", "O": "sublayer_parallel", "V": "stack_serial", "H": "layer_parallel"}
KINDS = {"PAL": "pal", "LR": "low_rank"}
VARIANTS = (
    *(
        fedmatch(f"{letter}+{short}", site=site, patch=kind)
        for letter, site in SITES.items()
        for short, kind in KINDS.items()
        if (letter, short) != ("H", "LR")  # this is FedMatch
    ),
    fedmatch("H+LR as run", site="stack_parallel", merge="own_norm"),
)
FIGURES = (
    *(fedmatch(f"layers={k}", share_layers=FROZEN + k) for k in range(LAYERS)),
    *(fedmatch(f"width={width}", width=width) for width in (16, 256)),
    *(fedmatch(f"every={n}", aggregate_every=n) for n in (2, 3)),
    *(fedmatch(f"train={n} FedMatch", train=n) for n in (15, 30)),
    *(arm(f"train={n} alone", "isolated", train=n) for n in (15, 30)),
)
BEYOND = (
    fedmatch("low-rank", share="low_rank"),
    fedmatch("lorar weights", weights="lorar"),
    fedmatch("nearest weights", weights="nearest"),
    fedmatch("ablation: norms shared", private_norms=False),
    fedmatch("ablation: head private", private_head=True),
    fedmatch("ablation: patch rate 1", patch_rate=1.0),
    arm("ablation: listwise loss", "fedmatch", FEDMATCH, skills={"match": {**MATCH, "loss": "listwise"}}),
)
QUICK = ("BM25", "zero-shot", "BERT alone", "FedAvg", "FedMatch", "FedMatch blended")


def main(quick: bool = False) -> None:
    console = Console()
    folder = PROJECT / "runs" / "fedmatch-quick" if quick else RESULTS
    seeds = QUICK_SEEDS if quick else SEEDS
    write_lists(seeds, folder)
    study = Study("fedmatch", (), seeds, drawn, folder / "outcomes")
    outcomes = run_groups(study, (METHODS, BEYOND, VARIANTS, FIGURES), QUICK if quick else None)
    known = facts(seeds, quick)
    for table in tables(outcomes, known):
        console.print(table)
    console.print(write_report(outcomes, known, folder))


def facts(seeds: Sequence[int], quick: bool) -> dict[str, str]:
    return {
        "command": f"fedqa bench fedmatch{' --quick' if quick else ''}",
        "model": f"embedded, its lowest {FROZEN} of 6 layers frozen",
        "questions a silo": f"{TRAIN} for training, {DEV} for choosing (dev), {TEST} for testing",
        "candidates": "every gold passage and the five best others by keywords, passages cut at 64 tokens",
        "rounds": f"{ROUNDS}, one epoch each; hinge loss; rate 3e-4, rising over a tenth of all steps, then falling",
        "seeds": ", ".join(map(str, seeds)),
        "headline": "H+LR",
        "layers": str(LAYERS),
        "width": str(WIDTH),
        "train": str(TRAIN),
    }


# -- data --------------------------------------------------------------------------------------------------------


def drawn(seed: int, train: int | None) -> dict[str, Collection]:
    """Each silo's questions and documents. With fewer training questions, dev and test stay the same."""
    return {name: _chosen(_source(name), seed, TRAIN if train is None else train) for name in SOURCES}


def _source(name: str) -> Collection:
    source = SOURCES[name]
    return read_format(source.format, public_data(source.path), source.options)


def _chosen(collection: Collection, seed: int, train: int) -> Collection:
    """One example of each question drawn: PolicyQA asks the same of many policies."""
    answerable = tuple(example for example in collection.examples if example.answerable)
    collection = limited(replace(collection, examples=answerable), TEST + DEV + TRAIN, seed)
    groups = by_question(collection.examples)
    order = sorted(groups, key=lambda question: rank(seed, question))
    counts: dict[Split, int] = {"test": TEST, "dev": DEV, "train": train}
    splits = [split for split, count in counts.items() for _ in range(count)]
    examples = [
        replace(_one(groups[question], seed), split=split)
        for question, split in zip(order[: len(splits)], splits, strict=True)
    ]
    return replace(collection, examples=tuple(examples))


def _one(group: list[Example], seed: int) -> Example:
    return min(group, key=lambda example: rank(seed, example.id))


def write_lists(seeds: Sequence[int], folder: Path) -> None:
    """What is ranked: for every seed and silo the questions of each split with their gold and other passages."""
    tokenizer_only = load_backbone("tiny")
    for seed in seeds:
        path = folder / f"lists-{seed}.json"
        if path.exists():
            continue
        match = make_skill("match", MATCH, "the study")
        silos = {name: _lists(match.prepare(c, tokenizer_only, seed)) for name, c in drawn(seed, None).items()}
        write_text(path, json.dumps(silos, separators=(",", ":")) + "\n")


def _lists(features: Features) -> dict[str, list[tuple[str, list[str], list[str]]]]:
    assert isinstance(features, MatchFeatures)
    return {
        split: [(one.id, features.ids(one.gold), features.ids(one.others)) for one in questions]
        for split, questions in features.splits.items()
    }
