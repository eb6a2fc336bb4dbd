# SPDX-License-Identifier: Apache-2.0
"""The FedQAS study (Ait-Mlouk et al. 2022): the exact words that answer a question, read by silos that share a reader.

Four sets of silos. *sample*: the five organisations of the sample alliance, 28 to 235 training questions each, about
one in eight without an answer; their split is fixed, and the reader was designed without its test questions.
*articles*: the English articles of XQuAD, which are SQuAD's, dealt out to five silos; every question has an answer.
*reviews*: the four domains of SubjQA, where half of the questions have no answer, and privacy policies (PolicyQA).
*languages*: XQuAD once more, a language to each silo. XQuAD has the same articles in every language; here each article
is in one silo alone, so that what a silo gains from the others is reading and not a translation of its own text. Data
that are not part of the project are looked for in `../shared/data`, or where FEDQA_DATA says.

Every arm sees every training example equally often, once a round: alone as often as shared, and pooled as well.

What people correct, and what it does to other answers, is `fedqas_corrections`.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.fedqas_corrections import BATCH, FIRST, OTHERS_STEPS, RATE, STEPS, WAYS, Corrections
from benchmarks.fedqas_report.arms import ALONE, CENTRAL, FED, METRICS, ZERO
from benchmarks.fedqas_report.coverage import Coverage, coverage_of
from benchmarks.fedqas_report.report import Beyond, tables, write_report
from benchmarks.study.public_data import public_data
from benchmarks.study.runner import Arm, Data, Outcome, Study, run_groups
from benchmarks.study.subjqa import short_documents, subjqa
from fedqa.data.formats import read_format
from fedqa.data.records import Collection, Document, Example, Split
from fedqa.data.sample import SAMPLE_SILOS, sample_silo
from fedqa.data.splits import by_question, rank, split
from fedqa.evaluation.words import listed
from fedqa.models.backbones import load_backbone

PROJECT = Path(__file__).parents[1]
RESULTS = PROJECT / "benchmarks" / "results" / "fedqas"
SAMPLE_SPLIT = 13
DOMAINS = ("electronics", "grocery", "restaurants", "tripadvisor")
POLICIES = "policies"
REVIEWS: Mapping[Split, int] = {"test": 40, "dev": 20, "train": 40}  # questions of a silo
ARTICLES: Mapping[Split, int] = {"test": 80, "dev": 30, "train": 90}
ARTICLE_SILOS = 5
LONGEST = 1_500  # characters of a review or policy
LANGUAGES: Mapping[Split, int] = {"test": 36, "dev": 15, "train": 36}
XQUAD = ("en", "de", "es", "ru", "tr", "ar", "zh")  # the languages there are
COVERED = ("en", "de", "es", "ru", "tr")  # the five of which the embedded tokenizer knows most
LONGEST_PARAGRAPH = 900  # characters: the tokenizer spells Russian out, and makes four windows of a long one
SEEDS, QUICK_SEEDS = (1, 2, 3), (1,)
QUICK_SILOS = ("bank", "law")
CORRECTING = ("hospital", "bank", "law")  # the first one's people correct
QUICK_WAYS = tuple(way for way in WAYS if way.old != "some")
ROUNDS = {"sample": 3, "articles": 3, "reviews": 5, "languages": 5}  # five, as the paper, where examples are few

COMMON: Mapping[str, Any] = {
    "model": "embedded",
    "freeze_layers": 5,
    "local": {"learning_rate": 1e-4, "batch": 8},
}


METHODS = {ZERO: "zero_shot", ALONE: "isolated", FED: "fedqas", CENTRAL: "central"}


def arms(rounds: int) -> tuple[Arm, ...]:
    settings = {**COMMON, "rounds": rounds, "evaluation": {"every": rounds}, "method_options": {}}
    return tuple(Arm(name, {**settings, "method": method}) for name, method in METHODS.items())


QUICK = (ZERO, ALONE, FED)


def main(quick: bool = False) -> None:
    console = Console()
    folder = PROJECT / "runs" / "fedqas-quick" if quick else RESULTS
    every: dict[str, Data] = {"sample": sample, "articles": articles, "reviews": reviews, "languages": languages}
    sets: dict[str, Data] = {"sample": quick_sample} if quick else every
    outcomes = {name: _outcomes(name, data, folder, quick=quick) for name, data in sets.items()}
    beyond = Beyond(corrections(folder, quick=quick).run(), {} if quick else covered())
    for table in tables(outcomes, beyond):
        console.print(table)
    console.print(write_report(outcomes, facts(quick), folder, beyond))


def _outcomes(name: str, data: Data, folder: Path, *, quick: bool) -> list[Outcome]:
    seeds = QUICK_SEEDS if quick else SEEDS
    study = Study(f"fedqas, {name}", (), seeds, data, folder / "outcomes" / name, METRICS, skill="read")
    return run_groups(study, (arms(ROUNDS[name]),), QUICK if quick else None)


def corrections(folder: Path, *, quick: bool) -> Corrections:
    study = Corrections(CORRECTING, SEEDS, sample, folder / "outcomes" / "corrections")
    return replace(study, silos=QUICK_SILOS, seeds=QUICK_SEEDS, rounds=2, ways=QUICK_WAYS) if quick else study


def covered() -> dict[str, Coverage]:
    """What the embedded tokenizer knows of every language of XQuAD."""
    tokenizer = load_backbone("embedded").tokenizer
    return {language: coverage_of(xquad(language), tokenizer) for language in XQUAD}


def facts(quick: bool) -> dict[str, str]:
    asked = corrections(RESULTS, quick=quick).asked
    return {
        "command": f"fedqa bench fedqas{' --quick' if quick else ''}",
        "model": "embedded, its lowest 5 of 6 layers frozen; a head that starts from the nearness of sentences",
        "rounds": f"{listed([f'{name} {rounds}' for name, rounds in ROUNDS.items()])}; one epoch each, batches of 8, "
        "rate 1e-4; alone and pooled as many epochs",
        "questions of a silo of articles": _counted(ARTICLES),
        "questions of a silo of reviews": _counted(REVIEWS),
        "questions of a silo of languages": _counted(LANGUAGES),
        "paragraphs of languages": f"up to {LONGEST_PARAGRAPH} characters",
        "corrections": (
            f"after {FIRST} rounds, each round people ask {asked} new questions and correct what is wrong; a round has "
            f"{STEPS} steps of {BATCH} examples there, {OTHERS_STEPS} in other silos, rate {RATE:g}"
        ),
        "no answer": "below a threshold that each silo fits to its own dev questions",
    }


def _counted(counts: Mapping[Split, int]) -> str:
    return ", ".join(f"{count} {split}" for split, count in counts.items())


# -- data --------------------------------------------------------------------------------------------------------


def sample(seed: int, train: int | None) -> dict[str, Collection]:
    """The sample alliance. The seed changes the trainings alone."""
    return {name: split(sample_silo(name), SAMPLE_SPLIT) for name in SAMPLE_SILOS}


def quick_sample(seed: int, train: int | None) -> dict[str, Collection]:
    return {name: silo for name, silo in sample(seed, train).items() if name in QUICK_SILOS}


def articles(seed: int, train: int | None) -> dict[str, Collection]:
    """Whole articles to each silo, by the seed; questions about them in each split."""
    whole, silo_of = xquad("en"), _dealt(seed, ARTICLE_SILOS)
    own = {silo: _of_articles(whole, {t for t, of in silo_of.items() if of == silo}) for silo in range(ARTICLE_SILOS)}
    return {f"articles-{silo + 1}": _asked(part, ARTICLES, seed) for silo, part in own.items()}


def languages(seed: int, train: int | None) -> dict[str, Collection]:
    """Whole articles to each silo, by the seed, each silo's in its own language."""
    silo_of = _dealt(seed, len(COVERED))
    silos = {}
    for silo, language in enumerate(COVERED):
        part = _of_articles(xquad(language), {title for title, of in silo_of.items() if of == silo})
        silos[language] = _asked(_short(part, LONGEST_PARAGRAPH), LANGUAGES, seed)
    return silos


