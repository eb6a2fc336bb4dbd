# SPDX-License-Identifier: Apache-2.0
"""The probe set: what it is made of, what the coordinator hears, and what happens when silos drop out or lie."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from at_home import NAMES, AtHome, Between, homes
from scipy import stats
from torch import Tensor

from fedqa.errors import BoundaryError, ConfigError
from fedqa.federation import x25519
from fedqa.federation.channels import PROBE
from fedqa.federation.messages import Exchange
from fedqa.federation.probe import STATES, TOKENS, ProbeOptions, answer, shares, voted
from fedqa.federation.x25519 import public_key
from fedqa.seeds import generator
from fedqa.skills.silo_texts import Texts
from fedqa.skills.texts import Text

SMALL = ProbeOptions(items=5, length=8, texts=3, noise=0.0)


def relayed(options: ProbeOptions = SMALL, **changes: Any) -> Between:
    return Between("probe", homes(options), options, **changes).relay()


def by_hand(between: Between, names: Sequence[str] = NAMES) -> np.ndarray:
    """The weighted sum of what the silos' encoders make of the texts they draw, word by word and without any mask."""
    options = between.options
    total = np.zeros((options.items, options.length, 4))
    weights = shares(7, 4, options.items, len(names), options.primary)
    for place, name in enumerate(sorted(names)):
        home = between.homes[name]
        rng = generator(home.secret(), "probe", 4, *sorted(names))
        rows = home.texts.cut(options.length).drawn(options.items * options.texts, rng)
        for item in range(options.items):
            some = rows[item * options.texts : (item + 1) * options.texts]
            orders = rng.permuted([list(range(options.length))] * options.texts, axis=1)
            for row, order in zip(some, orders, strict=True):
                for to, start in enumerate(order):
                    if start < len(row):
                        word = torch.tensor([[row[start]]])
                        state = home.model.pair.encode(word, torch.ones_like(word))[0, 0].detach().numpy()
                        total[item, to] += state * weights[item, place] / options.texts
    return total


def part_of(name: str) -> np.ndarray:
    """What one of four silos adds to the sum."""
    between = Between("probe", homes(SMALL), SMALL)
    nobody = {other: home for other, home in between.homes.items() if other != name}
    for home in nobody.values():
        home.model.layer0.weight.data.zero_()
        home.model.layer0.bias.data.zero_()
    return by_hand(between)


# -- what is made ------------------------------------------------------------------------------------------------


def test_the_states_are_the_weighted_sum_over_silos() -> None:
    between = relayed()
    for home in between.homes.values():
        assert np.abs(home.inbox[STATES].numpy() - by_hand(between)).max() < 1e-6
    assert between.refused == []


def test_one_silo_drawn_for_each_text_has_half_and_the_others_share_the_rest() -> None:
    weights = shares(seed=7, round_number=4, items=200, n=5, primary=0.5)
    assert np.allclose(weights.sum(axis=1), 1)
    assert np.allclose(np.sort(weights, axis=1), [[0.125] * 4 + [0.5]] * 200)
    first = np.bincount(weights.argmax(axis=1), minlength=5)
    assert first.min() > 20  # everybody is first about as often
    assert (shares(7, 4, 200, 5, 0.5) == weights).all()
    assert (shares(8, 4, 200, 5, 0.5) != weights).any()


def test_the_words_are_those_that_most_silos_see_and_the_same_for_all() -> None:
    between = relayed()
    states = between.homes["ash"].inbox[STATES]
    with torch.no_grad():
        seen = [home.model.pair.fill(states).argmax(dim=-1) for home in between.homes.values()]
    for item in range(5):
        for place in range(8):
            votes = [int(words[item, place]) for words in seen]
            expected = min(votes, key=lambda word: (-votes.count(word), word))
            assert all(int(home.inbox[TOKENS][item, place]) == expected for home in between.homes.values())


