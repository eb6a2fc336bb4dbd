# SPDX-License-Identifier: Apache-2.0
"""The coordinator: order, participation, quorum, stages, and what it takes up again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from toys import SIZES, differing, left_behind, toy_coordinator, toy_course, toy_data, toy_run, toy_setting, with_stage

from fedqa.engines.local import InProcess
from fedqa.errors import ConfigError
from fedqa.federation.coordinator import Coordinator, carry_over, in_order, weights_for_recipient
from fedqa.federation.course import Choice, Course, Evaluation, Mixing, Participation, SiloPlan, Stage
from fedqa.federation.engine import Engine, Silent
from fedqa.federation.messages import Envelope, Refusal, Request
from fedqa.federation.mixing import ALL
from fedqa.federation.run_folder import RoundRecord
from fedqa.federation.silo_state import SiloState
from fedqa.models.layout import Entry, Layout
from fedqa.training import Local


def unscored(course: Course) -> Course:
    return replace(course, evaluation=Evaluation(0))


# -- order -------------------------------------------------------------------------------------------------------


def envelope(silo: str, code: str = "late") -> Envelope:
    return Envelope(silo, Refusal(silo, code), 0)


def order_of(arrivals: str, names: str) -> str:
    return "".join(e.silo for e in in_order(map(envelope, arrivals), list(names)))


@pytest.mark.parametrize(
    ("arrivals", "expected"),
    [
        ("abcd", "abcd"),
        ("dcba", "abcd"),
        ("bdca", "abcd"),
        ("db", "bd"),
        ("", ""),
        ("cazb", "azbc"),
        ("bbadc", "abbcd"),
    ],
)
def test_replies_are_taken_in_the_order_of_the_course_however_they_arrive(arrivals: str, expected: str) -> None:
    assert order_of(arrivals, "abcd") == expected


def test_a_reply_is_passed_on_as_soon_as_those_before_it_are_there() -> None:
    taken: list[str] = []

    def arriving() -> Iterator[Envelope]:
        for silo in "bac":
            taken.append(f"+{silo}")
            yield envelope(silo)

    for one in in_order(arriving(), ["a", "b", "c"]):
        taken.append(one.silo)
    assert taken == ["+b", "+a", "a", "b", "+c", "c"]


class Turned:
    """Silos that answer in the opposite order."""

    def __init__(self, silos: Sequence[object]) -> None:
        self._inner = InProcess(silos)  # type: ignore[arg-type]

    def ask(self, requests: Mapping[str, Request], timeout_s: float) -> Iterator[Envelope]:
        yield from reversed(list(self._inner.ask(requests, timeout_s)))


def run_with(course: Course, folder: Path, engine: type[Engine]) -> Coordinator:
    setting = toy_setting(course, folder)
    coordinator = toy_coordinator(setting, engine(setting.silos))  # type: ignore[call-arg]
    coordinator.run()
    InProcess(setting.silos).close()
    return coordinator


def test_the_order_of_arrival_does_not_change_a_bit(tmp_path: Path) -> None:
    one = run_with(unscored(toy_course()), tmp_path / "one", InProcess)
    other = run_with(unscored(toy_course()), tmp_path / "other", Turned)
    assert not differing(left_behind(one), left_behind(other))


# -- participation and quorum ------------------------------------------------------------------------------------


def test_drawn_silos_differ_from_round_to_round_but_not_from_run_to_run(tmp_path: Path) -> None:
    course = unscored(toy_course(rounds=6, sample=2))
    one, _ = toy_run(course, tmp_path / "one")
    asked = [record.asked for record in one.folder.records()]
    assert all(len(set(names)) == 2 for names in asked)
    assert len(set(asked)) > 1
    again, _ = toy_run(replace(course, silos=course.silos[::-1]), tmp_path / "again")
    assert [set(record.asked) for record in again.folder.records()] == [set(names) for names in asked]


class Missing(InProcess):
    """birch is never there."""

    def ask(self, requests: Mapping[str, Request], timeout_s: float) -> Iterator[Envelope]:
        for one in super().ask(requests, timeout_s):
            yield envelope("birch") if one.silo == "birch" else one


def test_a_round_goes_on_with_the_silos_that_answered(tmp_path: Path) -> None:
    course = unscored(toy_course("fedavg", quorum=3))
    missing = run_with(course, tmp_path / "missing", Missing)
    without, _ = toy_run(course.without("birch"), tmp_path / "without")
    assert torch.equal(missing._weights[ALL], without._weights[ALL])
    for record in missing.folder.records():
        assert record.refused == (("birch", "late"),)
        assert not record.void
        assert record.weights[ALL].keys() == {"ash", "cedar", "dogwood"}
        assert sum(record.weights[ALL].values()) == pytest.approx(1)


def test_a_round_below_its_quorum_changes_nothing(tmp_path: Path) -> None:
    course = unscored(toy_course("fedopt", quorum=4))
    coordinator = run_with(course, tmp_path, Missing)
    assert [record.void for record in coordinator.folder.records()] == [True] * 3
    loaded = toy_setting(course, tmp_path / "fresh").start_of(0).weights
    assert torch.equal(coordinator._weights[ALL], loaded)
    assert coordinator._states == {}


# -- a record ----------------------------------------------------------------------------------------------------


def test_a_round_is_written_down(tmp_path: Path) -> None:
    coordinator, _ = toy_run(toy_course(rounds=1), tmp_path)
    (record,) = coordinator.folder.records()
    assert (record.round, record.stage, record.asked, record.void) == (1, "train", tuple(SIZES), False)
    assert {name: accepted.n_examples for name, accepted in record.accepted.items()} == SIZES
    assert record.weights[ALL] == {name: pytest.approx(n / sum(SIZES.values())) for name, n in SIZES.items()}
    assert set(record.metrics["ash"]) == {"received/dev/fit", "personal/dev/fit"}
    assert record.metrics["ash"]["received/dev/fit"][0] == 12
    accepted = record.accepted["ash"]
    assert accepted.loss_min <= accepted.loss_last <= accepted.loss_max


def test_a_watcher_is_told_what_happens(tmp_path: Path) -> None:
    told: list[str] = []

    class Watcher(Silent):
        def round_begins(self, number: int, of: int, stage: str, silos: Sequence[str]) -> None:
            told.append(f"round {number} of {of}, {stage}, {len(silos)}")

        def silo_answered(self, silo: str) -> None:
            told.append(silo)

        def round_ends(self, record: RoundRecord) -> None:
            told.append(f"end {record.round}")

        def scoring_begins(self, silos: Sequence[str]) -> None:
            told.append("scoring")

    setting = toy_setting(unscored(toy_course(rounds=1)), tmp_path)
    replace(toy_coordinator(setting), watcher=Watcher()).run()
    InProcess(setting.silos).close()
    assert told == ["round 1 of 1, train, 4", *SIZES, "end 1", "scoring", *SIZES]


# -- stages ------------------------------------------------------------------------------------------------------


def layout(shared: Mapping[str, int], synced: Mapping[str, int] | None = None) -> Layout:
    def entries(sizes: Mapping[str, int]) -> tuple[Entry, ...]:
        return tuple(Entry(name, (size,)) for name, size in sizes.items())

    return Layout((), entries(shared), entries(synced or {}), ())


def test_what_two_stages_have_in_common_is_carried_over() -> None:
    target = torch.full((5,), 9.0)
    values = torch.tensor([1.0, 1.0, 2.0, 3.0])
    carry_over(layout({"a": 2, "b": 1}, {"c": 1}), values, layout({"c": 1, "new": 2}, {"a": 2}), target)
    assert target.tolist() == [3, 9, 9, 1, 1]


def test_models_of_their_own_become_one_by_their_mean() -> None:
    weights = {"ash": torch.tensor([1.0]), "birch": torch.tensor([4.0])}
    assert weights_for_recipient("ash", weights).tolist() == [1]
    assert weights_for_recipient(ALL, weights).tolist() == [2.5]
    assert weights_for_recipient("ash", {ALL: torch.tensor([7.0])}).tolist() == [7]


def kept(coordinator: Coordinator, silo: str, kind: str, number: int) -> dict[str, Tensor]:
    return SiloState(coordinator.folder.silo(silo) / "state").newest(kind, number, number + 1)


def two_stages(first: Stage, **changes: object) -> tuple[Stage, Stage]:
    return first, replace(first, name="second", **changes)  # type: ignore[arg-type]


def test_a_second_stage_goes_on_from_the_first(tmp_path: Path) -> None:
    """First everything is shared; then the head is frozen and the encoder private, as the first stage left them."""
    course = toy_course("fedavg", rounds=2)
    sharing = (("embeddings|head", "frozen"), ("*", "private"))
    course = replace(course, stages=two_stages(course.stages[0], sharing=sharing))
    coordinator, outcome = toy_run(course, tmp_path / "two")
    first, _ = toy_run(toy_course("fedavg", rounds=2), tmp_path / "one")
    assert set(outcome.scores) == set(SIZES)
    for silo in SIZES:
        after_first, after_second = kept(coordinator, silo, "stage", 1), kept(coordinator, silo, "stage", 2)
        assert not differing(after_first, kept(first, silo, "stage", 1))
        changed = {name.split(".")[0] for name in differing(after_first, after_second)}
        assert changed == {"layer0", "norm", "layer1"}
        assert after_second.keys() == after_first.keys()
    assert differing(kept(coordinator, "ash", "stage", 2), kept(coordinator, "birch", "stage", 2))
    assert coordinator._weights[ALL].numel() == 0


def test_shared_weights_go_on_into_the_next_stage(tmp_path: Path) -> None:
    """Two stages with the same rules, fixed rate and fresh moments, are one stage as long as both."""
    course = unscored(toy_course("fedavg", rounds=2))
    split, _ = toy_run(replace(course, stages=two_stages(course.stages[0])), tmp_path / "split")
    whole, _ = toy_run(unscored(toy_course("fedavg", rounds=4)), tmp_path / "whole")
    assert torch.equal(split._weights[ALL], whole._weights[ALL])
    assert [record.stage for record in split.folder.records()] == ["train", "train", "second", "second"]


def test_private_parameters_go_on_into_the_next_stage(tmp_path: Path) -> None:
    course = unscored(toy_course("fedper", rounds=2))
    split, _ = toy_run(replace(course, stages=two_stages(course.stages[0])), tmp_path / "split")
    whole, _ = toy_run(unscored(toy_course("fedper", rounds=4)), tmp_path / "whole")
    assert torch.equal(split._weights[ALL], whole._weights[ALL])
    for silo in SIZES:
        assert not differing(kept(split, silo, "stage", 2), kept(whole, silo, "stage", 1))


def test_models_of_their_own_are_averaged_where_a_stage_has_one_model(tmp_path: Path) -> None:
    course = unscored(toy_course("fedavg", rounds=1, local=Local(learning_rate=0.02)))
    stages = two_stages(
        replace(course.stages[0], mixing=Mixing(Choice("identity"))), mixing=Mixing(), local=Local(learning_rate=0.0)
    )
    coordinator, _ = toy_run(replace(course, stages=stages), tmp_path / "both")
    alone, _ = toy_run(replace(course, stages=stages[:1]), tmp_path / "alone")
    mean = torch.stack(list(alone._weights.values())).mean(dim=0)
    assert torch.equal(coordinator._weights[ALL], mean)  # the second stage, of rate 0, changed nothing


def test_a_server_optimiser_counts_the_rounds_of_its_stage(tmp_path: Path) -> None:
    course = unscored(toy_course("fedopt", optimiser="damped", rounds=1))
    course = replace(course, stages=two_stages(course.stages[0]))
    damped, _ = toy_run(course, tmp_path / "damped")  # divided by 1, and in the second stage by 1 again
    plain, _ = toy_run(unscored(toy_course("fedavg", rounds=2)), tmp_path / "plain")
    assert torch.equal(damped._weights[ALL], plain._weights[ALL])


def test_synced_parameters_are_received_and_stay(tmp_path: Path) -> None:
    course = unscored(toy_course("fedavg", rounds=1))
    sharing = (("embeddings", "frozen"), ("head", "synced"), ("*", "shared"))
    course = replace(course, stages=two_stages(course.stages[0], sharing=sharing))
    coordinator, _ = toy_run(course, tmp_path)
    for silo in SIZES:
        changed = differing(kept(coordinator, silo, "stage", 1), kept(coordinator, silo, "stage", 2))
        assert changed
        assert not [name for name in changed if name.startswith("head")]


def test_a_stage_that_learns_faster_is_not_judged_by_the_one_before(tmp_path: Path) -> None:
    """Updates ten thousand times as long as those of the stage before are no reason to refuse them."""
    course = unscored(toy_course("fedavg", rounds=1, local=Local(batch=4, learning_rate=1e-5, weight_decay=0.0)))
    fast = Local(batch=4, learning_rate=0.3, weight_decay=0.0)
    course = replace(course, stages=two_stages(course.stages[0], local=fast, rounds=2))
    coordinator, _ = toy_run(course, tmp_path)
    slow, *fast_rounds = coordinator.folder.records()
    ratio = max(a.norm for a in fast_rounds[0].accepted.values()) / max(a.norm for a in slow.accepted.values())
    assert ratio > 1000
    assert [record.refused for record in fast_rounds] == [(), ()]


def test_central_training_lasts_as_long_as_its_stage(tmp_path: Path) -> None:
    central, fedavg = toy_course("central", rounds=1), toy_course("fedavg", rounds=1)
    course = unscored(replace(central, stages=(*central.stages, *fedavg.stages)))
    coordinator, _ = toy_run(course, tmp_path)
    assert [record.asked for record in coordinator.folder.records()] == [("pool",), tuple(SIZES)]


# -- taking up again ---------------------------------------------------------------------------------------------


class StopsBeforeScoring(Silent):
    def scoring_begins(self, silos: Sequence[str]) -> None:
        raise KeyboardInterrupt


def test_a_run_that_only_lacks_its_scores_does_not_open_its_channels_again(tmp_path: Path) -> None:
    course = toy_course("central", rounds=1)
    setting = toy_setting(course, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        replace(toy_coordinator(setting), watcher=StopsBeforeScoring()).run()
    _, outcome = toy_run(course, tmp_path)
    assert set(outcome.scores) == set(SIZES)
    kinds = [row.kind for row in setting.silos[0].ledger.rows()]
    InProcess(setting.silos).close()
    assert kinds == ["examples", "report"]


def test_a_finished_run_can_be_asked_for_its_scores_again(tmp_path: Path) -> None:
    course = toy_course(rounds=2)
    _, first = toy_run(course, tmp_path)
    coordinator, again = toy_run(course, tmp_path)
    assert again.scores == first.scores
    assert len(coordinator.folder.records()) == 2


def test_a_course_without_stages_only_scores(tmp_path: Path) -> None:
    coordinator, outcome = toy_run(toy_course("zero_shot"), tmp_path)
    assert coordinator.folder.records() == []
    assert set(outcome.scores) == set(SIZES)
    assert outcome.bytes_up > 0


def test_a_silo_that_does_not_report_is_written_down(tmp_path: Path) -> None:
    setting = toy_setting(toy_course("zero_shot"), tmp_path)
    outcome = toy_coordinator(setting, Missing(setting.silos)).run()
    InProcess(setting.silos).close()
    assert set(outcome.scores) == set(SIZES) - {"birch"}
    assert outcome.refused == (("birch", "late"),)


# -- where a stage starts ----------------------------------------------------------------------------------------


def test_a_stage_that_trains_nothing_is_refused(tmp_path: Path) -> None:
    course = with_stage(toy_course(), sharing=(("head", "synced"), ("*", "frozen")))
    with pytest.raises(ConfigError, match="stage 'train' trains nothing: all parameters are frozen or synced"):
        toy_run(course, tmp_path)


def test_a_course_that_would_forget_a_shared_parameter_is_refused_before_it_begins(tmp_path: Path) -> None:
    course = unscored(toy_course("fedavg", rounds=1))
    first, second = two_stages(course.stages[0], sharing=(("head", "shared"), ("*", "frozen")))
    course = replace(course, stages=(first, second, first))
    with pytest.raises(ConfigError, match=r"stage '3 train' shares 'layer0.bias' again"):
        toy_run(course, tmp_path)
    assert not (tmp_path / "rounds.jsonl").exists()


def test_participation_of_some_is_enough_for_a_model_of_ones_own(tmp_path: Path) -> None:
    """Who is not asked keeps the model it had."""
    course = unscored(toy_course("fedavg", rounds=1))
    course = with_stage(course, mixing=Mixing(Choice("identity")), participation=Participation(sample=1))
    coordinator, _ = toy_run(course, tmp_path)
    (record,) = coordinator.folder.records()
    loaded = toy_setting(course, tmp_path / "fresh").start_of(0).weights
    changed = {name for name, vector in coordinator._weights.items() if not torch.equal(vector, loaded)}
    assert changed == set(record.asked)
    assert len(changed) == 1


def test_a_course_of_one_silo_runs(tmp_path: Path) -> None:
    course = replace(toy_course("ditto", rounds=1), silos=(SiloPlan("ash", "toy"),))
    _, outcome = toy_run(course, tmp_path, {"ash": toy_data()["ash"]})
    assert set(outcome.scores) == {"ash"}
