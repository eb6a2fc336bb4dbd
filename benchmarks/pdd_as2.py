# SPDX-License-Identifier: Apache-2.0
"""The PDD-AS2 study (Wang 2023): find the answer among all sentences of a silo, on ten silos of one topic each.

The silos are ten blocks of SQuAD's articles in their order, each a run of related articles. They differ in size, from
forty training questions to two hundred, because the paper's gain depends on it: small silos gain, large ones may lose.
All arms start from the embedded model with its lower four layers frozen.

The data are public and not part of the project; they are looked for in `../shared/data`, or where FEDQA_DATA says.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.study.runner import Arm, Outcome, Study
from benchmarks.study.statistics import Results, overall
from fedqa.data.formats import read_format
from fedqa.data.records import Collection, Example, Split
from fedqa.data.splits import normalise, rank
from fedqa.errors import ConfigError

PROJECT = Path(__file__).parents[1]
RESULTS = PROJECT / "benchmarks" / "results" / "pdd_as2"
METRICS = ("mrr10", "r1", "r20", "r100", "p_mrr10", "p_r1", "p_r20", "p_r100")
SIZES = (200, 160, 130, 110, 90, 80, 70, 60, 50, 40)  # training questions of the silos
DEV, TEST = 40, 120
SEEDS, QUICK_SEEDS = (1, 2, 3), (1,)
WARM, HARD, CUSTOMISE = 2, 4, 2

COMMON: Mapping[str, Any] = {
    "model": "embedded",
    "freeze_layers": 4,
    "rounds": HARD,
    "local": {"learning_rate": 1e-4, "batch": 8},
    "evaluation": {"every": WARM + HARD + CUSTOMISE},
}
SHARED = {"warm_rounds": WARM, "customise_rounds": 0}
WHOLE = {"warm_rounds": WARM, "customise_rounds": CUSTOMISE}


def arm(name: str, method: str, options: Mapping[str, Any] | None = None, form: str = "dense") -> Arm:
    settings = {**COMMON, "method": method, "method_options": dict(options or {})}
    return Arm(name, {**settings, "skills": {"retrieve": {"form": form}}})


ARMS = (
    arm("BM25", "zero_shot", form="bm25"),
    arm("zero-shot", "zero_shot"),
    arm("hybrid", "zero_shot", form="hybrid"),
    arm("dense, random", "dense", {"negatives_from": "random"}),
    arm("dense, BM25", "dense", {"negatives_from": "bm25"}),
    arm("dense, STAR", "dense", {"negatives_from": "index", "warm_rounds": WARM}),
    arm("PDD-AS2", "pdd_as2", SHARED),
    arm("customised", "pdd_as2", {**WHOLE, "customise_with": "own"}),
    arm("Fed-Negative", "pdd_as2", WHOLE),
    arm("central", "dense", {"pooled": True, "warm_rounds": WARM}),
)
QUICK = ("BM25", "zero-shot", "dense, STAR", "PDD-AS2", "Fed-Negative")


def main(quick: bool = False) -> None:
    folder = PROJECT / "runs" / "pdd_as2-quick" if quick else RESULTS
    arms = [one for one in ARMS if not quick or one.name in QUICK]
    study = Study(
        "pdd_as2", arms, QUICK_SEEDS if quick else SEEDS, drawn, folder / "outcomes", METRICS, skill="retrieve"
    )
    Console().print(scores(study.run()))


def scores(outcomes: Sequence[Outcome]) -> Table:
    """Macro means over silos and seeds of the personal models."""
    table = Table("method", *METRICS)
    results = Results.of(outcomes)
    for name in results.by_arm:
        cells = [overall(results.cells(name, metric)) for metric in METRICS]
        table.add_row(name, *(f"{cell.mean:.3f}" for cell in cells))
    return table


def drawn(seed: int, train: int | None) -> dict[str, Collection]:
    """The ten silos; which topic has which size is drawn by the seed."""
    folder = Path(os.environ.get("FEDQA_DATA", PROJECT.parent / "shared" / "data")) / "squad_sentences"
    if not folder.exists():
        raise ConfigError(f"squad_sentences is not in {folder.parent}; say where by FEDQA_DATA=FOLDER")
    whole = read_format("squad_sentences", folder, {"part": "dev", "topics": len(SIZES)})
    topics = sorted({example.key for example in whole.examples}, key=lambda topic: rank(seed, topic))
    sizes = dict(zip(topics, SIZES, strict=True))
    return {f"topic-{topic}": _silo(whole, topic, seed, min(size, train or size)) for topic, size in sizes.items()}


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