def test_of_words_with_equally_many_votes_the_first_in_the_vocabulary_is_taken() -> None:
    seen = [torch.tensor([[5, 2]], dtype=torch.int32), torch.tensor([[3, 2]], dtype=torch.int32)]
    assert voted(seen).tolist() == voted(seen[::-1]).tolist() == [[3, 2]]


def test_made_again_it_is_the_same_although_keys_and_messages_are_others() -> None:
    one, other = relayed(), relayed()
    for name in NAMES:
        assert torch.equal(one.homes[name].inbox[STATES], other.homes[name].inbox[STATES])
        assert torch.equal(one.homes[name].inbox[TOKENS], other.homes[name].inbox[TOKENS])
    assert not torch.equal(one.said("mix")[0]["ash"]["masked"], other.said("mix")[0]["ash"]["masked"])


def test_the_order_of_silos_does_not_matter() -> None:
    turned = Between("probe", dict(reversed(homes(SMALL).items())), SMALL)
    for home in turned.homes.values():
        home.silos = NAMES[::-1]
    turned.relay()
    assert torch.equal(turned.homes["ash"].inbox[STATES], relayed().homes["ash"].inbox[STATES])


# -- what can be read off the sum --------------------------------------------------------------------------------


class Spelling(torch.nn.Module):
    """The worst that could be: states are the words themselves, and are read without a mistake."""

    @property
    def pair(self) -> "Spelling":
        return self

    def encode(self, ids: Tensor, mask: Tensor, *, again: bool = True) -> Tensor:
        return torch.nn.functional.one_hot(ids, 2048).float()

    def fill(self, states: Tensor) -> Tensor:
        return states


def words_found(options: ProbeOptions) -> tuple[float, float]:
    """How many of the texts are in the set with five words in a row, and with a third of their words in one item."""
    spelling = homes(options)
    for number, home in enumerate(spelling.values()):
        home.model = Spelling()
        ids = np.random.default_rng(number).permutation(480) + 500 * number
        home.texts = Texts([Text(f"t{i}", row) for i, row in enumerate(ids.reshape(20, 24))])
    Between("probe", spelling, options).relay()
    items = next(iter(spelling.values())).inbox[TOKENS].tolist()
    texts = [text.tokens.tolist() for home in spelling.values() for text in home.texts.texts]
    runs = {tuple(row[i : i + 5]) for row in items for i in range(len(row) - 4)}
    in_a_row = [any(tuple(text[i : i + 5]) in runs for i in range(len(text) - 4)) for text in texts]
    together = [any(len(set(text).intersection(row)) >= 8 for row in items) for text in texts]
    return float(np.mean(in_a_row)), float(np.mean(together))


def test_of_single_texts_with_a_weight_of_a_half_every_word_can_be_read() -> None:
    """As the method was published: one text of each silo, its words in their order, without noise."""
    in_a_row, together = words_found(ProbeOptions(items=16, length=24, texts=1, shuffled=False, noise=0.0))
    assert in_a_row > 0.15 and together > 0.15  # 16 of 80 texts come first in an item, and all of these are read


def test_of_many_texts_in_another_order_none_can_be_put_together() -> None:
    assert words_found(ProbeOptions(items=16, length=24, noise=0.0)) == (0, 0)


def test_the_sum_has_as_much_noise_as_said_even_to_a_silo_that_takes_its_own_away() -> None:
    options = ProbeOptions(items=64, length=8, texts=4, noise=0.5)
    plain = relayed(replace(options, noise=0.0)).homes["ash"].inbox[STATES]
    noise = relayed(options).homes["ash"].inbox[STATES] - plain
    # Each of four silos adds a third of the variance; three of them make up the whole.
    deviation = float(np.mean([_deviation(home, options) for home in homes(options).values()]))
    assert float(noise.std()) == pytest.approx(0.5 * deviation * (4 / 3) ** 0.5, rel=0.05)
    assert abs(float(noise.mean())) < 0.01


