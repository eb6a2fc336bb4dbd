# SPDX-License-Identifier: Apache-2.0
"""What the Lorar study starts from in place of T5: a decoder that has learnt plain SQL from the sample databases.

It is trained on questions that are invented from the two sample databases, which are no silo's of the study, and
exported; made at first use, in about two minutes.
"""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from fedqa.config import Alliance, project_of
from fedqa.data.sample import sample_database
from fedqa.export import export
from fedqa.models.head import HEAD
from fedqa.runs import train
from fedqa.tables import from_table

SAMPLES = ("hospital", "bank")
MODEL, SYNTHETIC, STEPS, BATCH, RATE = "embedded:4", 1500, 600, 8, 1e-3


def started(folder: Path) -> Path:
    """The folder of the model, which is made if it is not there yet."""
    if not (folder / HEAD).exists():
        with TemporaryDirectory() as workplace:
            _make(Path(workplace), folder)
    return folder


def _make(workplace: Path, folder: Path) -> None:
    data = [{"sample": name, "part": "queries", "database": str(sample_database(name, workplace))} for name in SAMPLES]
    settings = {
        "name": "start",
        "method": "central",
        "model": MODEL,
        "rounds": 1,
        "local": {"steps": STEPS, "batch": BATCH, "learning_rate": RATE, "schedule": "linear", "warmup": 0.05},
        "skills": {"parse": {"synthetic": SYNTHETIC}},
        "silo": [{"name": name, "skill": "parse", "data": one} for name, one in zip(SAMPLES, data, strict=True)],
    }
    train(project_of(from_table(Alliance, settings, "the start")), workplace / "run")
    export(workplace / "run", SAMPLES[0], workplace / "model")  # pooled: both have the same
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(workplace / "model", folder)
