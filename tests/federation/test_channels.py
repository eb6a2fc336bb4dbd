# SPDX-License-Identifier: Apache-2.0
"""Channels: bounds, raw examples, and traffic from silo to silo through the coordinator."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from toys import SIZES, toy_collection, toy_coordinator, toy_course, toy_data, toy_run, toy_setting, with_stage

from fedqa.data.records import Collection, Quarantined
from fedqa.engines.local import InProcess
from fedqa.errors import BoundaryError, ConfigError
from fedqa.federation import wire
from fedqa.federation.channels import CHANNELS, EXAMPLES, Bound, Channel
from fedqa.federation.course import Choice, Evaluation, Mixing, Participation
from fedqa.federation.messages import Contribution, Envelope, Exchange, Refusal, Request
from fedqa.federation.sides import CoordinatorSide, SiloSide
from fedqa.federation.silo import Silo

VECTORS = Bound(torch.float32, (2, 3))


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.zeros(2, 3, dtype=torch.int64), "wrong_dtype: q is torch.int64, torch.float32 is accepted"),
        (torch.zeros(3, 3), r"wrong_length: q is \(3, 3\), at most \(2, 3\)"),
        (torch.zeros(3), r"wrong_length: q is \(3,\), at most \(2, 3\)"),
        (torch.zeros(1, 1, 1), "wrong_length"),
        (torch.tensor([[float("nan")]]), "not_finite: q"),
        (torch.tensor([[float("inf")]]), "not_finite: q"),
    ],
)
def test_a_tensor_out_of_bounds_is_refused(tensor: Tensor, message: str) -> None:
    with pytest.raises(BoundaryError, match=message):
        VECTORS.check("q", tensor)


@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (1, 0)])
def test_a_tensor_within_bounds_may_be_smaller(shape: tuple[int, ...]) -> None:
    VECTORS.check("q", torch.zeros(shape))


def test_a_tensor_the_channel_does_not_carry_is_refused() -> None:
    with pytest.raises(BoundaryError, match="extra_tensor: channel examples does not carry 'more'"):
        EXAMPLES.check({"more": torch.zeros(1)})


@pytest.mark.parametrize("channel", CHANNELS.values(), ids=lambda channel: channel.name)
def test_what_a_channel_carries_can_be_sent(channel: Channel) -> None:
    assert channel.summary
    assert all(bound.dtype in wire.DTYPES.values() for bound in channel.up.values())


def test_what_was_left_out_of_a_silos_data_stays_there() -> None:
    @dataclass
    class AtHome:
        name: str
        collection: Collection

    secret = Quarantined("patients.csv:7", "no question", "add one")
    data = replace(toy_collection(2, 1), quarantine=(secret,))
    sent = EXAMPLES.answer(AtHome("ash", data), Exchange("course", 1, "examples", "collect"))
    assert b"patients.csv" not in bytes(sent["examples"].numpy())


def test_raw_examples_arrive_as_they_were_sent() -> None:
    @dataclass
    class Coordinator:
        pooled: list[Collection] = field(default_factory=list)
        silos = ("birch", "ash")

        def ask(self, step: str, tensors: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Mapping[str, Tensor]]:
            request = Exchange("course", 1, "examples", step)
            return {name: EXAMPLES.answer(AtHome(name, data[name]), request) for name in tensors}

        def pool(self, collections: list[Collection]) -> None:
            self.pooled = collections

    @dataclass
    class AtHome:
        name: str
        collection: Collection

    data = {"ash": toy_collection(3, 1), "birch": toy_collection(2, 2)}
    coordinator = Coordinator()
    EXAMPLES.relay(coordinator)  # type: ignore[arg-type]
    assert coordinator.pooled == [data["ash"], data["birch"]]  # by name, whatever the order of the course


# -- a channel from silo to silo ---------------------------------------------------------------------------------


def answer(silo: SiloSide, request: Exchange) -> dict[str, Tensor]:
    """First a question to the others, then answers to all of their questions."""
    size = float(len(silo.collection.documents))
    if request.step == "ask":
        return {"question": torch.tensor([size])}
    return {"answers": request.tensors["questions"] + size}


def relay(coordinator: CoordinatorSide) -> None:
    questions = coordinator.ask("ask", {name: {} for name in coordinator.silos})
    of_others = {
        name: {"questions": torch.cat([questions[other]["question"] for other in questions if other != name])}
        for name in coordinator.silos
    }
    ANSWERS.append(dict(coordinator.ask("answer", of_others)))


ANSWERS: list[dict[str, Mapping[str, Tensor]]] = []


def gossip(**changes: object) -> Channel:
    channel = Channel(
        name="gossip",
        summary="a toy",
        when="before_round",
        up={"question": Bound(torch.float32, (1,)), "answers": Bound(torch.float32, (3,))},
        answer=answer,
        relay=relay,
    )
    ANSWERS.clear()
    return replace(channel, **changes)  # type: ignore[arg-type]


@pytest.fixture
def _gossip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHANNELS, "gossip", gossip())


def test_silos_talk_to_silos_through_the_coordinator(_gossip: None, tmp_path: Path) -> None:
    course = with_stage(replace(toy_course(rounds=2), evaluation=Evaluation(0)), channels=("gossip",))
    coordinator, _ = toy_run(course, tmp_path)
    assert len(ANSWERS) == 2  # before each of two rounds
    # ash, of 12 examples, is asked by silos of 5, 9 and 7
    assert ANSWERS[0]["ash"]["answers"].tolist() == [17, 21, 19]
    assert ANSWERS[0]["dogwood"]["answers"].tolist() == [19, 12, 16]
    records = coordinator.folder.records()
    assert [record.refused for record in records] == [(), ()]
    setting = toy_setting(course, tmp_path)
    for silo in setting.silos:
        kinds = [row.kind for row in silo.ledger.rows()]
        assert kinds == ["gossip", "gossip", "update"] * 2 + ["report"]
    rows = [row for silo in setting.silos for row in silo.ledger.rows() if row.round == 1]
    assert records[0].bytes_up == sum(row.bytes for row in rows)
    InProcess(setting.silos).close()


def test_a_channel_does_not_change_the_weights_by_itself(_gossip: None, tmp_path: Path) -> None:
    course = replace(toy_course(rounds=2), evaluation=Evaluation(0))
    silent, _ = toy_run(course, tmp_path / "silent")
    talking, _ = toy_run(with_stage(course, channels=("gossip",)), tmp_path / "talking")
    assert torch.equal(silent._weights["*"], talking._weights["*"])


def test_a_channel_before_a_stage_is_used_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(CHANNELS, "gossip", gossip(when="before_stage"))
    course = with_stage(replace(toy_course(rounds=3), evaluation=Evaluation(0)), channels=("gossip",))
    toy_run(course, tmp_path)
    assert len(ANSWERS) == 1


def test_a_silo_lets_nothing_out_that_is_out_of_bounds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(CHANNELS, "gossip", gossip(up={"question": Bound(torch.float32, (0,))}))
    course = with_stage(toy_course(), channels=("gossip",))
    silo = toy_setting(course, tmp_path).silos[0]
    envelope = silo.handle(Exchange(course.fingerprint, 1, "gossip", "ask"))
    assert envelope.content == Refusal("ash", "wrong_length")
    assert [row.kind for row in silo.ledger.rows()] == ["refusal"]
    silo.ledger.close()


def test_the_coordinator_takes_nothing_in_that_is_out_of_bounds(_gossip: None, tmp_path: Path) -> None:
    """A silo that sends too much, and one that answers for another, are written down and left out."""
    course = with_stage(replace(toy_course(rounds=1), evaluation=Evaluation(0)), channels=("gossip",))
    setting = toy_setting(course, tmp_path)

    class Lying(InProcess):
        def ask(self, requests, timeout_s):  # type: ignore[no-untyped-def]
            for envelope in super().ask(requests, timeout_s):
                content = envelope.content
                if isinstance(content, Contribution) and content.step == "ask" and envelope.silo == "birch":
                    content = replace(content, tensors={"question": torch.zeros(2)})
                if isinstance(content, Contribution) and content.step == "ask" and envelope.silo == "cedar":
                    content = replace(content, silo="ash")
                yield replace(envelope, content=content)

    coordinator = toy_coordinator(setting, Lying(setting.silos))
    coordinator.run()
    InProcess(setting.silos).close()
    (record,) = coordinator.folder.records()
    assert record.refused == (("birch", "wrong_length"), ("cedar", "wrong_kind"))
    assert set(record.accepted) == set(SIZES)  # their updates were good
    assert ANSWERS[0]["ash"]["answers"].tolist() == [12 + 7]  # only dogwood's question came through


@pytest.mark.parametrize(
    ("channel", "number", "code"),
    [("examples", 1, "not_in_course"), ("gossip", 0, "not_in_course"), ("gossip", 9, "not_in_course")],
)
def test_a_silo_refuses_what_the_course_does_not_open(
    _gossip: None, tmp_path: Path, channel: str, number: int, code: str
) -> None:
    course = with_stage(toy_course(), channels=("gossip",))
    silo = toy_setting(course, tmp_path).silos[0]
    envelope = silo.handle(Exchange(course.fingerprint, number, channel, "ask"))
    assert envelope.content == Refusal("ash", code)
    silo.ledger.close()


def test_central_training_goes_on_without_a_silo_that_does_not_give_its_examples(tmp_path: Path) -> None:
    course = replace(toy_course("central", rounds=1), evaluation=Evaluation(0))
    setting = toy_setting(course, tmp_path)
    setting.silos[1].approved = frozenset()
    coordinator = toy_coordinator(setting)
    coordinator.run()
    InProcess(setting.silos).close()
    (record,) = coordinator.folder.records()
    assert record.refused == (("birch", "course_not_approved"),)
    assert record.asked == ("pool",)
    n_examples = sum(len(data.documents) for name, data in toy_data().items() if name != "birch")
    assert record.accepted["pool"].n_examples == n_examples


def test_a_silo_that_sends_no_examples_at_all_is_refused_and_the_rest_are_pooled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = CHANNELS["examples"]

    def lying(silo: SiloSide, request: Exchange) -> Mapping[str, torch.Tensor]:
        if silo.name == "birch":
            return {"examples": torch.tensor([123, 34, 120], dtype=torch.uint8)}
        return honest.answer(silo, request)

    monkeypatch.setitem(CHANNELS, "examples", replace(honest, answer=lying))
    coordinator, outcome = toy_run(toy_course("central"), tmp_path)
    assert ("birch", "malformed") in coordinator.folder.records()[0].refused
    assert len(outcome.scores) == 4


def test_pooling_examples_goes_with_one_model_and_no_quorum() -> None:
    for changes in ({"mixing": Mixing(Choice("identity"))}, {"participation": Participation(quorum=2)}):
        with pytest.raises(ConfigError, match="pools all examples"):
            with_stage(toy_course("central"), **changes)


class Repeats:
    """An engine through which one silo answers every exchange twice, the second time with something else."""

    def __init__(self, silos: Sequence[Silo], repeater: str) -> None:
        self._engine, self._repeater = InProcess(silos), repeater

    def ask(self, requests: Mapping[str, Request], timeout_s: float) -> Iterator[Envelope]:
        for envelope in self._engine.ask(requests, timeout_s):
            yield envelope
            if envelope.silo == self._repeater and isinstance(envelope.content, Contribution):
                other = replace(envelope.content, tensors={"examples": torch.zeros(1, dtype=torch.uint8)})
                yield replace(envelope, content=other)


def test_of_two_answers_of_one_silo_to_a_step_the_first_counts(tmp_path: Path) -> None:
    course = toy_course("central")
    plain, _ = toy_run(course, tmp_path / "plain")
    setting = toy_setting(course, tmp_path / "repeated")
    repeated, _ = toy_run(course, tmp_path / "again", engine=Repeats(setting.silos, "birch"))
    assert ("birch", "duplicate") in repeated.folder.records()[0].refused
    assert torch.equal(plain.folder.checkpoint(3)["weights/*"], repeated.folder.checkpoint(3)["weights/*"])