def _deviation(home: AtHome, options: ProbeOptions) -> float:
    """Of a silo's states before they are mixed, zeros behind the end of texts among them."""
    ids, mask = home.texts.cut(options.length).padded([text.tokens for text in home.texts.texts])
    with torch.no_grad():
        states = home.model.pair.encode(ids, mask)
    return float(torch.nn.functional.pad(states, (0, 0, 0, options.length - ids.shape[1])).std())


def test_asked_again_a_silo_adds_the_same_noise() -> None:
    """New noise each time could be averaged away."""
    options = replace(SMALL, noise=0.5)
    assert torch.equal(relayed(options).homes["ash"].inbox[STATES], relayed(options).homes["ash"].inbox[STATES])


# -- what the coordinator hears ----------------------------------------------------------------------------------


def test_no_part_of_a_sum_can_be_told_from_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = iter(bytes([number]) * 32 for number in range(1, 9))
    monkeypatch.setattr(x25519, "private_key", lambda: next(keys))  # so that it passes always or never
    between = relayed(ProbeOptions(items=256, length=8))
    for name, tensors in between.said("mix")[0].items():
        data = np.frombuffer(tensors["masked"].numpy().tobytes(), dtype=np.uint8)
        assert len(data) == 256 * 8 * 4 * 4
        assert stats.chisquare(np.bincount(data, minlength=256)).pvalue > 1e-5, name
    plain = np.frombuffer(torch.round(between.homes["ash"].inbox[STATES] * 2**24).int().numpy().tobytes(), np.uint8)
    assert stats.chisquare(np.bincount(plain, minlength=256)).pvalue < 1e-100  # the sum itself is no noise


def test_the_key_is_forgotten_in_the_end() -> None:
    between = relayed()
    assert all(not home.drawer for home in between.homes.values())


def test_a_silo_that_drops_out_is_left_out_and_the_others_take_other_texts() -> None:
    gone = relayed(lost=lambda step, silo, time: step != "key" and silo == "cedar")
    rest = [name for name in NAMES if name != "cedar"]
    assert [sorted(answers) for answers in gone.said("mix")] == [rest, rest]
    assert np.abs(gone.homes["ash"].inbox[STATES].numpy() - by_hand(gone, rest)).max() < 1e-6
    # Else the sum of four minus the sum of three would be cedar's part.
    whole = by_hand(relayed()) - by_hand(gone, rest)
    assert np.abs(whole - part_of("cedar")).max() > 0.1


def test_masks_are_fresh_when_silos_are_asked_again() -> None:
    gone = relayed(lost=lambda step, silo, time: step == "mix" and silo == "cedar")
    first, second = (answers["ash"]["masked"] for answers in gone.said("mix"))
    assert bool((first != second).float().mean() > 0.99)


def test_two_may_drop_out_one_after_the_other() -> None:
    options = replace(SMALL, least=2)
    gone = relayed(options, lost=lambda step, silo, time: step == "mix" and silo in ("cedar", "birch")[: time + 1])
    assert len(gone.said("mix")) == 3
    assert np.abs(gone.homes["ash"].inbox[STATES].numpy() - by_hand(gone, ("ash", "dogwood"))).max() < 1e-6


def test_with_too_few_silos_there_is_no_set() -> None:
    gone = relayed(lost=lambda step, silo, time: silo in ("cedar", "birch"))
    assert not gone.homes["ash"].inbox
    assert [step for step, _ in gone.heard] == ["key"]


def test_if_silos_keep_dropping_out_there_is_no_set() -> None:
    gone = relayed(replace(SMALL, attempts=1), lost=lambda step, silo, time: step == "mix" and silo == "ash")
    assert [step for step, _ in gone.heard] == ["key", "mix"]
    assert not gone.homes["birch"].inbox


# -- what a silo refuses -----------------------------------------------------------------------------------------


def invited(home: AtHome, names: Sequence[str] = NAMES) -> dict[str, Tensor]:
    """A good request for a silo's part: its own key, and those of the others."""
    own = answer(home, Exchange("course", 4, "probe", "key"))["key"]  # type: ignore[arg-type]
    keys = {name: torch.tensor(list(public_key(name.encode().ljust(32))), dtype=torch.uint8) for name in names}
    present = torch.tensor([name in names for name in NAMES], dtype=torch.uint8)
    return {"present": present, "keys": torch.stack([own if name == home.name else keys[name] for name in names])}


