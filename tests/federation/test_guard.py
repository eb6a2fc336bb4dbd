# SPDX-License-Identifier: Apache-2.0
"""The guard alone: every code by hand, the bound on lengths in numbers, and what is held in memory meanwhile."""

import gc
import tracemalloc
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedqa.errors import BoundaryError
from fedqa.evaluation.metrics import Summary
from fedqa.federation import wire
from fedqa.federation.coordinator import Tally, in_order
from fedqa.federation.course import Mixing
from fedqa.federation.guard import (
    MAX_EXAMPLES,
    MAX_METRICS,
    REFUSALS,
    Expected,
    Guard,
    Passed,
    check_metrics,
    check_report,
    check_update,
    opened,
)
from fedqa.federation.messages import Contribution, Envelope, LossSummary, Refusal, Reply, Report, Update
from fedqa.federation.mixing import ALL, Mixer

SIZE = 4
BATCH = 4
# Weights of length 9: an update may always be 30 * 0.001 * (1 + 9) = 0.3 long and never above 100 * (1 + 9) = 1000.
EXPECTED = Expected("course", 2, "layout", SIZE, 9.0, {name: BATCH for name in "abcdef"})
LOSS = LossSummary(first=0.9, last=0.4, max=1.0, min=0.3)


def update(silo: str = "a", length: float = 1.0, **changes: object) -> Update:
    """A good update whose delta is as long as asked for."""
    good = Update(silo, "course", 2, "layout", torch.tensor([0.0, length, 0.0, 0.0]), 10, 20, 5, LOSS)
    return replace(good, **changes)  # type: ignore[arg-type]


def screen(
    replies: Iterable[Update | Envelope], expected: Expected = EXPECTED, history: Mapping[str, float] | None = None
) -> tuple[list[str], list[tuple[str, str]], Guard]:
    """Names of those accepted, refusals, and the guard afterwards; `history` gives earlier lengths."""
    guard = Guard({silo: Passed(norm, -1.0) for silo, norm in (history or {}).items()})
    refused: list[tuple[str, str]] = []
    envelopes = (reply if isinstance(reply, Envelope) else Envelope(reply.silo, reply, 0) for reply in replies)
    accepted = [good.silo for good in guard.screen(envelopes, expected, lambda *refusal: refused.append(refusal))]
    return accepted, refused, guard


def code_of(bad: Update, sender: str = "a") -> str:
    with pytest.raises(BoundaryError) as caught:
        check_update(bad, sender, EXPECTED)
    return caught.value.code


# -- one update by itself --------------------------------------------------------------------------------------------


def test_a_good_update_passes() -> None:
    check_update(update(), "a", EXPECTED)
    assert screen([update()])[:2] == (["a"], [])


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"silo": "b"}, "wrong_sender"),
        ({"course": "another"}, "wrong_course"),
        ({"round": 1}, "wrong_round"),
        ({"round": 3}, "wrong_round"),
        ({"layout": "another"}, "wrong_layout"),
        ({"delta": torch.zeros(SIZE, dtype=torch.float64)}, "wrong_dtype"),
        ({"delta": torch.zeros(SIZE).to_sparse()}, "wrong_dtype"),
        ({"delta": torch.zeros(SIZE, requires_grad=True)}, "wrong_dtype"),
        ({"delta": [0.0] * SIZE}, "wrong_dtype"),
        ({"delta": torch.zeros(SIZE - 1)}, "wrong_length"),
        ({"delta": torch.zeros(SIZE, 1)}, "wrong_length"),
        ({"delta": torch.zeros(1).expand(SIZE)}, "wrong_length"),
        ({"n_examples": 0}, "wrong_count"),
        ({"n_examples": MAX_EXAMPLES + 1}, "wrong_count"),
        ({"n_examples": True}, "wrong_count"),
        ({"n_seen": 5 * BATCH + 1}, "wrong_count"),
        ({"n_steps": 0}, "wrong_count"),
        ({"n_steps": MAX_EXAMPLES + 1}, "wrong_count"),
        ({"loss": None}, "wrong_loss"),
        ({"loss": replace(LOSS, last=float("nan"))}, "wrong_loss"),
        ({"loss": replace(LOSS, min=0.5)}, "wrong_loss"),
        ({"loss": replace(LOSS, max=0.8)}, "wrong_loss"),
        ({"metrics": {"received/dev/map": 0.5}}, "wrong_metrics"),
    ],
)
def test_what_is_wrong_with_an_update_is_said_by_a_code(changes: dict[str, object], code: str) -> None:
    assert code_of(replace(update(), **changes)) == code  # type: ignore[arg-type]


