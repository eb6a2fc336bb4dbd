# SPDX-License-Identifier: Apache-2.0
"""Rounds of an assigned task: who draws it, what it moves, and what it leaves to the silo's own rounds."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from toys import SIZES, ToyModel, ToySkill, left_behind, toy_coordinator, toy_course, toy_run, toy_setting, with_stage

from fedqa.engines.local import InProcess, Processes
from fedqa.errors import ConfigError
from fedqa.federation.coordinator import Coordinator, carry_over
from fedqa.federation.course import Assignment, Choice, Course, Evaluation, Mixing, Stage
from fedqa.federation.engine import Engine
from fedqa.federation.messages import Envelope, Exchange, Request, Train
from fedqa.federation.silo_state import SiloState
from fedqa.models.tagged import TaggedModel
from fedqa.tables import from_table, to_table
from fedqa.training import Local, Term

SMALL: dict[str, Any] = {"clusters": 2, "neighbours": 2, "probe": {"items": 6, "length": 6}}


def assigned(course: Course) -> list[str | None]:
    return [course.assigned(number) for number in range(1, course.rounds + 1)]


# -- the draw ----------------------------------------------------------------------------------------------------


def test_each_task_comes_once_in_every_run_of_rounds_and_own_work_has_none() -> None:
    drawn = assigned(toy_course("atc", rounds=8))
    assert all(sorted(map(str, drawn[start : start + 2])) == ["denoise", "mlm"] for start in range(0, 8, 2))
    assert drawn[8:] == [None] * 8


def test_the_order_is_drawn_from_the_seed() -> None:
    course = toy_course("atc", rounds=40)
    assert assigned(course) == assigned(toy_course("atc", rounds=40))
    assert assigned(course) != assigned(replace(course, seed=8))
    firsts = Counter(assigned(course)[0:40:2])
    assert min(firsts["mlm"], firsts["denoise"]) >= 5


def test_one_task_alone_may_be_assigned() -> None:
    assert assigned(toy_course("atc", rounds=2, tasks=["denoise"]))[:2] == ["denoise", "denoise"]


def test_an_assignment_is_part_of_the_course_file() -> None:
    course = toy_course("atc")
    assert from_table(Course, to_table(course), "course") == course
    assert course.fingerprint != toy_course("atc", text_length=64).fingerprint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": ("read",)}, "unknown assigned task 'read'"),
        ({"tasks": ()}, "an assignment needs at least one task of mlm, denoise"),
        ({"length": 7}, "assignment: length must be at least 8 tokens, got 7"),
    ],
)
def test_an_assignment_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Assignment(**options)


def test_a_term_that_nobody_brings_is_refused() -> None:
    with pytest.raises(ConfigError, match="the objective term 'contrast' needs the channel representations"):
        Stage(1, (("*", "shared"),), objective=(Term("task"), Term("contrast")))


def test_a_channel_that_needs_another_is_refused_without_it() -> None:
    with pytest.raises(ConfigError, match="the channel 'representations' needs the channel 'probe'; add it"):
        Stage(1, (("*", "shared"),), channels=("representations",))


# -- what moves --------------------------------------------------------------------------------------------------


class Decoding(ToySkill):
    """The toy with tags as a pair has them: layer 1 and its norm are the decoder."""

    def build(self, backbone: object, seed: int) -> TaggedModel:
        model = super().build(backbone, seed)
        assert isinstance(model.module, ToyModel)
        own = {name: frozenset({"dec.0"}) for name in model.tags if name.startswith(("layer1", "norm"))}
        return TaggedModel(model.module, {**model.tags, **own})


def one_round(task: str, folder: Path, **local: Any) -> tuple[Mapping[str, torch.Tensor], Mapping[str, torch.Tensor]]:
    """A silo's model before and after a round of a task."""
    work = Local(batch=4, learning_rate=0.02, weight_decay=0.5, keep_optimiser=True, **local)
    course = toy_course("atc", rounds=1, tasks=[task], contrast=False, local=work)
    setting = toy_setting(course, folder, skill=Decoding())
    silo = setting.silos[0]
    before = setting.workshop.bench(silo.skill, 0).model
    loaded = {name: value.clone() for name, value in before.state().items()}
    silo.handle(Train(course.fingerprint, 1, before.loaded_received.clone()))
    silo.ledger.close()
    return loaded, {name: value.clone() for name, value in before.state().items()}


