# SPDX-License-Identifier: Apache-2.0
"""The leak study: what a silo can read from the sentence vectors that another sends it through `fed_negative`.

Whoever receives a vector owns the encoder that made it. The silo that sends is one of the ten of the PDD-AS2 study, the
attackers own the texts of the other nine. The attacks on every way of sending: they guess (the sentence is among texts
they have, without and with near-duplicates of it); they take the nearest text they have, or the nearest single words of
the encoder's dictionary; and they train a model that tells words from vectors. A search then puts words in order. All
are lower bounds: an attacker with more texts, about the same matters, or with more time will read more.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor

from benchmarks.leak_attacks.guessing import (
    Confirmed,
    confirmed,
    cosines,
    dictionary_recall,
    named,
    near_duplicates,
    nearest,
    nearest_words,
    random_words,
)
from benchmarks.leak_attacks.inversion import (
    Inverted,
    Inverter,
    Search,
    Training,
    corrected,
    frequent_words,
    trained_inverter,
    vocabulary,
)
from benchmarks.leak_attacks.sending import Encoder, Texts, Way, World
from benchmarks.leak_attacks.words import Overlap, content_words, pieces
from benchmarks.pdd_as2 import articles
from benchmarks.study.page import Cell, Grid, Note, Page, Row, Section, markdown, terminal
from fedqa.data.passages import passages
from fedqa.data.records import Collection
from fedqa.data.sentences import sentences_of
from fedqa.evaluation.words import DASH, count, number, percent
from fedqa.federation.fed_negative import FedNegativeOptions
from fedqa.files import write_json, write_text
from fedqa.seeds import derive, generator
from fedqa.training import one_thread

PROJECT = Path(__file__).parents[1]
RESULTS = PROJECT / "benchmarks" / "results" / "leak"
SEED = 1
DEFAULT = FedNegativeOptions().noise
NOISES = sorted({0.01, 0.02, 0.05, 0.1, DEFAULT})
WAYS = (Way("float32", as_bytes=False), Way("int8"), *(Way(f"int8, noise {noise}", noise) for noise in NOISES))
NO_VECTOR = "no vector"


@dataclass(frozen=True)
class Size:
    """How much is attacked, and with what effort."""

    attacked: int = 300
    a_silo: int | None = None  # sentences of each silo; None = all
    duplicates: int = 20  # near-duplicates of each attacked sentence
    dictionary: int | None = None  # words of it; None = all
    training: Training = field(default_factory=Training)
    search: Search = field(default_factory=Search)


QUICK = Size(
    attacked=50,
    a_silo=200,
    duplicates=6,
    training=Training(vocabulary=2000, epochs=6),
    search=Search(sentences=4, steps=4, proposals=32),
)


@dataclass(frozen=True)
class Ordered:
    """What the search for the sentence itself ends with."""

    words: Overlap
    exact: float  # the share of sentences that are found word by word


@dataclass(frozen=True)
class Leak:
    """The figures of one way of sending."""

    way: str
    among_all: Confirmed
    among_duplicates: Confirmed
    nearest: Overlap
    dictionary: float | None  # recall
    inverted: Inverted
    ordered: Ordered | None


@dataclass(frozen=True)
class Study:
    """All figures; `floor` is what the attacks reach without any vector."""

    attacked: int
    candidates: int
    with_duplicates: int
    known: float  # the share of the true words that the inversion could name at all
    searched: int
    leaks: Sequence[Leak]
    floor: Leak


def main(quick: bool = False) -> None:
    size = QUICK if quick else Size()
    with one_thread():
        secret, *others = (sentences(silo)[: size.a_silo] for silo in articles(SEED, None).values())
        study = measured(secret, [text for texts in others for text in texts], Encoder("embedded"), size)
    write(study, PROJECT / "runs" / "leak-quick" if quick else RESULTS)
    for grid in (guesses(study), readings(study)):
        Console().print(terminal(grid))
    Console().print(meaning(study))


def sentences(silo: Collection) -> list[str]:
    """The different sentences of all documents."""
    found = (passage for document in silo.documents for passage in passages(document))
    return list(dict.fromkeys(place.text for passage in found for place in sentences_of(passage)))


# -- measuring ---------------------------------------------------------------------------------------------------


def measured(
    secret: Sequence[str], others: Sequence[str], encoder: Encoder, size: Size, ways: Sequence[Way] = WAYS
) -> Study:
    """All attacks on every way of sending `secret`; `others` are the attackers' own texts."""
    world = World.of(secret, others, encoder, attacked=size.attacked, seed=SEED)
    rng = generator(SEED, "duplicates")
    near = [text for one in world.truth for text in near_duplicates(one, size.duplicates, encoder, rng)]
    candidates = torch.cat([world.secret.vectors, world.others.vectors])
    known = encoder.dictionary()[: size.dictionary]
    dictionary = Texts(known, encoder(known))
    attackers = Attackers(world, encoder, size, candidates, torch.cat([candidates, encoder(near)]), dictionary)
    words = frozenset(vocabulary(world.others.texts, size.training.vocabulary))
    return Study(
        attacked=len(world.targets),
        candidates=len(candidates),
        with_duplicates=len(attackers.with_duplicates),
        known=Overlap.of([words] * len(world.targets), world.true_words).recall,
        searched=min(size.search.sentences, len(world.targets)),
        leaks=[attackers.leak(way) for way in ways],
        floor=attackers.floor(),
    )


