# SPDX-License-Identifier: Apache-2.0
"""Whatever a file does to its parser ends with the process that reads it."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from intake_files import Draw, pdf

from fedqa.intake import sandbox
from fedqa.intake.records import Extracted, IntakeError, Limits
from fedqa.intake.sandbox import read_apart

BRACKETS = b"[" * 300_000  # takes Markdown's parser minutes


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)


def test_a_file_is_read_in_a_process_of_its_own_and_its_text_comes_back() -> None:
    assert read_apart("pdf", pdf([[Draw(60, 700, "Fine.")]]), Limits()) == Extracted("", "Fine.", "pdf")
    assert read_apart("text", "Zażółć 日本 \U0001f600".encode(), Limits()) == Extracted(
        "", "Zażółć 日本 \U0001f600", "text"
    )


def test_what_the_parser_refuses_is_refused_here() -> None:
    with pytest.raises(IntakeError, match="its one page holds no text"):
        read_apart("pdf", pdf([[]]), Limits())


def test_a_parser_that_takes_too_long_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[subprocess.Popen[bytes]] = []

    class Remembered(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            children.append(self)

    monkeypatch.setattr(subprocess, "Popen", Remembered)
    with pytest.raises(IntakeError, match="reading it takes longer than 1 s; split it into smaller files"):
        read_apart("markdown", BRACKETS, Limits(patience=1))
    with pytest.raises(IntakeError, match="reading it takes longer than 1 s of processor time; split it"):
        read_apart("markdown", BRACKETS, Limits(seconds=1))
    assert [child.returncode for child in children] == [-signal.SIGKILL, -signal.SIGXCPU]


def test_a_parser_that_takes_too_much_memory_ends() -> None:
    with pytest.raises(IntakeError, match="reading it takes more than 150 MB of memory; split it into smaller files"):
        read_apart("text", b"a b\n" * 2_000_000, Limits(memory_bytes=150_000_000, characters=10**9))


def test_an_error_of_the_parser_is_told_without_its_words() -> None:
    with pytest.raises(IntakeError) as refused:
        read_apart("pdf", b"%PDF-1.7\nnothing else", Limits())
    assert str(refused.value) == (
        "it is damaged or not built as its kind should be; "
        "open it in its own program, save it again and upload that, or upload it as plain text"
    )


def test_a_status_tells_what_the_child_died_of() -> None:
    for status, words in ((-9, "memory"), (3, "memory"), (-24, "longer than 30 s of processor time")):
        with pytest.raises(IntakeError, match=words):
            sandbox._check(status, Limits())
    sandbox._check(-11, Limits())  # of a fault in the parser: there is no output, and so the file is called damaged


@pytest.mark.parametrize("output", [b"", b"{", b"[]", b'{"title": 1, "text": "", "notes": []}', b'{"reason": ""}'])
def test_an_answer_of_another_form_is_a_damaged_file(output: bytes) -> None:
    with pytest.raises(IntakeError, match="it is damaged or not built as its kind should be"):
        sandbox._result(output, "pdf")


def test_a_file_waits_for_its_place_and_is_sent_away_when_none_is_free() -> None:
    for _ in range(sandbox.PLACES):
        sandbox._places.acquire()
    try:
        with pytest.raises(IntakeError, match="other files are still being read; try again in a minute"):
            read_apart("text", b"x", Limits(patience=1))
    finally:
        for _ in range(sandbox.PLACES):
            sandbox._places.release()
    assert read_apart("text", b"x", Limits()).text == "x"


def test_the_child_sees_nothing_of_the_environment_but_where_the_package_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "secret")
    assert set(sandbox._environment()) <= {"PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONUTF8"}


def test_a_confined_process_can_write_no_file(tmp_path: Path) -> None:
    target = str(tmp_path / "written")
    program = (
        "from fedqa.intake.child import confine; from fedqa.intake.records import Limits; confine(Limits())\n"
        f"with open({target!r}, 'w') as file: file.write('x')"
    )
    assert "OSError: [Errno 27] File too large" in run(program).stderr


def test_the_child_loads_no_heavy_library() -> None:
    modules = "text, markdown, html, pdf, docx, child"
    program = f"import sys\nfrom fedqa.intake import {modules}\nprint(*sys.modules)"
    loaded = set(run(program).stdout.split())
    assert "fedqa.intake.pdf" in loaded
    assert not {"torch", "transformers", "numpy", "scipy", "rich", "typer", "docx", "sqlalchemy", "fastapi"} & loaded