def test_a_silo_that_was_not_asked_is_named_so() -> None:
    assert code_of(update("z"), sender="z") == "not_asked"


def test_the_limits_themselves_pass() -> None:
    at_limits = update(n_examples=MAX_EXAMPLES, n_steps=MAX_EXAMPLES, n_seen=MAX_EXAMPLES * BATCH)
    check_update(at_limits, "a", EXPECTED)
    check_update(update(n_examples=1, n_seen=1, n_steps=1, loss=LossSummary(0.0, 0.0, 0.0, 0.0)), "a", EXPECTED)


def test_every_silo_has_its_own_batch() -> None:
    expected = replace(EXPECTED, batch={"a": 4, "b": 2})
    check_update(update("a", n_seen=20), "a", expected)
    with pytest.raises(BoundaryError, match="wrong_count"):
        check_update(update("b", n_seen=20), "b", expected)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e30, 2e19])
def test_a_value_whose_square_is_not_finite_is_refused(value: float) -> None:
    assert screen([update(length=value)])[:2] == ([], [("a", "not_finite")])


def test_where_nothing_is_shared_an_empty_update_is_good() -> None:
    expected = replace(EXPECTED, size=0, weights_norm=0.0)
    assert screen([update(delta=torch.zeros(0))], expected)[:2] == (["a"], [])


# -- metrics and reports ---------------------------------------------------------------------------------------------


def test_known_metrics_pass() -> None:
    check_metrics({})
    check_metrics({f"best/test/m{i}": Summary(0, 0.0, 0.0) for i in range(MAX_METRICS)})
    check_metrics(
        {"received/dev/map": Summary(MAX_EXAMPLES, -1e9, 0.0), "personal/test/" + "m" * 32: Summary(1, 1.0, 0.0)}
    )


@pytest.mark.parametrize(
    "metrics",
    [
        None,
        [("received/dev/map", Summary(1, 0.5, 0.0))],
        {f"best/test/m{i}": Summary(0, 0.0, 0.0) for i in range(MAX_METRICS + 1)},
        {"received/dev": Summary(1, 0.5, 0.0)},
        {"received/dev/map/more": Summary(1, 0.5, 0.0)},
        {"sent/dev/map": Summary(1, 0.5, 0.0)},
        {"received/train/map": Summary(1, 0.5, 0.0)},
        {"received/dev/": Summary(1, 0.5, 0.0)},
        {"received/dev/two words": Summary(1, 0.5, 0.0)},
        {"received/dev/" + "m" * 33: Summary(1, 0.5, 0.0)},
        {b"received/dev/map": Summary(1, 0.5, 0.0)},
        {"received/dev/map": {"n": 1}},
        {"received/dev/map": Summary(-1, 0.5, 0.0)},
        {"received/dev/map": Summary(MAX_EXAMPLES + 1, 0.5, 0.0)},
        {"received/dev/map": Summary(1, float("inf"), 0.0)},
        {"received/dev/map": Summary(1, 0.5, -1e-9)},
        {"received/dev/map": Summary(1, 1, 0.0)},
    ],
)
def test_other_metrics_are_refused(metrics: object) -> None:
    with pytest.raises(BoundaryError, match="wrong_metrics"):
        check_metrics(metrics)  # type: ignore[arg-type]


def test_a_report_is_of_its_sender_course_and_stage() -> None:
    report = Report("a", "course", 1, {"best/test/map": Summary(3, 0.5, 0.1)})
    check_report(report, "a", "course", 1)
    for bad, code in [
        (replace(report, silo="b"), "wrong_sender"),
        (replace(report, course="another"), "wrong_course"),
        (replace(report, stage=0), "wrong_stage"),
        (replace(report, metrics={"best/test/map": Summary(-1, 0.5, 0.1)}), "wrong_metrics"),
    ]:
        with pytest.raises(BoundaryError, match=f"^{code}$"):
            check_report(bad, "a", "course", 1)


# -- envelopes -------------------------------------------------------------------------------------------------------


def open_code(content: object, max_bytes: int = 1 << 20) -> str:
    with pytest.raises(BoundaryError) as caught:
        opened(Envelope("a", content, 0), Update, max_bytes)  # type: ignore[arg-type]
    return caught.value.code


def test_a_reply_of_another_kind_is_refused() -> None:
    others: list[Reply] = [Report("a", "course", 0), Contribution("a", "course", 2, "x", "y")]
    for other in others:
        assert open_code(other) == "wrong_kind"
        assert open_code(b"".join(wire.encode(other))) == "wrong_kind"
    assert open_code(None) == "wrong_kind"


