# SPDX-License-Identifier: Apache-2.0
"""The new user's path in docs/network.md, as it stands there: separate processes, started by the real commands."""

import time
from pathlib import Path

import pytest
from terminals import PATIENCE_S, Terminals, at_home, shared
from toys import differing

from fedqa.federation.run_folder import RunFolder


@pytest.mark.slow
def test_three_terminals_and_four_commands_make_a_trained_alliance(tmp_path: Path) -> None:
    terminals = Terminals(tmp_path)
    try:
        terminals.open("terminal 1: the coordinator")
        deadline = time.monotonic() + PATIENCE_S
        while not (tmp_path / "headquarters" / "invitations" / "insurer.toml").exists():
            assert time.monotonic() < deadline, terminals.said()
            time.sleep(0.05)
        terminals.open("terminal 2: the hospital", b"y\n")
        terminals.open("terminal 3: the insurer", b"y\n")
        for process in terminals.running:
            assert process.wait(deadline - time.monotonic()) == 0, terminals.said()
        assert terminals.open("afterwards, at the hospital").wait(PATIENCE_S) == 0, terminals.said()
    finally:
        terminals.close()
    said = terminals.said()
    for part in ("Approve course", "round 3/3  2 accepted", "The course is over", "finished"):
        assert part in said
    home = tmp_path / "headquarters"
    assert (home / "keys").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in home.glob("*/*.toml") if path.parent.name == "invitations"} == {
        0o600
    }
    assert differing(shared(RunFolder(home / "run")), shared(at_home(home, tmp_path / "local"))) == []
