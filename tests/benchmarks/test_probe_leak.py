# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.leak_attacks.sums import Array, Attacker, Pool, present, read, summed
from benchmarks.probe_leak import DEFAULT, PUBLISHED, Leak, Size, measured, write
from fedqa.data.records import Collection, Example
from fedqa.evaluation.words import percent
from fedqa.federation.probe import ProbeOptions
from fedqa.models.backbones import load_backbone
from fedqa.seeds import generator

WORDS = np.arange(1, 9)
DEAF = replace(PUBLISHED, noise=1000.0)


def pool(seed: int, texts: int = 60) -> Pool:
    """Texts of four words; the state of a word is a corner of its own, a little blurred."""
    rng = generator(seed, "pool")
    ids = rng.integers(1, 9, size=(texts, 4))
    states = np.eye(9)[ids] + rng.normal(0, 0.05, (texts, 4, 9))
    return Pool(ids, torch.from_numpy(states).float())


def attacked(options: ProbeOptions) -> tuple[float, float, float]:
    """Words named and guessed, and texts confirmed, by one silo of four."""
    pools = [pool(seed) for seed in range(4)]
    own, sums = (summed(those, 80, options, seed) for seed, those in ((1, [pools[1]] * 4), (2, pools)))
    true = [frozenset(WORDS[row].tolist()) for row in present(pools[0].ids, sums.rows, WORDS)]
    attacker = Attacker(pools[1], WORDS, own, own.seen(1))
    named, guessed = read(attacker, sums.seen(1), true)
    return named, guessed, attacker.confirmed(sums.seen(1), sums.rows, pools[0])


def test_a_sum_is_the_weighted_one_of_all_parts_and_silos_take_their_own_away() -> None:
    pools = [pool(seed) for seed in range(4)]
    sums = summed(pools, 5, PUBLISHED, seed=3)
    states = pools[0].states[torch.from_numpy(sums.rows[:, 0])].double().numpy()
    assert sums.parts[0] == pytest.approx(states / 2)
    assert all(abs(part).max() < 1.5 / 6 for part in sums.parts[1:])  # the others share the other half
    whole: Array = sum(sums.parts[1:], sums.parts[0])
    assert sums.seen(0) == pytest.approx(whole)
    assert sums.seen(1) == pytest.approx(whole - sums.parts[1])
    assert sums.seen(3) == pytest.approx(sums.parts[0])


def test_words_and_texts_are_read_off_plain_sums_and_not_off_noise() -> None:
    named, guessed, confirmed = attacked(PUBLISHED)
    assert named > 0.95 > 0.6 > guessed and confirmed > 0.95
    named, guessed, confirmed = attacked(DEAF)
    assert abs(named - guessed) < 0.1 and 0.4 < confirmed < 0.6


def test_shuffled_words_are_named_all_the_same() -> None:
    assert attacked(replace(PUBLISHED, shuffled=True))[0] > 0.95


def test_every_way_is_attacked_by_one_silo_and_by_all_and_told(tmp_path: Path) -> None:
    topics = ("bank rate money loan", "fever water doctor ward", "lease tenant court law", "river mill flood spring")
    silos = [
        Collection((), tuple(Example(f"{i}-{j}", f"{topic} number {j}", split="train") for j in range(30)))
        for i, topic in enumerate(topics)
    ]
    leaks = measured(
        load_backbone("tiny"), silos, Size(texts=30, attacked=6, learnt=20), {"plain": PUBLISHED, "default": DEFAULT}
    )
    assert [(leak.way, leak.attackers) for leak in leaks] == [
        (way, who) for way in ("plain", "default") for who in ("one silo", "all others")
    ]
    write(
        [Leak("plain", "one silo", 15.0, 0.75, 0.05, 1.0), Leak("default", "one silo", 200.0, 0.26, 0.25, 0.85)],
        tmp_path,
    )
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    told = f"sums made plain, {percent(0.05)} are guessed without them, and with them named by one silo {percent(0.75)}"
    assert told in report
    assert "| default | 200 | 0.250 | 0.260 | 0.850 |" in report
