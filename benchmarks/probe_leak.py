# SPDX-License-Identifier: Apache-2.0
"""The probe leak study: what the sums that make ATC's probe set say of the texts of the silo with the largest share.

All silos know these sums. Eight silos have news of the same kind, so that attackers know the words; they name words of
the attacked silo's texts, and tell texts that are in a sum from texts of the same silo that are not. One attacker is a
single silo, which takes its own part away; the other, all other silos together, which no sum can hide anything from but
by mixing and noise. Figures are lower bounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from rich.console import Console

from benchmarks.leak_attacks.sums import Attacker, Pool, present, read, summed
from benchmarks.leak_attacks.words import content_words
from benchmarks.study.page import Cell, Grid, Note, Page, Row, Section, markdown, terminal
from benchmarks.study.public_data import public_data
from fedqa.data.formats import read_format
from fedqa.data.records import Collection
from fedqa.data.splits import by_question, rank
from fedqa.evaluation.words import listed, number, percent
from fedqa.federation.probe import ProbeOptions, encoded
from fedqa.files import write_json, write_text
from fedqa.models.backbones import Backbone, load_backbone
from fedqa.models.text_pair import TextPair, text_pair
from fedqa.seeds import generator
from fedqa.skills.silo_texts import Texts, silo_texts
from fedqa.training import one_thread

PROJECT = Path(__file__).parents[1]
RESULTS = PROJECT / "benchmarks" / "results" / "probe_leak"
SEED, MODEL, SILOS = 1, "embedded:2", 8
_AT_ONCE = 64  # texts that are encoded together
DEFAULT = ProbeOptions()
PUBLISHED = replace(DEFAULT, texts=1, shuffled=False, noise=0.0)
WAYS: Mapping[str, ProbeOptions] = {
    "as published": PUBLISHED,
    "with noise": replace(PUBLISHED, noise=DEFAULT.noise),
    "shuffled": replace(PUBLISHED, shuffled=True),
    f"{DEFAULT.texts} texts": replace(PUBLISHED, texts=DEFAULT.texts),
    f"{DEFAULT.texts} texts, shuffled": replace(DEFAULT, noise=0.0),
    "with all three, as is the default": DEFAULT,
}


@dataclass(frozen=True)
class Size:
    """How much is attacked, and with what effort."""

    texts: int = 800  # of a silo
    attacked: int = 64  # sums
    learnt: int = 400  # sums that the attacker makes to learn from


QUICK = Size(texts=200, attacked=16, learnt=60)


@dataclass(frozen=True)
class Leak:
    """What attackers find in sums that are made one way."""

    way: str
    attackers: str
    words: float  # the different words in the attacked silo's part of a sum, mean
    named: float  # share of them that are named, as many being named as there are
    guessed: float  # the same without any sum
    confirmed: float  # how often a text that is in a sum looks more like it than one that is not


def main(quick: bool = False) -> None:
    size = QUICK if quick else Size()
    with one_thread():
        leaks = measured(load_backbone(MODEL), silos(size.texts), size)
    write(leaks, PROJECT / "runs" / "probe-leak-quick" if quick else RESULTS)
    Console().print(terminal(grid(leaks)))
    Console().print(meaning(leaks))


def silos(texts: int) -> list[Collection]:
    """News, dealt out in an order that the seed decides."""
    found = by_question(read_format("agnews", public_data("agnews"), {}).examples)
    order = [replace(found[question][0], split="train") for question in sorted(found, key=partial(rank, SEED))]
    return [Collection((), tuple(order[i * texts : (i + 1) * texts])) for i in range(SILOS)]


# -- measuring ---------------------------------------------------------------------------------------------------


def measured(
    backbone: Backbone, collections: Sequence[Collection], size: Size, ways: Mapping[str, ProbeOptions] = WAYS
) -> list[Leak]:
    """All attacks on the first silo's part of sums that are made in every way."""
    pair = text_pair(backbone, seed=0).eval()
    pools = [pool(pair, silo_texts(one, backbone.tokenizer).cut(DEFAULT.length)) for one in collections]
    vocabulary = backbone.tokenizer.get_vocab()
    words = np.array(sorted(id for piece, id in vocabulary.items() if content_words(piece) == {piece}))
    who = {"one silo": 1, "all others": len(pools) - 1}
    return [leak for name, options in ways.items() for leak in _leaks(name, options, pools, words, who, size)]


