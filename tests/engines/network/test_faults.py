# SPDX-License-Identifier: Apache-2.0
"""Silos and coordinators that die, hang, come back or stay away: the run ends, with the same bits where it can."""

import os
import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from far_silos import FarAlliance, hang, kept, kill_silo, kill_work, stop_silo, story, trouble
from toys import SIZES, differing, toy_collection, toy_course, toy_run, toy_setting

from fedqa.federation.course import Course, Participation
from fedqa.federation.ledger import Ledger, Row
from fedqa.federation.run_folder import RoundRecord, RunFolder
from fedqa.runs import Setting

GRACE_S = 0.5
ESTABLISHED = "01"


def with_participation(course: Course, **settings: float) -> Course:
    changed = Participation(**settings)  # type: ignore[arg-type]
    return replace(course, stages=tuple(replace(stage, participation=changed) for stage in course.stages))


def undisturbed(course: Course, folder: Path) -> tuple[dict[str, object], list[RoundRecord]]:
    """What the local engine makes of the same course."""
    toy_run(course, folder)
    return dict(kept(RunFolder(folder))), RunFolder(folder).records()


def same(alliance: FarAlliance, course: Course, folder: Path) -> bool:
    """Whether a run left the same bits, and the same records, as the local engine leaves."""
    tensors, records = undisturbed(course, folder)
    assert differing(kept(alliance.folder), tensors) == []  # type: ignore[arg-type]
    assert story(alliance.folder.records()) == story(records)
    return True


