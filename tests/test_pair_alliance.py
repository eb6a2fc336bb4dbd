# SPDX-License-Identifier: Apache-2.0
"""An alliance whose silos have different tasks trains one encoder-decoder, from their files to a result."""

import json
from pathlib import Path
from typing import Any

import pytest
from pair_toys import ANIMALS, PLACES
from toy_alliance import write_csv

from fedqa.config import load_project
from fedqa.errors import ConfigError
from fedqa.runs import build, read_silo, run_setting

ALLIANCE = """\
name = "different tasks"
method = "fedper"
model = "tiny"
rounds = 1

[local]
batch = 8
learning_rate = 1e-3

[skills.generate]
max_source = 24
max_target = 8
beams = 2

[skills.read]
pair = true
window = 32
overlap = 16
max_answer = 8

[[silo]]
name = "news"
skill = "classify"
data = { format = "agnews", path = "news.csv" }

[[silo]]
name = "papers"
skill = "generate"
data = { format = "scitldr", path = "papers.jsonl" }

[[silo]]
name = "pages"
skill = "read"
data = { format = "csv", path = "pages.csv" }

[[silo]]
name = "words"
skill = "mlm"
data = { format = "csv", path = "pages.csv" }

[[silo]]
name = "noise"
skill = "denoise"
data = { format = "agnews", path = "news.csv" }
"""


def written(folder: Path, alliance: str = ALLIANCE) -> Path:
    news, papers, pages = [], [], []
    for i, animal in enumerate(ANIMALS):
        place = PLACES[i % 5]
        news.append((str(1 + (i > 8)), f"The {animal}", f"It was seen in the {place}."))
        text = f"We saw the {animal}. It sat in the {place}."
        papers.append({"paper_id": f"p{i}", "title": f"On the {animal}", "source": [text], "target": [f"the {animal}"]})
        pages.append((f"Where is the {animal}?", place, text))
    write_csv(folder / "news.csv", news[1:], header=news[0])
    write_csv(folder / "pages.csv", pages, header=("question", "answer", "context"))
    (folder / "papers.jsonl").write_text("".join(json.dumps(paper) + "\n" for paper in papers), encoding="utf-8")
    path = folder / "alliance.toml"
    path.write_text(alliance, encoding="utf-8")
    return path


def run(path: Path, out: Path) -> dict[str, Any]:
    project = load_project(path)
    data = {name: read_silo(name, entry, path.parent, 1) for name, entry in project.data.items()}
    return run_setting(build(project.course, data, out), processes=1)


def test_silos_with_different_tasks_train_one_pair(tmp_path: Path) -> None:
    result = run(written(tmp_path), tmp_path / "out")
    metrics = {
        "news": {"accuracy"},
        "papers": {"rouge_1", "rouge_2", "rouge_l", "bleu_4", "meteor", "em"},
        "pages": {"f1", "em", "no_answer", "refused"},
        "words": {"accuracy", "likelihood"},
        "noise": {"accuracy", "likelihood"},
    }
    assert {name: set(silo["best"]["test"]) for name, silo in result["silos"].items()} == metrics
    assert result["bytes_up"] > 5 * 4 * 40_000  # five silos send the layers of both halves, in four bytes a number


def test_a_reader_of_its_own_cannot_share_with_a_pair(tmp_path: Path) -> None:
    path = written(tmp_path, ALLIANCE.replace("pair = true\n", ""))
    with pytest.raises(ConfigError, match="the skills of this alliance have no common shared part"):
        run(path, tmp_path / "out")
