# SPDX-License-Identifier: Apache-2.0
"""The run folder: a round counts when its line is whole, and files are there wholly or not at all."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fedqa.errors import RunError
from fedqa.federation.run_folder import Accepted, RoundRecord, RunFolder, environment
from fedqa.files import write_json, write_tensors, write_text

RECORD = RoundRecord(
    round=1,
    stage="train",
    asked=("ash", "birch"),
    accepted={
        "ash": Accepted(
            norm=0.1,
            total=1 / 3,
            n_examples=4,
            n_seen=4,
            n_steps=1,
            loss_first=1.5,
            loss_last=1.0,
            loss_max=1.5,
            loss_min=1.0,
        )
    },
    refused=(("birch", "late"),),
    void=False,
    weights={"*": {"ash": 1.0}},
    metrics={"ash": {"received/dev/fit": (2, 0.1 + 0.2, 0.0)}},
    bytes_up=10,
    bytes_down=20,
    seconds=0.5,
)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "run")
    for number in (1, 2, 3):
        run.commit(replace(RECORD, round=number), {"weights/*": torch.tensor([float(number)])})
    return run


def test_committed_rounds_are_read_back_to_the_last_bit(run: RunFolder) -> None:
    assert run.records() == [replace(RECORD, round=number) for number in (1, 2, 3)]


def test_the_two_newest_checkpoints_stay(run: RunFolder) -> None:
    assert run.checkpoint(3)["weights/*"].tolist() == [3]
    assert run.checkpoint(2)["weights/*"].tolist() == [2]
    with pytest.raises(RunError, match=r"round-000001.safetensors is missing, so round 1 cannot be continued from"):
        run.checkpoint(1)


def test_a_folder_without_rounds_has_no_records(tmp_path: Path) -> None:
    assert RunFolder(tmp_path).records() == []


def test_half_a_line_did_not_happen_and_is_removed(run: RunFolder) -> None:
    whole = run.rounds_path.read_bytes()
    for cut in (1, 40, len(whole.splitlines()[-1])):
        run.rounds_path.write_bytes(whole[:-cut])
        assert [record.round for record in run.records()] == [1, 2]
    run.commit(replace(RECORD, round=3), {"weights/*": torch.zeros(1)})
    assert run.rounds_path.read_bytes() == whole


@pytest.mark.parametrize(
    "line", ["not json", "[]", "3", '{"round": 1}', json.dumps({"accepted": {"ash": {"norm": 1}}}), '{"accepted": 3}']
)
def test_a_damaged_line_is_an_error_that_says_where(run: RunFolder, line: str) -> None:
    lines = run.rounds_path.read_text().splitlines()
    run.rounds_path.write_text("\n".join([lines[0], line, lines[2]]) + "\n")
    with pytest.raises(RunError, match=r"rounds.jsonl, line 2 cannot be read .*start a new run"):
        run.records()


def test_a_number_that_is_none_is_never_written_down(run: RunFolder) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        run.commit(replace(RECORD, round=4, seconds=float("nan")), {})
    assert len(run.records()) == 3


def test_the_result_is_written_at_the_end(run: RunFolder) -> None:
    with pytest.raises(RunError, match=r"result.json is missing: the run has not ended; continue it with"):
        run.result()
    run.write_result({"rounds": 3})
    assert run.result() == {"rounds": 3}


def test_the_environment_tells_versions_and_no_names_or_paths(run: RunFolder) -> None:
    run.write_environment()
    written = json.loads((run.path / "environment.json").read_text())
    assert written == environment()
    assert {"fedqa", "python", "torch", "numpy"} <= set(written)
    assert not [value for value in written.values() if os.sep in value or os.uname().nodename in value]


def test_each_silo_has_a_folder(run: RunFolder) -> None:
    assert run.silo("ash") == run.path / "silos" / "ash"


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.json"
    write_json(path, {"a": "ä"})
    assert path.read_text(encoding="utf-8") == '{\n "a": "ä"\n}\n'
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(path, {"a": float("inf")})
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": "ä"}


def test_tensors_may_be_views_and_pieces_of_others(tmp_path: Path) -> None:
    square = torch.arange(4.0).view(2, 2)
    write_tensors(tmp_path / "t.safetensors", {"square": square, "turned": square.T, "row": square[1]}, {"a": "b"})
    assert [path.name for path in tmp_path.iterdir()] == ["t.safetensors"]


HOLDER = """
import sys, time
from pathlib import Path
from fedqa.federation.run_folder import RunFolder
with RunFolder(Path(sys.argv[1])).alone():
    print("held", flush=True)
    time.sleep(600)
"""


def test_two_processes_do_not_train_in_one_folder(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(folder.path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout and other.stdout.readline() == "held\n"
        with pytest.raises(RunError, match="another process is training in"), folder.alone():
            pytest.fail("the folder is the other's")
        other.kill()
    for _ in range(2):  # what was killed, and what ended, holds it no longer
        with folder.alone():
            pass