def test_filling_in_words_does_not_move_the_decoder_not_even_by_weight_decay(tmp_path: Path) -> None:
    before, after = one_round("mlm", tmp_path)
    moved = {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert moved == {"layer0"}


def test_denoising_moves_encoder_and_decoder(tmp_path: Path) -> None:
    before, after = one_round("denoise", tmp_path)
    moved = {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert moved == {"layer0", "layer1", "norm"}


def test_what_is_spared_is_not_moved_by_a_proximal_term_either(tmp_path: Path) -> None:
    work = Local(batch=4, learning_rate=0.02)
    course = toy_course("atc", rounds=2, tasks=["mlm"], contrast=False, local=work)
    course = with_stage(course, objective=(Term("task"), Term("prox", 1.0)))
    setting = toy_setting(course, tmp_path, skill=Decoding())
    toy_coordinator(setting).run()
    InProcess(setting.silos).close()
    loaded = Decoding().build(None, 3).module.state_dict()
    for silo in setting.silos:
        left = silo.state.newest("stage", 1, 2)
        assert torch.equal(left["layer1.weight"], loaded["layer1.weight"])
        assert not torch.equal(left["layer0.weight"], loaded["layer0.weight"])


def test_parameters_can_be_trained_again_after_a_round_that_spared_them(tmp_path: Path) -> None:
    course = toy_course("atc", rounds=2, contrast=False)
    setting = toy_setting(course, tmp_path, skill=Decoding())
    bench = setting.workshop.bench(setting.silos[0].skill, 0)
    names = bench.model.trained_names()
    with pytest.raises(KeyboardInterrupt), bench.sparing("dec"):
        assert not any(name.startswith("layer1") for name in bench.model.trained_names())
        raise KeyboardInterrupt
    assert bench.model.trained_names() == names


def test_the_head_stays_as_it_was_loaded_and_nothing_is_scored(tmp_path: Path) -> None:
    coordinator, _ = toy_run(toy_course("atc", rounds=2, **SMALL), tmp_path)
    loaded = ToySkill().build(None, 3).module.state_dict()
    for silo in SIZES:
        state = SiloState(tmp_path / "silos" / silo / "state")
        assert "head.weight" not in state.newest("stage", 1, 2) or torch.equal(
            state.newest("stage", 1, 2)["head.weight"], loaded["head.weight"]
        )
        assert not state.newest("personal", 0, 3)
    assert [bool(record.metrics["ash"]) for record in coordinator.folder.records()] == [False, False, True, True]


def test_a_silo_without_texts_says_so(tmp_path: Path) -> None:
    setting = toy_setting(toy_course("atc", rounds=1, **SMALL), tmp_path)
    silo = setting.silos[0]
    silo.texts = replace(silo.texts, texts=())
    envelope = silo.handle(Train(setting.course.fingerprint, 1, setting.start_of(0).weights))
    silo.ledger.close()
    assert envelope.content.code == "no_examples"  # type: ignore[union-attr]


# -- from stage to stage -----------------------------------------------------------------------------------------


@dataclass
class Listening:
    """An engine that remembers which weights and which steps of channels silos were sent."""

    engine: Engine
    weights: dict[tuple[int, str], torch.Tensor] = field(default_factory=dict)
    steps: list[tuple[int, str, str]] = field(default_factory=list)

    def ask(self, requests: Mapping[str, Request], timeout_s: float) -> Iterator[Envelope]:
        for silo, request in requests.items():
            if isinstance(request, Train):
                self.weights[request.round, silo] = request.weights.clone()
            if isinstance(request, Exchange) and silo == "ash":
                self.steps.append((request.round, request.channel, request.step))
        yield from self.engine.ask(requests, timeout_s)


def listened(course: Course, folder: Path) -> tuple[Coordinator, Listening]:
    setting = toy_setting(course, folder)
    engine = Listening(InProcess(setting.silos))
    coordinator = toy_coordinator(setting, engine)
    coordinator.run()
    InProcess(setting.silos).close()
    return coordinator, engine


def test_the_second_stage_starts_from_each_silos_model_of_the_first(tmp_path: Path) -> None:
    course = replace(toy_course("atc", rounds=2, **SMALL), evaluation=Evaluation(0))
    coordinator, engine = listened(course, tmp_path)
    first, second = coordinator.start_of(0).layout, coordinator.start_of(1).layout
    starts = []
    for silo in SIZES:
        left = SiloState(tmp_path / "silos" / silo / "state").newest("stage", 1, 2)
        values = torch.cat([left[entry.name].reshape(-1) for entry in first.received])
        expected = torch.zeros(second.n_received)
        carry_over(first, values, second, expected)
        assert torch.equal(engine.weights[3, silo], expected)
        assert not torch.equal(expected, coordinator.start_of(1).weights)  # not the loaded model
        starts.append(expected)
    assert any(not torch.equal(one, starts[0]) for one in starts)  # two clusters, two models


def test_only_the_encoder_travels_in_the_second_stage(tmp_path: Path) -> None:
    layout = toy_setting(toy_course("atc", rounds=1), tmp_path).start_of(1).layout
    assert {entry.name.split(".")[0] for entry in layout.received} == {"layer0", "norm", "layer1"}
    assert {entry.name.split(".")[0] for entry in layout.private} == {"head", "contrast"}


def test_the_probe_set_is_made_once_and_representations_from_the_second_round_on(tmp_path: Path) -> None:
    _, engine = listened(replace(toy_course("atc", rounds=3, **SMALL), evaluation=Evaluation(0)), tmp_path)
    made = [(4, "probe", step) for step in ("key", "mix", "spell", "deliver")]
    compared = [(number, "representations", step) for number in (5, 6) for step in ("represent", "deliver")]
    assert engine.steps == made + compared


class Stops(Exception):
    pass


def test_a_stage_that_goes_on_has_its_probe_set_already(tmp_path: Path) -> None:
    course = replace(toy_course("atc", rounds=3, **SMALL), evaluation=Evaluation(0))
    whole, _ = listened(course, tmp_path / "whole")
    setting = toy_setting(course, tmp_path / "pieces")

    class Stopping(Listening):
        def ask(self, requests: Mapping[str, Request], timeout_s: float) -> Iterator[Envelope]:
            if any(isinstance(request, Train) and request.round == 5 for request in requests.values()):
                raise Stops
            yield from super().ask(requests, timeout_s)

    with pytest.raises(Stops):
        toy_coordinator(setting, Stopping(InProcess(setting.silos))).run()
    rest, engine = listened(course, tmp_path / "pieces")
    assert {step for _, channel, step in engine.steps if channel == "probe"} == set()
    assert all(torch.equal(rest._weights[silo], whole._weights[silo]) for silo in SIZES)
    assert [replace(r, seconds=0.0) for r in rest.folder.records()] == [
        replace(r, seconds=0.0) for r in whole.folder.records()
    ]


def test_two_processes_give_the_same_bits(tmp_path: Path) -> None:
    """The steps of an exchange may be done in different processes."""
    course = replace(toy_course("atc", rounds=2, **SMALL), evaluation=Evaluation(0))
    one, _ = toy_run(course, tmp_path / "one")
    setting = toy_setting(course, tmp_path / "two")
    engine = Processes(setting.silos, 2, 4096)
    two = toy_coordinator(setting, engine)
    two.run()
    engine.close()
    found, expected = left_behind(two), left_behind(one)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_groups_that_have_parted_are_known_again_after_a_break(tmp_path: Path) -> None:
    course = toy_course("percfl", rounds=4, mean_below=10.0, smallest=1)
    whole, _ = toy_run(course, tmp_path / "whole")
    setting = toy_setting(course, tmp_path / "pieces")

    class Stopping(InProcess):
        def ask(self, requests: Mapping[str, Request], timeout_s: float) -> Iterator[Envelope]:
            if any(isinstance(request, Train) and request.round == 3 for request in requests.values()):
                raise Stops
            yield from super().ask(requests, timeout_s)

    with pytest.raises(Stops):
        toy_coordinator(setting, Stopping(setting.silos)).run()
    pieces, _ = toy_run(course, tmp_path / "pieces")
    weights = [[record.weights for record in run.folder.records()] for run in (whole, pieces)]
    assert weights[0] == weights[1]
    assert len({str(row) for row in weights[0][-1].values()}) > 1  # they did part
    assert Mixing(Choice("bipartition")).one_row is False
