# SPDX-License-Identifier: Apache-2.0
"""Hard negatives from silo to silo: what is found, what is hidden, and what is refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from fedqa.errors import BoundaryError, ConfigError
from fedqa.federation.fed_negative import INBOX, FedNegativeOptions, answer, packed, relay, unpacked
from fedqa.federation.messages import Exchange

EXACT = FedNegativeOptions(noise=0.0, sentences=1)
# Three silos in the plane: each has one question and two sentences, east or west or north.
EAST, WEST, NORTH = [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]
QUESTIONS = {"ash": [EAST], "birch": [WEST], "cedar": [NORTH]}
SENTENCES = {"ash": [[0.9, 0.1], [0.1, 0.9]], "birch": [[0.8, 0.0], [-0.7, 0.0]], "cedar": [[0.0, 0.6], [0.5, 0.5]]}


@dataclass
class AtHome:
    """A silo as the channel sees it."""

    name: str
    questions: Tensor
    sentences: Tensor
    chosen: FedNegativeOptions
    spent: dict[bytes, int] = field(default_factory=dict)
    inbox: dict[int, Tensor] = field(default_factory=dict)

    @property
    def skill(self) -> Any:
        return SimpleNamespace(
            training_vectors=lambda model, features: self.questions.numpy(),
            sentence_vectors=lambda model, features: self.sentences.numpy(),
        )

    @property
    def features(self) -> Any:
        return SimpleNamespace(n_train=len(self.questions))

    def options(self, request: Exchange) -> FedNegativeOptions:
        return self.chosen

    def own_model(self, round_number: int) -> None:
        return None

    def spend(self, request: Exchange, amount: int) -> int:
        self.spent[request.tensors["bytes"].numpy().tobytes()] = amount
        return sum(self.spent.values())

    def secret(self) -> int:
        return sum(map(ord, self.name))

    def receive(self, round_number: int, tensors: Mapping[str, Tensor]) -> None:
        self.inbox[round_number] = tensors[INBOX]


@dataclass
class Between:
    """A coordinator that remembers what it sent to whom, and drops silos that do not answer."""

    homes: Mapping[str, AtHome]
    options: FedNegativeOptions
    silent: Sequence[str] = ()
    sent: dict[tuple[str, str], Mapping[str, Tensor]] = field(default_factory=dict)
    refused: list[tuple[str, str]] = field(default_factory=list)

    @property
    def silos(self) -> list[str]:
        return list(self.homes)

    def ask(self, step: str, tensors: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Mapping[str, Tensor]]:
        answers = {}
        for name, down in tensors.items():
            self.sent[step, name] = down
            if name not in self.silent:
                answers[name] = answer(self.homes[name], Exchange("course", 1, "fed_negative", step, down))  # type: ignore[arg-type]
        return answers

    def refuse(self, silo: str, code: str) -> None:
        self.refused.append((silo, code))


def homes(options: FedNegativeOptions = EXACT) -> dict[str, AtHome]:
    return {
        name: AtHome(name, torch.tensor(QUESTIONS[name]), torch.tensor(SENTENCES[name]), options) for name in QUESTIONS
    }


def relayed(options: FedNegativeOptions = EXACT, silent: Sequence[str] = ()) -> Between:
    between = Between(homes(options), options, silent)
    relay(between)  # type: ignore[arg-type]
    return between


def found(between: Between, silo: str) -> list[list[float]]:
    return between.homes[silo].inbox[1][0].tolist()


def close(rows: Sequence[Sequence[float]], expected: Sequence[Sequence[float]]) -> bool:
    return all(pytest.approx(want, abs=0.005) == got for got, want in zip(sorted(rows), sorted(expected), strict=True))


def test_each_question_gets_the_nearest_sentence_of_every_other_silo() -> None:
    between = relayed()
    assert close(found(between, "ash"), [[0.8, 0.0], [0.5, 0.5]])  # east of birch, and of cedar
    assert close(found(between, "birch"), [[0.1, 0.9], [0.0, 0.6]])  # the least east of ash, and of cedar
    assert close(found(between, "cedar"), [[0.1, 0.9], [0.8, 0.0]])  # ties in birch: both have nothing of north
    assert not between.refused


def test_a_silo_is_sent_the_questions_of_the_others_and_not_its_own() -> None:
    between = relayed()
    got = unpacked(between.sent["search", "ash"]).squeeze(1).tolist()
    assert close(got, [WEST, NORTH])


def test_nothing_that_is_sent_names_a_silo_or_has_another_tensor() -> None:
    for tensors in relayed().sent.values():
        assert set(tensors) <= {"bytes", "scale"}


def test_what_a_silo_keeps_does_not_depend_on_how_it_was_mixed() -> None:
    rounds = [relayed(FedNegativeOptions(sentences=2)) for _ in range(5)]
    for name in QUESTIONS:
        assert len({between.homes[name].inbox[1].numpy().tobytes() for between in rounds}) == 1


def test_questions_reach_a_silo_mixed() -> None:
    many = {
        name: AtHome(
            name,
            torch.nn.functional.normalize(torch.randn(50, 4, generator=torch.Generator().manual_seed(i)), dim=1),
            torch.eye(4),
            EXACT,
        )
        for i, name in enumerate(QUESTIONS)
    }
    orders = []
    for _ in range(2):
        between = Between(many, EXACT)
        relay(between)  # type: ignore[arg-type]
        orders.append(between.sent["search", "ash"]["bytes"])
    assert not torch.equal(*orders)
    assert torch.equal(*(order.flatten(1).unique(dim=0) for order in orders))


def test_fewer_peers_find_fewer_sentences() -> None:
    options = FedNegativeOptions(noise=0.0, sentences=1, peers=1)
    between = relayed(options)
    for name in QUESTIONS:
        assert len(found(between, name)) == 1


def test_a_silo_that_does_not_answer_is_missing_and_the_others_go_on() -> None:
    between = relayed(silent=["birch"])
    assert close(found(between, "ash"), [[0.5, 0.5]])
    assert not between.homes["birch"].inbox


def test_only_some_questions_are_asked_and_the_others_have_no_vectors() -> None:
    options = FedNegativeOptions(noise=0.0, sentences=1, questions=1)
    home = AtHome("ash", torch.tensor([EAST, WEST, NORTH]), torch.tensor([EAST]), options)
    other = AtHome("birch", torch.tensor([WEST]), torch.tensor([NORTH]), options)
    relay(Between({"ash": home, "birch": other}, options))  # type: ignore[arg-type]
    asked = home.inbox[1].abs().sum(dim=(1, 2)) > 0
    assert asked.tolist().count(True) == 1


# -- the guard ---------------------------------------------------------------------------------------------------


def test_bytes_are_off_by_half_a_step_at_most() -> None:
    vectors = torch.randn(7, 3, 16, generator=torch.Generator().manual_seed(0))
    both = packed(vectors)
    assert both["bytes"].dtype == torch.int8
    assert bool(((unpacked(both) - vectors).abs() <= both["scale"].unsqueeze(-1) * 0.5001).all())
    assert torch.equal(unpacked(packed(torch.zeros(1, 1, 4))), torch.zeros(1, 1, 4))


def test_noise_is_as_large_as_said_the_same_when_asked_again_and_another_in_another_silo() -> None:
    options = FedNegativeOptions(noise=0.1)
    sentences = torch.zeros(400, 64)
    request = Exchange("course", 1, "fed_negative", "search", packed(torch.ones(1, 1, 64)))
    one, again, other = (
        unpacked(answer(AtHome(name, sentences[:1], sentences, options), request))  # type: ignore[arg-type]
        for name in ("ash", "ash", "birch")
    )
    assert float(one.std()) == pytest.approx(0.1, rel=0.1)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_asking_often_does_not_average_the_noise_away() -> None:
    home = AtHome("ash", torch.tensor([EAST]), torch.tensor([NORTH]), FedNegativeOptions(noise=0.3, sentences=1))
    answers = [
        unpacked(answer(home, Exchange("course", number, "fed_negative", "search", packed(question))))  # type: ignore[arg-type]
        for number, question in enumerate(torch.randn(9, 1, 1, 2, generator=torch.Generator().manual_seed(0)), start=1)
    ]
    assert all(torch.equal(one, answers[0]) for one in answers)
    assert not torch.allclose(answers[0], torch.tensor([[NORTH]]), atol=0.05)


def test_a_silo_answers_no_more_questions_than_the_course_allows() -> None:
    home = AtHome("ash", torch.tensor([EAST]), torch.tensor([WEST]), FedNegativeOptions(budget=5))
    first = Exchange("course", 1, "fed_negative", "search", packed(torch.ones(4, 1, 2)))
    second = Exchange("course", 1, "fed_negative", "search", packed(-torch.ones(2, 1, 2)))
    answer(home, first)  # type: ignore[arg-type]
    answer(home, first)  # type: ignore[arg-type] # the same again costs nothing
    with pytest.raises(BoundaryError, match="over_budget"):
        answer(home, second)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("step", "tensors"),
    [
        ("search", {}),
        ("search", {"bytes": torch.zeros(2, 1, 2, dtype=torch.int8), "scale": torch.zeros(3, 1)}),
        ("search", packed(torch.ones(1, 1, 9))),  # another width
        ("deliver", packed(torch.ones(2, 1, 2))),  # of more questions than were asked
    ],
)
def test_a_request_that_does_not_fit_is_refused(step: str, tensors: dict[str, Tensor]) -> None:
    with pytest.raises(BoundaryError, match="bad_request"):
        answer(homes()["ash"], Exchange("course", 1, "fed_negative", step, tensors))  # type: ignore[arg-type]


def test_an_unknown_step_and_a_skill_without_vectors_are_refused() -> None:
    with pytest.raises(BoundaryError, match="not_in_course"):
        answer(homes()["ash"], Exchange("course", 1, "fed_negative", "dance", {}))  # type: ignore[arg-type]
    without = SimpleNamespace(skill=SimpleNamespace(name="match"))
    with pytest.raises(BoundaryError, match="not_in_course"):
        answer(without, Exchange("course", 1, "fed_negative", "ask", {}))  # type: ignore[arg-type]


def test_what_does_not_fit_together_is_refused_by_the_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    class Torn(Between):
        def ask(self, step: str, tensors: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Mapping[str, Tensor]]:
            answers = super().ask(step, tensors)
            if step == "ask":
                answers["birch"] = {"bytes": torch.zeros(2, 1, 2, dtype=torch.int8), "scale": torch.zeros(1, 1)}
            return answers

    between = Torn(homes(), EXACT)
    relay(between)  # type: ignore[arg-type]
    assert between.refused == [("birch", "malformed")]
    assert between.homes["ash"].inbox and not between.homes["birch"].inbox


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"questions": 0}, "questions must be from 1 to 100000, got 0"),
        ({"sentences": 1000}, "sentences must be from 1 to 512, got 1000"),
        ({"noise": -1.0}, "noise must be a number from 0, got -1.0"),
        ({"peers": 0}, "peers must be at least 1, got 0"),
        ({"budget": 0}, "budget must be from 1"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FedNegativeOptions(**options)
