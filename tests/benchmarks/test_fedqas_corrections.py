# SPDX-License-Identifier: Apache-2.0
"""Corrections round after round: a tiny silo that is followed, and a report of outcomes that were written by hand."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks import fedqas
from benchmarks.fedqas_corrections import (
    SETTINGS,
    WAYS,
    Corrections,
    Followed,
    Scored,
    Way,
    follow,
    held_back,
    only_new,
)
from benchmarks.fedqas_report.corrections import Corrected, corrections_lead, corrections_sections, effects, values
from benchmarks.fedqas_report.report import Beyond, page_of, write_report
from benchmarks.study.page import Grid
from fedqa.data.records import Collection, Document, Example, Span, Split
from fedqa.errors import ConfigError, RunError
from fedqa.evaluation.words import MINUS, THIN

WORDS = ("red", "blue", "green", "black", "white", "brown", "grey", "pink", "gold", "silver", "orange", "violet")


def silo(name: str) -> Collection:
    """A document for each colour, and a question about it: eight to train on, two for dev and two for test."""
    documents = [Document(f"{name}-{word}", f"The door is {word}. The wall is not.") for word in WORDS]
    counts: dict[Split, int] = {"train": 8, "dev": 2, "test": 2}
    splits = [split for split, count in counts.items() for _ in range(count)]
    examples = [
        Example(
            f"{name}-{i}", f"Which colour has door {i} of the {name}?", (Span(d.id, 12, 12 + len(w)),), (w,), split=s
        )
        for i, (d, w, s) in enumerate(zip(documents, WORDS, splits, strict=True))
    ]
    return Collection(tuple(documents), tuple(examples))


def data(seed: int, train: int | None) -> Mapping[str, Collection]:
    return {name: silo(name) for name in ("north", "south")}


def study(folder: Path, *ways: Way) -> Corrections:
    local = {"batch": 4, "steps": 1}
    settings = {**SETTINGS, "model": "tiny", "freeze_layers": 0, "rounds": 1, "local": local}
    return Corrections(("north", "south"), (1,), data, folder, ways, rounds=2, asked=2, settings=settings)


# -- following ---------------------------------------------------------------------------------------------------


def test_what_is_held_back_is_not_trained_on() -> None:
    left, stream = held_back(silo("north"), 3, seed=1)
    assert len(stream) == 3 and all(example.split == "train" for example in stream)
    assert {e.id for e in left.examples} | {e.id for e in stream} == {e.id for e in silo("north").examples}
    assert len(left.examples) == 12 - 3
    assert held_back(silo("north"), 3, seed=1)[1] == stream != held_back(silo("north"), 3, seed=2)[1]


def test_a_stream_of_all_questions_is_refused() -> None:
    with pytest.raises(ConfigError, match="a stream of 8 questions leaves nothing of 8 training questions"):
        held_back(silo("north"), 8, seed=1)


def test_new_examples_alone_are_trained_on_and_old_corrections_still_checked() -> None:
    examples = (
        Example("old", "a?", split="train"),
        Example("earlier", "b?", split="train", check=True),
        Example("new", "c?", split="train", check=True),
        Example("dev", "d?", split="dev"),
    )
    left = only_new(Collection((), examples), known={"old", "earlier"}).examples
    assert {(e.id, e.split, e.check) for e in left} == {
        ("new", "train", False),
        ("dev", "dev", False),
        ("check/earlier", "check", False),
        ("check/new", "check", False),
    }


def test_with_nothing_new_all_is_trained_on() -> None:
    whole = Collection((), (Example("old", "a?", split="train"),))
    assert only_new(whole, known={"old"}) == whole


@pytest.mark.parametrize("way", [Way(True, "all"), Way(False, "some"), Way(False, "none")])
def test_a_silo_is_followed(tmp_path: Path, way: Way) -> None:
    followed = follow(study(tmp_path, way), way, 1)
    assert (followed.way, followed.silo, followed.rounds) == (way.name, "north", 1 + 2)
    for scores in followed.scores.values():
        assert [(len(scored.stream), len(scored.test)) for scored in scores] == [(4, 2)] * 3
    first, second = followed.corrected
    assert set(first) <= {0, 1} and set(second) <= {2, 3}
    assert first  # a model that has hardly been trained is wrong somewhere
    assert [sum(states.values()) for states in followed.states] == [len(first), len(first) + len(second)]
    before = followed.scores["best"][0].stream
    assert all(before[place] < 1 for place in first) and all(before[place] == 1 for place in {0, 1} - set(first))


def test_what_was_followed_is_kept_until_something_changes(tmp_path: Path) -> None:
    way = Way(False, "all", corrects=False)
    one = study(tmp_path, way)
    first = one.run()
    assert (first[0].corrected, first[0].states) == (((), ()), ({}, {}))
    times = [path.stat().st_mtime_ns for path in tmp_path.iterdir()]
    assert one.run() == first
    assert [path.stat().st_mtime_ns for path in tmp_path.iterdir()] == times
    assert one.key(way, 1) != one.key(way, 2) != one.key(Way(False, "none"), 2)


def test_a_run_that_fails_is_named(tmp_path: Path) -> None:
    way = Way(False, "all")
    broken = Corrections(("north",), (1,), data, tmp_path, (way,), settings={**SETTINGS, "model": "no-such-model"})
    with pytest.raises(RunError, match="1 of 1 trainings failed; first 'alone, all examples', seed 1: "):
        broken.run()


def test_quick_and_full_take_the_same_questions_from_the_sample(tmp_path: Path) -> None:
    full, quick = (fedqas.corrections(tmp_path, quick=quick) for quick in (False, True))
    assert (full.rounds, full.ways, len(full.seeds)) == (5, WAYS, 3)
    for one in (full, quick):
        train = sum(example.split == "train" for example in one.data(1, None)[one.silos[0]].examples)
        assert one.rounds * one.asked < train / 2  # what there is at first is more than what comes
        assert {one.course(way, 1).method for way in one.ways} == {"fedqas", "isolated"}


# -- the report --------------------------------------------------------------------------------------------------


def followed(way: Way, stream: tuple[tuple[float, ...], ...], test: tuple[tuple[float, ...], ...]) -> Followed:
    """Two rounds, of two questions each; the first question of each batch was wrong."""
    scores = tuple(Scored(asked, old) for asked, old in zip(stream, test, strict=True))
    corrected, states = (
        (((0,), (2,)), ({"learned": 1}, {"learned": 1, "not yet": 1})) if way.corrects else (((), ()), ({}, {}))
    )
    points = {point: scores for point in ("received", "personal", "best")}
    return Followed(way.name, 1, "k", "north", 30.0, 5, 2, corrected, points, states)


CORRECTS, WITHOUT = Way(True, "all"), Way(True, "all", corrects=False)
FOLLOWED = [
    followed(CORRECTS, ((0, 1, 0, 0), (1, 1, 0.25, 0.75), (1, 1, 0.5, 1)), ((0.5, 0.5), (0.5, 0), (0.5, 0))),
    followed(WITHOUT, ((0, 1, 0, 0), (0, 1, 0, 0.5), (0.5, 1, 0, 0.5)), ((0.5, 0.5), (0.5, 0.5), (0.5, 1))),
]


def test_measures_are_of_the_questions_they_say() -> None:
    one = FOLLOWED[0]
    assert [values(one, "corrected", n, "best").tolist() for n in range(3)] == [[], [1], [1, 0.5]]
    assert [values(one, "next", n, "best").tolist() for n in range(3)] == [[0, 1], [0.25, 0.75], []]
    assert [values(one, "old", n, "best").tolist() for n in range(3)] == [[0.5, 0.5], [0.5, 0], [0.5, 0]]


def test_what_corrections_did_is_derived_by_hand() -> None:
    found = effects(Corrected.of(FOLLOWED))
    assert {m: versus[CORRECTS.name].bootstrap.difference for m, versus in found.items()} == {
        "corrected": pytest.approx(((1 - 0.5) + (0.5 - 0)) / 2),
        "next": pytest.approx(((0.25 - 0) + (0.75 - 0.5)) / 2),
        "old": pytest.approx((0 + (0 - 1)) / 2),
    }


def test_the_report_tells_of_corrections(tmp_path: Path) -> None:
    page = page_of({}, {}, Beyond(corrections=FOLLOWED))
    assert page.lead == [
        "Of what people in north corrected in 2 rounds, so many are right in the end, by what is trained on: "
        "all examples 1 of 2."
    ]
    assert [tile.value for tile in page.tiles] == ["+0.500", f"{MINUS}0.500"]
    text = write_report({}, {}, tmp_path, Beyond(corrections=FOLLOWED)).read_text(encoding="utf-8")
    assert "Corrections, round after round" in text
    assert (tmp_path / "corrections-federated.svg").exists()


def test_states_and_costs_are_printed() -> None:
    (section,) = corrections_sections(FOLLOWED)
    grids = {block.caption: block for block in section.blocks if isinstance(block, Grid)}
    states = grids["What became of the corrections"]
    assert [[cell.text for cell in row.cells] for row in states.rows] == [["2", "1", "0", "1"]]
    costs = grids["Corrections: what it cost, mean over seeds"]  # 30 seconds, 5 rounds
    assert [[cell.text for cell in row.cells] for row in costs.rows] == [["5", f"30.0{THIN}s", f"6.0{THIN}s"]] * 2


def test_without_a_run_that_corrects_nothing_no_effect_is_claimed() -> None:
    assert corrections_sections([]) == [] and corrections_lead([]) == []
    (section,) = corrections_sections(FOLLOWED[:1])
    assert not [b for b in section.blocks if isinstance(b, Grid) and b.caption.startswith("F1 minus")]
