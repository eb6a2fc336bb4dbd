# SPDX-License-Identifier: Apache-2.0
"""The PDD-AS2 study (Wang 2023): find the answer among all sentences of a silo, on ten silos of one topic each.

The arms are those of its tables 3.1 to 3.3, 4.1 and 4.2 and of its figures 3.3 and 3.4. The silos are ten
blocks of SQuAD's articles in their order, each a run of related articles. They differ in size, from forty training
questions to two hundred, because the paper's gain depends on it: small silos gain, large ones may lose. All arms start
from the embedded model with its lower four layers frozen.

The data are public and not part of the project; they are looked for in `../shared/data`, or where FEDQA_DATA says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.pdd_as2_report.arms import METRICS, sizes_facts
from benchmarks.pdd_as2_report.report import tables, write_report
from benchmarks.study.public_data import public_data
from benchmarks.study.runner import Arm, Study, run_groups
from fedqa.data.formats import read_format
from fedqa.data.records import Collection, Example, Split
from fedqa.data.splits import normalise, rank

PROJECT = Path(__file__).parents[1]
RESULTS = PROJECT / "benchmarks" / "results" / "pdd_as2"
SIZES = (200, 160, 130, 110, 90, 80, 70, 60, 50, 40)  # training questions of the silos
DEV, TEST = 40, 120
SEEDS, QUICK_SEEDS = (1, 2, 3), (1,)
WARM, HARD, CUSTOMISE = 2, 4, 2

COMMON: Mapping[str, Any] = {
    "model": "embedded",
    "freeze_layers": 4,
    "local": {"learning_rate": 1e-4, "batch": 8},
    "evaluation": {"every": WARM + HARD + CUSTOMISE},
}
SHARED = {"warm_rounds": WARM, "customise_rounds": 0}
WHOLE = {"warm_rounds": WARM, "customise_rounds": CUSTOMISE}


def arm(
    name: str,
    method: str,
    options: Mapping[str, Any] = {},
    *,
    form: str = "dense",
    rounds: int = HARD,
    train: int | None = None,
) -> Arm:
    settings = {**COMMON, "rounds": rounds, "method": method, "method_options": dict(options)}
    return Arm(name, {**settings, "skills": {"retrieve": {"form": form}}}, train)


def dense(name: str, source: str, **options: int) -> Arm:
    """Every silo alone, for as many rounds in all as the shared stages have, whatever the negatives."""
    return arm(name, "dense", {"negatives_from": source, **options}, rounds=WARM + HARD)


def star(name: str, train: int | None = None, **options: int) -> Arm:
    return arm(name, "dense", {"negatives_from": "index", "warm_rounds": WARM, **options}, train=train)


def shared(name: str, train: int | None = None, **options: int) -> Arm:
    return arm(name, "pdd_as2", {**SHARED, **options}, train=train)


METHODS = (
    arm("BM25", "zero_shot", form="bm25"),
    arm("zero-shot", "zero_shot"),
    arm("hybrid", "zero_shot", form="hybrid"),
    dense("dense, random", "random"),
    dense("dense, BM25", "bm25"),
    star("dense, STAR"),
    shared("PDD-AS2"),
    arm("customised", "pdd_as2", {**WHOLE, "customise_with": "own"}),
    arm("Fed-Negative", "pdd_as2", WHOLE),
    arm("central", "dense", {"pooled": True, "warm_rounds": WARM}),
)
PARTS = (25, 50, 75)  # percent of every silo's training questions
SHARES = (
    *(shared(f"share={part} PDD-AS2", train=part) for part in PARTS),
    *(star(f"share={part} STAR", train=part) for part in PARTS),
)
NEGATIVES = (  # the methods themselves have 8, and 200 in the customised stage
    dense("dense, BM25, 2 negatives", "bm25", negatives=2),
    star("dense, STAR, 2 negatives", negatives=2),
    shared("PDD-AS2, 2 negatives", negatives=2),
    arm("customised, 10 negatives", "pdd_as2", {**WHOLE, "customise_with": "own", "customise_negatives": 10}),
    arm("Fed-Negative, 10 negatives", "pdd_as2", {**WHOLE, "customise_negatives": 10}),
)
POOLS = tuple(shared(f"pool={pool}", negatives=10, pool=pool) for pool in (10, 50, 100, 300))
GROUPS = (METHODS, SHARES, NEGATIVES, POOLS)  # what matters most first, should the study be broken off
ARMS = tuple(one for group in GROUPS for one in group)
QUICK = ("BM25", "zero-shot", "dense, STAR", "PDD-AS2", "Fed-Negative")


def main(quick: bool = False) -> None:
    console = Console()
    folder = PROJECT / "runs" / "pdd_as2-quick" if quick else RESULTS
    seeds = QUICK_SEEDS if quick else SEEDS
    study = Study("pdd_as2", (), seeds, drawn, folder / "outcomes", METRICS, skill="retrieve")
    outcomes = run_groups(study, GROUPS, QUICK if quick else None)
    known = facts(seeds, quick)
    for table in tables(outcomes, known):
        console.print(table)
    console.print(write_report(outcomes, known, folder))


def facts(seeds: Sequence[int], quick: bool) -> dict[str, str]:
    return {
        "command": f"fedqa bench pdd_as2{' --quick' if quick else ''}",
        "model": "embedded, its lowest 4 of 6 layers frozen; one tower for questions, one for sentences",
        "data": "SQuAD's articles in ten blocks, a silo each; all sentences of a silo are searched",
        "questions a silo": f"{min(SIZES)} to {max(SIZES)} for training, {DEV} for choosing (dev), {TEST} for testing",
        "rounds": f"{WARM} with negatives by keywords, {HARD} with hard ones, {CUSTOMISE} for the silo's own question "
        f"encoder; one epoch each, batches of 8, rate 1e-4. Every silo alone: {WARM + HARD} in all",
        "negatives": "8 a question, hard ones drawn from the 300 nearest; 200 for the silo's own question encoder",
        "means": "of silos; as all have the same number of test questions, means of questions are the same",
        "seeds": ", ".join(map(str, seeds)),
        **sizes_facts({seed: {name: _n_train(silo) for name, silo in drawn(seed, None).items()} for seed in seeds}),
    }


# -- data --------------------------------------------------------------------------------------------------------


def drawn(seed: int, train: int | None) -> dict[str, Collection]:
    """The ten silos; which topic has which size is drawn by the seed.

    `train` is in percent of each silo's training questions, since the silos are not of one size; what is drawn for
    fewer is part of what is drawn for more, and dev and test stay the same.
    """
    folder = public_data("squad_sentences")
    whole = read_format("squad_sentences", folder, {"part": "dev", "topics": len(SIZES)})
    topics = sorted({example.key for example in whole.examples}, key=lambda topic: rank(seed, topic))
    sizes = dict(zip(topics, SIZES, strict=True))
    return {f"topic-{topic}": _silo(whole, topic, seed, part(size, train)) for topic, size in sizes.items()}


def part(size: int, percent: int | None) -> int:
    """So many percent of a size, rounded up; without a number, all of it."""
    return size if percent is None else -(-size * percent // 100)


def _n_train(silo: Collection) -> int:
    return sum(example.split == "train" for example in silo.examples)


def _silo(whole: Collection, topic: str, seed: int, train: int) -> Collection:
    """All sentences of a topic, and some of its questions."""
    own = [example for example in whole.examples if example.key == topic]
    asked = {normalise(example.question): example for example in own}  # a question that is asked twice counts once
    order = sorted(asked, key=lambda question: rank(seed, question))
    counts: dict[Split, int] = {"test": TEST, "dev": DEV, "train": train}
    splits = [split for split, count in counts.items() for _ in range(count)]
    examples: list[Example] = [
        replace(asked[question], split=split) for question, split in zip(order[: len(splits)], splits, strict=True)
    ]
    documents = {document for example in own for document in example.documents}
    return Collection(tuple(d for d in whole.documents if d.id in documents), tuple(examples))