def test_bytes_are_read_within_their_limit() -> None:
    data = b"".join(wire.encode(update()))
    assert opened(Envelope("a", data, 0), Update, len(data)).n_examples == 10
    assert open_code(data, len(data) - 1) == "too_large"
    assert open_code(data[:-1]) == "malformed"


@pytest.mark.parametrize("code", REFUSALS)
def test_a_known_refusal_keeps_its_code(code: str) -> None:
    assert open_code(Refusal("a", code)) == code


@pytest.mark.parametrize("code", ["my patient Ann", "", "replayed", None, ["late"]])
def test_an_unknown_refusal_loses_its_words(code: object) -> None:
    assert open_code(Refusal("a", code)) == "refused"  # type: ignore[arg-type]


# -- a round ---------------------------------------------------------------------------------------------------------


def test_the_order_of_arrival_is_kept() -> None:
    assert screen([update(name) for name in "cabd"])[0] == list("cabd")


@pytest.mark.parametrize("first", [update(), update(n_examples=0), update(length=1e30)])
def test_a_second_reply_is_a_duplicate_whatever_the_first_was(first: Update) -> None:
    accepted, refused, _ = screen([first, update("b"), update(), update("c"), update()])
    assert accepted.count("a") == (1 if first.n_examples and first.delta.norm() < 2 else 0)
    assert refused[-2:] == [("a", "duplicate")] * 2
    assert {"b", "c"} <= set(accepted)


def test_the_update_accepted_last_is_known_again() -> None:
    guard = Guard()
    for number, (length, code) in enumerate([(1.0, None), (1.0, "replayed"), (1.5, None), (1.0, None)]):
        refused: list[tuple[str, str]] = []
        envelope = Envelope("a", update(length=length), 0)
        accepted = list(guard.screen([envelope], EXPECTED, lambda *refusal: refused.append(refusal)))  # noqa: B023
        assert refused == ([("a", code)] if code else []), number
        assert len(accepted) == (0 if code else 1)


def test_another_silos_update_or_an_empty_one_is_no_replay() -> None:
    nothing = torch.zeros(SIZE)
    guard = Guard()
    for silo in "ab":
        list(guard.screen([Envelope(silo, update(silo), 0)], EXPECTED, lambda silo, code: pytest.fail(code)))
    for _ in range(2):
        reply = Envelope("c", update("c", delta=nothing), 0)
        assert len(list(guard.screen([reply], EXPECTED, lambda silo, code: pytest.fail(code)))) == 1


def test_only_what_was_accepted_is_remembered() -> None:
    _, _, guard = screen([update("a", 1.0), update("b", 2.0), update("c", 500.0), update("d", n_examples=0)])
    assert guard.history == {"a": Passed(1.0, 1.0), "b": Passed(2.0, 2.0)}


# -- the bound on lengths --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "bound"),
    [
        ({}, 1000.0),  # nobody to compare with: the ceiling, 100 * (1 + 9)
        ({"b": 1.0}, 30.0),
        ({"b": 1.0, "c": 2.0}, 60.0),  # the upper of two: who sends next to nothing shuts nobody out
        ({"b": 1.0, "c": 2.0, "d": 900.0}, 60.0),  # the middle one
        ({"b": 1.0, "c": 2.0, "d": 3.0, "e": 4.0}, 90.0),  # the third of four
        ({"b": 0.0, "c": 0.0}, 0.9),  # the floor, 30 * 0.003 * (1 + 9)
        ({"b": 0.025, "c": 0.025}, 0.9),
        ({"b": 0.04, "c": 0.04}, 1.2),
        ({"b": 100.0, "c": 100.0}, 1000.0),  # 3000, but never above the ceiling
    ],
)
def test_the_bound_in_numbers(others: dict[str, float], bound: float) -> None:
    below, above = bound * 0.999, bound * 1.001
    assert screen([update("a", below)], history=others)[:2] == (["a"], [])
    assert screen([update("a", above)], history=others)[:2] == ([], [("a", "absurd_norm")])


def test_lengths_of_this_round_count_before_those_of_the_last() -> None:
    # b and c were 1 long, so 40 is too much; now they are 2 long, and it is not.
    assert screen([update("a", 40.0)], history={"b": 1.0, "c": 1.0})[0] == []
    replies = [update("b", 2.0), update("c", 2.0), update("a", 40.0)]
    assert screen(replies, history={"b": 1.0, "c": 1.0})[0] == ["b", "c", "a"]


def test_a_silos_own_past_does_not_count() -> None:
    history = {"a": 1e-3, "b": 1.0, "c": 1.0}
    assert screen([update("a", 29.0)], history=history)[0] == ["a"]


