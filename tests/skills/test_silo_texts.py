# SPDX-License-Identifier: Apache-2.0
"""A silo's texts apart from its skill."""

import numpy as np
import torch

from fedqa.data.records import Collection, Document, Example, Span
from fedqa.models.backbones import load_backbone
from fedqa.skills.silo_texts import NO_TEXTS, Texts, silo_texts
from fedqa.skills.texts import Text


def texts(*lengths: int) -> Texts:
    """Texts of so many tokens, each token telling its text and place: 100 * text + place."""
    rows = [Text(f"t{i}", np.arange(n) + 100 * i) for i, n in enumerate(lengths, start=1)]
    return Texts(rows, before=(1,), after=(2, 3), pad=9, length=8)


def test_windows_leave_room_for_special_tokens() -> None:
    rng = np.random.default_rng(0)
    for row in texts(4, 20).drawn(10, rng):
        assert len(row) <= 8 - 3
        assert (np.diff(row) == 1).all()


def test_a_batch_is_framed_and_padded() -> None:
    given = texts(2, 1)
    ids, mask = given.padded([text.tokens for text in given.texts])
    assert ids.tolist() == [[1, 100, 101, 2, 3], [1, 200, 2, 3, 9]]
    assert mask.tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]]


def test_an_epoch_has_every_text_once() -> None:
    given = texts(3, 3, 3, 3, 3)
    batches = list(given.epoch(2, np.random.default_rng(1)))
    assert sorted(n for _, n in batches) == [1, 2, 2]
    assert len(batches) == given.n_batches(2) == 3
    assert sorted(int(row[0]) // 100 for rows, _ in batches for row in rows) == [1, 2, 3, 4, 5]


def test_more_texts_than_there_are_come_again_each_about_as_often() -> None:
    drawn = [int(row[0]) // 100 for row in texts(3, 3, 3).drawn(7, np.random.default_rng(0))]
    assert sorted(map(drawn.count, (1, 2, 3))) == [2, 2, 3]


def test_another_length_is_another_window_of_the_same_texts() -> None:
    given = texts(20).cut(6)
    assert [len(row) for row in given.drawn(2, np.random.default_rng(0))] == [3, 3]
    assert NO_TEXTS.n_batches(4) == 0


def test_only_training_texts_are_read_and_nothing_that_is_asked_or_answered() -> None:
    documents = (Document("one", "rain falls in spring"), Document("two", "snow falls in winter"))
    examples = (
        Example("a", "secret question?", (Span("one", 0, 4),), answers=("hidden",), split="train", about="one"),
        Example("b", "other question?", (Span("two", 0, 4),), answers=("hidden",), split="test", about="two"),
    )
    tokenizer = load_backbone("tiny").tokenizer
    found = silo_texts(Collection(documents, examples), tokenizer)
    ids, mask = found.padded([text.tokens for text in found.texts])
    assert ids.tolist() == [tokenizer("rain falls in spring")["input_ids"]]
    assert bool(mask.all()) and ids.dtype == torch.int64
