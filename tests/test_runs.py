# SPDX-License-Identifier: Apache-2.0
"""A training from files to result, with a tiny real model on a part of the sample alliance."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from toys import differing

from fedqa.config import Project, SiloData, load_project, project_of, sample_alliance
from fedqa.data.records import Collection, Document, Example, Quarantined, Span
from fedqa.engines.local import InProcess, Processes
from fedqa.errors import ConfigError, DataError, RunError
from fedqa.federation.course import SiloPlan
from fedqa.federation.engine import Silent
from fedqa.federation.learning import noted
from fedqa.federation.run_folder import RunFolder
from fedqa.federation.silo_state import SiloState
from fedqa.runs import Setting, build, engine_for, pool, read_silo, run_setting, train

SMALL = {"match": {"max_passage": 24, "max_question": 12}}


def project(method: str = "fedper", *, n: int = 2, **settings: Any) -> Project:
    """The first organisations of the sample alliance, with eight questions each."""
    table = {"model": "tiny", "rounds": 2, "skills": SMALL, "local": {"learning_rate": 1e-3}, **settings}
    alliance = sample_alliance(method, **table)
    made = project_of(replace(alliance, silo=alliance.silo[:n]))
    return replace(made, data={name: replace(entry, limit=8) for name, entry in made.data.items()})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("runs") / "one"
    return out, train(project(), out, processes=1)


# -- data --------------------------------------------------------------------------------------------------------


def test_the_same_seed_draws_the_same_questions() -> None:
    data = SiloData(sample="bank", limit=6)
    one, again, other = (read_silo("bank", data, Path(), seed) for seed in (13, 13, 14))
    assert one == again
    assert len({example.question for example in one.examples}) == 6
    assert {example.split for example in one.examples} == {"train", "dev", "test"}
    assert one != other


def test_a_problem_with_data_names_the_silo(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="silo 'north': unknown sample silo 'bnak'"):
        read_silo("north", SiloData(sample="bnak"), tmp_path, 1)
    with pytest.raises((ConfigError, DataError), match=r"silo 'south': .*nothing.json"):
        read_silo("south", SiloData("squad", "nothing.json"), tmp_path, 1)


def test_a_silo_with_nothing_to_train_on_is_named(tmp_path: Path) -> None:
    course = project().course
    empty = dict.fromkeys(("hospital", "insurer"), Collection((), ()))
    with pytest.raises(DataError, match="silo 'hospital': match has nothing to train on"):
        build(course, empty, tmp_path)


def test_pooled_ids_are_unique_and_evidence_follows_its_document() -> None:
    def collection(text: str) -> Collection:
        return Collection((Document("d", text),), (Example("e", "why?", (Span("d", 0, 3),), split="train"),))

    pooled = pool([collection("one"), collection("two")])
    assert pooled.documents == (Document("0/d", "one"), Document("1/d", "two"))
    assert [example.id for example in pooled.examples] == ["0/e", "1/e"]
    assert [example.evidence for example in pooled.examples] == [(Span("0/d", 0, 3),), (Span("1/d", 0, 3),)]


# -- a run -------------------------------------------------------------------------------------------------------


def test_a_run_leaves_a_folder_with_all_about_it(run: tuple[Path, dict[str, Any]]) -> None:
    out, result = run
    assert {"course.toml", "environment.json", "rounds.jsonl", "result.json", "checkpoints", "silos"} <= {
        path.name for path in out.iterdir()
    }
    assert len((out / "rounds.jsonl").read_text().splitlines()) == 2
    assert {path.name for path in (out / "silos").iterdir()} == {"hospital", "insurer"}
    assert json.loads((out / "result.json").read_text()) == result
    assert not [path for path in out.rglob("*") if path.suffix in (".pt", ".pkl", ".bin")]


def test_a_result_has_what_it_promises(run: tuple[Path, dict[str, Any]]) -> None:
    _, result = run
    promised = {"course", "method", "seed", "rounds", "seconds", "bytes_up", "bytes_down", "silos"}
    assert promised | {"macro", "micro", "worst"} <= set(result)
    assert result["refused"] == []
    for silo in ("hospital", "insurer"):
        for point in ("received", "personal", "best"):
            assert set(result["silos"][silo][point]) == {"dev", "test"}
            assert set(result["silos"][silo][point]["test"]) == {"map", "mrr", "p1"}
    silos = result["silos"].values()
    mean = sum(silo["personal"]["test"]["map"] for silo in silos) / 2
    assert result["macro"]["personal"]["test"]["map"] == pytest.approx(mean)


def test_the_course_in_the_folder_can_be_run_itself(run: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    out, result = run
    again = load_project(out / "course.toml")
    assert again.course.fingerprint == result["course"]
    repeated = train(again, tmp_path / "again", processes=1)
    timeless = {key: value for key, value in repeated.items() if key != "seconds"}
    assert timeless == {key: value for key, value in result.items() if key != "seconds"}


def test_a_folder_with_a_run_is_not_overwritten(run: tuple[Path, dict[str, Any]]) -> None:
    with pytest.raises(RunError, match="holds a run already; continue it with --resume, or choose another --out"):
        train(project(), run[0])


def test_a_finished_run_is_not_run_again(run: tuple[Path, dict[str, Any]]) -> None:
    out, result = run
    before = (out / "rounds.jsonl").read_bytes()
    assert train(project(), out, resume=True) == result
    assert (out / "rounds.jsonl").read_bytes() == before


def test_a_run_of_another_course_is_not_continued(run: tuple[Path, dict[str, Any]]) -> None:
    with pytest.raises(RunError, match="holds a run of another course; choose another --out"):
        train(project(seed=14), run[0], resume=True)


class StopsInRoundTwo(Silent):
    def round_begins(self, number: int, of: int, stage: str, silos: Sequence[str]) -> None:
        if number == 2:
            raise KeyboardInterrupt


def personal(out: Path, silo: str) -> dict[str, torch.Tensor]:
    return SiloState(out / "silos" / silo / "state").newest("personal", 0, 99)


def test_a_run_that_was_broken_off_ends_as_if_it_had_not_been(run: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    whole, result = run
    out = tmp_path / "broken"
    with pytest.raises(KeyboardInterrupt):
        train(project(), out, processes=1, watcher=StopsInRoundTwo())
    assert not (out / "result.json").exists()
    continued = train(project(), out, processes=1, resume=True)
    assert continued["silos"] == result["silos"]
    for silo in ("hospital", "insurer"):
        assert personal(whole, silo)
        assert not differing(personal(whole, silo), personal(out, silo))


def test_a_run_that_has_ended_goes_on_for_more_rounds_as_if_it_had_been_longer(tmp_path: Path) -> None:
    out, long = tmp_path / "out", tmp_path / "long"
    assert train(project(), out, processes=1)["rounds"] == 2
    result = train(project(), out, processes=1, more=1)
    assert result["rounds"] == 3
    assert [record.round for record in RunFolder(out).records()] == [1, 2, 3]
    whole = train(project(rounds=3), long, processes=1)
    assert result["silos"]["hospital"]["received"] == whole["silos"]["hospital"]["received"]
    assert not differing(personal(out, "hospital"), personal(long, "hospital"))
    assert train(project(), out, resume=True) == result  # the file still says two rounds, the run has three
    assert train(project(rounds=3), out, resume=True) == result


class StopsInRoundThree(Silent):
    def round_begins(self, number: int, of: int, stage: str, silos: Sequence[str]) -> None:
        if number == 3:
            raise KeyboardInterrupt


def test_more_rounds_that_were_broken_off_are_not_added_twice(tmp_path: Path) -> None:
    out = tmp_path / "out"
    train(project(), out, processes=1)
    with pytest.raises(KeyboardInterrupt):
        train(project(), out, processes=1, more=2, watcher=StopsInRoundThree())
    assert train(project(), out, processes=1, more=2)["rounds"] == 4


def test_more_rounds_need_something_that_trains(tmp_path: Path) -> None:
    train(project("zero_shot"), tmp_path, processes=1)
    with pytest.raises(ConfigError, match="method 'zero_shot' trains nothing, so there are no more rounds of it"):
        train(project("zero_shot"), tmp_path, more=1)


def added(collection: Collection) -> Collection:
    """With a correction: an example that is trained on, and asked again after every round."""
    example = next(e for e in collection.of_split("train") if e.evidence)
    correction = replace(example, id="corrected", question="What did the correction say?", check=True)
    return replace(collection, examples=(*collection.examples, correction), version="7")


def test_a_correction_is_trained_on_and_checked_after_every_round(tmp_path: Path) -> None:
    made = project()
    collections = {name: read_silo(name, data, made.folder, 13) for name, data in made.data.items()}
    setting = build(made.course, collections | {"hospital": added(collections["hospital"])}, tmp_path)
    hospital, insurer = setting.silos
    assert "corrected" in hospital.features.questions("train")
    assert hospital.features.questions("check") == ("check/corrected",)
    run_setting(setting, processes=1)
    lines = noted(hospital.folder)
    assert [(line.round, line.point, line.version) for line in lines] == [
        (1, "personal", "7"),
        (2, "personal", "7"),
        (3, "best", "7"),
    ]
    assert all(set(line.right) == {"corrected"} for line in lines)
    assert lines[0].new == sum(1 for _ in hospital.collection.of_split("train"))  # all: nothing was trained on before
    assert not noted(insurer.folder)  # nobody there has corrected anything
    assert "corrected" in hospital.state.trained()


def test_where_a_run_goes_on_some_old_examples_are_replayed_for_each_new_one(tmp_path: Path) -> None:
    made = project(local={"learning_rate": 1e-3, "replay": 2})
    collections = {name: read_silo(name, data, made.folder, 13) for name, data in made.data.items()}
    run_setting(build(made.course, collections, tmp_path), processes=1)
    hospital, insurer = build(made.course, collections | {"hospital": added(collections["hospital"])}, tmp_path).silos
    assert hospital.features.n_train == 3  # one new, two old
    assert "corrected" in hospital.features.questions("train")
    assert insurer.features.n_train > 3  # nothing new there: all


def test_a_correction_is_checked_also_where_it_is_not_replayed(tmp_path: Path) -> None:
    made = project(local={"learning_rate": 1e-3, "replay": 1})
    collections = {name: read_silo(name, data, made.folder, 13) for name, data in made.data.items()}
    first = added(collections["hospital"])
    run_setting(build(made.course, collections | {"hospital": first}, tmp_path), processes=1)
    then = replace(first.examples[-1], id="corrected later", question="What did the later one say?")
    both = replace(first, examples=(*first.examples, then), version="8")
    hospital, _ = build(made.course, collections | {"hospital": both}, tmp_path).silos
    assert hospital.features.n_train == 2  # the new one, and one old: half a place is none
    assert hospital.features.questions("check") == ("check/corrected", "check/corrected later")


def test_resume_without_a_run_begins_one(tmp_path: Path) -> None:
    said: list[str] = []
    result = train(project("zero_shot"), tmp_path / "new", resume=True, processes=1, say=said.append)
    assert result["rounds"] == 0
    assert said[0].endswith("reading hospital")
    assert "'tiny'" in said[-1]


# -- building ----------------------------------------------------------------------------------------------------


def setting_of(made: Project, folder: Path) -> Setting:
    collections = {name: read_silo(name, data, made.folder, 13) for name, data in made.data.items()}
    return build(made.course, collections, folder)


def test_silos_of_one_skill_share_one_model(tmp_path: Path) -> None:
    setting = setting_of(project(), tmp_path)
    one, other = setting.silos
    assert one.skill is other.skill
    assert one.workshop.bench(one.skill, 0) is other.workshop.bench(other.skill, 0)
    assert one.approved == {setting.course.fingerprint}


def with_two_heads(method: str) -> Project:
    """One silo compares vectors, the other reads pairs: the same encoder under different heads."""
    made = project(method)
    hospital, insurer = made.course.silos
    other = SiloPlan(insurer.name, insurer.skill, {**insurer.skill_options, "interaction": "cross"})
    return replace(made, course=replace(made.course, silos=(hospital, other)))


def test_skills_with_different_heads_can_share_what_is_below(tmp_path: Path) -> None:
    setting = setting_of(with_two_heads("fedper"), tmp_path)
    assert setting.silos[0].skill is not setting.silos[1].skill
    start = setting.start_of(0)
    assert start.weights.numel() == start.layout.n_received > 0


def test_skills_with_different_heads_cannot_share_them(tmp_path: Path) -> None:
    setting = setting_of(with_two_heads("fedavg"), tmp_path)
    with pytest.raises(ConfigError, match="stage 'train': the skills of this alliance have no common shared part"):
        setting.start_of(0)


def test_examples_of_different_skills_cannot_be_pooled(tmp_path: Path) -> None:
    setting = setting_of(with_two_heads("fedper"), tmp_path)
    with pytest.raises(ConfigError, match="central training needs silos of one skill"):
        setting.make_pool([silo.collection for silo in setting.silos])


def test_what_was_left_out_is_written_for_the_silos_own_people(tmp_path: Path) -> None:
    made = project(n=1)
    collection = read_silo("hospital", made.data["hospital"], Path(), 13)
    problem = Quarantined("line 3", "no question:\n''", "write one")
    build(made.course, {"hospital": replace(collection, quarantine=(problem,))}, tmp_path)
    written = (tmp_path / "silos" / "hospital" / "quarantine.tsv").read_text()
    assert written == "place\treason\tremedy\nline 3\tno question: ''\twrite one\n"


def test_there_are_no_more_processes_than_silos(tmp_path: Path) -> None:
    setting = setting_of(project(), tmp_path)
    assert isinstance(engine_for(setting, 1, Silent()), InProcess)
    engine = engine_for(setting, 9, Silent())
    assert isinstance(engine, Processes)
    assert engine.n == 2
    engine.close()