def xquad(language: str) -> Collection:
    return read_format("squad", public_data("xquad") / f"xquad.{language}.json", {})


def _dealt(seed: int, silos: int) -> dict[str, int]:
    """Which silo has which article; the titles are the same in every language."""
    titles = sorted({document.title for document in xquad("en").documents}, key=lambda title: rank(seed, title))
    return {title: place % silos for place, title in enumerate(titles)}


def _of_articles(whole: Collection, titles: Container[str]) -> Collection:
    return _resting(whole, [document for document in whole.documents if document.title in titles])


def _short(whole: Collection, longest: int) -> Collection:
    return _resting(whole, [document for document in whole.documents if len(document.text) <= longest])


def _resting(whole: Collection, documents: Sequence[Document]) -> Collection:
    """These documents and the questions that rest on them alone."""
    ids = {document.id for document in documents}
    return Collection(tuple(documents), tuple(example for example in whole.examples if example.documents <= ids))


def _asked(own: Collection, counts: Mapping[Split, int], seed: int) -> Collection:
    """So many questions in each split, drawn by the seed, and the documents that they rest on."""
    asked = by_question(own.examples)
    order = sorted(asked, key=lambda question: rank(seed, question))
    splits = [split for split, count in counts.items() for _ in range(count)]
    examples = tuple(replace(asked[q][0], split=split) for q, split in zip(order, splits, strict=False))
    needed = {id for example in examples for id in example.documents}
    return Collection(tuple(document for document in own.documents if document.id in needed), examples)


def reviews(seed: int, train: int | None) -> dict[str, Collection]:
    """Silos of equal size, drawn by the seed."""
    found = {name: subjqa(name) for name in DOMAINS}
    found[POLICIES] = read_format("policyqa", public_data("policyqa"), {})
    return {name: _drawn(collection, seed) for name, collection in found.items()}


def _drawn(whole: Collection, seed: int) -> Collection:
    """Questions about documents that are not too long, no question in two splits."""
    documents = short_documents(whole, LONGEST)
    asked = by_question(example for example in whole.examples if example.about in documents)
    order = iter(sorted(asked, key=lambda question: rank(seed, question)))
    examples: list[Example] = []
    for name, count in REVIEWS.items():
        for _ in range(count):
            # "How is the room?" is asked of many documents; taken of all, it would be all there is.
            first, *others = asked[next(order)]
            same = [first, *(other for other in others if other.about == first.about)]
            examples += [replace(example, split=name) for example in same]
    kept = {example.about for example in examples}
    return Collection(tuple(document for id, document in documents.items() if id in kept), tuple(examples))
