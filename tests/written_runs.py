# SPDX-License-Identifier: Apache-2.0
"""Run folders written by hand, so that every number in a report can be derived in a test."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedqa.config import Project, save_project
from fedqa.evaluation.metrics import Summary
from fedqa.evaluation.result import result_of
from fedqa.federation.coordinator import Outcome
from fedqa.federation.course import Course, SiloPlan
from fedqa.federation.run_folder import Accepted, RoundRecord, RunFolder
from fedqa.files import write_json
from fedqa.methods import stages_of
from fedqa.methods.method import Plan
from fedqa.training import Local

Values = Mapping[str, Mapping[str, Sequence[float]]]  # silo -> point -> test scores, question by question

# received: mean 0.5 at both; personal: 0.75 at ash, 0.5 at birch; best: 0.75 and 1
VALUES: Values = {
    "ash": {"received": [0, 1, 0, 1], "personal": [0, 1, 1, 1], "best": [0, 1, 1, 1]},
    "birch": {"received": [0, 1], "personal": [1, 0], "best": [1, 1]},
}
WORK = Accepted(
    norm=1.0,
    total=0.5,
    n_examples=30,
    n_seen=30,
    n_steps=2,
    loss_first=0.9,
    loss_last=0.4,
    loss_max=1.1,
    loss_min=0.3,
)


def course(
    method: str = "fedavg", *, silos: Sequence[str] = ("ash", "birch"), rounds: int = 2, **changes: Any
) -> Course:
    plans = tuple(SiloPlan(name) for name in silos)
    stages = stages_of(method, Plan(rounds, Local()), {})
    return Course(
        **{"name": "trees", "method": method, "seed": 7, "model": "tiny", "silos": plans, "stages": stages} | changes
    )


def record(number: int, silos: Sequence[str], **changes: Any) -> RoundRecord:
    """A round in which all went well: equal weights, dev scores of 0.4 received and 0.6 personal."""
    dev = {"received/dev/map": (4, 0.4, 0.1), "personal/dev/map": (4, 0.6, 0.1)}
    values: dict[str, Any] = {
        "round": number,
        "stage": "train",
        "asked": tuple(silos),
        "accepted": dict.fromkeys(silos, WORK),
        "refused": (),
        "void": False,
        "weights": {"*": {silo: 1 / len(silos) for silo in silos}},
        "metrics": dict.fromkeys(silos, dev),
        "bytes_up": 1000,
        "bytes_down": 2000,
        "seconds": 1.5,
    }
    return RoundRecord(**values | changes)


def write_run(
    folder: Path,
    plan: Course | None = None,
    values: Values = VALUES,
    *,
    records: Sequence[RoundRecord] | None = None,
    refused: Sequence[tuple[str, str]] = (),
    metrics: Mapping[str, str] | None = None,
    keep_values: bool = True,
) -> Path:
    """A finished run with these test values; dev scores are the same as on test. `metrics` names a silo's, else map."""
    plan = plan or course()
    names = [silo.name for silo in plan.silos]
    rounds = [record(n, names) for n in range(1, plan.rounds + 1)] if records is None else records
    folder.mkdir(parents=True)
    save_project(Project(plan, {}, Path()), folder / "course.toml")
    (folder / "rounds.jsonl").write_text("".join(json.dumps(asdict(r)) + "\n" for r in rounds), encoding="utf-8")
    scores: dict[str, dict[str, Summary]] = {silo: {} for silo in values}
    for silo, points in values.items():
        metric = (metrics or {}).get(silo, "map")
        for point, scored in points.items():
            scores[silo] |= {f"{point}/{split}/{metric}": Summary.of(scored) for split in ("dev", "test")}
            if keep_values:
                write_json(folder / "silos" / silo / "scores" / f"{point}-test.json", {metric: list(scored)})
    outcome = Outcome(scores, tuple(refused), bytes_up=10, bytes_down=20)
    run = RunFolder(folder)
    run.write_environment()
    run.write_result(result_of(plan, rounds, outcome))
    return folder
