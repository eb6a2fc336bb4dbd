# SPDX-License-Identifier: Apache-2.0
"""Which small model learns to write SQL best in a given time, on one core: why `parse` is built as it is.

All start from the first four layers of the embedded encoder and learn from GeoQuery's training questions for the same
CPU time, at the better of two rates on dev. *Copying*: a decoder that copies tables, columns and words of the question
(`parse`), on an encoder that stays as loaded, its states computed once; with two layers, without being told which words
name what, and with the encoder trained too. *Writing words*: an encoder-decoder made of the same layers that has read
question and schema and writes SQL as plain text, word piece by word piece (the model of `generate`, as BERT2BERT).

The data are public and not part of the project; they are looked for in `../shared/data`, or where FEDQA_DATA says.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.study.jobs import bar
from benchmarks.study.public_data import public_data
from fedqa.data.formats import read_format
from fedqa.data.records import SPLITS, Collection, Example, Split
from fedqa.evaluation.sql import exact_match
from fedqa.evaluation.words import count, number
from fedqa.models.backbones import load_backbone
from fedqa.models.tagged import TaggedModel
from fedqa.seeds import generator
from fedqa.skills.generate import Generate, GenerateOptions
from fedqa.skills.parse import Parse, ParseOptions
from fedqa.training import Adam, Local, Term, fit, one_thread

MODEL, SET, BATCH, RATES = "embedded:4", "geography", 8, (1e-3, 3e-4)
SECONDS, QUICK_SECONDS = 75.0, 15.0  # of CPU time to train
STEPS_TIMED = 20
MOST: Mapping[Split, int] = {"dev": 49, "test": 150}


@dataclass(frozen=True)
class Writer:
    """A model on its way: its loss, what it writes for a split, and whether that is right."""

    model: TaggedModel
    features: Any
    loss: Callable[[Any], torch.Tensor]
    right: Callable[[Split], list[bool]]


@dataclass(frozen=True)
class Learnt:
    parameters: int  # that are trained
    steps: int
    seconds: float  # of a step
    rate: float
    dev: float
    test: float


def main(quick: bool = False) -> None:
    collection = _limited(read_format("text2sql", public_data("text2sql") / f"{SET}.json", {"seed": 1}))
    seconds = QUICK_SECONDS if quick else SECONDS
    with one_thread(), bar() as shown:
        task = shown.add_task("writers", total=len(WRITERS) * len(RATES))
        found: dict[str, list[Learnt]] = {name: [] for name in WRITERS}
        for name, make in WRITERS.items():
            for rate in RATES:
                found[name].append(learnt(partial(make, collection), rate, seconds))
                shown.advance(task)
    best = {name: max(ways, key=lambda one: one.dev) for name, ways in found.items()}
    Console().print(table(best, seconds))


def learnt(make: Callable[[], Writer], rate: float, seconds: float) -> Learnt:
    """As many steps as fit into the time, which is first measured."""
    timed = make()
    _trained(timed, rate, STEPS_TIMED)  # of texts that it has met before, a frozen encoder's states are remembered
    writer, steps = make(), max(1, int(seconds * STEPS_TIMED / _trained(timed, rate, STEPS_TIMED)))
    spent = _trained(writer, rate, steps)
    writer.model.module.eval()
    dev, test = (float(np.mean(writer.right(split))) for split in ("dev", "test"))
    return Learnt(sum(p.numel() for p in _parameters(writer.model)), steps, spent / steps, rate, dev, test)


def _trained(writer: Writer, rate: float, steps: int) -> float:
    """CPU seconds."""
    local = Local(steps=steps, batch=BATCH, learning_rate=rate, schedule="linear", warmup=0.05)
    parameters = _parameters(writer.model)
    optimiser = Adam(parameters)
    optimiser.start(local, None, 0)
    torch.manual_seed(0)  # of dropout
    writer.model.module.train()
    began = time.process_time()
    rng = generator(1, "writers")
    fit(writer.loss, parameters, optimiser, data=writer.features, local=local, terms=(Term("task"),), rng=rng)
    return time.process_time() - began


def _parameters(model: TaggedModel) -> list[torch.nn.Parameter]:
    """Those that a course would train: words stay as loaded."""
    return [p for name, p in model.module.named_parameters() if not model.tags[name] & {"embeddings", "pooler"}]


def table(found: Mapping[str, Learnt], seconds: float) -> Table:
    shown = Table(title=f"{SET}, {seconds:g} CPU seconds of training each, batches of {BATCH}")
    shown.add_column("writer")
    for name in ("trained", "ms a step", "steps", "rate", "dev EM", "test EM"):
        shown.add_column(name, justify="right")
    for name, one in found.items():
        cells = (count(one.parameters), f"{1000 * one.seconds:.0f}", count(one.steps), f"{one.rate:g}")
        shown.add_row(name, *cells, number(one.dev), number(one.test))
    return shown


# -- writers -----------------------------------------------------------------------------------------------------


def copying(collection: Collection, **options: Any) -> Writer:
    skill, backbone = Parse(ParseOptions(max_steps=80, **options)), load_backbone(MODEL)
    model, features = skill.build(backbone, 1), skill.prepare(collection, backbone, 1)

    def right(split: Split) -> list[bool]:
        return [bool(value) for value in skill.score(model.module, features, split)["em"]]

    return Writer(model, features, lambda batch: skill.loss(model.module, batch), right)


def writing_words(collection: Collection) -> Writer:
    """Gold and written SQL are compared without spaces and capitals, which its word pieces do not keep."""
    options = GenerateOptions(max_source=160, max_target=96, beams=1, no_repeat=0)
    skill, backbone, schema = Generate(options), load_backbone(MODEL), collection.documents[0].text
    texts = Collection((), tuple(_as_text(example, schema) for example in collection.examples))
    model, features = skill.build(backbone, 1), skill.prepare(texts, backbone, 1)
    gold = {one.id: one.sql for one in collection.examples}

    def right(split: Split) -> list[bool]:
        written = skill.predict(model.module, features, split)
        return [bool(exact_match(_bare(sql), _bare(gold[id]))) for id, sql in written.items()]

    return Writer(model, features, lambda batch: skill.loss(model.module, batch), right)


WRITERS: Mapping[str, Callable[[Collection], Writer]] = {
    "copying": copying,
    "copying, two layers": lambda collection: copying(collection, decoder_layers=2),
    "copying, no links": lambda collection: copying(collection, links=False),
    "copying, encoder trained": lambda collection: copying(collection, train_encoder=True),
    "writing words": writing_words,
}


def _as_text(example: Example, schema: str) -> Example:
    """To be written from the question and the schema together."""
    return replace(example, question=f"{example.question} {schema}", answers=(example.sql,), about="")


def _bare(sql: str) -> str:
    return "".join(sql.lower().split())


def _limited(collection: Collection) -> Collection:
    kept = [example for split in SPLITS for example in list(collection.of_split(split))[: MOST.get(split)]]
    return replace(collection, examples=tuple(kept))
