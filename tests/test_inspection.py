# SPDX-License-Identifier: Apache-2.0
"""The numbers of `tiny`, by hand: width 32, two layers, feed-forward 64, 30,522 words, 512 positions, 2 segments.

A layer has four 32 x 32 matrices with bias (4,224), two of 32 x 64 with biases of 64 and 32 (4,192), and two norms of
64. So: words 976,704; other embeddings 514 x 32 + 64 = 16,512; enc.0 and enc.1 8,416 each without norms; norms 256;
pooler 1,056; the head of `match` is one scale.
"""

from pathlib import Path
from typing import Any

import pytest
from toy_alliance import write_alliance

from fedqa.config import load_project, project_of, sample_alliance
from fedqa.federation.course import Course
from fedqa.inspection import Part, Preview, group_of, preview
from fedqa.runs import train

LAYER, NORM, POOLER = 8_416, 256, 1_056
SHARED = 2 * LAYER + NORM + 1


def course(method: str, **options: Any) -> Course:
    return project_of(sample_alliance(method, model="tiny", rounds=3, method_options=options)).course


def modes(found: Preview) -> dict[str, tuple[str, int]]:
    return {part.group: (part.mode, part.parameters) for part in found.stages[0].parts}


def test_parameters_are_counted_by_tag_and_mode() -> None:
    assert modes(preview(course("fedbn"))) == {
        "words": ("frozen", 976_704),
        "embeddings": ("frozen", 16_512),
        "enc.0": ("shared", LAYER),
        "enc.1": ("shared", LAYER),
        "norm": ("private", NORM),
        "pooler": ("frozen", POOLER),
        "head": ("shared", 1),
    }


def test_bytes_are_four_a_parameter_and_a_short_header() -> None:
    (stage,) = preview(course("fedavg")).stages
    assert 4 * SHARED < stage.bytes_up < 4 * SHARED + 600
    assert 4 * SHARED < stage.bytes_down < 4 * SHARED + 400


def test_totals_count_rounds_silos_and_the_final_weights() -> None:
    found = preview(course("fedavg"))
    (stage,) = found.stages
    assert found.bytes_up == 3 * 5 * stage.bytes_up
    assert found.bytes_down == pytest.approx((3 * 5 + 5) * stage.bytes_down, rel=1e-3)


def test_a_sample_of_silos_costs_less() -> None:
    found = preview(course("fedavg", sample=2))
    assert found.stages[0].asked == 2
    assert found.bytes_up == 3 * 2 * found.stages[0].bytes_up


def test_the_forecast_is_what_a_run_then_costs(tmp_path: Path) -> None:
    project = load_project(write_alliance(tmp_path), ["rounds=1"])
    found, result = preview(project.course), train(project, tmp_path / "run", processes=1)
    assert result["bytes_down"] == found.bytes_down
    scores = result["bytes_up"] - found.bytes_up  # what the forecast leaves out: two silos' dev and test scores
    assert 0 < scores < 2 * 4_000


def test_alone_nothing_but_counts_leaves() -> None:
    (stage,) = preview(course("isolated")).stages
    assert {part.mode for part in stage.parts} == {"frozen", "private"}
    assert stage.bytes_up < 600


def test_a_course_that_trains_nothing_has_no_stages() -> None:
    found = preview(course("zero_shot"))
    assert (found.stages, found.bytes_up, found.bytes_down, found.rounds) == ((), 0, 0, 0)


def test_sent_word_embeddings_are_warned_of() -> None:
    (stage,) = preview(course("fedavg", train_embeddings=True)).stages
    (warning,) = stage.warnings
    assert "gives the silo's vocabulary away" in warning
    assert stage.bytes_up > 4 * 976_704


def test_word_embeddings_trained_in_the_silo_are_warned_of_as_well() -> None:
    (warning,) = preview(course("isolated", train_embeddings=True)).stages[0].warnings
    assert "they are not sent, but whoever gets its exported model" in warning


def test_pooling_is_warned_of_and_asks_silos_for_no_round() -> None:
    (stage,) = preview(course("central")).stages
    assert "in clear" in stage.warnings[0]
    assert stage.channels[0][0] == "examples"
    assert (stage.asked, stage.bytes_up, stage.bytes_down) == (0, 0, 0)


def test_sound_courses_are_not_warned_of() -> None:
    assert preview(course("fedavg")).stages[0].warnings == ()


def test_a_parameter_is_shown_under_one_tag() -> None:
    assert group_of(frozenset({"words", "embeddings"})) == "words"
    assert group_of(frozenset({"embeddings", "norm"})) == "embeddings"
    assert group_of(frozenset({"enc.3", "norm"})) == "norm"
    assert group_of(frozenset({"enc.3", "patch"})) == "patch"
    assert group_of(frozenset({"enc.3"})) == "enc.3"
    assert group_of(frozenset({"other"})) == "other"


def test_parts_are_records_of_plain_values() -> None:
    assert preview(course("fedbn")).stages[0].parts[0] == Part("match", "words", "frozen", 976_704)
