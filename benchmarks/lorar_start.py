# SPDX-License-Identifier: Apache-2.0
"""What the Lorar study starts from in place of T5: a decoder that has learnt plain SQL from the sample databases.

It is trained on questions that are invented from the two sample databases, which are no silo's of the study, with SQL
written as the study's sets write it, and exported; made at first use, in two to three minutes.
"""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.lorar_style import restyled
from fedqa.config import Alliance, project_of
from fedqa.data.sample_queries import sample_queries
from fedqa.data.schema_text import read_schema
from fedqa.databases.contents import contents_of
from fedqa.export import export
from fedqa.models.head import HEAD
from fedqa.runs import train
from fedqa.skills.sql.inventing import invented
from fedqa.tables import from_table

SAMPLES = ("hospital", "bank")
MODEL, QUESTIONS, STEPS, BATCH, RATE = "embedded:4", 2000, 1000, 8, 1e-3
HELD = 20  # of the questions for dev, and as many for test


def started(folder: Path) -> Path:
    """The folder of the model, which is made if it is not there yet."""
    if not (folder / HEAD).exists():
        with TemporaryDirectory() as workplace:
            _make(Path(workplace), folder)
    return folder


def _make(workplace: Path, folder: Path) -> None:
    settings = {
        "name": "start",
        "method": "central",
        "model": MODEL,
        "rounds": 1,
        "local": {"steps": STEPS, "batch": BATCH, "learning_rate": RATE, "schedule": "linear", "warmup": 0.05},
        "silo": [{"name": name, "skill": "parse", "data": _data(name, workplace)} for name in SAMPLES],
    }
    train(project_of(from_table(Alliance, settings, "the start")), workplace / "run")
    export(workplace / "run", SAMPLES[0], workplace / "model")  # pooled: both have the same
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(workplace / "model", folder)


def _data(name: str, workplace: Path) -> dict[str, str]:
    """A set like the study's: files of queries and of the schema, and no database to look values up in."""
    schema = read_schema(sample_queries(name, workplace).documents[0].text)
    pairs = invented(schema, QUESTIONS, seed=1, contents=contents_of(str(workplace / f"{name}.sqlite")))
    splits = ["dev"] * HELD + ["test"] * HELD + ["train"] * (len(pairs) - 2 * HELD)
    entries = [
        {
            "sql": [restyled(sql, schema)],
            "variables": [],
            "sentences": [{"text": question, "question-split": split, "variables": {}}],
        }
        for (question, sql), split in zip(pairs, splits, strict=True)
    ]
    columns = [f"{table.name}, {column.name}" for table in schema.relations for column in table.columns]
    file = workplace / f"{name}.json"
    file.write_text(json.dumps(entries), encoding="utf-8")
    file.with_name(f"{name}-schema.csv").write_text("\n".join(["table, column", *columns]), encoding="utf-8")
    return {"format": "text2sql", "path": str(file)}
