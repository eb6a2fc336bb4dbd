# SPDX-License-Identifier: Apache-2.0
"""CoverQuery: what its course opens, and that it trains on what it is sent."""

from dataclasses import replace
from pathlib import Path

import pytest
from toys import SIZES, toy_course, toy_model, toy_run

from fedqa.config import project_of, sample_alliance
from fedqa.engines.local import InProcess
from fedqa.federation import wire
from fedqa.federation.messages import Exchange
from fedqa.federation.sharing import compile_layout
from fedqa.methods.cover_query import COVER_QUERY
from fedqa.methods.method import Common, Plan
from fedqa.runs import Setting, build, read_silo, run_setting
from fedqa.training import Local

LOCAL = Local(batch=4, learning_rate=0.02)
STAGES = COVER_QUERY.stages(Plan(1, LOCAL), Common())


def test_everything_but_word_embeddings_is_trained_on_covered_examples() -> None:
    (stage,) = STAGES
    assert (stage.rounds, stage.local, stage.channels) == (1, LOCAL, ("covered_examples",))
    layout = compile_layout(toy_model(), stage.sharing)
    assert (layout.n_private, layout.n_shared, [entry.name for entry in layout.frozen]) == (0, 53, ["words.weight"])


def test_it_needs_no_more_of_a_course_than_central_training_does(tmp_path: Path) -> None:
    """The toy skill does not read questions: covers change nothing for it, and the weights are those of `central`."""
    central, _ = toy_run(toy_course("central", rounds=1, local=LOCAL), tmp_path / "central")
    course = replace(toy_course("central", rounds=1, local=LOCAL), method="cover_query", stages=STAGES)
    hidden, outcome = toy_run(course, tmp_path / "hidden")
    assert hidden._weights["*"].tolist() == central._weights["*"].tolist()
    assert list(outcome.scores) == list(SIZES)


@pytest.fixture
def sample(tmp_path: Path) -> Setting:
    """Two organisations of the sample alliance with a tiny model and twelve questions each."""
    small = {"match": {"max_passage": 24, "max_question": 12}}
    alliance = sample_alliance("central", model="tiny", rounds=1, skills=small, local={"learning_rate": 1e-3})
    project = project_of(replace(alliance, silo=alliance.silo[:2]))
    course = replace(project.course, method="cover_query", stages=STAGES)
    data = {name: read_silo(name, replace(entry, limit=12), Path(), 13) for name, entry in project.data.items()}
    return build(course, data, tmp_path)


def test_silos_send_covered_questions_once_and_the_coordinator_trains_on_them(sample: Setting) -> None:
    result = run_setting(sample, processes=1)
    (record,) = sample.folder.records()
    assert (record.asked, record.refused) == (("pool",), ())
    n_train = sum(silo.features.n_train for silo in sample.silos)
    assert record.accepted["pool"].n_examples == 4 * n_train  # each question with evidence, and its three covers
    for silo in sample.silos:
        again = replace(silo)  # its ledger was closed with the run
        assert [row.kind for row in again.ledger.rows()] == ["covered_examples", "report"]
        again.ledger.close()
        assert result["silos"][silo.name]["received"]["test"]["map"] > 0


def test_what_leaves_a_silo_holds_no_question_of_dev_or_test(sample: Setting) -> None:
    for silo in sample.silos:
        envelope = silo.handle(Exchange(sample.course.fingerprint, 1, "covered_examples", "collect"))
        data = b"".join(wire.encode(envelope.content)).decode("utf-8", "replace")
        found = {example.id: data.count(example.question) for example in silo.collection.examples}
        for example in silo.collection.examples:
            assert found[example.id] == int(example.split == "train"), example.split
    InProcess(sample.silos).close()
