# SPDX-License-Identifier: Apache-2.0
"""The PDD-AS2 study (Wang 2023): find the answer among all sentences of a silo.

Two alliances of ten silos each. *policies*: the privacy policies of ten companies (PolicyQA), a policy a silo; people
ask all companies much the same, in other words than the policies use. *articles*: ten blocks of SQuAD's articles in
their order, each a run of related ones; questions use the words of their answers. Silos differ in size, because the
paper's gain depends on it: small silos gain, large ones may lose.

The arms are those of its tables 3.1 and 4.1, on both alliances, and of its tables 3.2, 3.3 and 4.2 and figures 3.3 and
3.4, on the policies. All start from the embedded model with its lower five layers frozen.

The data are public and not part of the project; they are looked for in `../shared/data`, or where FEDQA_DATA says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.pdd_as2_report.arms import METRICS, sizes_facts
from benchmarks.pdd_as2_report.report import tables, write_report
from benchmarks.study.public_data import public_data
from benchmarks.study.runner import Arm, Data, Outcome, Study, run_groups
from fedqa.data.formats import read_format
from fedqa.data.records import Collection, Example, Split
from fedqa.data.splits import by_question, rank

PROJECT = Path(__file__).parents[1]
RESULTS = PROJECT / "benchmarks" / "results" / "pdd_as2"
SIZES = (60, 50, 46, 40, 36, 30, 26, 20, 16, 10)  # training questions of the silos
DEV, TEST = 20, 60
SEEDS, QUICK_SEEDS = (1, 2, 3), (1,)
WARM, HARD, CUSTOMISE = 2, 4, 2
FROZEN = 5  # of 6 layers

LOCAL: Mapping[str, Any] = {"learning_rate": 1e-4, "batch": 8}
COMMON: Mapping[str, Any] = {
    "model": "embedded",
    "freeze_layers": FROZEN,
    "evaluation": {"every": WARM + HARD + CUSTOMISE},
}
# A question that several silos ask is one when all is pooled; so many steps are those of all silos in an epoch.
POOLED = {**LOCAL, "steps": -(-sum(SIZES) // LOCAL["batch"])}
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
    local: Mapping[str, Any] = LOCAL,
) -> Arm:
    settings = {**COMMON, "local": local, "rounds": rounds, "method": method, "method_options": dict(options)}
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
    arm("central", "dense", {"pooled": True, "warm_rounds": WARM}, local=POOLED),
)
PARTS = (25, 50)  # percent of every silo's training questions
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
POOLS = tuple(shared(f"pool={pool}", negatives=10, pool=pool) for pool in (10, 100, 300))
NOISES = tuple(
    arm(f"Fed-Negative, noise {noise:g}", "pdd_as2", {**WHOLE, "fed_negative": {"noise": noise}})
    for noise in (0.0, 0.1)
)
GROUPS = (METHODS, SHARES, NEGATIVES, POOLS, NOISES)  # what matters most first, should the study be broken off
ARMS = tuple(one for group in GROUPS for one in group)
QUICK = ("BM25", "zero-shot", "dense, STAR", "PDD-AS2", "Fed-Negative")


@dataclass(frozen=True)
class Ten:
    """Ten silos, and what is trained on them."""

    name: str
    data: Data
    groups: Sequence[Sequence[Arm]]
    said: str


def main(quick: bool = False) -> None:
    seeds = QUICK_SEEDS if quick else SEEDS
    for ten in ALLIANCES[:1] if quick else ALLIANCES:
        folder = PROJECT / "runs" / "pdd_as2-quick" if quick else RESULTS / ten.name
        study = Study(f"pdd_as2, {ten.name}", (), seeds, ten.data, folder / "outcomes", METRICS, skill="retrieve")
        outcomes = run_groups(study, ten.groups, QUICK if quick else None)
        _report(ten, outcomes, folder, quick=quick)


def _report(ten: Ten, outcomes: Sequence[Outcome], folder: Path, *, quick: bool) -> None:
    console, known = Console(), facts(ten, QUICK_SEEDS if quick else SEEDS, quick)
    for table in tables(outcomes, known):
        console.print(table)
    console.print(write_report(outcomes, known, folder))


def facts(ten: Ten, seeds: Sequence[int], quick: bool) -> dict[str, str]:
    return {
        "command": f"fedqa bench pdd_as2{' --quick' if quick else ''}",
        "model": f"embedded, its lowest {FROZEN} of 6 layers frozen; one tower for questions, one for sentences",
        "data": f"{ten.said}; all sentences of a silo are searched",
        "questions a silo": f"{min(SIZES)} to {max(SIZES)} for training, {DEV} for choosing (dev), {TEST} for testing",
        "rounds": f"{WARM} with negatives by keywords, {HARD} with hard ones, {CUSTOMISE} for the silo's own question "
        f"encoder; one epoch each, batches of 8, rate {LOCAL['learning_rate']:g}. "
        f"Every silo alone: {WARM + HARD} in all; central: as many steps in a round as all silos together",
        "negatives": "8 a question, hard ones drawn from the 300 nearest; 200 for the silo's own question encoder",
        "means": "of silos; as all have the same number of test questions, means of questions are the same",
        "seeds": ", ".join(map(str, seeds)),
        **sizes_facts({seed: {name: _n_train(silo) for name, silo in ten.data(seed, None).items()} for seed in seeds}),
    }


# -- data --------------------------------------------------------------------------------------------------------


def policies(seed: int, train: int | None) -> dict[str, Collection]:
    """The ten policies that most different questions are asked about; which has which size is drawn by the seed."""
    return _silos(_policies(), seed, train)


def articles(seed: int, train: int | None) -> dict[str, Collection]:
    """The ten topics; which has which size is drawn by the seed."""
    return _silos(_articles(), seed, train)


@lru_cache(maxsize=1)
def _policies() -> dict[str, Collection]:
    whole = read_format("policyqa", public_data("policyqa"), {})
    every = _by_key(whole)
    most = sorted(every, key=lambda name: (-len(by_question(every[name].examples)), name))
    return {name.replace(".", "-"): every[name] for name in most[: len(SIZES)]}


@lru_cache(maxsize=1)
def _articles() -> dict[str, Collection]:
    whole = read_format("squad_sentences", public_data("squad_sentences"), {"part": "dev", "topics": len(SIZES)})
    return {f"topic-{key}": silo for key, silo in _by_key(whole).items()}


def _by_key(whole: Collection) -> dict[str, Collection]:
    """A silo for each key: its questions, and the documents they rest on."""
    found: dict[str, Collection] = {}
    for key in sorted({example.key for example in whole.examples}):
        own = tuple(example for example in whole.examples if example.key == key)
        needed = {document for example in own for document in example.documents}
        found[key] = Collection(tuple(d for d in whole.documents if d.id in needed), own)
    return found


def _silos(whole: Mapping[str, Collection], seed: int, train: int | None) -> dict[str, Collection]:
    """`train` is in percent of each silo's training questions, since the silos are not of one size.

    What is drawn for fewer is part of what is drawn for more, and dev and test stay the same.
    """
    sizes = zip(sorted(whole, key=lambda name: rank(seed, name)), SIZES, strict=True)
    return {name: _silo(whole[name], seed, part(size, train)) for name, size in sizes}


def part(size: int, percent: int | None) -> int:
    """So many percent of a size, rounded up; without a number, all of it."""
    return size if percent is None else -(-size * percent // 100)


def _n_train(silo: Collection) -> int:
    return len(by_question(example for example in silo.examples if example.split == "train"))


def _silo(whole: Collection, seed: int, train: int) -> Collection:
    """All sentences of a silo, and some of its questions, each with all of its answers."""
    asked = by_question(whole.examples)
    order = sorted(asked, key=lambda question: rank(seed, question))
    counts: dict[Split, int] = {"test": TEST, "dev": DEV, "train": train}
    splits = [split for split, count in counts.items() for _ in range(count)]
    examples: list[Example] = [
        replace(example, split=split)
        for question, split in zip(order[: len(splits)], splits, strict=True)
        for example in asked[question]
    ]
    return replace(whole, examples=tuple(examples))


ALLIANCES = (
    Ten("policies", policies, GROUPS, "the ten policies of PolicyQA with most different questions, a silo each"),
    Ten("articles", articles, (METHODS,), "SQuAD's articles in ten blocks, a silo each"),
)
