# SPDX-License-Identifier: Apache-2.0
"""Models without their data: the same answers as with it, and the same vectors without a trunk's memory."""

from pathlib import Path

import numpy as np
import pytest
from toy_alliance import write_alliance

from fedqa.answering.loaded import Loaded, finder_of, loaded_run, match_scores, reads_pairs, untrained, whole
from fedqa.config import load_project
from fedqa.data.records import Document
from fedqa.models.backbones import frozen_below, load_backbone
from fedqa.opening import model_at, open_run
from fedqa.runs import train
from fedqa.skills.match import Match, MatchOptions
from fedqa.skills.retrieve import Retrieve, RetrieveOptions

TEXTS = ["The gate opens at nine.", "A ticket costs three euros, and children pay nothing at all."]
DOCUMENT = Document("d", "The gate opens at nine. It closes at six.\n\nDogs wait outside.")


def on_tiny(skill: Match | Retrieve, freeze: int = 0) -> Loaded:
    backbone = frozen_below(load_backbone("tiny", 3), freeze)
    return Loaded(skill, whole(skill.build(backbone, 0).module.eval()), backbone.tokenizer, "tiny")


@pytest.mark.parametrize("skill", [Match(), Retrieve()], ids=lambda skill: skill.name)
def test_a_model_whose_frozen_layers_are_put_back_gives_the_same_vectors(skill: Match | Retrieve) -> None:
    plain, frozen = on_tiny(skill), on_tiny(skill, freeze=1)
    assert getattr(frozen.model, "trunk", None) is None
    assert np.allclose(finder_of(plain).texts(TEXTS), finder_of(frozen).texts(TEXTS), atol=1e-5)
    assert np.allclose(finder_of(plain).question("When?"), finder_of(frozen).question("When?"), atol=1e-5)


def test_a_model_of_a_run_is_the_silos_own(tmp_path: Path) -> None:
    alliance = write_alliance(tmp_path)
    train(load_project(alliance, ["local.learning_rate=1e-2", "method=fedbn", "freeze_layers=1"]), tmp_path / "run")
    north, south = (loaded_run(tmp_path / "run", name) for name in ("north", "south"))
    silo = open_run(tmp_path / "run").silo("north")
    assert isinstance(silo.skill, Match)
    expected = silo.skill.scores_of(model_at(silo, "best"), silo.features, "When?", TEXTS)  # type: ignore[arg-type]
    assert match_scores(north, "When?", TEXTS) == pytest.approx(expected.tolist(), abs=1e-4)
    assert north.digest != south.digest
    assert north.words.startswith("fedbn, round ")
    assert north.digest == loaded_run(tmp_path / "run", "north").digest


def test_passages_or_sentences_are_found() -> None:
    passages = finder_of(on_tiny(Match()))
    assert [piece.text for piece in passages.cut(DOCUMENT)] == [
        "The gate opens at nine. It closes at six.",
        "Dogs wait outside.",
    ]
    sentences = finder_of(on_tiny(Retrieve()))
    assert [DOCUMENT.text[piece.start : piece.end] for piece in sentences.cut(DOCUMENT)] == [
        "The gate opens at nine.",
        "It closes at six.",
        "Dogs wait outside.",
    ]
    assert (passages.width, sentences.width) == (32, 32)
    assert (passages.scale, sentences.scale) == (pytest.approx(20), pytest.approx(20))


@pytest.mark.parametrize("skill", [Match(MatchOptions(interaction="bm25")), Retrieve(RetrieveOptions(form="bm25"))])
def test_keyword_search_has_no_vectors(skill: Match | Retrieve) -> None:
    assert finder_of(on_tiny(skill)).width == 0


def test_what_reads_pairs_says_so() -> None:
    assert reads_pairs(on_tiny(Match(MatchOptions(interaction="cross"))))
    assert not reads_pairs(on_tiny(Match()))
    assert not reads_pairs(on_tiny(Retrieve()))


def test_the_model_as_it_comes_knows_what_words_mean() -> None:
    scores = match_scores(untrained(), "How much is the entrance fee?", TEXTS)
    assert scores[1] > scores[0]
