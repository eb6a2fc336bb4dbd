# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from fedqa.config import course_of, sample_alliance
from fedqa.federation.channels import CHANNELS
from fedqa.federation.ledger import Row
from fedqa.federation.wire import KINDS as MESSAGES
from fedqa.inspection import preview
from fedqa.web.pathless import pathless
from fedqa.web.plain_words import IN_CLEAR, KINDS, amount, course_said, said


def row(kind: str, *, round_number: int = 3, tensors: object = None, size: int = 5_200_000) -> Row:
    shapes = {"delta": [1_300_000]} if tensors is None else tensors
    return Row("2026-01-02T03:04:05.678+00:00", "f00d", round_number, kind, json.dumps(shapes), size, "ab" * 32, None)


def test_numbers_of_numbers_can_be_said_aloud() -> None:
    assert [amount(n) for n in (1, 999, 12_345, 1_300_000, 2_400_000_000)] == [
        "1",
        "999",
        "12\u202f345",
        "1.3 million",
        "2.4 billion",
    ]


def test_an_update_is_said_in_a_sentence_without_a_term_of_the_trade() -> None:
    told = said(row("update"))
    assert told.sentence == "Round 3: how the shared part of the model changed, 1.3 million numbers, 5.2\u202fMB"
    assert not told.in_clear
    assert "no text" in told.meaning


def test_an_update_of_a_silo_that_shares_nothing_says_so() -> None:
    told = said(row("update", tensors={"delta": [0]}, size=900))
    assert told.sentence == "Round 3: nothing of the model, only counts, losses and mean scores, 900\u202fB"


def test_what_follows_a_stage_belongs_to_no_round() -> None:
    assert (
        said(row("report", round_number=0, tensors={}, size=800)).sentence == "After a stage: mean scores, 800\u202fB"
    )


def test_text_that_left_in_clear_is_marked_and_measured_in_bytes() -> None:
    told = said(row("examples", tensors={"examples": [5_200_000]}))
    assert told.in_clear
    assert told.sentence == "Round 3: all documents and examples, in clear, 5.2\u202fMB"


def test_every_kind_of_message_and_every_channel_has_words() -> None:
    from_silos = {"update", "report", "refusal"}
    assert from_silos <= set(MESSAGES)
    assert set(KINDS) == from_silos | set(CHANNELS)
    assert {name for name, channel in CHANNELS.items() if channel.pools} == IN_CLEAR


@pytest.mark.parametrize("tensors", [3, [], {"delta": "x"}, {"delta": [None]}])
def test_a_row_that_was_tampered_with_is_told_as_far_as_possible(tensors: object) -> None:
    assert said(row("update", tensors=tensors)).when == "Round 3"


def test_a_kind_without_words_is_named() -> None:
    assert "“gossip”" in said(row("gossip")).what


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/srv/silo/data.csv, line 3", "data.csv, line 3"),
        ("no '../other/file.json' here", "no 'file.json' here"),
        ("C:\\data\\x.csv line 2", "x.csv line 2"),
        ("and/or, 1/2", "and/or, 1/2"),
        ("data.csv line 5", "data.csv line 5"),
    ],
)
def test_files_are_named_without_the_way_to_them(text: str, shown: str) -> None:
    assert pathless(text) == shown


def test_a_course_that_shares_all_but_norms_says_what_leaves_and_what_stays() -> None:
    (stage,) = course_said(preview(course_of(sample_alliance("fedbn", model="tiny", rounds=2))))
    assert stage.title == "Stage 1, train: 2 rounds"
    # two layers of width 32 and a head of one score: all numbers but the 5 norms of 2 x 32, of which 4 are in layers
    assert stage.leaves[0].startswith("In every round, how 16\u202f833 numbers of the model changed")
    assert "(answering head and layers 1 and 2)" in stage.leaves[0]
    assert stage.stays[0] == "All documents, questions and answers."
    assert "numbers (normalisation), trained here and never sent" in stage.stays[1]
    assert "word table" in stage.stays[2]


def test_a_course_in_which_silos_train_alone_sends_no_part_of_the_model() -> None:
    (stage,) = course_said(preview(course_of(sample_alliance("isolated", model="tiny", rounds=1))))
    assert len(stage.leaves) == 1
    assert "no text" in stage.leaves[0]


def test_pooling_is_said_in_the_plainest_words() -> None:
    (stage,) = course_said(preview(course_of(sample_alliance("central", model="tiny", rounds=1))))
    assert stage.leaves == [
        "All documents and examples, in clear. The texts themselves: whoever received this message can read them."
    ]
    assert not any("documents" in line for line in stage.stays)
    assert stage.warnings