@dataclass(frozen=True, eq=False)
class Attackers:
    """What the attackers have. The secret sentences are the first of the candidates, in their order."""

    world: World
    encoder: Encoder
    size: Size
    candidates: Tensor
    with_duplicates: Tensor
    dictionary: Texts  # single words

    def leak(self, way: Way) -> Leak:
        world, true = self.world, self.world.true_words
        received = world.received(way, SEED)
        inverter = trained_inverter(way, world.others, self.size.training, SEED)
        return Leak(
            way.name,
            confirmed(received, self.candidates, world.targets),
            confirmed(received, self.with_duplicates, world.targets),
            nearest_words(received, world.others, true),
            dictionary_recall(received, self.dictionary, true),
            Inverted.of(inverter.probabilities(received), inverter.words, true),
            self._ordered(received[: self.size.search.sentences], inverter),
        )

    def floor(self) -> Leak:
        texts, true = self.world.others, self.world.true_words
        return Leak(
            NO_VECTOR,
            Confirmed.by_chance(len(self.candidates)),
            Confirmed.by_chance(len(self.with_duplicates)),
            random_words(texts, true, generator(SEED, "floor")),
            None,
            frequent_words(texts.texts, self.size.training.vocabulary, true),
            None,
        )

    def _ordered(self, received: Tensor, inverter: Inverter) -> Ordered:
        search, rows = self.size.search, inverter.probabilities(received)
        starts = nearest(received, self.world.others, search.beam)
        scores, words = cosines(received, self.dictionary.vectors), self.dictionary.texts
        found = [
            corrected(
                received[i],
                starts[i],
                named(scores[i], words, search.words) + named(rows[i], inverter.words, search.words),
                encoder=self.encoder,
                search=search,
                seed=derive(SEED, i),
            )
            for i in range(len(received))
        ]
        return ordered(found, self.world.truth[: len(found)])


def ordered(found: Sequence[str], true: Sequence[str]) -> Ordered:
    """Sentences count as the same whatever their case and spacing."""
    exact = sum(pieces(a) == pieces(b) for a, b in zip(found, true, strict=True)) / len(true)
    return Ordered(Overlap.of([content_words(one) for one in found], [content_words(one) for one in true]), exact)


# -- telling -----------------------------------------------------------------------------------------------------


def write(study: Study, folder: Path) -> None:
    write_json(folder / "leak.json", asdict(study))
    write_text(folder / "report.md", markdown(page(study)))


