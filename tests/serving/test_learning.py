# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Literal

import pytest

from fedqa.federation.learning import Learning as Noted
from fedqa.federation.learning import note
from fedqa.federation.run_folder import RunFolder
from fedqa.serving.learning import Learning, learnt


def check(run: Path, number: int, right: dict[str, bool], point: Literal["personal", "best"] = "personal") -> None:
    note(RunFolder(run).silo("north"), Noted(number, point, "1", 10, 1, right))


@pytest.mark.parametrize(
    ("rounds", "served", "state", "words"),
    [
        ({1: False, 2: False}, None, "not yet", "not learned yet"),
        ({1: False, 2: True, 3: True}, None, "learned", "learned in round 2"),
        ({1: True, 2: False, 3: True}, None, "learned", "learned in round 3"),
        ({1: True, 2: True, 3: False}, None, "forgotten", "forgotten again (was right in round 2)"),
        ({1: True, 2: False}, True, "learned", "learned in round 1"),  # the model of round 1 answers
        ({1: False, 2: True}, False, "forgotten", "forgotten again (was right in round 2)"),
        ({1: False}, True, "learned", "learned"),  # by the model as received, which rounds do not check
        ({}, None, "not yet", "not learned yet"),
    ],
)
def test_what_became_of_a_correction(rounds: dict[int, bool], served: bool | None, state: str, words: str) -> None:
    learning = Learning(rounds, served)
    assert (learning.state, learning.words) == (state, words)


def test_learning_is_read_from_the_run_folder(tmp_path: Path) -> None:
    assert learnt(tmp_path, "north") == {}
    check(tmp_path, 1, {"a": False})
    check(tmp_path, 2, {"a": True})
    check(tmp_path, 3, {"a": True}, "best")
    assert learnt(tmp_path, "north") == {"a": Learning({1: False, 2: True}, True)}


def test_while_a_run_goes_on_the_model_that_answered_before_says_nothing(tmp_path: Path) -> None:
    check(tmp_path, 1, {"a": True})
    check(tmp_path, 2, {"a": True}, "best")
    check(tmp_path, 2, {"a": False, "b": False})  # round 2 of a longer run, with a new correction
    found = learnt(tmp_path, "north")
    assert found["a"].words == "forgotten again (was right in round 1)"
    assert found["b"] == Learning({2: False})
    check(tmp_path, 3, {"a": True, "b": True}, "best")
    assert learnt(tmp_path, "north")["b"].words == "learned"
