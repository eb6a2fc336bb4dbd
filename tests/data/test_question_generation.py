# SPDX-License-Identifier: Apache-2.0
"""Sentences and the questions to write about them, on toys and on the public set."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fedqa.data.formats import read_format
from fedqa.data.question_generation import read
from fedqa.errors import ConfigError, DataError

LINES = [
    ("the cat -lrb- a tom -rrb- sat . ", "who sat ?"),
    ("it rained in 1848 . ", "when did it rain ?"),
    ("the cat -lrb- a tom -rrb- sat . ", "was it a tom ?"),
    (" ", "nothing ?"),
]


def written(folder: Path) -> Path:
    for side, column in (("src", 0), ("tgt", 1)):
        (folder / f"{side}-dev.txt").write_text("".join(line[column] + "\n" for line in LINES), encoding="utf-8")
    return folder


def test_a_sentence_is_the_text_and_all_questions_about_it_are_answers(tmp_path: Path) -> None:
    found = read(written(tmp_path), part="dev", topics=1)
    assert found.documents == ()
    assert [(one.id, one.question, one.answers, one.key) for one in found.examples] == [
        ("dev-1", "The cat (a tom) sat.", ("who sat?", "was it a tom?"), "dev-01"),
        ("dev-2", "It rained in 1848.", ("when did it rain?",), "dev-01"),
    ]
    assert [(one.place, one.reason) for one in found.quarantine] == [("src-dev.txt:4", "the text is empty")]


def test_options_and_errors_are_those_of_the_sentences(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="topics must be at least 1, got 0"):
        read(written(tmp_path), part="dev", topics=0)
    with pytest.raises(DataError, match=r"src-test.txt cannot be read"):
        read_format("question_generation", tmp_path, {"part": "test"})


def test_the_public_set_has_every_question_once(public_data: Callable[[str], Path]) -> None:
    path = public_data("squad_sentences")
    found, asked = (read_format(name, path, {"part": "dev"}) for name in ("question_generation", "squad_sentences"))
    assert len(found.examples) < len(asked.examples) == 10_570 and not found.documents
    pairs = {(one.key, question) for one in found.examples for question in one.answers}
    assert pairs == {(one.key, one.question) for one in asked.examples}