@pytest.mark.parametrize("place", range(5))
def test_an_absurd_update_does_not_widen_the_bound_for_the_others(place: int) -> None:
    replies = [update(name) for name in "bcde"]
    replies.insert(place, update("a", 900.0))
    replies.append(update("f", 31.0))
    accepted, refused, _ = screen(replies)
    assert accepted == list("bcde")
    assert sorted(refused) == [("a", "absurd_norm"), ("f", "absurd_norm")]


def test_refused_lengths_are_forgotten() -> None:
    # b and c are judged beside an absurd one and pass; d is judged beside b and c alone.
    replies = [update("a", 900.0), update("b", 1.0), update("c", 1.0), update("d", 500.0)]
    assert screen(replies)[:2] == (["b", "c"], [(name, "absurd_norm") for name in "ad"])


def test_one_silo_that_sends_next_to_nothing_shuts_nobody_out() -> None:
    for order in ("abcd", "bacd", "bcad", "bcda"):
        replies = [update(name, 1e-6 if name == "a" else 5.0) for name in order]
        assert screen(replies)[1] == []


def test_of_two_the_absurd_one_is_refused() -> None:
    assert screen([update("a", 900.0), update("b")])[:2] == (["b"], [("a", "absurd_norm")])
    assert screen([update("b"), update("a", 900.0)])[:2] == (["b"], [("a", "absurd_norm")])


# -- what is held ----------------------------------------------------------------------------------------------------


def timeline(history: Mapping[str, float]) -> list[str]:
    """When each of five updates comes in (lower case) and when it is passed on (upper case)."""
    events: list[str] = []

    def arriving() -> Iterator[Envelope]:
        for name in "abcde":
            events.append(name)
            yield Envelope(name, update(name), 0)

    guard = Guard({silo: Passed(norm, -1.0) for silo, norm in history.items()})
    for good in guard.screen(arriving(), EXPECTED, lambda silo, code: pytest.fail(code)):
        events.append(good.silo.upper())
    return events


def test_two_updates_are_held_until_the_third_is_there() -> None:
    assert "".join(timeline({})) == "abcABCdDeE"


def test_with_a_past_nothing_is_held() -> None:
    assert "".join(timeline({"d": 1.0, "e": 1.0})) == "aAbBcCdDeE"


def test_two_that_are_alone_are_passed_on_at_the_end() -> None:
    assert screen([update("a"), update("b")])[0] == ["a", "b"]


N_SILOS, N_NUMBERS = 200, 1_000_000
NAMES = [f"s{i}" for i in range(N_SILOS)]
MANY = Expected("course", 2, "layout", N_NUMBERS, 9.0, dict.fromkeys(NAMES, BATCH))


def mixed(envelopes: Iterable[Envelope]) -> torch.Tensor:
    """A round as the coordinator does it: in order, screened, noted, and added up."""
    guard, tally = Guard(), Tally()
    screened = guard.screen(in_order(envelopes, NAMES), MANY, tally.refuse)
    result = Mixer(Mixing(), NAMES, {}).mix(tally.accept(screened, guard)).deltas[ALL]
    assert len(tally.accepted) == N_SILOS
    return result


def test_of_two_hundred_updates_at_most_three_are_in_memory() -> None:
    memory: list[weakref.ref[np.ndarray]] = []
    counts: list[int] = []

    def tracked(value: float) -> torch.Tensor:
        values = np.full(N_NUMBERS, value, dtype=np.float32)
        memory.append(weakref.ref(values))  # lives as long as any tensor over it
        counts.append(sum(ref() is not None for ref in memory))
        return torch.from_numpy(values)

    def arriving() -> Iterator[Envelope]:
        for number, name in enumerate(NAMES):
            yield Envelope(name, update(name, delta=tracked(number / 1e6)), 0)

    gc.disable()
    try:
        result = mixed(arriving())
    finally:
        gc.enable()
    assert float(result[0]) == pytest.approx(99.5e-6, rel=1e-5)  # the mean of 0, 1, ... 199, in millionths
    assert max(counts) == 3  # two held back and the third; later the sum and the one that comes
    assert max(counts[5:]) == 2


def test_of_two_hundred_messages_five_are_in_memory() -> None:
    """The sum, and of two silos, the one before and the one that comes, both the bytes and the numbers."""

    def arriving() -> Iterator[Envelope]:
        for number, name in enumerate(NAMES):
            delta = torch.full((N_NUMBERS,), number / 1e6)
            yield Envelope(name, b"".join(wire.encode(update(name, delta=delta))), 0)

    tracemalloc.start()
    mixed(arriving())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5.5 * 4 * N_NUMBERS
