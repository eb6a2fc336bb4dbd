# SPDX-License-Identifier: Apache-2.0
"""How long a silo takes to find what answers a question: encoding it, then searching by vector, by words, by both.

The sentences are made up: words drawn by Zipf's law from 30,000, ten sentences a document, vectors of width 384 in
topics (two sentences of a topic have a cosine of about 0.4, as sentences of the embedded model do). Beside `fedqa`'s
index stand faiss and bm25s as they are, on the same data; these keep everything in memory and cannot remove, restart
or tell which document a row belongs to. One thread, one question at a time; times as the clock has them, so a
busy machine shows.

Last, the whole of it: the page of the sample hospital, with all its documents and the embedded model for matching and
for reading, as `fedqa serve` starts it. Times to an answer count from before the interpreter starts. The first answer
is found by keywords alone, because the models are still being loaded, and says so; the page then replaces it by that
of the models. What the loading consists of is measured at the desk without a page.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import bm25s
import faiss
import numpy as np
import numpy.typing as npt
import torch
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks._page_start import page_times, sessions
from fedqa.answering.desk import Desk
from fedqa.answering.keyword_store import words
from fedqa.answering.vector_index import Entry, IndexedDocument, VectorIndex
from fedqa.config import project_of, sample_alliance
from fedqa.models.backbones import Backbone, load_backbone
from fedqa.runs import train
from fedqa.serving.filling import fill
from fedqa.settings import load_settings
from fedqa.store import Store
from fedqa.training import one_thread

WIDTH, K = 384, 10
PER_DOCUMENT = 10
VOCABULARY, ZIPF = 30_000, 1.07
PER_TOPIC, SPREAD = 200, 1.2  # sentences of a topic; length of what sets them apart, beside the topic's 1
TUNING = 64  # questions
CHANGES = 20  # documents added and removed one by one
_SYLLABLES = tuple(a + b for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "an", "er"))

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Texts:
    """Sentences or questions and their vectors."""

    texts: list[str]
    vectors: Vectors

    def documents(self) -> Iterator[IndexedDocument]:
        for start in range(0, len(self.texts), PER_DOCUMENT):
            texts = self.texts[start : start + PER_DOCUMENT]
            entries = [Entry(str(start + i), text, i, i + 1) for i, text in enumerate(texts)]
            yield IndexedDocument(f"document {start}", entries, self.vectors[start : start + PER_DOCUMENT])


@dataclass(frozen=True)
class World:
    """What sentences and questions are drawn from."""

    rng: np.random.Generator
    topics: Vectors
    words: list[str]
    shares: npt.NDArray[np.float64]  # of the words

    @classmethod
    def of(cls, sentences: int, seed: int = 0) -> "World":
        rng = np.random.default_rng(seed)
        topics = rng.standard_normal((max(sentences // PER_TOPIC, 1), WIDTH), dtype=np.float32)
        shares = np.arange(1, VOCABULARY + 1) ** -ZIPF
        return cls(rng, _unit(topics), _vocabulary(rng), shares / shares.sum())

    def drawn(self, n: int, mean_length: int) -> Texts:
        lengths = 3 + self.rng.poisson(mean_length - 3, n)
        drawn = self.rng.choice(VOCABULARY, lengths.sum(), p=self.shares).tolist()
        ends = np.cumsum(lengths).tolist()
        cut = (drawn[end - length : end] for end, length in zip(ends, lengths.tolist(), strict=True))
        noise = self.rng.standard_normal((n, WIDTH), dtype=np.float32) * np.float32(SPREAD / WIDTH**0.5)
        topics = self.topics[self.rng.integers(0, len(self.topics), n)]
        return Texts([" ".join(self.words[word] for word in one) for one in cut], _unit(topics + noise))


def _unit(vectors: Vectors) -> Vectors:
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def _vocabulary(rng: np.random.Generator) -> list[str]:
    """Frequent words are short, and no two are alike."""
    made: dict[str, None] = {}
    while len(made) < VOCABULARY:
        syllables = 1 + int(len(made) > 50) + int(rng.integers(0, 3))
        made["".join(_SYLLABLES[i] for i in rng.integers(0, len(_SYLLABLES), syllables))] = None
    return list(made)


@dataclass
class Report:
    """Rows of the two tables."""

    searches: list[tuple[str, list[float], float | None]] = field(default_factory=list)
    steps: list[tuple[str, list[float]]] = field(default_factory=list)

    def search(self, name: str, times: list[float], recall: float | None = None) -> None:
        self.searches.append((name, times, recall))

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.steps.append((name, [time.perf_counter() - start]))

    def tables(self, sentences: int, questions: int) -> Iterator[Table]:
        table = Table(title=f"{questions} questions, {sentences:,} sentences: milliseconds a question", box=SIMPLE)
        for column in ("", "median", "95 %", f"recall at {K}"):
            table.add_column(column, justify="right" if column else "left")
        for name, times, recall in self.searches:
            shown = "" if recall is None else f"{recall:.3f}"
            table.add_row(name, *(f"{1000 * value:.2f}" for value in _quantiles(times)), shown)
        yield table
        table = Table(title="Keeping the index: seconds", box=SIMPLE)
        for column in ("", "median", "95 %"):
            table.add_column(column, justify="right" if column else "left")
        for name, times in self.steps:
            table.add_row(name, *(f"{value:.4f}" for value in _quantiles(times)[: len(times)]))
        yield table


def _quantiles(times: list[float]) -> tuple[float, float]:
    return statistics.median(times), float(np.quantile(times, 0.95))


def timed(work: Callable[[int], object], n: int) -> list[float]:
    """Seconds of each of `n` calls, after one that warms up."""
    work(0)
    times = []
    for i in range(n):
        start = time.perf_counter()
        work(i)
        times.append(time.perf_counter() - start)
    return times


def encoded(backbone: Backbone, question: str) -> Vectors:
    """A question's vector: the mean of its tokens' states, of length 1."""
    with torch.inference_mode():
        tokens = backbone.tokenizer(question, return_tensors="pt", truncation=True, max_length=64)
        states = backbone.encoder(**tokens).last_hidden_state
        vector: Vectors = torch.nn.functional.normalize(states.mean(dim=1)).numpy()
    return vector


@dataclass(frozen=True)
class Asked:
    """The questions, what answers them, and what encodes them."""

    questions: Texts
    others: Vectors  # of other questions, for the approximate structure to tune itself on
    truth: list[set[int]]  # the K nearest sentences of each
    backbone: Backbone


def measure_index(report: Report, folder: Path, sentences: Texts, asked: Asked) -> None:
    """Our index: exact, then approximate, with keywords; and changes to it."""
    n = len(sentences.texts)
    with VectorIndex.open(folder, WIDTH, "made up", approximate_above=n + CHANGES * PER_DOCUMENT) as index:
        with report.step(f"fedqa: adding {n:,} sentences at once"):
            index.add_all(sentences.documents())
        with report.step("fedqa: making the keyword index"):
            index.tend()
        _measure_searches(report, index, asked, "exact")
    _measure_changes(report, folder, asked.questions)
    with VectorIndex.open(folder, WIDTH, "made up", approximate_above=n // 2) as index:
        with report.step("fedqa: making the approximate structure"):
            index.tend(asked.others)
        _measure_searches(report, index, asked, "approximate")


def _measure_searches(report: Report, index: VectorIndex, asked: Asked, kind: str) -> None:
    n, texts = len(asked.questions.texts), asked.questions.texts
    vectors = [asked.questions.vectors[i : i + 1] for i in range(n)]
    found = [{int(hit.entry) for hit in index.search(vector, K)[0]} for vector in vectors]
    report.search(f"fedqa: {kind}", timed(lambda i: index.search(vectors[i], K), n), recall_of(found, asked.truth))
    if kind == "exact":
        report.search("fedqa: keywords", timed(lambda i: index.search_words([texts[i]], K), n))
    hybrid = timed(lambda i: index.search(vectors[i], K, questions=[texts[i]], hybrid=True), n)
    report.search(f"fedqa: hybrid, {kind}", hybrid)

    def whole(i: int) -> object:
        return index.search(encoded(asked.backbone, texts[i]), K, questions=[texts[i]], hybrid=True)

    report.search(f"fedqa: encoding and hybrid, {kind}", timed(whole, n))


def _measure_changes(report: Report, folder: Path, questions: Texts) -> None:
    def once(_: int) -> None:
        with VectorIndex.open(folder, WIDTH, "made up") as index:
            index.search(questions.vectors[:1], K)

    report.steps.append(("fedqa: opening and a first search", timed(once, 5)))
    entries = [Entry(f"new {i}", questions.texts[i], i, i + 1) for i in range(PER_DOCUMENT)]
    with VectorIndex.open(folder, WIDTH, "made up") as index:
        vectors = questions.vectors[:PER_DOCUMENT]
        # The first is left out: warming up has made that change, and it does nothing the second time.
        added = timed(lambda i: index.add(f"new {i}", entries[: 2 + i % 9], vectors[: 2 + i % 9]), CHANGES + 1)[1:]
        report.steps.append(("fedqa: adding a document", added))
        removed = timed(lambda i: index.remove(f"new {i}"), CHANGES + 1)[1:]
        report.steps.append(("fedqa: removing a document", removed))


def measure_raw(report: Report, sentences: Texts, asked: Asked) -> None:
    """faiss and bm25s as they are."""
    questions, n = asked.questions, len(asked.questions.texts)
    raw: dict[str, faiss.Index] = {
        "flat": faiss.IndexFlatIP(WIDTH),
        "HNSW": faiss.IndexHNSWFlat(WIDTH, 32, faiss.METRIC_INNER_PRODUCT),
    }
    for name, index in raw.items():
        with report.step(f"faiss {name}: adding all"):
            index.add(sentences.vectors)
        found = [set(row) for row in index.search(questions.vectors, K)[1].tolist()]
        times = timed(lambda i, index=index: index.search(questions.vectors[i : i + 1], K), n)  # type: ignore[misc]
        report.search(f"faiss {name}", times, recall_of(found, asked.truth))
    keywords = bm25s.BM25(backend="numpy")
    with report.step("bm25s: indexing all"):
        keywords.index([words(text) for text in sentences.texts], show_progress=False)
    cut = [words(text) for text in questions.texts]
    times = timed(lambda i: keywords.retrieve([cut[i]], k=K, show_progress=False), n)
    report.search("bm25s", times)


def recall_of(found: list[set[int]], truth: list[set[int]]) -> float:
    return statistics.fmean(len(a & b) / len(b) for a, b in zip(found, truth, strict=True))


# -- the desk ------------------------------------------------------------------------------------------------------


def measured_desk(folder: Path, questions: int, starts: int) -> Table:
    """Start afresh some times and ask; everything is indexed and fitted before, as it is but for the first start."""
    silo = sample_desk(folder)
    asked, tokens = _questions(silo, questions), sessions(silo, questions)
    pages = [page_times(silo, asked, tokens) for _ in range(starts)]
    desks = [_desk(silo, questions) for _ in range(starts)]
    rows: dict[str, list[float]] = {
        "fedqa serve: from nothing to its page": [page.there for page in pages],
        "... to the first answer, by keywords": [page.by_keywords for page in pages],
        "... to the first answer of the models": [page.by_models for page in pages],
        "a later question, through the page": [seconds for page in pages for seconds in page.later],
        "the desk alone: importing torch and transformers": [desk["imported"] for desk in desks],
        "loading the models, opening the index": [desk["opened"] for desk in desks],
        "the first question": [desk["first"] for desk in desks],
        "a later question": [seconds for desk in desks for seconds in desk["later"]],
    }
    table = Table(title=f"The page of the sample hospital, {starts} starts: seconds", box=SIMPLE)
    for column in ("", "median", "95 %"):
        table.add_column(column, justify="right" if column else "left")
    for name, times in rows.items():
        table.add_row(name, *(f"{value:.3f}" for value in _quantiles(times)))
    return table


def _questions(silo: Path, many: int) -> list[str]:
    with Store.open(load_settings(silo).store) as store:
        return list(islice(cycle(example.question for example in store.collection().of_split("test")), many))


def _desk(silo: Path, questions: int) -> dict[str, Any]:
    """Seconds of each step in a process that opens the desk without a page; importing counts from its start."""
    began = time.time()
    command = [sys.executable, "-m", "benchmarks._desk_start", str(silo), str(questions)]
    done = subprocess.run(command, check=True, capture_output=True, cwd=Path(__file__).parents[1])
    seen = json.loads(done.stdout)
    return {
        "imported": seen["imported"] - began,
        "opened": seen["opened"] - seen["imported"],
        "first": seen["first"] - seen["opened"],
        "later": seen["later"],
    }


def sample_desk(folder: Path) -> Path:
    """The file of a silo with the sample hospital's documents, and runs that have trained nothing."""
    for skill in ("match", "read"):
        silos = [{"name": "hospital", "skill": skill, "data": {"sample": "hospital"}}]
        untrained = sample_alliance("zero_shot", silo=silos, evaluation={"every": 0})
        train(project_of(untrained), folder / skill, processes=1)
    silo = folder / "hospital.toml"
    silo.write_text(
        'name = "hospital"\nstore = "hospital.sqlite"\n[data]\nsample = "hospital"\n'
        '[runs]\nmatch = "match"\nread = "read"\n',
        encoding="utf-8",
    )
    settings = load_settings(silo)
    with Store.open(settings.store) as store:
        fill(settings, store)
        desk = Desk.open(settings, store)
        desk.settle()
        desk.close()
    return silo


def measured(sentences: int, questions: int) -> Report:
    """All of it."""
    world, report = World.of(sentences), Report()
    held, drawn = world.drawn(sentences, mean_length=18), world.drawn(questions, mean_length=9)
    scores = (drawn.vectors[i : i + 1] @ held.vectors.T for i in range(questions))
    truth = [set(np.argsort(-row[0], kind="stable")[:K].tolist()) for row in scores]
    asked = Asked(drawn, world.drawn(TUNING, mean_length=9).vectors, truth, load_backbone("embedded"))
    report.search("encoding a question", timed(lambda i: encoded(asked.backbone, drawn.texts[i]), questions))
    with tempfile.TemporaryDirectory() as folder:
        measure_index(report, Path(folder), held, asked)
    measure_raw(report, held, asked)
    return report


def main(quick: bool = False) -> None:
    sentences, questions = (10_000, 50) if quick else (100_000, 200)
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        with one_thread(), threadpool_limits(1):
            report = measured(sentences, questions)
    finally:
        faiss.omp_set_num_threads(threads)
    for table in report.tables(sentences, questions):
        Console().print(table)
    with tempfile.TemporaryDirectory() as folder:
        Console().print(measured_desk(Path(folder), *((20, 1) if quick else (100, 5))))