@pytest.mark.parametrize("method", ["fedavg", "ditto"])
def test_the_network_leaves_the_same_bits_and_records_as_the_local_engine(method: str, tmp_path: Path) -> None:
    course = toy_course(method, rounds=2)
    alliance = FarAlliance(toy_setting(course, tmp_path / "far"))
    alliance.run()
    assert same(alliance, course, tmp_path / "near")
    assert "ash is ready" in alliance.log("coordinator")


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="looks into /proc")
def test_a_silo_opens_no_port_and_talks_to_its_coordinator_alone(tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []

    def look(alliance: FarAlliance) -> None:
        seen.extend(connections(alliance.silos["ash"]))

    alliance = FarAlliance(toy_setting(toy_course(rounds=2), tmp_path / "far"), after_round={1: look})
    alliance.run()
    host, _, port = alliance.address.rpartition(":")
    in_hex = "".join(f"{int(part):02X}" for part in reversed(host.split("."))) + f":{int(port):04X}"
    assert seen == [(in_hex, ESTABLISHED)]


def connections(pid: int) -> list[tuple[str, str]]:
    """Other end and state of every internet socket that a process has opened itself, as the system writes them."""
    own = sockets(pid) - sockets(os.getpid())  # a forked process has those of earlier tests, too
    lines = [line.split() for kind in ("tcp", "tcp6", "udp", "udp6") for line in table(kind)]
    return [(line[2], line[3]) for line in lines if line[9] in own]


def sockets(pid: int) -> set[str]:
    links = set()
    for path in list(Path(f"/proc/{pid}/fd").iterdir()):
        with suppress(FileNotFoundError):  # the one that listing them took is gone by now
            links.add(os.readlink(path))
    return {link[8:-1] for link in links if link.startswith("socket:[")}


def table(kind: str) -> list[str]:
    path = Path(f"/proc/net/{kind}")
    return path.read_text(encoding="utf-8").splitlines()[1:] if path.exists() else []


@pytest.mark.parametrize("where", ["loss", "score"])
def test_a_silo_killed_at_work_and_started_again_changes_nothing(where: str, tmp_path: Path) -> None:
    course = toy_course(rounds=2)
    setting = toy_setting(course, tmp_path / "far")
    trouble(setting, "birch", where, kill_silo)
    alliance = FarAlliance(setting)
    alliance.run()
    assert "birch is gone" in alliance.log("coordinator")
    assert same(alliance, course, tmp_path / "near")


def test_a_silo_killed_between_rounds_and_started_again_changes_nothing(tmp_path: Path) -> None:
    course = toy_course(rounds=3)

    def kill(alliance: FarAlliance) -> None:
        os.kill(alliance.silos["cedar"], signal.SIGKILL)

    alliance = FarAlliance(toy_setting(course, tmp_path / "far"), after_round={1: kill, 2: kill})
    alliance.run()
    assert same(alliance, course, tmp_path / "near")


def test_a_coordinator_killed_at_ten_points_ends_with_the_same_bits(tmp_path: Path) -> None:
    course = toy_course(rounds=3)
    moments = (0, 1, 2, 4, 5, 6, 3, 7, 2, 4)  # asks and answers after each start; a round has five
    alliance = FarAlliance(toy_setting(course, tmp_path / "far"), moments=moments)
    alliance.run()
    assert alliance.starts == 11
    assert same(alliance, course, tmp_path / "near")


def test_two_of_five_silos_gone_for_good_cost_only_themselves(tmp_path: Path) -> None:
    sizes = {**SIZES, "elm": 6}
    data = {name: toy_collection(n, i + 1) for i, (name, n) in enumerate(sizes.items())}
    course = with_participation(toy_course(sizes=sizes, rounds=3), quorum=3)
    setting = toy_setting(course, tmp_path / "far", data)
    trouble(setting, "birch", "loss", kill_silo, times=9)
    trouble(setting, "elm", "loss", kill_silo, times=9)
    records = FarAlliance(setting, grace_s=GRACE_S, restarted=False).run()
    assert [sorted(record.refused) for record in records] == [[("birch", "died"), ("elm", "died")]] * 3
    assert [sorted(record.accepted) for record in records] == [["ash", "cedar", "dogwood"]] * 3
    assert not any(record.void for record in records)
    assert [refusal[1:] for refusal in setting.folder.result()["refused"]][-2:] == [["birch", "died"], ["elm", "died"]]


def test_a_silo_that_was_put_out_is_asked_nothing(tmp_path: Path) -> None:
    setting = toy_setting(toy_course(rounds=1), tmp_path / "far")
    alliance = FarAlliance(setting)
    alliance.names.remove("birch")
    del alliance.pairs["birch"]
    records = alliance.run()
    assert records[0].refused == (("birch", "died"),)
    assert sorted(records[0].accepted) == ["ash", "cedar", "dogwood"]


def test_below_the_quorum_a_round_is_void_and_the_run_goes_on(tmp_path: Path) -> None:
    course = with_participation(toy_course(rounds=2), quorum=4)
    setting = toy_setting(course, tmp_path / "far")
    trouble(setting, "birch", "loss", kill_silo, times=9)
    records = FarAlliance(setting, grace_s=GRACE_S, restarted=False).run()
    assert [record.void for record in records] == [True, True]


def test_work_that_hangs_is_ended_by_the_silo_itself(tmp_path: Path) -> None:
    course = toy_course(rounds=2)
    setting = toy_setting(course, tmp_path / "far")
    trouble(setting, "birch", "loss", hang)
    alliance = FarAlliance(setting, timeout_s=3.0)
    records = alliance.run()
    assert [record.refused for record in records] == [(("birch", "late"),), ()]
    assert "given up: late" in alliance.log("birch")
    ledger = Ledger(setting.folder.silo("birch") / "ledger.sqlite")
    rows = list(ledger.rows())
    ledger.close()
    assert [(row.kind, row.round) for row in rows] == [("refusal", 1), ("update", 2), ("report", 0)]


def test_work_whose_process_dies_is_a_refusal_of_that_silo(tmp_path: Path) -> None:
    setting = toy_setting(toy_course(rounds=2), tmp_path / "far")
    trouble(setting, "birch", "loss", kill_work)
    records = FarAlliance(setting).run()
    assert [record.refused for record in records] == [(("birch", "died"),), ()]


def test_a_silo_that_never_answers_is_late_and_its_reply_is_not_looked_at_later(tmp_path: Path) -> None:
    course = with_participation(toy_course(rounds=3), timeout_s=4.0)
    setting = toy_setting(course, tmp_path / "far")
    trouble(setting, "birch", "loss", stop_silo)

    def wake(alliance: FarAlliance) -> None:
        os.kill(alliance.silos["birch"], signal.SIGCONT)
        time.sleep(0.2)  # the answer to the first round comes in the second, or the work on it is broken off

    records = FarAlliance(setting, after_round={1: wake}).run()
    assert records[0].refused == (("birch", "late"),)
    assert [sorted(record.accepted) for record in records[1:]] == [sorted(SIZES)] * 2


def test_a_silo_that_cannot_write_its_ledger_sends_nothing(tmp_path: Path) -> None:
    setting = toy_setting(toy_course(rounds=1), tmp_path / "far")
    (setting.folder.silo("birch") / "ledger.sqlite").mkdir(parents=True)
    alliance = FarAlliance(setting, grace_s=GRACE_S, restarted=False)
    records = alliance.run()
    assert records[0].refused == (("birch", "died"),)
    sent = [row.bytes for name in ("ash", "cedar", "dogwood") for row in first_row(setting, name)]
    assert records[0].bytes_up == sum(sent)


def first_row(setting: Setting, silo: str) -> list[Row]:
    ledger = Ledger(setting.folder.silo(silo) / "ledger.sqlite")
    rows = list(ledger.rows())[:1]
    ledger.close()
    return rows