def page(study: Study) -> Page:
    note = Note(
        f"{count(study.attacked)} sentences of one silo are attacked by the other silos together, which know "
        f"{percent(study.known)} of their words; the search has been tried on {count(study.searched)}."
    )
    sections = [
        Section("guessing", "Guessing", [guesses(study)]),
        Section("reading", "Reading", [readings(study), note]),
    ]
    return Page("fedqa", "What sentence vectors give away", [meaning(study)], [], sections, "")


def guesses(study: Study) -> Grid:
    sizes = [f"of {count(study.candidates)}", f"of {count(study.with_duplicates)}, with near-duplicates"]
    columns = [Cell(head, [of]) for of in sizes for head in ("Confirmed", "Median rank")]
    rows = [
        Row(Cell(leak.way), [*_confirmed(leak.among_all), *_confirmed(leak.among_duplicates)]) for leak in _all(study)
    ]
    return Grid("The sentence is among the attacker's candidates", [Cell(""), *columns], rows)


def _confirmed(one: Confirmed) -> list[Cell]:
    return [Cell(percent(one.exact)), Cell(f"{one.median_rank:.1f}".removesuffix(".0"))]


def readings(study: Study) -> Grid:
    heads = {
        "Text": ["recall", "prec."],
        "Words": ["recall"],
        "Model": ["recall"],
        "Sure": ["prec.", "words"],
        "All": ["exact"],
        "Search": ["recall", "prec."],
        "Found": ["exact"],
    }
    columns = [Cell(head, notes) for head, notes in heads.items()]
    rows = [Row(Cell(leak.way), _read(leak)) for leak in _all(study)]
    caption = (
        "The sentence is not among the attacker's texts: words of the nearest text; the nearest words of the "
        "dictionary; the model's likeliest words, those it is sure of, and all words right; the search's words, and "
        "sentences it found word by word"
    )
    return Grid(caption, [Cell(""), *columns], rows)


def _read(leak: Leak) -> list[Cell]:
    told, found = leak.inverted, leak.ordered
    return [
        _overlap(leak.nearest),
        Cell(DASH if leak.dictionary is None else number(leak.dictionary)),
        Cell(number(told.recall)),
        Cell(DASH if told.sure_precision is None else number(told.sure_precision), [f"{told.sure_words:.1f}"]),
        Cell(number(told.exact)),
        *([Cell(DASH), Cell(DASH)] if found is None else [_overlap(found.words), Cell(number(found.exact))]),
    ]


def _overlap(one: Overlap) -> Cell:
    return Cell(number(one.recall), [number(one.precision)])


def _all(study: Study) -> list[Leak]:
    return [*study.leaks, study.floor]


def meaning(study: Study) -> str:
    """What the figures say, in two sentences: of guessing, and of reading."""
    usual = next((leak for leak in study.leaks if leak.way == _default_way()), study.leaks[-1])
    exact, last = study.leaks[0], study.leaks[-1]
    guessed = (
        f"Whoever has the sentence itself among {count(study.candidates)} candidates confirms it from a vector sent as "
        f"{exact.way} in {percent(exact.among_all.exact)} of cases, as {usual.way} in "
        f"{percent(usual.among_all.exact)}, and as {last.way} in {percent(last.among_all.exact)}."
    )
    read = (
        f"Whoever does not have it names {percent(_best(usual))} of its words from a vector sent as {usual.way}, "
        f"against {percent(_best(exact))} as {exact.way} and {percent(_best(study.floor))} without any vector, and the "
        f"search finds {_searched(usual, study)}."
    )
    return f"{guessed} {read}"


def _best(leak: Leak) -> float:
    """The recall of the better way to name words."""
    return max(leak.dictionary or 0.0, leak.inverted.recall)


def _default_way() -> str:
    return next(way.name for way in WAYS if way.noise == DEFAULT)


def _searched(leak: Leak, study: Study) -> str:
    assert leak.ordered is not None
    found = round(leak.ordered.exact * study.searched)
    return f"{count(found) if found else 'none'} of {count(study.searched)} sentences word by word"