def pool(pair: TextPair, texts: Texts) -> Pool:
    """A window of each text, with its states."""
    rows = texts.drawn(len(texts.texts), generator(SEED, "windows"))
    ids = texts.padded(rows)[0].numpy()
    blocks = (rows[start : start + _AT_ONCE] for start in range(0, len(rows), _AT_ONCE))
    with torch.inference_mode():
        states = torch.cat([encoded(pair, texts, block, DEFAULT.length) for block in blocks])
    return Pool(np.pad(ids, ((0, 0), (0, DEFAULT.length - ids.shape[1]))), states)


def _leaks(
    name: str, options: ProbeOptions, pools: Sequence[Pool], words: np.ndarray, who: Mapping[str, int], size: Size
) -> list[Leak]:
    secret, *others = pools
    texts = Pool(np.concatenate([one.ids for one in others]), torch.cat([one.states for one in others]))
    own = summed([texts] * len(pools), size.learnt, options, SEED)
    sums = summed(pools, size.attacked, options, SEED + 1)
    true = [frozenset(words[row].tolist()) for row in present(secret.ids, sums.rows, words)]
    found = []
    for attackers, accomplices in who.items():
        attacker, seen = Attacker(texts, words, own, own.seen(accomplices)), sums.seen(accomplices)
        named, guessed = read(attacker, seen, true)
        confirmed = attacker.confirmed(seen, sums.rows, secret)
        found.append(Leak(name, attackers, fmean(map(len, true)), named, guessed, confirmed))
    return found


# -- telling -----------------------------------------------------------------------------------------------------


def write(leaks: Sequence[Leak], folder: Path) -> None:
    write_json(folder / "probe_leak.json", [asdict(leak) for leak in leaks])
    section = Section("sums", "Words and texts", [grid(leaks), NOTE])
    page = Page("fedqa", "What a probe set gives away", [meaning(leaks)], [], [section], "")
    write_text(folder / "report.md", markdown(page))


NOTE = Note(
    "As many words are named as there are in the part; the attackers' own texts do not have all of them. Confirmed: "
    "how often a text that is in a sum looks more like it than another of the same silo; 0.500 is chance. One silo "
    "takes its own part away; all others together, theirs."
)


def grid(leaks: Sequence[Leak]) -> Grid:
    who = list(dict.fromkeys(leak.attackers for leak in leaks))
    heads = [Cell("Words", ["in a part"]), Cell("Guessed", ["without a sum"])]
    heads += [Cell(what, [f"by {one}"]) for what in ("Named", "Confirmed") for one in who]
    rows = []
    for way in dict.fromkeys(leak.way for leak in leaks):
        found = [leak for leak in leaks if leak.way == way]
        values = [*(one.named for one in found), *(one.confirmed for one in found)]
        cells = [f"{found[0].words:.0f}", number(found[0].guessed), *map(number, values)]
        rows.append(Row(Cell(way), list(map(Cell, cells))))
    caption = "Words of a silo's texts that attackers name, and texts that they confirm"
    return Grid(caption, [Cell(""), *heads], rows)


def meaning(leaks: Sequence[Leak]) -> str:
    """What the figures say of the first and the last way."""
    told = []
    for way in (leaks[0].way, leaks[-1].way):
        found = [leak for leak in leaks if leak.way == way]
        named = listed([f"{one.attackers} {percent(one.named)}" for one in found])
        confirmed = listed([f"{one.attackers} {percent(one.confirmed)}" for one in found])
        told.append(
            f"Of the words in one silo's part of sums made {way}, {percent(found[0].guessed)} are guessed without "
            f"them, and with them named by {named}; the texts in it are told from others by {confirmed} of the time."
        )
    return " ".join(told)
