# SPDX-License-Identifier: Apache-2.0
"""A silo whose page can train: a small alliance in files, its own part of it in a store, trained for two rounds."""

import shutil
from pathlib import Path

from toy_alliance import ALLIANCE, rows, write_alliance
from web_toys import Silo, ToyDesk, fill

from fedqa.config import load_project
from fedqa.data.records import Collection, Document, Example, Span
from fedqa.runs import train
from fedqa.serving.training import Trainings
from fedqa.settings import PageSettings, Settings, TrainingSettings
from fedqa.store import Correction, Store
from fedqa.web.app import whole_app

NAME = "north"
RUN = "toys"
OWN_DATA = '{ format = "store", path = "silo.sqlite" }'
QUESTION = "Where may I leave my coat in Northam?"
ANSWER = "in the hall behind the gate"


def collection() -> Collection:
    """The silo's questions and answers; every answer is a document."""
    documents, examples = [], []
    for number, (question, answer) in enumerate(rows("Northam")):
        documents.append(Document(f"d{number}", answer))
        examples.append(Example(f"e{number}", question, (Span(f"d{number}", 0, len(answer)),), (answer,)))
    return Collection(tuple(documents), tuple(examples))


def settings_in(folder: Path) -> Settings:
    return Settings(
        path=folder / "silo.toml",
        name=NAME,
        store=folder / "silo.sqlite",
        runs={"match": folder / "runs" / RUN},
        training=TrainingSettings(folder / "alliance.toml", 1),
        page=PageSettings(title="Northam Town Hall"),
    )


def make_silo(folder: Path) -> None:
    """A store with people, imported examples and one correction, and an alliance that trains on it."""
    own = '{ format = "csv", path = "north.csv" }'
    assert own in ALLIANCE
    write_alliance(folder, ALLIANCE.replace(own, OWN_DATA))
    fill(folder / "silo.sqlite")
    with Store.open(folder / "silo.sqlite") as store:
        store.add_collection(collection(), source="north.csv", who="Edda")
        text = f"Leave your coat {ANSWER}."
        document = store.add_document(text, "Coats", source="coats.txt", who="Edda")
        start = text.index(ANSWER)
        store.correct(Correction(QUESTION, "Edda", document.id, start, start + len(ANSWER), ANSWER))


def train_silo(folder: Path) -> None:
    settings = settings_in(folder)
    train(load_project(folder / "alliance.toml"), settings.runs["match"], processes=1)


class TrainedSilo(Silo):
    """The page of such a silo, in a copy of its folder."""

    def __init__(self, folder: Path, made: Path) -> None:
        shutil.copytree(made, folder, dirs_exist_ok=True)
        self.folder = folder
        self.settings = settings_in(folder)
        self.store = Store.open(folder / "silo.sqlite")
        self.trainings = Trainings(self.settings)
        self.desk = ToyDesk(self.store)
        self.app = whole_app(self.settings, self.store, self.desk)  # type: ignore[arg-type]

    @property
    def run(self) -> Path:
        return self.settings.runs["match"]
