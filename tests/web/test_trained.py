# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from pathlib import Path

from written_runs import VALUES, course, record, write_run

from fedqa.serving.training import TrainingStatus
from fedqa.web.trained import seconds_left, trained

SILOS = ("ash", "birch")


def test_a_folder_without_a_run_has_nothing_to_show(tmp_path: Path) -> None:
    assert trained(tmp_path / "none", "ash") is None


def test_a_round_says_who_was_used_and_why_others_were_not(tmp_path: Path) -> None:
    accepted = {"ash": record(1, SILOS).accepted["ash"]}
    rounds = [record(1, SILOS, accepted=accepted, refused=(("birch", "late"),)), record(2, SILOS, void=True)]
    found = trained(write_run(tmp_path / "run", records=rounds), "ash")
    assert found is not None
    first, second = found.rounds
    assert (first.number, first.answered, first.refused) == (1, ["ash"], [("birch", "no answer before the deadline")])
    assert (first.bytes_up, first.seconds, first.void) == (1000, 1.5, False)
    assert second.void


def test_curves_begin_with_this_silo_and_count_the_rounds_behind_a_model(tmp_path: Path) -> None:
    found = trained(write_run(tmp_path / "run"), "birch")
    assert found is not None
    assert list(found.curves) == ["birch", "ash"]
    # a written round scores 0.4 as received, 0.6 after the silo's own work
    assert found.curves["birch"] == {"received": [(0.0, 0.4), (1.0, 0.4)], "personal": [(1.0, 0.6), (2.0, 0.6)]}
    assert found.metric == "MAP"


def test_a_run_that_goes_on_has_rounds_and_no_comparison(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "result.json").unlink()
    found = trained(folder, "ash")
    assert found is not None
    assert len(found.rounds) == 2
    assert found.compared == []


def test_the_models_of_a_silo_are_compared_with_what_it_reached_alone_in_a_run_beside(tmp_path: Path) -> None:
    alone = {**VALUES, "ash": {"best": [0, 1, 0, 0]}}
    write_run(tmp_path / "alone", course("isolated"), alone)
    found = trained(write_run(tmp_path / "fedavg"), "ash")
    assert found is not None
    means = {row.name: row.test.mean for row in found.compared if row.test}
    assert means == {"Alone": 0.25, "Together, as received": 0.5, "Together, then here": 0.75, "Best on dev": 0.75}
    assert {row.questions for row in found.compared} == {4}


def test_a_run_beside_with_other_questions_is_not_compared_with(tmp_path: Path) -> None:
    write_run(tmp_path / "alone", course("isolated"), {**VALUES, "ash": {"best": [0, 1]}})
    write_run(tmp_path / "empty", course("isolated"), {"birch": VALUES["birch"]})
    found = trained(write_run(tmp_path / "fedavg"), "ash")
    assert found is not None
    assert not any(row.alone for row in found.compared)


def test_a_run_of_another_seed_beside_is_not_compared_with(tmp_path: Path) -> None:
    write_run(tmp_path / "alone", course("isolated", seed=8))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "course.toml").write_text("nonsense", encoding="utf-8")
    (tmp_path / "broken" / "result.json").write_text("{}", encoding="utf-8")
    found = trained(write_run(tmp_path / "fedavg"), "ash")
    assert found is not None
    assert [row.name for row in found.compared] == ["Together, as received", "Together, then here", "Best on dev"]


def test_a_stage_alone_of_the_run_itself_tells_what_the_silo_reached_on_dev(tmp_path: Path) -> None:
    plan = course("fedmatch", rounds=1)
    dev = {"ash": {"personal/dev/map": (4, 0.35, 0.1)}}
    rounds = [record(1, SILOS, stage="alone", metrics=dev), record(2, SILOS, stage="federate")]
    found = trained(write_run(tmp_path / "run", plan, records=rounds), "ash")
    assert found is not None
    first = found.compared[0]
    assert first.name == "Alone"
    assert first.dev is not None
    assert (first.dev.mean, first.test) == (0.35, None)


def test_a_silo_without_scores_is_not_compared(tmp_path: Path) -> None:
    found = trained(write_run(tmp_path / "run", values={"birch": VALUES["birch"]}), "ash")
    assert found is not None
    assert found.compared == []


def test_the_time_left_is_that_of_the_last_three_rounds_for_each_to_come(tmp_path: Path) -> None:
    rounds = [record(n, SILOS, seconds=float(s)) for n, s in enumerate((90, 1, 2, 3), start=1)]
    found = trained(write_run(tmp_path / "run", course(rounds=6), records=rounds), "ash")
    running = TrainingStatus("running", 4, 6, SILOS, 100.0, "", first=2)
    assert seconds_left(running, found) == 4.0  # two more of (1 + 2 + 3) / 3
    assert seconds_left(running, None) is None
    assert seconds_left(replace(running, first=4), found) is None  # none of its own rounds is done
    assert seconds_left(replace(running, rounds=4), found) is None  # all are
    assert seconds_left(replace(running, state="finished"), found) is None
