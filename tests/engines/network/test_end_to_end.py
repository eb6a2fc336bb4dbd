# SPDX-License-Identifier: Apache-2.0
"""Whole trainings of the published methods over the network: five silo processes, and the local engine's bits."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from far_silos import FarAlliance, kept, story
from toy_alliance import rows, write_csv
from toys import differing

from fedqa.config import Alliance, course_of
from fedqa.data.records import Collection
from fedqa.federation.course import Course
from fedqa.federation.run_folder import RunFolder
from fedqa.files import write_json
from fedqa.runs import Setting, build, read_silo, run_setting
from fedqa.tables import from_table

TOWNS = ("Northam", "Southby", "Easton", "Westley", "Midford")
LOCAL = {"batch": 8, "steps": 2}
METHODS: dict[str, dict[str, Any]] = {
    "fedmatch": {
        "rounds": 3,
        "method_options": {"alone_first": False, "width": 8},
    },
    "pdd_as2": {
        "rounds": 1,
        "method_options": {"warm_rounds": 1, "customise_rounds": 1, "customise_negatives": 20, "pool": 20},
    },
    "atc": {
        "rounds": 2,
        "method_options": {
            "assign_rounds": 1,
            "clusters": 2,
            "neighbours": 2,
            "text_length": 24,
            "probe": {"items": 8, "length": 12},
        },
        "skills": {"mlm": {"max_length": 24}, "denoise": {"max_length": 24}},
    },
}
SKILLS = {"fedmatch": ["match"] * 5, "pdd_as2": ["retrieve"] * 5, "atc": ["mlm", "denoise", "mlm", "denoise", "mlm"]}


def alliance_of(method: str, folder: Path) -> tuple[Course, dict[str, Collection]]:
    silos = []
    for town, skill in zip(TOWNS, SKILLS[method], strict=True):
        path = write_csv(folder / f"{town}.csv", rows(town, 16))
        silos.append({"name": town.lower(), "skill": skill, "data": {"format": "csv", "path": str(path)}})
    table = {"name": "towns", "method": method, "model": "tiny", "local": LOCAL, "silo": silos}
    alliance = from_table(Alliance, table | METHODS[method], "test")
    course = course_of(alliance)
    data = {entry.name: entry.silo_data() for entry in alliance.silo}
    return course, {name: read_silo(name, data[name], folder, course.seed) for name in data}


def made(course: Course, collections: dict[str, Collection], folder: Path) -> Setting:
    """Silos with secrets that a test can give to two runs; by themselves they would draw their own."""
    setting = build(course, collections, folder)
    for number, silo in enumerate(setting.silos):
        write_json(silo.folder / "state" / "secret.json", {"secret": 1000 + number})
    return setting


def kill_a_silo(alliance: FarAlliance) -> None:
    os.kill(alliance.silos["easton"], signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "killed"), [("fedmatch", False), ("pdd_as2", True), ("atc", True)])
def test_a_method_gives_the_local_engines_weights_and_records(method: str, killed: bool, tmp_path: Path) -> None:
    """Two of them although the coordinator is killed six times, in rounds and channels, and a silo twice."""
    course, collections = alliance_of(method, tmp_path)
    near = made(course, collections, tmp_path / "near")
    result = run_setting(near, processes=1)
    alliance = FarAlliance(made(course, collections, tmp_path / "far"), capacity=1 << 20)
    if killed:
        alliance.moments, alliance.after_round = (3, 8, 2, 9, 14, 1), {1: kill_a_silo, 2: kill_a_silo}
    records = alliance.run()
    assert course.rounds == 3 and alliance.starts == (7 if killed else 1)
    assert differing(kept(alliance.folder), kept(near.folder)) == []
    assert story(records) == story(RunFolder(tmp_path / "near").records())
    told = alliance.folder.result()
    assert {**told, "seconds": 0} == {**result, "seconds": 0}
    assert told["refused"] == []
