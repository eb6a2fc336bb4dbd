# SPDX-License-Identifier: Apache-2.0
"""Files that are wholly there or not at all."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fedqa.files import read_tensors, write_json, write_tensors, write_text
from fedqa.seeds import generator


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_text_is_written_as_it_is(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "Bäume 木\r\nzwei\n")
    assert (tmp_path / "a.txt").read_bytes() == "Bäume 木\r\nzwei\n".encode()


def test_folders_are_made_and_nothing_else_is_left(tmp_path: Path) -> None:
    write_text(tmp_path / "one" / "two" / "a.txt", "x")
    write_tensors(tmp_path / "one" / "two" / "b.safetensors", {"a": torch.ones(2)})
    assert names(tmp_path / "one" / "two") == ["a.txt", "b.safetensors"]


@pytest.mark.parametrize(
    "write",
    [lambda path: write_text(path, "text"), lambda path: write_tensors(path, {"a": torch.ones(2)})],
    ids=["text", "tensors"],
)
def test_a_file_takes_its_place_only_when_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None]
) -> None:
    path, synced = tmp_path / "a", []

    def sync(handle: int) -> None:
        synced.append((os.fstat(handle).st_ino, os.fstat(handle).st_size, path.exists()))

    monkeypatch.setattr(os, "fsync", sync)
    write(path)
    assert synced == [(path.stat().st_ino, path.stat().st_size, False)]


def test_what_was_there_is_replaced(tmp_path: Path) -> None:
    for text in ("a longer text", "short"):
        write_text(tmp_path / "a.txt", text)
        assert (tmp_path / "a.txt").read_text() == text


def test_json_keeps_letters_and_refuses_what_json_has_not(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"silo": "Bäume", "score": 0.1})
    assert "Bäume" in (tmp_path / "a.json").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"silo": "Bäume", "score": 0.1}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"score": float("nan")})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["score"] == 0.1


def test_tensors_come_back_bit_for_bit(tmp_path: Path) -> None:
    bits = torch.tensor([0, -1, 0x7FC00001, -(2**31)], dtype=torch.int32)
    tensors = {"weights/*": bits.view(torch.float32), "count": torch.tensor(7), "none": torch.zeros(0)}
    write_tensors(tmp_path / "a.safetensors", tensors)
    back = read_tensors(tmp_path / "a.safetensors")
    assert torch.equal(back["weights/*"].view(torch.int32), bits)
    assert back["count"].item() == 7
    assert back["none"].shape == (0,)


def test_tensors_may_overlap_and_lie_crosswise(tmp_path: Path) -> None:
    base = torch.arange(6, dtype=torch.float32)
    tensors = {"whole": base, "part": base[2:4], "turned": base.view(2, 3).T, "one": base[:1].expand(3)}
    write_tensors(tmp_path / "a.safetensors", tensors)
    back = read_tensors(tmp_path / "a.safetensors")
    assert all(torch.equal(back[name], tensor) for name, tensor in tensors.items())


def test_tensors_read_may_be_changed_while_the_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"a": torch.zeros(1000)})
    back = read_tensors(path)["a"]
    back.add_(1)
    write_tensors(path, {"a": torch.full((1000,), 5.0)})
    assert torch.equal(back, torch.ones(1000))
    assert torch.equal(read_tensors(path)["a"], torch.full((1000,), 5.0))


def test_drafts_left_behind_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / f".a.txt.{os.getpid()}").write_text("half a te")
    (tmp_path / f".b.safetensors.{os.getpid()}").write_bytes(b"\x10")
    write_text(tmp_path / "a.txt", "whole")
    write_tensors(tmp_path / "b.safetensors", {"a": torch.ones(1)})
    assert names(tmp_path) == ["a.txt", "b.safetensors"]


def write_for_ever(write: Callable[[int], None]) -> int:
    """A process that writes 0, 1, 0, 1 ... until it is killed; returns its number."""
    process = os.fork()
    if process == 0:
        try:
            for turn in range(1_000_000):
                write(turn % 2)
        finally:
            os._exit(1)
    return process


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


@pytest.mark.parametrize("kind", ["text", "tensors"])
def test_whenever_the_writer_is_killed_the_file_is_whole(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    texts = ["a" * 300_000, "b" * 200_000]
    tensors = [{"a": torch.full((75_000,), 1.0)}, {"a": torch.full((50_000,), 2.0)}]

    def write(turn: int) -> None:
        if kind == "text":
            write_text(path, texts[turn])
        else:
            write_tensors(path, tensors[turn])

    write(0)
    delays = generator(3, "kills", kind).uniform(0.002, 0.03, size=10)
    for delay in delays:
        process = write_for_ever(write)
        time.sleep(delay)
        kill(process)
        if kind == "text":
            assert path.read_text() in texts
        else:
            assert any(torch.equal(read_tensors(path)["a"], whole["a"]) for whole in tensors)