def asked(home: AtHome, tensors: dict[str, Tensor], step: str = "mix") -> Any:
    return answer(home, Exchange("course", 4, "probe", step, tensors))  # type: ignore[arg-type]


def test_a_good_request_is_answered() -> None:
    home = homes(SMALL)["ash"]
    assert asked(home, invited(home))["masked"].shape == (5, 8, 4)


@pytest.mark.parametrize("names", [NAMES[:1], NAMES[:2]])
def test_a_silo_gives_no_part_of_a_sum_of_too_few(names: Sequence[str]) -> None:
    home = homes(SMALL)["ash"]
    with pytest.raises(BoundaryError, match="bad_request"):
        asked(home, invited(home, names))


def test_a_silo_gives_no_part_of_a_sum_that_it_is_not_in() -> None:
    home = homes(SMALL)["ash"]
    invited(home)
    with pytest.raises(BoundaryError, match="bad_request"):
        asked(home, invited(homes(SMALL)["birch"], NAMES[1:]))


def test_a_silo_answers_for_no_more_companies_than_the_course_allows() -> None:
    home = homes(replace(SMALL, attempts=1, least=2))["ash"]
    request = invited(home)
    one = asked(home, request)["masked"]
    assert torch.equal(asked(home, request)["masked"], one)  # the same again costs nothing, and tells nothing new
    fewer = {"present": torch.tensor([1, 1, 1, 0], dtype=torch.uint8), "keys": request["keys"][:3]}
    with pytest.raises(BoundaryError, match="over_budget"):
        asked(home, fewer)


def test_a_key_that_everybody_could_undo_is_refused() -> None:
    home = homes(SMALL)["ash"]
    request = invited(home)
    request["keys"][2] = 0
    with pytest.raises(BoundaryError, match="bad_request"):
        asked(home, request)


@pytest.mark.parametrize(
    ("step", "tensors"),
    [
        ("mix", {}),
        ("mix", {"present": torch.ones(4, dtype=torch.uint8)}),
        ("mix", {"present": torch.ones(3, dtype=torch.uint8), "keys": torch.ones(3, 32, dtype=torch.uint8)}),
        ("mix", {"present": torch.ones(4, dtype=torch.uint8), "keys": torch.ones(4, 31, dtype=torch.uint8)}),
        ("mix", {"present": torch.ones(4, dtype=torch.uint8), "keys": torch.ones(4, 32)}),
        ("mix", {"present": torch.tensor([4, 0, 0, 0]), "keys": torch.ones(4, 32, dtype=torch.uint8)}),
        ("spell", {}),
        ("spell", {"states": torch.zeros(4, 8, 4)}),
        ("spell", {"states": torch.full((5, 8, 4), float("nan"))}),
        ("spell", {"states": torch.zeros(5, 8, 4, dtype=torch.int32)}),
        ("deliver", {"tokens": torch.zeros(5, 8, dtype=torch.int32)}),  # without the states
        ("deliver", {}),
    ],
)
def test_a_request_that_does_not_fit_is_refused(step: str, tensors: dict[str, Tensor]) -> None:
    home = homes(SMALL)["ash"]
    asked(home, {}, "key")
    with pytest.raises(BoundaryError, match="bad_request"):
        asked(home, tensors, step)


def test_a_part_is_not_given_before_a_key() -> None:
    home, other = homes(SMALL)["ash"], homes(SMALL)["ash"]
    with pytest.raises(BoundaryError, match="bad_request"):
        asked(home, invited(other))


def test_an_unknown_step_and_a_silo_without_texts_are_refused() -> None:
    home = homes(SMALL)["ash"]
    with pytest.raises(BoundaryError, match="not_in_course"):
        asked(home, {}, "dance")
    home.texts = replace(home.texts, texts=())
    with pytest.raises(BoundaryError, match="no_examples"):
        asked(home, {}, "key")


