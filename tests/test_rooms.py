# SPDX-License-Identifier: Apache-2.0
"""Imports between rooms go one way, as docs/architecture.md draws them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FEDQA = Path(__file__).parent.parent / "fedqa"
FLOORS = (  # a room may import from lower floors; on one floor rooms are strangers unless OPEN says otherwise
    ("data", "store", "intake", "databases"),
    ("models", "skills"),
    ("federation",),
    ("methods", "engines"),
    ("answering", "serving"),
    ("web",),
)
OPEN = {("data", "store"), ("store", "data"), ("intake", "data"), ("data", "databases"), ("skills", "models")}
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def imported(room: str) -> Iterator[tuple[str, str]]:
    """A file of the room and another room that it imports from, anywhere in its text."""
    for path in (FEDQA / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                if name.startswith("fedqa.") and name.split(".")[1] != room:
                    yield str(path.relative_to(FEDQA)), name.split(".")[1]


@pytest.mark.parametrize("room", FLOOR)
def test_a_room_imports_from_lower_floors_alone(room: str) -> None:
    upwards = [
        (file, other)
        for file, other in imported(room)
        if other in FLOOR and FLOOR[other] >= FLOOR[room] and (room, other) not in OPEN
    ]
    assert upwards == []


def test_the_files_of_the_command_line_are_imported_by_no_room() -> None:
    above = {"cli", "demo", "joining", "network_commands", "console", "console_tables", "console_plans"}
    assert [(file, other) for room in FLOOR for file, other in imported(room) if other in above] == []
