# SPDX-License-Identifier: Apache-2.0
import threading
import time

import pytest

from fedqa.answering.turns import Exchangeable, Turns


def test_turns_are_taken_in_the_order_of_asking() -> None:
    turns, order = Turns(), list[str]()
    inside = threading.Event()

    def work_in_pieces() -> None:
        for _ in range(3):
            with turns:
                inside.set()
                time.sleep(0.05)
                order.append("piece")

    def ask() -> None:
        with turns:
            order.append("question")

    worker = threading.Thread(target=work_in_pieces)
    worker.start()
    inside.wait()
    asking = threading.Thread(target=ask)  # while the first piece is at hand
    asking.start()
    worker.join()
    asking.join()
    assert order == ["piece", "question", "piece", "piece"]


def test_only_one_is_inside() -> None:
    turns, inside, most = Turns(), 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(50):
            with turns:
                inside += 1
                most = max(most, inside)
                time.sleep(0)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_a_failure_inside_gives_the_turn_back() -> None:
    turns = Turns()
    with pytest.raises(ValueError), turns:
        raise ValueError
    with turns:
        pass


def test_what_is_in_use_is_handed_out_only_when_nobody_uses_it_any_more() -> None:
    shared, entered, may_leave, seen = Exchangeable("old"), threading.Event(), threading.Event(), list[str]()

    def use() -> None:
        with shared.use() as thing:
            entered.set()
            may_leave.wait()
            seen.append(thing)

    user = threading.Thread(target=use)
    user.start()
    entered.wait()
    exchanging = threading.Thread(target=lambda: seen.append(f"{shared.exchange('new')} given back"))
    exchanging.start()
    while shared.now == "old":
        time.sleep(0.001)
    with shared.use() as thing:  # who comes now gets the new one at once
        assert thing == "new"
    assert seen == []
    may_leave.set()
    user.join()
    exchanging.join()
    assert seen == ["old", "old given back"]