# -- what the coordinator refuses --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "lie"),
    [
        ("key", {}),
        ("key", {"key": torch.zeros(31, dtype=torch.uint8)}),
        ("mix", {}),
        ("mix", {"masked": torch.zeros(5, 8, 3, dtype=torch.int32)}),
        ("mix", {"masked": torch.zeros(5, 7, 4, dtype=torch.int32)}),
    ],
)
def test_a_silo_that_sends_something_else_is_refused_and_left_out(step: str, lie: dict[str, Tensor]) -> None:
    between = relayed(spoilt=lambda asked, silo, tensors: lie if (asked, silo) == (step, "birch") else tensors)
    assert ("birch", "malformed") in between.refused
    rest = [name for name in NAMES if name != "birch"]
    assert np.abs(between.homes["ash"].inbox[STATES].numpy() - by_hand(between, rest)).max() < 1e-6


def test_a_silo_that_lies_about_its_part_spoils_the_set_and_it_is_not_used() -> None:
    lie = {"masked": torch.zeros(5, 8, 4, dtype=torch.int32)}
    between = relayed(spoilt=lambda step, silo, tensors: lie if (step, silo) == ("mix", "birch") else tensors)
    assert [step for step, _ in between.heard] == ["key", "mix"]
    assert not between.homes["ash"].inbox


def test_a_model_whose_states_are_not_finite_has_no_part() -> None:
    made = homes(SMALL)
    made["birch"].model.layer0.bias.data.fill_(float("nan"))
    between = Between("probe", made, SMALL).relay()
    assert between.refused == [("birch", "diverged")]
    assert STATES in made["ash"].inbox


@pytest.mark.parametrize("lie", [{}, {"tokens": torch.zeros(5, 7)}, {"tokens": -torch.ones(5, 8, dtype=torch.int32)}])
def test_words_that_cannot_be_have_no_vote(lie: dict[str, Tensor]) -> None:
    between = relayed(spoilt=lambda step, silo, tensors: lie if (step, silo) == ("spell", "birch") else tensors)
    assert between.refused == [("birch", "malformed")]
    assert TOKENS in between.homes["ash"].inbox


@pytest.mark.parametrize(
    ("name", "tensor", "code"),
    [
        ("key", torch.zeros(33, dtype=torch.uint8), "wrong_length"),
        ("masked", torch.zeros(1, 1, 1), "wrong_dtype"),
        ("masked", torch.zeros(4097, 1, 1, dtype=torch.int32), "wrong_length"),
        ("tokens", torch.zeros(1, 513, dtype=torch.int32), "wrong_length"),
        ("states", torch.zeros(1), "extra_tensor"),
    ],
)
def test_the_channel_carries_nothing_else(name: str, tensor: Tensor, code: str) -> None:
    with pytest.raises(BoundaryError, match=code):
        PROBE.check({name: tensor})


@pytest.mark.parametrize("weak", [{"texts": 7}, {"shuffled": False}, {"noise": 0.2}])
def test_a_set_is_guarded_by_default_and_not_if_anything_of_it_is_taken_away(weak: dict[str, Any]) -> None:
    assert ProbeOptions().guarded
    assert not ProbeOptions(**weak).guarded


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"items": 0}, "probe: items must be from 1 to 4096, got 0"),
        ({"length": 3}, "probe: length must be from 4 to 512, got 3"),
        ({"texts": 0}, "probe: texts must be from 1 to 1024, got 0"),
        ({"noise": -1.0}, "probe: noise must be a number from 0, got -1.0"),
        ({"attempts": 0}, "probe: attempts must be from 1 to 100, got 0"),
        ({"primary": 1.0}, "probe: primary must be a share between 0 and 1, got 1.0"),
        ({"least": 1}, "probe: least must be at least 2 silos, got 1"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ProbeOptions(**options)
