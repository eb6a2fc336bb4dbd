# SPDX-License-Identifier: Apache-2.0
"""Every program in the documentation runs, and every file in it is understood."""

import re
import tomllib
from pathlib import Path

import pytest

from fedqa.config import load_project
from fedqa.settings import load_settings

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[object]:
    found = []
    for page in PAGES:
        for number, (kind, text) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), start=1):
            if kind == language:
                found.append(pytest.param(text, id=f"{page.name}-{number}"))
    return found


@pytest.mark.parametrize("program", blocks("python"))
def test_a_python_program_in_the_documentation_runs(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "documentation", "exec"), {"__name__": "documentation"})


@pytest.mark.parametrize("text", blocks("toml"))
def test_a_file_in_the_documentation_is_understood(text: str, tmp_path: Path) -> None:
    path = tmp_path / "file.toml"
    path.write_text(text, encoding="utf-8")
    if "store" in tomllib.loads(text):
        assert load_settings(path).page.title
    else:
        assert load_project(path).course.stages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_files_a_page_names_exist(page: Path) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_is_short_and_begins_with_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) < 700
    assert text.index("make demo") < text.index("make test") < 600
