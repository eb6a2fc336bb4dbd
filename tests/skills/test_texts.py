# SPDX-License-Identifier: Apache-2.0
"""Which texts of a silo are learnt from without answers, and in which split."""

import numpy as np
from pair_toys import tiny

from fedqa.data.records import Collection, Document, Example, Span, Split
from fedqa.skills.batches import batched
from fedqa.skills.texts import Text, texts_of


def about(document: str, split: Split, number: int = 0) -> Example:
    return Example(
        f"{document}-{split}-{number}", "a secret question", about=document, answers=("secret",), split=split
    )


def ids(collection: Collection) -> dict[str, tuple[str, ...]]:
    found = texts_of(collection, tiny().tokenizer)
    return {split: tuple(text.id for text in texts) for split, texts in found.items() if texts}


def test_a_document_is_for_training_if_a_training_example_or_none_rests_on_it() -> None:
    documents = tuple(Document(name, f"{name} text") for name in ("trained", "mixed", "dev", "test", "both", "loose"))
    examples = (
        about("trained", "train"),
        about("mixed", "train"),
        about("mixed", "test"),
        about("dev", "dev"),
        about("test", "test"),
        about("both", "test"),
        about("both", "dev"),
    )
    assert ids(Collection(documents, examples)) == {
        "train": ("trained", "mixed", "loose"),
        "dev": ("dev", "both"),
        "test": ("test",),
    }


def test_questions_are_texts_where_there_are_no_documents() -> None:
    examples = (Example("a", "It rained.", answers=("wet",), split="train"), Example("b", "Dry.", split="test"))
    found = texts_of(Collection((), examples), tiny().tokenizer)
    assert [tiny().tokenizer.decode(text.tokens) for text in found["train"]] == ["it rained."]
    assert [text.id for text in found["test"]] == ["b"]


def test_answers_are_no_texts_even_where_they_are_documents() -> None:
    answer, page = Document("answer", "secret"), Document("page", "A long page.")
    rows = Example("row", "What is it?", (Span("answer", 0, 6),), answers=("secret",), split="train")
    assert ids(Collection((answer,), (rows,))) == {"train": ("row",)}
    assert ids(Collection((answer, page), (rows,))) == {"train": ("page",)}
    part = Example("part", "How long?", (Span("page", 2, 6),), answers=("long",), split="train")
    assert ids(Collection((page,), (part,))) == {"train": ("page",)}


def test_neither_questions_nor_answers_nor_checks_are_among_the_tokens() -> None:
    document = Document("d", "The cat sat.")
    examples = (about("d", "train"), about("d", "check"))
    found = texts_of(Collection((document,), examples), tiny().tokenizer)
    words = " ".join(tiny().tokenizer.decode(text.tokens) for texts in found.values() for text in texts)
    assert words == "the cat sat."


def test_texts_without_a_token_are_left_out() -> None:
    assert ids(Collection((Document("blank", "\u200b"), Document("d", "cat")), ())) == {"train": ("d",)}


def test_a_window_of_a_long_text_is_drawn_and_all_are() -> None:
    text, rng = Text("t", np.arange(10)), np.random.default_rng(0)
    drawn = {tuple(text.window(4, rng).tolist()) for _ in range(80)}
    assert drawn == {(i, i + 1, i + 2, i + 3) for i in range(7)}
    assert text.window(10, rng).tolist() == text.window(11, rng).tolist() == list(range(10))


def test_batches_hold_every_item_once_and_are_of_similar_length() -> None:
    items = [np.zeros(n) for n in (1, 9, 2, 8, 3, 7)]
    batches = list(batched(items, 2, np.random.default_rng(0), len))
    assert sorted(tuple(map(len, batch)) for batch in batches) == [(1, 2), (3, 7), (8, 9)]
    orders = {tuple(len(batch[0]) for batch in batched(items, 2, np.random.default_rng(i), len)) for i in range(30)}
    assert len(orders) == 6
